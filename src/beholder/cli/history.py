"""`beholder history`: the numbers of many runs over time."""

from __future__ import annotations

from typing import Annotated

import typer

from beholder.cli import options
from beholder.cli.output import put, put_json, say, stdout_width

app = typer.Typer(add_completion=False)


@app.command()
def history(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, in any order.", show_default=False)],
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", metavar="LABEL", help="Show this metric only. Repeatable."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("-o", "--out", metavar="FILE", help="Also draw the trends: .pdf, .png or .svg (extra plots)."),
    ] = None,
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="text, md, latex, csv or json.", rich_help_panel=options.OUTPUT)
    ] = "text",
) -> None:
    """Show the headline numbers of many runs in the order of time.

    A number that was made in another way than in the run before (other options, weights, preprocessing) is marked with
    ≠, and the table says what differs. Folders without a run are skipped.

    Example: beholder history runs/*

    Example: beholder history runs/* -m clip_score --as csv
    """
    from beholder.report.render import check_form, rendered
    from beholder.reporting.histories import draw_history, history_records, history_table
    from beholder.reporting.histories import history as call

    check_form(form)
    found = call(*runs, metrics=metrics or ())
    if form == "json":
        put_json({"runs": list(found.runs), "skipped": list(found.skipped), "rows": history_records(found)})
    else:
        put(rendered(history_table(found), history_records(found), form, width=stdout_width()))
    if out is not None:
        say(f"Figure: {draw_history(found, out)}")
