"""`beholder plan`: how many prompts and seeds a comparison needs."""

from __future__ import annotations

from typing import Annotated

import typer

from beholder.cli import options
from beholder.cli.output import put, put_json, stdout_width

app = typer.Typer(add_completion=False)


@app.command()
def plan(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders: two show how differences scatter.", show_default=False),
    ],
    detect: Annotated[
        float, typer.Option(metavar="X", help="True difference to find, in the metric's unit.", show_default=False)
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", metavar="LABEL", help="Plan for this metric only. Repeatable."),
    ] = None,
    seeds: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Seeds a prompt. Repeatable. Default: 1, 2, 4 and 8.")
    ] = None,
    pair_on: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Pair rows on this column instead of the shared ones. Repeatable."),
    ] = None,
    allow_different: Annotated[
        bool, typer.Option("--allow-different", help="Accept metrics whose identities differ.")
    ] = False,
    power: Annotated[float, typer.Option(help="Wanted chance to find the difference.")] = 0.8,
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="text, md, latex, csv or json.", rich_help_panel=options.OUTPUT)
    ] = "text",
) -> None:
    """Say how many prompts and seeds find a difference of a given size.

    Two runs, or a run of several methods, show how paired differences scatter. From one run alone two bounds are
    given: prompts as hard for one method as for the other, and prompts that have nothing in common.

    Example: beholder plan runs/sdxl runs/flux --detect 0.005
    """
    from beholder.comparing.plan import SEEDS
    from beholder.comparing.plan import plan as call
    from beholder.report.plan import plan_records, plan_table
    from beholder.report.render import check_form, rendered

    check_form(form)
    found = call(
        *runs,
        detect=detect,
        metrics=metrics or (),
        seeds=seeds or SEEDS,
        pair_on=pair_on or (),
        allow_different=allow_different,
        power=power,
        level=level,
    )
    if form == "json":
        put_json({"detect": found.detect, "power": found.power, "level": found.level, "rows": plan_records(found)})
    else:
        put(rendered(plan_table(found), plan_records(found), form, width=stdout_width()))
