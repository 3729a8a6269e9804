"""`beholder compare`: runs against one another, on the samples that they share."""

from __future__ import annotations

from typing import Annotated

import typer

from beholder.cli import options
from beholder.cli.output import put, put_json, say, stdout_width

app = typer.Typer(add_completion=False)

STATISTICS = "Statistics"


@app.command()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders; the first is the baseline.", show_default=False),
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", metavar="LABEL", help="Compare this metric only. Repeatable."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run or method that the others are compared with: sdxl, or RUN:METHOD."),
    ] = None,
    pair_on: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Pair rows on this column instead of the shared ones. Repeatable."),
    ] = None,
    by: options.By = None,
    allow_different: Annotated[
        bool,
        typer.Option("--allow-different", help="Compare metrics whose identities differ, with a warning."),
    ] = False,
    tie: Annotated[
        float | None,
        typer.Option(metavar="X", help="Differences up to X are ties. Default: rounding.", rich_help_panel=STATISTICS),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of resamples.", rich_help_panel=STATISTICS)] = 0,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples.", rich_help_panel=STATISTICS)] = 2000,
    level: Annotated[float, typer.Option(help="Confidence level.", rich_help_panel=STATISTICS)] = 0.95,
    power: Annotated[float, typer.Option(help="Power of the detectable difference.", rich_help_panel=STATISTICS)] = 0.8,
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="text, md, latex, csv or json.", rich_help_panel=options.OUTPUT)
    ] = "text",
    quiet: options.Quiet = False,
) -> None:
    """Compare runs, or the methods of one run, on the samples that they share.

    Rows are paired on the shared columns among task, concept, knowledge_id, prompt_id (else prompt) and seed. Where
    several runs have the same methods, each method is compared with the same method of the first run; name one side
    with --baseline to compare all others with it. The table has, for each metric, both means, the difference with its
    interval, p-values (also corrected for the number of tests), effect size, shares above and below, and the smallest
    difference that data of this size can show. Numbers that were made in different ways are refused.

    Example: beholder compare runs/sdxl runs/flux

    Example: beholder compare runs/all-methods --baseline sdxl --by category --as md

    Example: beholder compare runs/old runs/new --baseline old:ddim
    """
    from beholder.comparing.compare import compare as call
    from beholder.report.comparison import comparison_json, comparison_table, flat_records
    from beholder.report.render import check_form, rendered

    check_form(form)
    found = call(
        *runs,
        metrics=metrics or (),
        baseline=baseline,
        pair_on=pair_on or (),
        by=by or (),
        tie=tie,
        allow_different=allow_different,
        seed=seed,
        resamples=resamples,
        level=level,
        power=power,
    )
    for text in found.warnings:
        say(f"Warning: {text}.")
    if not quiet:
        for text in found.notices:
            say(f"Note: {text}.")
    if form == "json":
        put_json(comparison_json(found))
    else:
        put(rendered(comparison_table(found), flat_records(found), form, width=stdout_width()))
