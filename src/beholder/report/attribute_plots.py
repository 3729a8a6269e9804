"""Figures of an attribute evaluation, as PNG and SVG, from its tables and arrays (extra `plots`).

Figures are made without pyplot: no window system, no global state. Texts stay texts in SVG.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import MissingExtraError
from beholder.report.palettes import DIVERGING, SEQUENTIAL, palette

Row = Mapping[str, Any]
_BLUE, _GRAY, _YELLOW = "#36598c", "#8f8f8f", "#d0ae50"
_WIDE = 10.0


def figure(width: float, height: float) -> Any:
    """An empty figure of a size in inches.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("pictures", "matplotlib", "plots") from error
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def save(made: Any, folder: Path, name: str) -> list[Path]:
    """Writes a figure as `name.png` and `name.svg`; the same figure gives the same bytes."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    with matplotlib.rc_context({"svg.hashsalt": "beholder", "svg.fonttype": "none"}):
        made.savefig(paths[0], dpi=150, metadata={"Software": "beholder"})
        made.savefig(paths[1], metadata={"Date": None})
    return paths


def colour_map(name: str) -> Any:
    """The sequential or the diverging palette as a matplotlib colour map."""
    from matplotlib.colors import ListedColormap

    anchors = SEQUENTIAL if name == "sequential" else DIVERGING
    return ListedColormap(palette(anchors, 256), name=name)


def sad_bars(rows: Sequence[Row], *, score: str, unit: str = "nats") -> Any:
    """SaD of each attribute, largest first, with its interval and the level that it stays under by chance."""
    chosen = sorted((row for row in rows if row.get("sad") is not None), key=lambda row: row["sad"])
    made = figure(_WIDE, 1.6 + 0.34 * max(len(chosen), 1))
    axes = made.subplots()
    at = np.arange(len(chosen))
    values = np.asarray([row["sad"] for row in chosen])
    sure = [row.get("sad_q") is not None and row["sad_q"] < 0.05 for row in chosen]
    axes.barh(at, values, color=[_BLUE if one else _GRAY for one in sure], height=0.62)
    for k, row in enumerate(chosen):
        if row.get("sad_low") is not None:
            axes.plot([row["sad_low"], row["sad_high"]], [k, k], color="black", linewidth=1.2)
        if row.get("sad_null_level") is not None:
            axes.plot([row["sad_null_level"]] * 2, [k - 0.38, k + 0.38], color=_YELLOW, linewidth=2.5)
        axes.annotate(_remark(row), (max(row["sad"], row.get("sad_high") or 0.0), k), va="center", fontsize=7)
    axes.set_yticks(at, [_short(row["attribute"]) for row in chosen], fontsize=8)
    axes.set_xlabel(f"SaD in {unit}, of {score} (line: interval; yellow: null level; gray: not significant after BH)")
    axes.margins(x=0.18)
    _plain(axes)
    return made


def pad_matrix(rows: Sequence[Row], names: Sequence[str], *, unit: str = "nats") -> Any:
    """PaD above the diagonal and the dependence term below it; significant ones are marked."""
    size = len(names)
    upper, lower = np.full((size, size), np.nan), np.full((size, size), np.nan)
    made = figure(3.5 + 0.42 * size, 2.6 + 0.42 * size)
    axes = made.subplots()
    for row in rows:
        i, j = names.index(row["first"]), names.index(row["second"])
        upper[i, j], lower[j, i] = row["pad"], row["dependence"]
        for name, at in (("pad", (j, i)), ("dependence", (i, j))):
            if row.get(f"{name}_q") is not None and row[f"{name}_q"] < 0.05:
                axes.plot(*at, marker="o", markersize=3, color="black", markeredgecolor="white", markeredgewidth=0.6)
    first = axes.imshow(np.ma.masked_invalid(upper), cmap=colour_map("sequential"), vmin=0.0)
    reach = max(float(np.nanmax(np.abs(lower))), 1e-12) if rows else 1.0
    second = axes.imshow(np.ma.masked_invalid(lower), cmap=colour_map("diverging"), vmin=-reach, vmax=reach)
    labels = [_short(name, 24) for name in names]
    axes.set_xticks(range(size), labels, rotation=90, fontsize=7)
    axes.set_yticks(range(size), labels, fontsize=7)
    made.colorbar(first, ax=axes, shrink=0.5, location="top", label=f"PaD, {unit} (above the diagonal)")
    made.colorbar(second, ax=axes, shrink=0.5, location="right", label=f"dependence, {unit} (below); dot: significant")
    return made


def r_sad_maps(
    rows: Sequence[Row], maps: Mapping[str, np.ndarray], mean_image: np.ndarray | None, *, most: int = 12
) -> Any:
    """R-SaD of the attributes with the largest maps over the reference's mean image, significant cells outlined."""
    chosen = _by_size(rows, maps)[:most]
    made, grid = _panels(len(chosen))
    reach = max((float(np.abs(maps["r_sad"][c]).max()) for c in chosen), default=1.0) or 1.0
    shown = None
    for axes, c in zip(grid.ravel(), chosen):
        height, width = maps["r_sad"][c].shape
        extent = (0, width, height, 0)
        if mean_image is not None:
            axes.imshow(mean_image, extent=extent, cmap="gray", vmin=0, vmax=255)
        shown = axes.imshow(
            maps["r_sad"][c], extent=extent, cmap=colour_map("diverging"), vmin=-reach, vmax=reach, alpha=0.8
        )
        _outline(axes, maps["significant"][c])
        axes.set_title(
            f"{_short(rows[c]['attribute'], 26)}\nMAR {rows[c]['mar']:.3g}{_null(rows[c], 'mar')}", fontsize=8
        )
    if shown is not None:
        made.colorbar(shown, ax=grid, shrink=0.8, label="R-SaD (+ reference, − generated)")
    return made


