"""Metrics of whole sets in a report: they have values and intervals, and no samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from beholder.comparing.baselines import Pairs
from beholder.comparing.records import SetCompared
from beholder.comparing.sets import compare_sets, set_blockers, set_sides, shared_sets
from beholder.report.html.data import Metric
from beholder.report.numbers import decimals_for
from beholder.runs.results import Run


@dataclass(frozen=True)
class SetFindings:
    """What a report says of metrics of whole sets.

    Args:
        metrics: the metrics.
        rows: differences of sides to their baselines.
        blockers: why others are not compared.
    """

    metrics: Sequence[Metric]
    rows: Sequence[SetCompared]
    blockers: Sequence[str]


def set_findings(runs: Sequence[Run], names: Sequence[str], pairs: Pairs, *, level: float = 0.95) -> SetFindings:
    """The metrics of sets of some runs.

    Args:
        runs: the runs.
        names: names of the sides, the baseline first.
        pairs: which sides are compared.
        level: level of the intervals of differences.
    """
    sides = set_sides(runs, names)
    good, blockers = [], []
    for label in shared_sets(sides, ()):
        found = set_blockers(sides, [label], pairs)
        blockers += [f"{text[:1].upper()}{text[1:]}; no difference is shown." for text in found]
        good += [] if found else [label]
    rows = compare_sets(sides, good, pairs, level)
    return SetFindings(_metrics(runs), rows, blockers)


def _metrics(runs: Sequence[Run]) -> list[Metric]:
    found: dict[str, Metric] = {}
    for run in runs:
        values = {item.label: item for item in run.summary if item.headline and item.value is not None}
        for item in run.header["metrics"]:
            if item["label"] in run.sample_labels or item["label"] in found:
                continue
            info, own = item.get("info", {}), values.get(item["label"])
            decimals = 3 if own is None or own.value is None else decimals_for(own.value, own.low, own.high)
            found[item["label"]] = Metric(
                item["label"], str(item["identity"]), str(info.get("unit") or ""), info.get("higher_is_better"),
                str(info.get("summary") or ""), min(6, decimals + 1),
            )  # fmt: skip
    return list(found.values())
