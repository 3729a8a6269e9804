"""Values of whole sets of the sides, side by side: from the summaries of the runs, since no rows can be paired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from statistics import NormalDist
from typing import Any

from beholder.comparing.baselines import Pairs
from beholder.comparing.records import SetCompared, Verdict
from beholder.comparing.sides import run_names
from beholder.records import Summary
from beholder.report.identity import metric_differences
from beholder.runs.results import Run, read_sets


@dataclass(frozen=True)
class SetSide:
    """What one side has of metrics of sets.

    Args:
        name: the side's name.
        header: the header of its run.
        rows: its values by label.
    """

    name: str
    header: Mapping[str, Any]
    rows: Mapping[str, Summary]


def set_sides(runs: Sequence[Run], names: Sequence[str]) -> list[SetSide]:
    """The values of sides that are called as `make_sides` calls them: runs, or the methods of runs."""
    known: dict[str, SetSide] = {}
    for run, name in zip(runs, run_names(runs)):
        by_method: dict[Any, dict[str, Summary]] = {}
        for row in read_sets(run.path):
            if set(row.group) <= {"method"}:
                by_method.setdefault(row.group.get("method"), {})[row.label] = row
        for method, rows in by_method.items():
            called = name if method is None else str(method) if len(runs) == 1 else f"{name}:{method}"
            known[called] = SetSide(called, run.header, rows)
    return [known.get(name, SetSide(name, {}, {})) for name in names]


def shared_sets(sides: Sequence[SetSide], asked: Sequence[str]) -> list[str]:
    """Labels that all sides have, or those of them that were asked for."""
    shared = [label for label in sides[0].rows if all(label in side.rows for side in sides)]
    return [label for label in shared if not asked or label in asked]


def set_blockers(sides: Sequence[SetSide], labels: Sequence[str], pairs: Pairs) -> list[str]:
    """Why values are not one number: another identity, another real set, another number of pictures."""
    found = []
    for first, side in ((sides[one], sides[other]) for one, other in pairs):
        for label in labels:
            facts = list(metric_differences(first.header, side.header, label))
            one, other = (part.header.get("real") or {} for part in (first, side))
            if one.get("sha256") != other.get("sha256"):
                facts.append(f"real set: {other.get('name')} against {one.get('name')}")
            sizes = [part.rows[label].n for part in (first, side)]
            if sizes[0] != sizes[1] and first.rows[label].unit != "prompt":
                facts.append(f"number of pictures: {sizes[1]} against {sizes[0]}")
            found += [
                f"{label} of {side.name} is not the same number as that of {first.name}: {text}" for text in facts
            ]
    return found


def compare_sets(
    sides: Sequence[SetSide], labels: Sequence[str], pairs: Pairs, level: float
) -> tuple[SetCompared, ...]:
    """Each side's values against those of its baseline.

    The interval of a difference is normal, with sd = √(sd₁² + sd₂²): the sides are taken as independent. Where both
    look at one real set, whose own chance they share, it is too wide rather than too narrow.
    """
    return tuple(_compared(sides[one], sides[other], label, level) for label in labels for one, other in pairs)


def _compared(first: SetSide, side: SetSide, label: str, level: float) -> SetCompared:
    one, other = first.rows[label], side.rows[label]
    entry = next(item for item in first.header["metrics"] if item["label"] == label)
    higher = entry.get("info", {}).get("higher_is_better")
    difference = None if one.value is None or other.value is None else other.value - one.value
    low = high = None
    if difference is not None and one.sd is not None and other.sd is not None:
        reach = NormalDist().inv_cdf((1 + level) / 2) * hypot(one.sd, other.sd)
        low, high = difference - reach, difference + reach
    return SetCompared(
        label=label, metric=one.metric, a=first.name, b=side.name,
        value_a=one.value, low_a=one.low, high_a=one.high, value_b=other.value, low_b=other.low, high_b=other.high,
        difference=difference, low=low, high=high, n_a=one.n, n_b=other.n,
        missing_a=dict(one.n_missing), missing_b=dict(other.n_missing), higher_is_better=higher,
        verdict=_verdict(difference, low, high, higher), note_a=one.note, note_b=other.note,
    )  # fmt: skip


def _verdict(difference: float | None, low: float | None, high: float | None, higher: bool | None) -> Verdict:
    if low is None or high is None or low <= 0 <= high:
        return "equal" if difference == 0 else "inconclusive"
    if higher is None:
        return "higher" if low > 0 else "lower"
    return "better" if (low > 0) == higher else "worse"
