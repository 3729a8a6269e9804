"""Which side each side of a comparison is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from beholder._errors import UnknownNameError
from beholder.comparing.sides import Side

Pairs = Sequence[tuple[int, int]]
"""(place of the baseline, place of the side that is compared with it)."""


def put_first(sides: Sequence[Side], name: str | None) -> list[Side]:
    """The sides with the baseline in front: a side, or a run whose methods all other runs have too.

    Raises:
        UnknownNameError: it is neither.
    """
    if name is None:
        return list(sides)
    known = [side.name for side in sides]
    if name in known:
        return sorted(sides, key=lambda side: side.name != name)
    runs = list(dict.fromkeys(side.run for side in sides)) if same_methods(sides) else []
    if name not in runs:
        told = [f"Sides: {', '.join(known)}", *([f"runs: {', '.join(runs)}"] if runs else [])]
        raise UnknownNameError("side", name, [*known, *runs], fix="; ".join(told))
    return sorted(sides, key=lambda side: side.run != name)


def same_methods(sides: Sequence[Side]) -> bool:
    """Whether these are several runs that each have the same two and more methods."""
    methods: dict[str, set[str | None]] = {}
    for side in sides:
        methods.setdefault(side.run, set()).add(side.method)
    first, *others = methods.values()
    return bool(others) and len(first) > 1 and all(own == first for own in others)


def matched_run(sides: Sequence[Side], baseline: str | None) -> str | None:
    """The run whose methods are each the baseline of the same method of the other runs.

    None where one side is the baseline of all: a side was named, or the runs do not have the same methods.
    """
    if baseline in {side.name for side in sides} or not same_methods(sides):
        return None
    return sides[0].run


def pairs_of(sides: Sequence[Side], matched: str | None) -> Pairs:
    """Each side with its baseline: the first side, or the same method of the run `matched`."""
    if matched is None:
        return [(0, at) for at in range(1, len(sides))]
    first = {side.method: at for at, side in enumerate(sides) if side.run == matched}
    return [(first[side.method], at) for at, side in enumerate(sides) if side.run != matched]


def tell_pairs(sides: Sequence[Side], matched: str | None, baseline: str | None) -> list[str]:
    """What to know of the baselines where runs have several methods each."""
    if matched is not None:
        return [
            f"the runs have the same methods, so each method is compared with the same method of {matched}; name one "
            f"side with --baseline (baseline=), for example {sides[0].name}, to compare all others with it"
        ]
    methods: dict[str, list[str]] = {}
    for side in sides:
        methods.setdefault(side.run, []).append(str(side.method))
    if baseline is not None or len(methods) < 2 or min(map(len, methods.values())) < 2:
        return []
    told = "; ".join(f"{run}: {', '.join(own)}" for run, own in methods.items())
    return [f"the runs do not have the same methods ({told}), so all sides are compared with {sides[0].name}"]
