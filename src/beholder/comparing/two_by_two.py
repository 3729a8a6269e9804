"""Items of two pictures and two captions, as Winoground has them, in the rows of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beholder._errors import Fault, InputError, OptionError, UnknownNameError
from beholder.comparing.sides import RunLike, opened, texts
from beholder.runs.results import Run
from beholder.stats.bootstrap import Interval, mean_interval
from beholder.stats.votes import WINOGROUND_CHANCE, winoground


@dataclass(frozen=True)
class TwoByTwoShare:
    """One share of one metric: "text", "image" or "group", with its interval over items and its chance."""

    label: str
    metric: str
    share: str
    value: float
    interval: Interval
    chance: float
    n_items: int


@dataclass(frozen=True)
class TwoByTwoResult:
    """Shares of all metrics, and what else to know."""

    rows: tuple[TwoByTwoShare, ...]
    notices: tuple[str, ...]


def two_by_two(
    run: RunLike,
    columns: Sequence[str],
    *,
    metrics: Sequence[str] = (),
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
) -> TwoByTwoResult:
    """Text, image and group accuracy of items of two pictures and two captions.

    Args:
        run: a run of four rows an item.
        columns: names of the columns that name the item, the picture and the caption; a picture and a caption of
            one name belong together.
        metrics: labels; all when empty.
        seed: seed of the bootstrap over items.
        resamples: bootstrap samples.
        level: confidence level.

    Raises:
        OptionError: not three columns.
        InputError: items that are not two by two, all of them.
        UnknownNameError: no such column or metric.
    """
    names = [name.strip() for name in columns]
    if len(names) != 3 or not all(names):
        raise OptionError("three columns must be named: item, picture, caption", got=",".join(columns))
    one = opened([run])[0]
    for name in names:
        if name not in one.columns:
            raise UnknownNameError("column", name, one.columns)
    for label in metrics:
        if label not in one.labels:
            raise UnknownNameError("metric", label, one.labels)
    places = _places(one, names)
    rows: list[TwoByTwoShare] = []
    notices: list[str] = []
    identities = {item["label"]: item["identity"] for item in one.header["metrics"]}
    for label in metrics or one.labels:
        scores = _scores(one, label)[places]
        higher = next(item for item in one.header["metrics"] if item["label"] == label)["info"].get("higher_is_better")
        known = np.isfinite(scores).all(axis=(1, 2))
        if not known.all():
            statuses = np.array(one.read([f"{label}_status"]).column(0).to_pylist(), dtype=object)[places[~known]]
            counts = Counter(str(status) for status in statuses.ravel() if status != "ok")
            why = ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))
            notices.append(
                f"{label}: {int((~known).sum())} of {len(known)} items lack a value and are left out ({why})"
            )
        if not known.any():
            continue
        found = winoground(scores[known] * (-1.0 if higher is False else 1.0))
        for share, chance in WINOGROUND_CHANCE.items():
            right = getattr(found, share).astype(np.float64)
            interval = mean_interval(
                right, np.ones(len(right)), unit="item", seed=seed, resamples=resamples, level=level
            )
            rows.append(
                TwoByTwoShare(label, identities[label], share, float(right.mean()), interval, chance, len(right))
            )
    return TwoByTwoResult(tuple(rows), tuple(notices))


def _places(run: Run, names: Sequence[str]) -> np.ndarray:
    """(n, 2, 2) row of picture i with caption j of each item."""
    table = run.read(names)
    items: dict[Any, dict[tuple[Any, Any], list[int]]] = {}
    for row, (item, image, caption) in enumerate(zip(*(texts(table, name).to_pylist() for name in names))):
        items.setdefault(item, {}).setdefault((image, caption), []).append(row)
    faults, places = [], []
    for item, cells in items.items():
        fault = _fault(cells)
        if fault:
            faults.append(Fault(fault, where=f"item {item}"))
            continue
        pictures = sorted({image for image, _ in cells})
        places.append([[cells[image, caption][0] for caption in pictures] for image in pictures])
    if faults or not places:
        raise InputError(str(run.path), faults or [Fault("it has no rows")])
    return np.array(places, dtype=np.intp)


def _fault(cells: Mapping[tuple[Any, Any], Sequence[int]]) -> str | None:
    images, captions = {image for image, _ in cells}, {caption for _, caption in cells}
    if None in images | captions:
        return "a picture or caption has no name"
    if len(images) != 2 or images != captions or len(cells) != 4:
        return f"it must have two pictures and two captions of the same two names, got {sorted(cells)}"
    repeated = [cell for cell, rows in cells.items() if len(rows) > 1]
    return f"{repeated[0]} has several rows" if repeated else None


def _scores(run: Run, label: str) -> np.ndarray:
    table = run.read([label, f"{label}_status"])
    ok = np.array(table.column(f"{label}_status").to_pylist()) == "ok"
    return np.where(ok, np.asarray(table.column(label).fill_null(0.0), dtype=np.float64), np.nan)
