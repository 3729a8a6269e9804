"""`beholder lab`: what does a metric react to?"""

from __future__ import annotations

from typing import Annotated

import typer

from beholder.cli import options
from beholder.cli.output import put, put_json, say, stdout_width

app = typer.Typer(add_completion=False)


@app.command()
def lab(
    data: Annotated[
        str, typer.Argument(metavar="RUN|DATA", help="Run folder, manifest or folder.", show_default=False)
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", metavar="METRIC", help="Metric; those of the run by default. Repeatable."),
    ] = None,
    model: options.Model = None,
    n: Annotated[int, typer.Option("--n", "-n", metavar="N", help="Samples to draw.")] = 50,
    changes: Annotated[
        list[str] | None,
        typer.Option("--change", "-c", metavar="NAME", help="Change to try; all by default. Repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the drawing, of noise and of the intervals.")] = 0,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    details: Annotated[bool, typer.Option("--details", help="Print every degree of every change.")] = False,
    device: options.Device = None,
    cache_dir: options.CacheDir = None,
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="text, md, latex, csv or json.", rich_help_panel=options.OUTPUT)
    ] = "text",
) -> None:
    """Show what a metric moves with and what it is blind to.

    Pictures are blurred, compressed, cropped, recoloured, mirrored, their subject moved or its background replaced
    (where there are masks); captions have their words swapped, are negated, get another number or another sample's
    text. Each change is made by several degrees, and the samples are scored again.

    Example: beholder lab runs/sdxl -n 100

    Example: beholder lab samples.jsonl -m clip_score -c "words swapped" -c negated --details
    """
    from beholder.experiments import run_lab
    from beholder.report.lab import effects_table, lab_records, summary_table
    from beholder.report.render import check_form, rendered

    check_form(form)
    found = run_lab(
        data, metrics=metrics or (), model=model, n=n, changes=changes or (), seed=seed, level=level,
        device=device or "auto", cache_dir=cache_dir,
    )  # fmt: skip
    for text in found.notices:
        say(f"Note: {text}.")
    records = lab_records(found)
    if form == "json":
        put_json({"metrics": found.metrics, "n": found.n, "effects": records})
        return
    put(rendered(summary_table(found), records, form, width=stdout_width()))
    if details and form != "csv":
        put(rendered(effects_table(found), records, form, width=stdout_width()))
