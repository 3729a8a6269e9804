"""The figure of samples for a paper: which samples, and their pictures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from beholder._errors import MediaError, OptionError, UnknownNameError, UserError
from beholder.comparing.baselines import Pairs, matched_run, pairs_of, put_first
from beholder.comparing.sides import RunLike, make_sides, opened
from beholder.media.base import DecodeOptions
from beholder.report.figure_files import GridCell, check_place, draw_grid
from beholder.report.html.data import Metric, Samples
from beholder.reporting.collect import sample_metrics, sides_of
from beholder.reporting.picks import changed_most, median_rows, pair_rows, random_rows, worst
from beholder.reporting.samples import make_samples, side_rows

PICKS = ("worst", "best", "median", "random", "changed")
"""What `beholder grid --pick` takes."""

_PIXELS = 512


def grid(
    *runs: RunLike,
    out: str | os.PathLike[str],
    pick: str = "worst",
    n: int = 8,
    metric: str | None = None,
    baseline: str | None = None,
    references: bool = False,
    seed: int = 0,
) -> Path:
    """Draws a figure of some samples; the call behind `beholder grid` (extra `plots`).

    One run without methods: a grid of its samples. Several runs or methods: a row a prompt, a column a side; the
    prompts are chosen by the mean over the sides of the metric's values.

    Args:
        runs: run folders or runs.
        out: the figure, as PDF, PNG or SVG.
        pick: "worst", "best", "median" (the samples around the median), "random" (a seeded draw among those with a
            value), or "changed" (prompts that moved most from the first side, or of runs with the same methods from the
            same method of the first run).
        n: how many samples or prompts.
        metric: label of the metric to choose by; the first when None.
        baseline: side that stands first; of runs with the same methods also a run.
        references: True puts the first reference of each row before it.
        seed: seed of the draw.

    Returns:
        The figure's path.

    Raises:
        OptionError: another pick, n below 1, an ending that is no figure's, nothing to pair for "changed".
        UnknownNameError: no such metric or side.
        UserError: no sample has a value.
        MissingExtraError: matplotlib is not installed.
    """
    if pick not in PICKS:
        raise OptionError(f"pick must be one of: {', '.join(PICKS)}", got=repr(pick))
    if n < 1:
        raise OptionError("n must be at least 1", got=str(n))
    path = check_place(out)
    found = opened(runs)
    sides = put_first(make_sides(found, least=1), baseline)
    named, places = sides_of(found, sides)
    labels = list(dict.fromkeys(label for side in sides for label in side.labels))
    pairs = pairs_of(sides, matched_run(sides, baseline))
    samples = make_samples(found, side_rows(found, sides, places), labels, pairs=pairs)
    metrics = sample_metrics(found, samples)
    chosen_by = _metric(metrics, metric)
    rows = _chosen(samples, chosen_by, pick, n, len(named), pairs, seed)
    if not rows:
        raise UserError("a grid needs samples with a value", got=f"none of {chosen_by.label}")
    if len(named) == 1:
        _draw_one(samples, chosen_by, [row for (row,) in rows], path, references)
    else:
        _draw_several(samples, chosen_by, rows, [side.name for side in named], path, references)
    return path


def _metric(metrics: Sequence[Metric], name: str | None) -> Metric:
    if not metrics:
        raise UserError(
            "a grid chooses samples by a metric of samples",
            got="metrics of whole sets alone",
            fix="Run a metric of samples on the same data, such as clip_score",
        )
    if name is None:
        return metrics[0]
    for metric in metrics:
        if metric.label == name:
            return metric
    labels = [metric.label for metric in metrics]
    raise UnknownNameError("metric", name, labels, fix="Metrics: " + ", ".join(labels))


def _chosen(
    samples: Samples, metric: Metric, pick: str, n: int, sides: int, pairs: Pairs, seed: int
) -> list[list[int]]:
    if pick == "changed":
        changed = changed_most(samples, metric, sides, pairs, count=n) if sides > 1 else None
        if changed is None:
            raise OptionError("what changed needs two sides that pair", got=f"{sides} side(s)", fix="Name a second run")
        return [list(rows) for rows in changed.rows]
    if sides > 1:
        return _chosen_pairs(samples, metric, pick, n, sides, seed)
    if pick == "random":
        found = random_rows(samples, metric, seed=seed, count=n)
    elif pick == "median":
        found = median_rows(samples, metric, count=n)
    else:
        found = worst(samples, metric, count=n, best=pick == "best")
    return [list(rows) for rows in found.rows]


def _chosen_pairs(samples: Samples, metric: Metric, pick: str, n: int, sides: int, seed: int) -> list[list[int]]:
    """Prompts by the mean over the sides that have a value; only where no prompt has all of them are others taken."""
    rows = pair_rows(samples, sides)
    values = np.array([np.nan if v is None else v for v in samples.values[metric.label]], dtype=np.float64)
    table = np.where(rows >= 0, values[rows], np.nan) if rows.size else np.full(rows.shape, np.nan)
    full = ~np.isnan(table)
    # Prompts that all sides have a value of come first: others compare less.
    there = np.flatnonzero(full.all(axis=0))
    there = there if there.size else np.flatnonzero(full.any(axis=0))
    sums, counts = np.where(full, table, 0.0).sum(axis=0)[there], full.sum(axis=0)[there]
    means = sums / counts * (-1 if metric.higher_is_better is False else 1)
    order = there[np.argsort(-means if pick == "best" else means, kind="stable")]
    if pick == "random":
        order = np.random.default_rng(seed).permutation(np.sort(there))
    first = max(0, (len(order) - n + 1) // 2) if pick == "median" else 0
    return [[int(row) for row in rows[:, key]] for key in order[first : first + n]]


def _draw_one(samples: Samples, metric: Metric, rows: Sequence[int], path: Path, references: bool) -> None:
    columns = min(len(rows), 4 if len(rows) % 4 == 0 or len(rows) > 6 else len(rows))
    if references:
        lines = [[_reference(samples, row), _cell(samples, metric, row)] for row in rows]
        captions = [samples.prompts[row] or samples.ids[row] for row in rows]
        draw_grid(lines, path, heads=["reference", "output"], captions=captions)
        return
    cells = [_cell(samples, metric, row, prompt=True) for row in rows]
    draw_grid([cells[at : at + columns] for at in range(0, len(cells), columns)], path)


def _draw_several(
    samples: Samples,
    metric: Metric,
    rows: Sequence[Sequence[int]],
    names: Sequence[str],
    path: Path,
    references: bool,
) -> None:
    lines, captions = [], []
    for pair in rows:
        first = next(row for row in pair if row >= 0)
        cells = [_cell(samples, metric, row) if row >= 0 else GridCell(None, "no sample") for row in pair]
        lines.append([*([_reference(samples, first)] if references else []), *cells])
        captions.append(samples.prompts[first] or samples.ids[first])
    draw_grid(lines, path, heads=[*(["reference"] if references else []), *names], captions=captions)


def _cell(samples: Samples, metric: Metric, row: int, *, prompt: bool = False) -> GridCell:
    import textwrap

    value, status = samples.values[metric.label][row], samples.statuses[metric.label][row]
    text = f"{metric.label} {value:.{metric.decimals}f}" if value is not None else f"{metric.label}: {status}"
    if prompt:
        told = textwrap.fill(textwrap.shorten(samples.prompts[row] or samples.ids[row], 60, placeholder=" …"), 30)
        text = f"{text}\n{told}"
    return GridCell(_image(samples.visuals[row].output), text)


def _reference(samples: Samples, row: int) -> GridCell:
    found = samples.visuals[row].references
    return GridCell(_image(found[0]) if found else None)


def _image(medium: object) -> Image.Image | None:
    """A picture, or the first frame of a video, small enough for a figure."""
    from beholder.media.video import open_video

    if medium is None:
        return None
    try:
        with open_video(medium, DecodeOptions(first_frame=True)) as video:
            image = Image.fromarray(next(iter(video.frames([0]))).pixels)
    except MediaError:
        return None
    image.thumbnail((_PIXELS, _PIXELS))
    return image