def regional_maps(
    rows: Sequence[Row], maps: Mapping[str, np.ndarray], mean_image: np.ndarray | None, *, most: int = 12
) -> Any:
    """Regional KL of the attributes where it is largest, regions outlined that are significant (BH over a map)."""
    chosen = _by_size(rows, maps, "regional_kl")[:most]
    made, grid = _panels(len(chosen))
    reach = max((float(maps["regional_kl"][c].max()) for c in chosen), default=1.0) or 1.0
    shown = None
    for axes, c in zip(grid.ravel(), chosen):
        height, width = maps["regional_kl"][c].shape
        extent = (0, width, height, 0)
        if mean_image is not None:
            axes.imshow(mean_image, extent=extent, cmap="gray", vmin=0, vmax=255)
        shown = axes.imshow(
            maps["regional_kl"][c], extent=extent, cmap=colour_map("sequential"), vmin=0.0, vmax=reach, alpha=0.8
        )
        _outline(axes, maps["regional_kl_q"][c] < 0.05)
        told = f"mean {rows[c]['regional_kl']:.3g}{_null(rows[c], 'regional_kl')}"
        axes.set_title(f"{_short(rows[c]['attribute'], 26)}\n{told}", fontsize=8)
    if shown is not None:
        made.colorbar(shown, ax=grid, shrink=0.8, label="KL of patch scores, nats")
    return made


def _panels(count: int) -> tuple[Any, Any]:
    """A figure with a panel for each of so many maps, and the panels."""
    columns = min(4, max(count, 1))
    lines = -(-max(count, 1) // columns)
    made = figure(2.7 * columns + 1.2, 2.9 * lines + 0.6)
    grid = made.subplots(lines, columns, squeeze=False)
    for axes in grid.ravel():
        axes.set_axis_off()
    return made, grid


def placement_arrows(
    rows: Sequence[Row], maps: Mapping[str, np.ndarray], mean_image: np.ndarray | None, *, most: int = 12
) -> Any:
    """From where an attribute is in the reference to where it is in the generated set: arrows between centroids."""
    chosen = [c for c in _by_size(rows, maps, "placement_jsd") if rows[c].get("placement_jsd") is not None][:most]
    made = figure(6.4, 6.4)
    axes = made.subplots()
    if mean_image is not None:
        axes.imshow(mean_image, extent=(0, 1, 1, 0), cmap="gray", vmin=0, vmax=255, alpha=0.45)
    for c in chosen:
        row = rows[c]
        x, y = _centroid(maps["ref_mean"][c])
        end = x + row["placement_shift_x"], y + row["placement_shift_y"]
        sure = row.get("placement_jsd_q") is not None and row["placement_jsd_q"] < 0.05
        colour = _BLUE if sure else _GRAY
        axes.annotate("", end, (x, y), arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2 if sure else 1})
        axes.annotate(_short(row["attribute"], 24), end, fontsize=8, color="black", xytext=(3, 3),
                      textcoords="offset points")  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_ylim(1, 0)
    axes.set_aspect("equal")
    axes.set_xlabel("share of the crop's width (blue: significant after BH)")
    axes.set_ylabel("share of the crop's height")
    return made


