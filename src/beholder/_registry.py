"""One generic registry: names to lazy targets, with collisions, suggestions and plug-ins."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from beholder._errors import BeholderError, UnknownNameError, UserError

T = TypeVar("T")


@dataclass(frozen=True)
class Broken:
    """A plug-in that could not be loaded, and why."""

    name: str
    target: str
    reason: str


_SEE = {"protocol": "See: beholder list --protocols"}


@dataclass
class Registry(Generic[T]):
    """Names to "module:attr" targets that are imported when first asked for.

    Args:
        kind: what the names are ("metric", "engine"); used in messages.
        group: entry-point group that plug-ins use, or None.
        check: raises an exception that says what is wrong with an object that was loaded for a name.
    """

    kind: str
    group: str | None = None
    check: Callable[[str, Any], None] | None = None
    _targets: dict[str, str] = field(default_factory=dict)
    _families: dict[str, str] = field(default_factory=dict)
    _loaded: dict[str, T] = field(default_factory=dict)
    _broken: dict[str, Broken] = field(default_factory=dict)
    _plugins_read: bool = False

    def add(self, name: str, target: str) -> None:
        """Registers `name`; a name that stands for another target already is an error naming both."""
        old = self._targets.get(name)
        if old is not None and old != target:
            raise UserError(
                f"the {self.kind} name {name!r} must stand for one thing",
                got=f"both {old} and {target}",
                fix="Rename one of them",
            )
        self._targets[name] = target

    def add_family(self, prefix: str, target: str) -> None:
        """Registers all names "prefix:NAME": `target` is a function that is given NAME and gives the object.

        Such names are not listed: which there are only the function knows.
        """
        self._families[prefix] = target

    def names(self) -> list[str]:
        """All names, sorted, those of plug-ins included; loads nothing."""
        self._read_plugins()
        return sorted(self._targets)

    def target(self, name: str) -> str:
        """The "module:attr" that a name stands for."""
        return self._targets[name]

    def __contains__(self, name: str) -> bool:
        self._read_plugins()
        return name in self._targets or self._family(name) is not None

    def _family(self, name: str) -> str | None:
        """What makes a name of a family; None for any other."""
        prefix, colon, rest = name.partition(":")
        return self._families.get(prefix) if colon and rest else None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def get(self, name: str) -> T:
        """The object that `name` stands for; an unknown name suggests near ones."""
        self._read_plugins()
        if name in self._loaded:
            return self._loaded[name]
        family = self._family(name)
        if name not in self._targets and family is None:
            raise UnknownNameError(self.kind, name, self._targets, fix=_SEE.get(self.kind, "See: beholder list"))
        target = self._targets.get(name) or str(family)
        try:
            value: T = _load(target) if family is None else _load(target)(name.partition(":")[2])
            if self.check is not None:
                self.check(name, value)
        except BeholderError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self._broken[name] = Broken(name, target, reason)
            raise UserError(
                f"the {self.kind} {name!r} must load from {target}",
                got=reason,
                fix="Mend or uninstall the package that provides it",
            ) from error
        self._loaded[name] = value
        return value

    def broken(self) -> list[Broken]:
        """Plug-ins found so far that do not load or clash with a name that is taken."""
        self._read_plugins()
        return [self._broken[name] for name in sorted(self._broken)]

    def _read_plugins(self) -> None:
        if self._plugins_read or self.group is None:
            return
        self._plugins_read = True
        for point in importlib.metadata.entry_points(group=self.group):
            taken = self._targets.get(point.name)
            if taken is not None and taken != point.value:
                reason = f"the name {point.name!r} is taken by {taken}"
                self._broken[f"{point.name} ({point.value})"] = Broken(point.name, point.value, reason)
                continue
            self._targets[point.name] = point.value


def _load(target: str) -> Any:
    module, _, attr = target.partition(":")
    value: Any = importlib.import_module(module)
    for part in attr.split("."):
        value = getattr(value, part)
    return value
