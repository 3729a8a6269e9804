"""The data of a page: a head whose size does not grow with the samples, and parts that are read when needed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from beholder.media.base import Medium
from beholder.media.files import LocalFile
from beholder.media.kinds import media_kind
from beholder.report.html.data import Metric, Report, Samples
from beholder.report.html.thumbs import Wish

DETAILS_PER_PART = 200
THUMBS_PER_PART = 100
_PLAYED_BY_BROWSERS = {".mp4", ".m4v", ".webm", ".mov"}
_SHOWN_BY_BROWSERS = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".avif", ".apng"}


class Thumbs:
    """Which thumbnails a report needs; each medium is named once, however many samples show it.

    Args:
        samples: the samples.
    """

    def __init__(self, samples: Samples) -> None:
        self.wishes: dict[str, Wish] = {}
        self._known: dict[Any, str | None] = {}
        self.outputs = [None if item.output is None else self._add(Wish(item.output)) for item in samples.visuals]
        self.references = [[self._add(Wish(medium)) for medium in item.references] for item in samples.visuals]
        self.reference_masks = [
            [self._add(Wish(mask, mask=True)) for mask in item.reference_masks if mask is not None]
            for item in samples.visuals
        ]
        self.masks = [
            {name: self._add(Wish(mask, mask=True)) for name, mask in item.masks.items()} for item in samples.visuals
        ]

    def _add(self, wish: Wish) -> str | None:
        # A file that many samples name is looked at once.
        name = (wish.source.path, wish.mask) if isinstance(wish.source, LocalFile) else None
        if name in self._known:
            return self._known[name]
        key = wish.key()
        if name is not None:
            self._known[name] = key
        if key is not None:
            self.wishes.setdefault(key, wish)
        return key


def head(report: Report, *, mode: str, pictures: Mapping[int, str | None]) -> dict[str, Any]:
    """What a page shows before any sample was read.

    Args:
        report: the report.
        mode: "folder" or "file".
        pictures: row → address of its thumbnail, for the samples of the first screen.
    """
    samples = report.samples
    return {
        "mode": mode,
        "detailsPerPart": DETAILS_PER_PART,
        "thumbsPerPart": THUMBS_PER_PART,
        "sides": [asdict(side) for side in report.sides],
        "metrics": [
            {"label": m.label, "identity": m.identity, "unit": m.unit, "higher": m.higher_is_better,
             "decimals": m.decimals}
            for m in report.metrics
        ],
        "histograms": [asdict(item) for item in report.histograms],
        "groupColumns": list(report.groups),
        "views": [{"kind": view.kind, "name": view.name} for view in report.views],
        "samples": samples.n,
        "picks": [asdict(pick) for pick in report.picks if pick.rows],
        "cards": {str(row): _card(samples, row, address) for row, address in pictures.items()},
        "copies": {"latex": report.latex, "markdown": report.markdown, "command": report.command},
    }  # fmt: skip


def groups(report: Report) -> dict[str, Any]:
    """The charts and tables of each column that samples are grouped by."""
    return {
        column: {
            "bars": {label: [asdict(bar) for bar in bars] for label, bars in found.items()},
            "table": report.group_tables.get(column),
        }
        for column, found in report.groups.items()
    }


def picked_rows(report: Report) -> list[int]:
    """Rows of the samples of the first screen."""
    return sorted({row for pick in report.picks for rows in pick.rows for row in rows if row >= 0})


def _card(samples: Samples, row: int, address: str | None) -> dict[str, Any]:
    return {
        "id": samples.ids[row],
        "side": samples.sides[row],
        "prompt": samples.prompts[row],
        "output": samples.outputs[row],
        "values": {label: values[row] for label, values in samples.values.items()},
        "statuses": {label: statuses[row] for label, statuses in samples.statuses.items()},
        "thumb": address,
    }


def core(report: Report, thumbs: Thumbs, made: set[str] | None) -> dict[str, Any]:
    """Every sample's columns that are sorted and filtered by.

    Args:
        report: the report.
        thumbs: its thumbnails.
        made: keys of those that exist; None where that is not known yet.
    """
    samples = report.samples
    keys = [key for key in thumbs.wishes if made is None or key in made]
    numbers = {key: at for at, key in enumerate(keys)}
    names = sorted({status for statuses in samples.statuses.values() for status in statuses})
    code = {name: at for at, name in enumerate(names)}
    return {
        "ids": list(samples.ids),
        "sides": list(samples.sides),
        "keys": list(samples.keys),
        "units": list(samples.units),
        "outputs": list(samples.outputs),
        "prompts": coded(samples.prompts),
        "values": {m.label: _rounded(samples.values[m.label], m) for m in report.metrics},
        "statusNames": names,
        "statuses": {label: [code[s] for s in statuses] for label, statuses in samples.statuses.items()},
        "columns": {name: coded(samples.columns[name]) for name in samples.filters if name in samples.columns},
        "thumbs": keys,
        "outputThumbs": [numbers.get(key or "", -1) for key in thumbs.outputs],
    }


def coded(values: Sequence[Any]) -> dict[str, Any]:
    """Texts once each, and the number of each value's; -1 for none."""
    codes: dict[str, int] = {}
    found = [-1 if value is None else codes.setdefault(str(value), len(codes)) for value in values]
    return {"texts": list(codes), "codes": found}


