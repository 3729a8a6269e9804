"""`beholder verify`: do a run's numbers come out again?"""

from __future__ import annotations

from typing import Annotated

import typer

from beholder.cli import options
from beholder.cli.guard import GATE_NOT_MET
from beholder.cli.output import put, put_json, stdout_width

app = typer.Typer(add_completion=False)


@app.command()
def verify(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder.", show_default=False)],
    n: Annotated[int, typer.Option("--n", "-n", metavar="N", help="Rows to score again.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the drawing.")] = 0,
    data: Annotated[str | None, typer.Option(metavar="PATH", help="The input, where it has moved.")] = None,
    device: options.Device = None,
    cache_dir: options.CacheDir = None,
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="text, md, latex, csv or json.", rich_help_panel=options.OUTPUT)
    ] = "text",
) -> None:
    """Score a random part of a run again and say whether the numbers come out; exit 1 when they do not.

    The rows are scored from the identity that the run stored, with nothing remembered. Which library, weights or
    setting changed since then is said too.

    Example: beholder verify runs/sdxl -n 50
    """
    from beholder.report.render import check_form, rendered
    from beholder.report.verification import verification_records, verification_table
    from beholder.verifying import verify as call

    check_form(form)
    found = call(run, n=n, seed=seed, data=data, device=device, cache_dir=cache_dir)
    records = verification_records(found)
    if form == "json":
        put_json({"passed": found.passed, "gone": list(found.gone), "changes": list(found.changes), "metrics": records})
    else:
        put(rendered(verification_table(found), records, form, width=stdout_width()))
    if not found.passed:
        raise typer.Exit(GATE_NOT_MET)
