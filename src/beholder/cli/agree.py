"""`beholder agree`: metrics against people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from beholder.cli import options
from beholder.cli.output import put, put_json, say, stdout_width

if TYPE_CHECKING:
    from beholder.report.tables import Table

app = typer.Typer(add_completion=False)


@app.command()
def agree(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder.", show_default=False)],
    human: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Ratings or votes: CSV, TSV, JSON or JSONL.", rich_help_panel=options.INPUT),
    ] = None,
    winoground: Annotated[
        str | None,
        typer.Option(
            metavar="ITEM,IMAGE,CAPTION",
            help="Instead of ratings: the columns that name the two-by-two item, its picture and its caption.",
            rich_help_panel=options.INPUT,
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", metavar="LABEL", help="Look at this metric only. Repeatable."),
    ] = None,
    pairs: Annotated[
        str, typer.Option(metavar="HOW", help="within (a prompt) or pooled (over all outputs).")
    ] = "within",
    calibration: Annotated[
        str,
        typer.Option(metavar="HOW", help="Threshold of a metric's ties: heldout, paper (on the same prompts) or none."),
    ] = "heldout",
    scale: Annotated[
        str, typer.Option(metavar="SCALE", help="Ratings, to Krippendorff's alpha: ordinal, interval or nominal.")
    ] = "ordinal",
    sets: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column whose values are the sets of votes between sets.")
    ] = "method",
    mapping: options.Mapping = None,
    seed: Annotated[int, typer.Option(help="Seed of the split and of resamples.")] = 0,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples.")] = 1000,
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="text, md, latex, csv or json.", rich_help_panel=options.OUTPUT)
    ] = "text",
    quiet: options.Quiet = False,
) -> None:
    """Show how far the metrics of a run order outputs as people do.

    The file has one row a rating (id, rating, and rater and question where there are several), or one row a vote (a, b,
    winner; or set_a, set_b, winner). For each metric: pairwise accuracy with ties, Kendall's tau-b and tau-c, Spearman
    and Pearson, with intervals over prompts; beside them what a constant and a random metric would get, and how far
    people agree with one another.

    Example: beholder agree runs/all-methods --human ratings.csv

    Example: beholder agree runs/winoground --winoground item,image,caption
    """
    from beholder._errors import OptionError
    from beholder.report.render import check_form, rendered

    check_form(form)
    if (human is None) == (winoground is None):
        raise OptionError("agree needs --human FILE or --winoground COLUMNS", got="both" if human else "neither")
    common: dict[str, Any] = {"metrics": metrics or (), "seed": seed, "resamples": resamples, "level": level}
    if winoground is not None:
        shown = _two_by_two(run, winoground, common)
    else:
        asked = {"pairs": pairs, "calibration": calibration, "scale": scale, "sets": sets}
        shown = _with_people(run, human, mapping or (), common | asked)
    if not quiet:
        for text in shown.notices:
            say(f"Note: {text}.")
    if form == "json":
        put_json(shown.value)
    else:
        put(rendered(shown.table, shown.records, form, width=stdout_width()))


class _Shown(NamedTuple):
    """A result in every form."""

    table: Table
    records: list[dict[str, Any]]
    value: dict[str, Any]
    notices: Sequence[str]


def _two_by_two(run: str, columns: str, settings: Mapping[str, Any]) -> _Shown:
    from beholder.comparing.two_by_two import two_by_two
    from beholder.report.two_by_two import two_by_two_records, two_by_two_table

    found = two_by_two(run, columns.split(","), **settings)
    records = two_by_two_records(found)
    value = {"notices": list(found.notices), "rows": records}
    return _Shown(two_by_two_table(found), records, value, found.notices)


def _with_people(run: str, human: str | None, mapping: Sequence[str], settings: Mapping[str, Any]) -> _Shown:
    from beholder.cli.settings import parse_mapping
    from beholder.comparing.agree import agree as call
    from beholder.report.agreement import agreement_json, agreement_records, agreement_table

    found = call(run, human, mapping=parse_mapping(mapping), **settings)
    return _Shown(agreement_table(found), agreement_records(found), agreement_json(found), found.notices)
