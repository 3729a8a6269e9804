"""Figures of samples and of histories, drawn with matplotlib (extra `plots`) and written as PDF, PNG or SVG."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from beholder._errors import OptionError, UserError
from beholder.report.attribute_plots import figure

FORMS = (".pdf", ".png", ".svg")
_COLOURS = ("#1f77b4", "#e07b00", "#2a9d6f", "#b4519c", "#7a6a00", "#12a4c4", "#c2477f", "#5d6b7a")


@dataclass(frozen=True)
class GridCell:
    """One picture of a grid.

    Args:
        image: the picture, or None where there is none.
        text: what stands below it.
    """

    image: Image.Image | None
    text: str = ""


@dataclass(frozen=True)
class Line:
    """One metric over runs.

    Args:
        title: the metric with its direction.
        values: by run: its mean, or None.
        lows: by run: the lower end of its interval, or None.
        highs: by run: the upper end, or None.
        breaks: runs whose number was made in another way than that of the run before: the line is broken there.
    """

    title: str
    values: Sequence[float | None]
    lows: Sequence[float | None]
    highs: Sequence[float | None]
    breaks: frozenset[int] = frozenset()


def check_place(out: str | os.PathLike[str]) -> Path:
    """The path of a figure.

    Raises:
        OptionError: its ending is none of `FORMS`.
    """
    path = Path(out)
    if path.suffix.lower() not in FORMS:
        raise OptionError(f"a figure's name must end in one of {', '.join(FORMS)}", got=str(out))
    return path


def draw_grid(
    rows: Sequence[Sequence[GridCell]], out: Path, *, heads: Sequence[str] = (), captions: Sequence[str] = ()
) -> None:
    """A grid of pictures.

    Args:
        rows: the pictures, row by row.
        out: where it is written.
        heads: what stands above each column.
        captions: what stands above each row.
    """
    import textwrap

    columns = max(len(row) for row in rows)
    side = 1.6
    lines = max(cell.text.count("\n") + 1 for row in rows for cell in row)
    made = figure(side * columns, (side + 0.12 * lines + (0.3 if captions else 0.0)) * len(rows) + 0.2)
    parts = made.subfigures(len(rows), 1, squeeze=False)[:, 0]
    for at, (part, row) in enumerate(zip(parts, rows)):
        axes = part.subplots(1, columns, squeeze=False)[0]
        for place, axis in enumerate(axes):
            axis.set_axis_off()
            cell = row[place] if place < len(row) else None
            if cell is None:
                continue
            if cell.image is not None:
                axis.imshow(cell.image)
            if at == 0 and place < len(heads):
                axis.set_title(_plain(heads[place]), fontsize=8)
            axis.text(0.5, -0.03, _plain(cell.text), transform=axis.transAxes, ha="center", va="top", fontsize=6)
        if captions:
            text = textwrap.shorten(captions[at], width=28 * columns, placeholder=" …")
            part.suptitle(_plain(text), fontsize=7, x=0.02, ha="left")
    _save(made, out)


def draw_lines(lines: Sequence[Line], names: Sequence[str], out: Path) -> None:
    """Every metric over runs, each with the band of its intervals.

    Args:
        lines: the metrics.
        names: the runs, in their order.
        out: where it is written.
    """
    made = figure(max(5.0, 0.45 * len(names) + 2), 1.9 * len(lines) + 0.6)
    axes = made.subplots(len(lines), 1, squeeze=False, sharex=True)[:, 0]
    for axis, line, colour in zip(axes, lines, (_COLOURS * len(lines))):
        for piece in _pieces(line):
            axis.plot(piece, [line.values[at] for at in piece], color=colour, marker="o", markersize=3, linewidth=1)
        for at, (value, low, high) in enumerate(zip(line.values, line.lows, line.highs)):
            if value is not None and low is not None and high is not None:
                axis.plot([at, at], [low, high], color=colour, linewidth=0.8, alpha=0.7)
        for at in sorted(line.breaks):
            axis.axvline(at - 0.5, color="#888888", linewidth=0.7, linestyle=":")
        axis.set_title(_plain(line.title), fontsize=8, loc="left")
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xticks(range(len(names)), [_plain(name) for name in names], rotation=40, ha="right", fontsize=7)
    _save(made, out)


def _pieces(line: Line) -> list[list[int]]:
    """Stretches of runs between which a line may be drawn."""
    pieces: list[list[int]] = [[]]
    for at, value in enumerate(line.values):
        if at in line.breaks and pieces[-1]:
            pieces.append([])
        if value is not None:
            pieces[-1].append(at)
    return [piece for piece in pieces if piece]


def _plain(text: str) -> str:
    """Text without the signs that matplotlib takes for mathematics."""
    return text.replace("$", r"\$")


def _save(made: Any, out: Path) -> None:
    import matplotlib

    dates = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {"Software": "beholder"}}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context({"svg.hashsalt": "beholder", "svg.fonttype": "none", "pdf.fonttype": 42}):
            made.savefig(out, dpi=200, bbox_inches="tight", metadata=dates[out.suffix.lower()])
    except OSError as error:
        raise UserError(
            "a figure needs a place that can be written", got=f"{out}: {error.strerror or error}", fix="Name another"
        ) from error
