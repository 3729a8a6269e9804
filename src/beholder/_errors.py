"""Every exception that beholder raises on purpose.

    BeholderError
    ├── UserError                 wrong use or bad input; exit code 2
    │   ├── OptionError           a value that an option does not take
    │   │   └── UnknownNameError  a metric, model, preset … that does not exist (suggests near names)
    │   ├── IdentityError         a metric specification that does not parse
    │   ├── InputError            faults of an input's form, all of them, with row numbers
    │   ├── DeviceError           a device or dtype that this machine does not have
    │   ├── MissingExtraError     an optional dependency that is not installed
    │   ├── RunConflictError      a run folder that holds a run of another identity, or is in use
    │   ├── StoreError            a feature store that cannot be used (locked, newer schema, full disk)
    │   └── ModelError            anything about a model
    │       ├── WeightsMissingError    weights that are nowhere to be found
    │       ├── WeightsMismatchError   weights that do not fit the model completely, or whose hash is wrong
    │       └── PlannedError           a model or metric that is listed but not built yet
    └── NoValue                   a sample (or one of its files) has no value: a status with a reason
        └── MediaError            a file that is missing, unreadable or too large

`UserError` reaches the terminal as text, without a traceback. `NoValue` never leaves the engine: it becomes
the status of a row.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_ERROR_NUMBER = re.compile(r"\[(?:Errno|WinError) -?\d+\] ")


class BeholderError(Exception):
    """Base of all errors raised on purpose."""


class UserError(BeholderError):
    """Wrong use or bad input. Says what must hold, what was got, and how to mend it.

    Args:
        must: what must hold, as a sentence without its full stop.
        got: what was found instead.
        fix: how to mend it, as a sentence without its full stop.
    """

    exit_code = 2

    def __init__(self, must: str, *, got: str | None = None, fix: str | None = None) -> None:
        self.must, self.got, self.fix = must, got, fix
        super().__init__(must, got, fix)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.must, self.got, self.fix))

    def __str__(self) -> str:
        text = self.must.rstrip(".")
        if self.got is not None:
            # What a system calls its error by says nothing to people: "[Errno 2] No such file …".
            text += f"; got {_ERROR_NUMBER.sub('', str(self.got))}"
        text += "."
        if self.fix:
            text += f" {self.fix.rstrip('.')}."
        return text


def _rebuild(kind: type[UserError], must: str, got: str | None, fix: str | None) -> UserError:
    """Makes an error again from its parts, for pickle."""
    return kind(must, got=got, fix=fix)


class OptionError(UserError):
    """A value that an option does not take."""


class UnknownNameError(OptionError):
    """A name that is not in a registry; suggests near names.

    Args:
        kind: what the name should be ("metric", "model", "preset").
        name: the name that was asked for.
        known: all names there are.
        fix: how to see them all.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], *, fix: str | None = None) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        self.near = tuple(near_names(name, self.known))
        parts = []
        if self.near:
            parts.append("Did you mean " + " or ".join(self.near) + "?")
        if fix:
            parts.append(fix)
        super().__init__(f"a {kind} must be a known one", got=repr(name), fix=" ".join(parts) or None)

    def __reduce__(self) -> tuple[object, ...]:
        return (UnknownNameError, (self.kind, self.name, self.known))

    def __str__(self) -> str:
        text = f"unknown {self.kind} {self.name!r}."
        return f"{text} {self.fix}" if self.fix else text


class IdentityError(UserError):
    """A metric specification that does not parse."""


@dataclass(frozen=True)
class Fault:
    """One fault of an input.

    Args:
        message: what is wrong, and how to mend it.
        row: 1-based row of the input, when there is one.
        where: column or file that the fault is about.
        form: True for a fault of form (stops a run before any compute), False for a fault of one row.
        fix: a way out that many faults share; lists of faults say it once, at their end.
    """

    message: str
    row: int | None = None
    where: str | None = None
    form: bool = True
    fix: str | None = None

    def __str__(self) -> str:
        at = f"row {self.row}" if self.row is not None else ""
        if self.where:
            at = f"{at}, {self.where}" if at else self.where
        return f"{at}: {self.message}" if at else self.message


_LONG = 40
"""Faults beyond which a list scrolls away, so that its end must say what it holds."""


def summed_up(faults: Sequence[Fault]) -> list[str]:
    """What stands below a list of faults: of a long one how often each message stands in it, and ways out."""
    lines = []
    if len(faults) > _LONG:
        counts = Counter(fault.message for fault in faults)
        lines = [f"{count} times: {message}" for message, count in counts.most_common() if count > 1]
    return lines + [f"{text}." for text in dict.fromkeys(fault.fix for fault in faults) if text]


class InputError(UserError):
    """Faults of an input's form: all of them, with row numbers."""

    def __init__(self, source: str, faults: Sequence[Fault]) -> None:
        self.source, self.faults = source, tuple(faults)
        super().__init__(f"{source} must be free of faults", got=f"{len(self.faults)}")

    def __reduce__(self) -> tuple[object, ...]:
        return (InputError, (self.source, self.faults))

    def __str__(self) -> str:
        count = len(self.faults)
        lines = [f"{self.source} has {count} fault{'s' if count != 1 else ''}:"]
        lines += [f"  {fault}" for fault in self.faults]
        lines += summed_up(self.faults)
        return "\n".join(lines)


class DeviceError(UserError):
    """A device or dtype that this machine does not have."""


class MissingExtraError(UserError):
    """An optional dependency that is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        self.what, self.package, self.extra = what, package, extra
        super().__init__(
            f"{what} needs the package {package!r}",
            got="an environment without it",
            fix=f'Install it with: pip install "beholder[{extra}]"',
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (MissingExtraError, (self.what, self.package, self.extra))


class RunConflictError(UserError):
    """A run folder that holds a run of another identity, or is in use."""


class StoreError(UserError):
    """A feature store that cannot be used."""


class ModelError(UserError):
    """Anything about a model."""


class WeightsMissingError(ModelError):
    """Weights that are nowhere to be found."""


class WeightsMismatchError(ModelError):
    """Weights that do not fit the model completely, or whose hash is wrong."""


class PlannedError(ModelError):
    """A model or metric that is listed but not built yet."""


class NoValue(BeholderError):
    """There is no value here: a status with a reason (see `beholder.records.Status`)."""

    def __init__(self, status: str, reason: str) -> None:
        self.status, self.reason = str(status), reason
        super().__init__(status, reason)

    def __str__(self) -> str:
        return f"{self.status}: {self.reason}"


class MediaError(NoValue):
    """A file that is missing, unreadable or too large."""


def near_names(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """The known names that look most like `name`, best first."""
    folded = {k.lower(): k for k in known}
    hits = difflib.get_close_matches(name.lower(), list(folded), n=most, cutoff=0.7)
    return [folded[h] for h in hits]
