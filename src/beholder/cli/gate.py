"""`beholder gate`: pass or fail, for continuous integration."""

from __future__ import annotations

from typing import Annotated

import typer

from beholder.cli import options
from beholder.cli.guard import GATE_NOT_MET
from beholder.cli.output import put, put_json, say, stdout_width

app = typer.Typer(add_completion=False)


@app.command()
def gate(
    run: Annotated[str, typer.Argument(metavar="CANDIDATE", help="Run folder to check.", show_default=False)],
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", "--against", metavar="RUN", help="Run that the candidate may not fall behind."),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", metavar="LABEL", help="Metric of a --max-drop that names none. Repeatable."),
    ] = None,
    max_drop: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL=X", help="Allowed drop against the baseline. Repeatable."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'LABEL>=X'", help="What the whole interval of a mean must meet (>=, >, <=, <). Repeatable."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Check every group of this column too. Repeatable."),
    ] = None,
    min_coverage: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Least share of samples with a value.")
    ] = None,
    max_missing_rise: Annotated[
        float, typer.Option(metavar="SHARE", help="Allowed rise of the share without a value against the baseline.")
    ] = 0.01,
    inconclusive: Annotated[
        str, typer.Option(metavar="OUTCOME", help="What an inconclusive check counts as: fail or pass.")
    ] = "fail",
    pair_on: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Pair rows on this column instead of the shared ones. Repeatable."),
    ] = None,
    allow_different: Annotated[
        bool, typer.Option("--allow-different", help="Accept metrics whose identities differ, with a warning.")
    ] = False,
    junit: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the checks as JUnit XML too.", rich_help_panel=options.OUTPUT),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of resamples.")] = 0,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples.")] = 2000,
    level: Annotated[float, typer.Option(help="Confidence level of the drop's interval.")] = 0.95,
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="text, md, latex, csv or json.", rich_help_panel=options.OUTPUT)
    ] = "text",
    quiet: options.Quiet = False,
) -> None:
    """Check a run against a baseline and against floors; exit 1 when the gate is not met.

    A drop is judged by the interval of the paired difference: it passes when all of it is above the allowed drop,
    fails when all of it is below, and is inconclusive otherwise. The direction is the metric's own.

    Example: beholder gate runs/new --baseline runs/old --max-drop clip_score=0.002 --by category --junit gate.xml

    Example: beholder gate runs/new --require 'clip_score>=0.30' --min-coverage 0.99
    """
    from beholder.comparing.gate import gate as call
    from beholder.comparing.gate import parse_drops
    from beholder.report.gate import gate_junit, gate_records, gate_table
    from beholder.report.render import check_form, rendered

    check_form(form)
    found = call(
        run,
        baseline=baseline,
        max_drop=parse_drops(max_drop or (), metrics or ()),
        require=require or (),
        by=by or (),
        min_coverage=min_coverage,
        max_missing_rise=max_missing_rise,
        inconclusive=inconclusive,  # type: ignore[arg-type]
        pair_on=pair_on or (),
        allow_different=allow_different,
        seed=seed,
        resamples=resamples,
        level=level,
    )
    for text in found.warnings:
        say(f"Warning: {text}.")
    if not quiet:
        for text in found.notices:
            say(f"Note: {text}.")
    if junit is not None:
        _write(junit, gate_junit(found, inconclusive_passes=inconclusive == "pass"))
    if form == "json":
        put_json({"passed": found.passed, "warnings": list(found.warnings), "checks": gate_records(found)})
    else:
        put(rendered(gate_table(found), gate_records(found), form, width=stdout_width()))
    if not found.passed:
        raise typer.Exit(GATE_NOT_MET)


def _write(path: str, text: str) -> None:
    """Writes a file, with the folders above it."""
    from pathlib import Path

    from beholder._errors import UserError

    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError("--junit must name a file that can be written", got=f"{path} ({error})") from error
