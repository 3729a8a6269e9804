"""The call behind `beholder report`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from beholder.comparing.sides import RunLike, opened
from beholder.report.html import write
from beholder.reporting.collect import collect
from beholder.reporting.evaluations import split_evaluations


def write_report(
    *runs: RunLike,
    out: str | os.PathLike[str] | None = None,
    baseline: str | None = None,
    by: str | Sequence[str] = (),
    seed: int = 0,
    resamples: int = 1000,
    workers: int | None = None,
) -> Path:
    """Makes a page of runs that a browser opens without network.

    Args:
        runs: run folders or runs, the first being the baseline; folders of `beholder attributes` beside them.
        out: a folder, or a name that ends in .html for one file; `report` inside the first run's folder when None.
        baseline: run or method that the others are compared with; see `beholder.compare`.
        by: column, or columns, whose groups are shown and compared: the report's slices.
        seed: seed of resamples and of the random draw.
        resamples: bootstrap resamples of comparisons.
        workers: threads that make thumbnails; as many as there are processors, at most 8, when None.

    Returns:
        The page.

    Raises:
        UserError: a folder that is no run, a place that cannot be written or holds something else.
        UnknownNameError: no side has the baseline's name, no run has the column.
        OptionError: a column with a metric's values, or with more than 200 others.
    """
    columns = (by,) if isinstance(by, str) else tuple(by)
    report = collect(runs, baseline=baseline, by=columns, seed=seed, resamples=resamples)
    if out is None:
        named, folders = split_evaluations(runs)
        out = (opened(named[:1])[0].path if named else folders[0]) / "report"
    return write.write_report(report, out, workers=workers)