def _rounded(values: Sequence[float | None], metric: Metric) -> list[float | None]:
    """Three decimals more than are shown: the exact values stand in the details."""
    return [None if value is None else round(value, metric.decimals + 3) for value in values]


def details(report: Report, thumbs: Thumbs, made: set[str] | None, home: Path) -> Iterator[list[dict[str, Any]]]:
    """What is said of single samples, part by part.

    Args:
        report: the report.
        thumbs: its thumbnails.
        made: as in `core`.
        home: the folder that the page lies in.
    """
    numbers = {key: at for at, key in enumerate(key for key in thumbs.wishes if made is None or key in made)}
    for start in range(0, report.samples.n, DETAILS_PER_PART):
        rows = range(start, min(start + DETAILS_PER_PART, report.samples.n))
        yield [_detail(report, row, thumbs, numbers, home) for row in rows]


def _detail(report: Report, row: int, thumbs: Thumbs, numbers: Mapping[str, int], home: Path) -> dict[str, Any]:
    samples = report.samples
    visuals = samples.visuals[row]
    original = _original(visuals.output, home)
    ending = os.path.splitext(str(samples.outputs[row]))[1].lower()
    references = zip(visuals.references, thumbs.references[row])
    return {
        "output": samples.outputs[row],
        "original": original,
        "shows": original is not None and ending in _SHOWN_BY_BROWSERS,
        "plays": original is not None and ending in _PLAYED_BY_BROWSERS,
        "references": [[medium.name, numbers.get(key or "", -1)] for medium, key in references],
        "referenceMasks": [numbers.get(key or "", -1) for key in thumbs.reference_masks[row]],
        "masks": [[name, numbers.get(key or "", -1)] for name, key in thumbs.masks[row].items()],
        "scores": {metric.label: _score(samples, metric.label, row) for metric in report.metrics},
        "columns": {name: _plain(values[row]) for name, values in samples.columns.items() if values[row] is not None},
    }


def _score(samples: Samples, label: str, row: int) -> dict[str, Any]:
    found: dict[str, Any] = {"value": samples.values[label][row], "status": samples.statuses[label][row]}
    reason = samples.reasons.get(label)
    if reason is not None and reason[row]:
        found["reason"] = reason[row]
    evidence = samples.evidence.get(label)
    if evidence is not None and evidence[row]:
        found["evidence"] = _parsed(str(evidence[row]))
    return found


def _parsed(text: str) -> Any:
    try:
        return _plain(json.loads(text))
    except ValueError:
        return text


def _plain(value: Any) -> Any:
    """The value without numbers that JSON has no form for."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _original(medium: Medium | None, home: Path) -> str | None:
    """A local file's address as seen from the page; None for anything else and for what is not there."""
    if not isinstance(medium, LocalFile) or media_kind(medium.path) is None or not os.path.isfile(medium.path):
        return None
    try:
        path = os.path.relpath(os.path.abspath(medium.path), os.path.abspath(home))
    except ValueError:
        return None
    # The leading dot keeps a file that is called like a scheme ("javascript:…") a file.
    return "/".join([".", *(quote(os.fsencode(part)) for part in path.split(os.sep))])
