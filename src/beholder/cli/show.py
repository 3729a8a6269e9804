"""`beholder show`: runs as a table."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.cli import options
from beholder.cli.output import put, put_json, say, stdout_width

if TYPE_CHECKING:
    from beholder.report.ranking import Marks
    from beholder.report.tables import RunView
    from beholder.runs.results import Run

app = typer.Typer(add_completion=False)


@app.command()
def show(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders.", show_default=False)],
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="text, md, latex, csv or json.", rich_help_panel=options.OUTPUT)
    ] = "text",
    by: options.By = None,
    show_all: Annotated[
        bool,
        typer.Option("--all", help="Every aggregate, not only the headline value of each metric."),
    ] = False,
    wide: Annotated[
        bool,
        typer.Option(
            "--wide",
            help="One run too: rows are methods or categories, columns are metrics.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = False,
    spread: Annotated[
        str,
        typer.Option(
            "--ci",
            metavar="WHAT",
            help="Beside a value: interval, pm (±) or none.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = "interval",
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Mark with * what differs from this run or method, as beholder compare tells it.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    rank: Annotated[
        bool | None,
        typer.Option(
            "--rank/--no-rank",
            help="Best value bold, second underlined (wide tables in md and latex). Default: --rank.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    log_to: Annotated[
        str | None,
        typer.Option(
            metavar="TRACKER",
            help="Also send summary, samples and the worst of them to wandb, mlflow, tensorboard or trackio.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    project: Annotated[
        str, typer.Option(metavar="NAME", help="The tracker's project.", rich_help_panel=options.OUTPUT)
    ] = "beholder",
) -> None:
    """Print the table of one or more runs.

    One run: a row for each metric and group, with n, interval and missing values. Several runs: a row for each run
    and group, a column for each metric; what differs in how their numbers were made is said on stderr. A run that is
    not finished shows what was scored so far. The run of a protocol (beholder bench) shows the protocol's tables; --by
    and --all show its scores like those of any other run.

    Example: beholder show runs/sdxl --as md

    Example: beholder show runs/sdxl runs/flux --by category

    Example: beholder show runs/sdxl runs/flux --as latex --ci pm --baseline sdxl
    """
    from beholder.report.ranking import check_spread
    from beholder.report.render import check_form
    from beholder.runs.results import open_run_folder

    check_form(form)
    check_spread(spread)
    opened = [open_run_folder(path) for path in runs]
    if log_to is not None:
        from beholder.reporting.logs import log_runs

        log_runs(log_to, *opened, project=project)
        say(f"Sent to {log_to}: {', '.join(runs)}")
    wide = wide or len(runs) > 1 or baseline is not None
    if not wide and not by and not show_all and _put_protocol(opened[0], form):
        return
    if baseline is not None and by and "method" not in by and _several_methods(opened):
        by = ["method", *by]  # methods are the sides, so each needs rows of its own
    views = _views(opened, runs, by or [])
    _say_what_to_know(opened, views)
    if form == "json":
        from beholder.report.tables import records

        put_json(
            {
                "runs": [_run_facts(run, view) for run, view in zip(opened, views)],
                "rows": records(views, show_all=show_all),
            }
        )
    else:
        marks = None if baseline is None else _marks(opened, views, baseline, by or [])
        put(_rendered(views, form, show_all=show_all, wide=wide, spread=spread, rank=rank is not False, marks=marks))


def _several_methods(opened: Sequence[Run]) -> bool:
    from beholder.cli.tables import has_methods

    return len(opened) == 1 and has_methods(opened[0])


def _put_protocol(run: Run, form: str) -> bool:
    """Prints the tables of a protocol's run; False where the run has none."""
    from beholder.protocol_runs import ProtocolRun, read_results

    results = read_results(run) if run.finished else None
    if results is None:
        return False
    if form == "json":
        from beholder.cli.bench import bench_json

        put_json(bench_json(ProtocolRun(run, results)))
    else:
        from beholder.report.protocol import render_results

        put(render_results(results, form, width=stdout_width()))
    return True


def _views(opened: Sequence[Run], paths: Sequence[str], by: Sequence[str]) -> list[RunView]:
    """One grouping for all runs: as asked, else by method where one of them has several methods."""
    from beholder._errors import UnknownNameError
    from beholder.cli.tables import has_methods, table_view

    if len(opened) == 1:
        return [table_view(opened[0], name=opened[0].path.resolve().name, by=by or None)]
    names = [run.path.resolve().name for run in opened]
    if len(set(names)) < len(names):
        names = [path.rstrip("/") for path in paths]
    if not by and any(has_methods(run) for run in opened):
        # A run without the column keeps all from being grouped: one table has one grouping.
        with contextlib.suppress(UnknownNameError):
            return [table_view(run, name=name, by=["method"]) for run, name in zip(opened, names)]
        mixed = ", ".join(name for run, name in zip(opened, names) if has_methods(run))
        say(f"Note: {mixed}: the rows of all methods are taken together, since another run has no column method.")
    return [table_view(run, name=name, by=by) for run, name in zip(opened, names)]


def _say_what_to_know(opened: Sequence[Run], views: Sequence[RunView]) -> None:
    from beholder.report.identity import identity_warnings

    for run, view in zip(opened, views):
        if not run.finished:
            say(f"Note: {view.name} is not finished ({run.header['status']}): {run.n} samples are scored so far.")
    for text in identity_warnings([(view.name, view.header) for view in views]):
        say(f"Warning: {text}")


def _marks(opened: Sequence[Run], views: Sequence[RunView], baseline: str, by: Sequence[str]) -> Marks:
    """What differs from a baseline, in each group too; sides are called as the rows of the table are."""
    from beholder.comparing.compare import compare
    from beholder.comparing.marks import marks_of

    found = compare(*opened, baseline=baseline, by=[name for name in by if name != "method"])
    for text in found.warnings:
        say(f"Warning: {text}.")
    return marks_of(found, opened, [view.name for view in views])


def _rendered(
    views: Sequence[RunView], form: str, *, show_all: bool, wide: bool, spread: str, rank: bool, marks: Marks | None
) -> str:
    from beholder.report.render import rendered
    from beholder.report.tables import long_table, records, wide_table

    if wide:
        table = wide_table(views, show_all=show_all, spread=spread, rank=rank, marks=marks)
    else:
        table = long_table(views[0], show_all=show_all, spread=spread)
    return rendered(table, records(views, show_all=show_all), form, width=stdout_width())


def _run_facts(run: Run, view: RunView) -> dict[str, Any]:
    return {
        "name": view.name,
        "path": str(run.path),
        "status": run.header["status"],
        "n": run.n,
        "n_faults": run.n_faults,
        "metrics": [{name: item[name] for name in ("label", "identity")} for item in run.header["metrics"]],
    }