def example_images(
    attribute: str, low: Sequence[tuple[str, float, np.ndarray]], high: Sequence[tuple[str, float, np.ndarray]]
) -> Any:
    """The images of a set with the lowest and the highest score for an attribute: (id, score, pixels)."""
    columns = max(len(low), len(high), 1)
    made = figure(1.7 * columns + 0.8, 4.4)
    grid = made.subplots(2, columns, squeeze=False)
    made.suptitle(_short(attribute, 60), fontsize=10)
    for axes in grid.ravel():
        axes.set_axis_off()
    for line, (name, items) in enumerate((("highest", high), ("lowest", low))):
        for axes, (label, score, pixels) in zip(grid[line], items):
            axes.imshow(pixels)
            axes.set_title(f"{name} {score:.3g}\n{_short(label, 20)}", fontsize=7)
    return made


def overlay(attribute: str, items: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> Any:
    """Refined patch scores of images over them: (id, pixels (h, w, 3), map (rows, columns) in [0, 1])."""
    made = figure(2.6 * max(len(items), 1) + 1.2, 3.2)
    grid = made.subplots(1, max(len(items), 1), squeeze=False)
    shown = None
    for axes, (label, pixels, scores) in zip(grid[0], items):
        extent = (0, scores.shape[1], scores.shape[0], 0)
        axes.imshow(pixels, extent=extent)
        shown = axes.imshow(scores, extent=extent, cmap=colour_map("sequential"), vmin=0, vmax=1, alpha=0.6)
        axes.set_title(_short(label, 26), fontsize=8)
    for axes in grid.ravel():
        axes.set_axis_off()
    made.suptitle(f"{_short(attribute, 60)}: refined patch scores", fontsize=10)
    if shown is not None:
        made.colorbar(shown, ax=grid, shrink=0.8)
    return made


def _remark(row: Row) -> str:
    sign = "more" if row["mean_difference"] > 0 else "less"
    return f" {sign} in generated" + (" (irrelevant: in neither set)" if row.get("irrelevant") else "")


def _by_size(rows: Sequence[Row], maps: Mapping[str, np.ndarray], name: str = "mar") -> list[int]:
    """Attributes with maps, by falling value above the null."""
    have = [c for c, row in enumerate(rows) if maps["valid"][c] and row.get(name) is not None]
    return sorted(have, key=lambda c: -float(rows[c].get(f"{name}_corrected") or rows[c][name]))


def _outline(axes: Any, significant: np.ndarray) -> None:
    """Lines around significant cells, where their neighbour is not one."""
    height, width = significant.shape
    padded = np.pad(significant, 1)
    for y, x in np.argwhere(significant):
        for (dy, dx), line in {
            (-1, 0): ((x, x + 1), (y, y)), (1, 0): ((x, x + 1), (y + 1, y + 1)),
            (0, -1): ((x, x), (y, y + 1)), (0, 1): ((x + 1, x + 1), (y, y + 1)),
        }.items():  # fmt: skip
            if not padded[y + 1 + dy, x + 1 + dx]:
                # Black within white: one of the two is seen on any colour of either palette.
                axes.plot(*line, color="white", linewidth=2.4, zorder=2.0, solid_capstyle="projecting")
                axes.plot(*line, color="black", linewidth=1.1, zorder=2.1, solid_capstyle="projecting")
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)


def _centroid(mean_map: np.ndarray) -> tuple[float, float]:
    heat = mean_map - mean_map.min()
    total = heat.sum() or 1.0
    rows, columns = ((np.arange(count) + 0.5) / count for count in heat.shape)
    return float((heat.sum(axis=0) * columns).sum() / total), float((heat.sum(axis=1) * rows).sum() / total)


def _null(row: Row, name: str) -> str:
    level = row.get(f"{name}_null_level")
    return "" if level is None else f" (null {level:.2g})"


def _short(text: str, width: int = 34) -> str:
    return textwrap.shorten(text, width, placeholder=" …") if len(text) > width else text


def _plain(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
