"""How the numbers of many runs went over time, and where a number changed its meaning."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beholder._errors import UnknownNameError, UserError
from beholder.comparing.sides import RunLike, run_names
from beholder.records import Summary
from beholder.report.counts import count_notes
from beholder.report.figure_files import Line, check_place, draw_lines
from beholder.report.identity import metric_differences
from beholder.report.numbers import DASH, format_estimate
from beholder.report.tables import Column, Table
from beholder.runs.results import Run, open_run_folder

BROKEN = "≠"
"""Stands before a value that was made in another way than the run before."""


@dataclass(frozen=True)
class Entry:
    """One metric of one run.

    Args:
        run: the run's name.
        when: when it finished, or started; in UTC.
        label: the metric's label.
        identity: its printed identity.
        summary: its headline aggregate over all samples.
        higher_is_better: its direction.
        change: the value less that of the run before that had it, or None where these are not one number.
        differs: in which ways it was made differently from that one.
    """

    run: str
    when: str
    label: str
    identity: str
    summary: Summary
    higher_is_better: bool | None
    change: float | None
    differs: tuple[str, ...]


@dataclass(frozen=True)
class History:
    """Runs in the order of time.

    Args:
        runs: their names.
        labels: the metrics.
        entries: what each says of each.
        skipped: folders that hold no run, with the reason.
    """

    runs: tuple[str, ...]
    labels: tuple[str, ...]
    entries: tuple[Entry, ...]
    skipped: tuple[str, ...]

    def entry(self, run: str, label: str) -> Entry | None:
        """A metric of a run, or None where it has none."""
        return next((item for item in self.entries if (item.run, item.label) == (run, label)), None)


def history(*runs: RunLike, metrics: Sequence[str] = ()) -> History:
    """The headline numbers of many runs in the order of time; the call behind `beholder history`.

    A number that was made in another way than that of the run before (other options, weights, preprocessing) has no
    change, and says what differs.

    Args:
        runs: run folders or runs; folders without a run are skipped and named.
        metrics: labels; all when empty.

    Raises:
        UserError: none of them is a run.
        UnknownNameError: no run has a metric of that label.
    """
    found, skipped = _opened(runs)
    if not found:
        raise UserError("a history needs run folders", got="; ".join(skipped) or "none", fix="Name folders of runs")
    names = dict(zip(found, run_names(found)))
    ordered = sorted(found, key=lambda run: (_when(run), names[run]))
    known = list(dict.fromkeys(label for run in ordered for label in run.labels))
    for label in metrics:
        if label not in known:
            raise UnknownNameError("metric", label, known, fix="Metrics: " + ", ".join(known))
    labels = list(dict.fromkeys(metrics)) or known
    entries: list[Entry] = []
    before: dict[str, tuple[Run, Entry]] = {}
    for run in ordered:
        for label in labels:
            entry = _entry(run, names[run], label, before.get(label))
            if entry is not None:
                entries.append(entry)
                before[label] = (run, entry)
    return History(tuple(names[run] for run in ordered), tuple(labels), tuple(entries), tuple(skipped))


def _opened(runs: Sequence[RunLike]) -> tuple[list[Run], list[str]]:
    found, skipped = [], []
    for item in runs:
        if not isinstance(item, Run) and not (Path(item) / "run.json").exists():
            skipped.append(_no_run(Path(item)))
            continue
        found.append(item if isinstance(item, Run) else open_run_folder(item))
    return found, skipped


def _no_run(folder: Path) -> str:
    if not folder.is_dir():
        return f"no folder {folder}"
    if any(folder.glob("*/run.json")):
        return f"{folder}, which is no run but holds some: name {folder}/*"
    return f"{folder}, which holds no run"


def _when(run: Run) -> str:
    return str(run.header.get("finished") or run.header.get("started") or "")


def _entry(run: Run, name: str, label: str, last: tuple[Run, Entry] | None) -> Entry | None:
    item = next((row for row in run.summary if row.label == label and row.headline and not row.group), None)
    if item is None:
        return None
    head: Mapping[str, Any] = next(entry for entry in run.header["metrics"] if entry["label"] == label)
    differs = () if last is None else tuple(metric_differences(last[0].header, run.header, label))
    change = None
    if last is not None and not differs and None not in (item.value, last[1].summary.value):
        change = item.value - last[1].summary.value  # type: ignore[operator]
    direction = head.get("info", {}).get("higher_is_better")
    return Entry(name, _when(run), label, str(head["identity"]), item, direction, change, differs)


def history_table(found: History) -> Table:
    """One row a run, one column a metric."""
    arrows = {True: " ↑", False: " ↓", None: ""}
    directions = {item.label: item.higher_is_better for item in found.entries}
    titles = [Column("run"), Column("when"), *(Column(x + arrows[directions.get(x)], True) for x in found.labels)]
    rows: list[tuple[str, ...]] = []
    notes: dict[str, None] = {}
    counts = []
    for run in found.runs:
        cells = [found.entry(run, label) for label in found.labels]
        counts.append((run, [(item.label, item.summary) for item in cells if item is not None]))
        when = next((item.when for item in cells if item is not None), "")
        rows.append((run, when.replace("T", " ").removesuffix("Z"), *(_cell(item) for item in cells)))
        for item in filter(None, cells):
            for text in item.differs:
                notes[f"{BROKEN} {item.label} of {run} is not the number of the run before: {text}."] = None
    skipped = (f"Skipped: {text}." for text in found.skipped)
    return Table(tuple(titles), tuple(rows), (*count_notes(counts), *notes, *skipped))


def _cell(item: Entry | None) -> str:
    if item is None:
        return DASH
    text = format_estimate(item.summary.value, item.summary.low, item.summary.high)
    return f"{BROKEN} {text}" if item.differs else text


def history_records(found: History) -> list[dict[str, Any]]:
    """One flat dict a run and metric, unrounded."""
    return [
        {
            "run": item.run,
            "group": {},
            "when": item.when,
            "label": item.label,
            "metric": item.identity,
            "value": item.summary.value,
            "low": item.summary.low,
            "high": item.summary.high,
            "n": item.summary.n,
            "n_missing": {str(status): count for status, count in item.summary.n_missing.items()},
            "change": item.change,
            "differs": "; ".join(item.differs),
        }
        for item in found.entries
    ]


def draw_history(found: History, out: str | os.PathLike[str]) -> Path:
    """Draws the metrics over the runs (extra `plots`); a line breaks where a number changed its meaning.

    Raises:
        OptionError: an ending that is no figure's.
        MissingExtraError: matplotlib is not installed.
    """
    path = check_place(out)
    lines = []
    for label in found.labels:
        items = [found.entry(run, label) for run in found.runs]
        summaries = [None if item is None else item.summary for item in items]
        lines.append(
            Line(
                label,
                [None if item is None else item.value for item in summaries],
                [None if item is None else item.low for item in summaries],
                [None if item is None else item.high for item in summaries],
                frozenset(at for at, item in enumerate(items) if item is not None and item.differs),
            )
        )
    draw_lines(lines, found.runs, path)
    return path
