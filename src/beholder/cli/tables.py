"""What commands that end with a run's table have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from beholder.cli.guard import TOO_MANY_FAULTS
from beholder.cli.output import put, put_json, say, stdout_width
from beholder.report.render import to_text
from beholder.report.tables import OVER_SEEDS, RunView, long_table

if TYPE_CHECKING:
    from beholder.records import Summary
    from beholder.runs.results import Run

_SHOWN_FAULTS = 5


def finish_run(run: Run, *, as_json: bool, quiet: bool) -> None:
    """Prints a finished run and ends the command with its exit code."""
    if as_json:
        put_json(run_json(run))
    else:
        put(to_text(long_table(table_view(run)), width=stdout_width()))
    if not quiet:
        for text in run.notices:
            say(f"Note: {text}")
        say(f"Run folder: {run.path}")
    if run.n_faults and (not quiet or run.exit_code):
        say_faults(run)
    if run.exit_code:
        raise typer.Exit(TOO_MANY_FAULTS)


def finish_part(run: Run, *, as_json: bool, quiet: bool) -> None:
    """Says that a part is done and how to join the parts: a part's own table would be taken for the whole's."""
    part = run.header["shard"]
    if as_json:
        names = ("index", "count", "start", "stop", "total")
        put_json({"path": str(run.path), "status": run.header["status"], **{name: part[name] for name in names}})
    elif not quiet:
        say(
            f"Shard {part['index']}/{part['count']}: {part['stop'] - part['start']} of {part['total']} rows are scored."
        )
        say(f"When all are: beholder merge {run.path.parent.parent}")


def run_json(run: Run) -> dict[str, Any]:
    """A finished run as one JSON value: every summary, unrounded."""
    from dataclasses import asdict

    return {
        "path": str(run.path),
        "status": run.header["status"],
        "n": run.n,
        "n_faults": run.n_faults,
        "fault_share": run.fault_share,
        "exit_code": run.exit_code,
        "metrics": [{name: item[name] for name in ("label", "identity")} for item in run.header["metrics"]],
        "summary": [asdict(item) for item in run.summary],
        "notices": run.notices,
    }


def table_view(run: Run, *, name: str | None = None, by: Sequence[str] | None = None) -> RunView:
    """A run as a table shows it.

    Args:
        run: the run.
        name: its name in the table; the folder's name when None.
        by: columns to group by, () for all samples together; None for what the run was asked for, else by method
            where there are several.
    """
    if by is None:
        by = tuple(run.header["asked"]["by"]) or (("method",) if has_methods(run) else ())
        summaries = run.summary
    else:
        summaries = run.summarise(by=tuple(by)) if by else run.summary
        _say_not_grouped(summaries, set(by))
    return RunView(name or run.path.name or str(run.path), run.header, _grouped_by(summaries, set(by)))


def _say_not_grouped(summaries: Sequence[Summary], columns: set[str]) -> None:
    """Says why metrics of whole sets have no row in a table by some columns."""
    there = {item.label for item in summaries if set(item.group) == columns}
    told: dict[str, list[str]] = {}
    for item in summaries:
        if item.aggregate == "set" and not item.group and item.label not in there and item.note:
            told.setdefault(item.note, []).append(item.label)
    for note, labels in told.items():
        say(f"Note: {', '.join(labels)}: {note}")


def has_methods(run: Run) -> bool:
    """True for a run of several methods."""
    return any(set(item.group) == {"method"} for item in run.summary)


def _grouped_by(summaries: Sequence[Summary], columns: set[str]) -> list[Summary]:
    """The summaries of one grouping; means over seeds stand beside the seeds that they are made of."""
    return [
        item
        for item in summaries
        if set(item.group) == columns or (item.aggregate == OVER_SEEDS and set(item.group) == columns - {"seed"})
    ]


def say_faults(run: Run) -> None:
    """Says how many samples have a fault, and names the first few with their reasons."""
    allowed = run.header["asked"]["max_failed"]
    verdict = f"more than the {_percent(allowed)} that --max-failed allows" if run.exit_code else "within --max-failed"
    have = "has" if run.n_faults == 1 else "have"
    say(f"{run.n_faults} of {run.n} samples ({_percent(run.fault_share)}) {have} a fault, {verdict}:")
    faults = first_faults(run, _SHOWN_FAULTS)
    for text in faults:
        say(f"  {text}")
    if run.n_faults > len(faults):
        say(f"  … the others are in {run.path / 'scores.csv'}")


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %"


def first_faults(run: Run, most: int) -> list[str]:
    """The first faults of a run as "id: status: reason", one a sample."""
    from beholder.records import Status

    faults = {status.value for status in Status if status.is_fault}
    found: dict[str, str] = {}
    table = run.scores
    for label in run.labels:
        if f"{label}_reason" not in table.column_names:
            continue
        for batch in table.select(["id", f"{label}_status", f"{label}_reason"]).to_batches():
            ids, statuses, reasons = (column.to_pylist() for column in batch.columns)
            for name, status, reason in zip(ids, statuses, reasons):
                if status in faults and len(found) < most:
                    found.setdefault(name, f"{name}: {status}: {reason}")
            if len(found) >= most:
                break
    return list(found.values())
