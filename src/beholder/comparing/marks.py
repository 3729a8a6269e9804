"""From a comparison to the marks of a table."""

from __future__ import annotations

from collections.abc import Sequence

from beholder.comparing.records import Comparison
from beholder.comparing.sides import methods_of, run_names
from beholder.report.ranking import Marks, group_key
from beholder.runs.results import Run

_DIFFERENT = {"better", "worse", "higher", "lower"}


def side_rows(runs: Sequence[Run], names: Sequence[str]) -> dict[str, tuple[str, str | None]]:
    """By side of a comparison of these runs: the run's name in a table, and its method where it has several.

    Args:
        runs: the runs that are compared.
        names: what a table calls them.
    """
    found: dict[str, tuple[str, str | None]] = {}
    for run, own, shown in zip(runs, run_names(runs), names):
        methods = methods_of(run.read(["method"]))
        if len(methods) < 2:
            found[own] = (shown, None)
        for method in methods if len(methods) > 1 else ():
            found[method if len(runs) == 1 else f"{own}:{method}"] = (shown, method)
    return found


def marks_of(found: Comparison, runs: Sequence[Run], names: Sequence[str]) -> Marks:
    """Which rows of a table differ from the comparison's baseline, by the comparison's own verdict."""
    rows = side_rows(runs, names)
    different = {(*rows[row.b], row.label, group_key(row.group)) for row in found.rows if row.verdict in _DIFFERENT}
    units = sorted({f"{row.difference.unit}s" for row in found.rows if row.difference.value is not None})
    return Marks(found.baseline_text, frozenset(different), found.level, " or ".join(units) or "prompts")
