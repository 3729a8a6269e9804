"""`beholder list`: which metrics, models and protocols there are."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli import options
from beholder.cli.output import put, put_json, say, stdout_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beholder._registry import Broken
    from beholder.records import MetricInfo, ModelCard

app = typer.Typer(add_completion=False)

_DIRECTIONS = {True: "↑", False: "↓", None: ""}


@app.command(name="list")
def list_command(
    family: Annotated[
        str | None, typer.Option(metavar="FAMILY", help="Only this family, like clip or preference.")
    ] = None,
    models: Annotated[bool, typer.Option("--models", help="List the models that are known by name.")] = False,
    protocols: Annotated[bool, typer.Option("--protocols", help="List the protocols of beholder bench.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """List the metrics, the models or the protocols.

    Of each metric: family, direction (↑ higher is better), unit, default model. Plug-ins that do not load are named
    on stderr.

    Example: beholder list --family clip
    """
    from beholder.metrics.catalog import METRICS

    if protocols:
        _list_protocols(as_json=as_json)
        return
    if models:
        list_known_models(family, as_json=as_json)
        return
    infos = metric_infos(family)
    broken = METRICS.broken()
    if as_json:
        put_json({"metrics": [asdict(info) for info in infos], "broken": [asdict(item) for item in broken]})
    else:
        _put_metrics(infos)
        _say_broken(broken)


def metric_infos(family: str | None) -> list[MetricInfo]:
    """Cards of the metrics that load; those of one family when it is named."""
    from beholder._errors import UnknownNameError, UserError
    from beholder.metrics.catalog import METRICS

    infos = []
    for name in METRICS.names():
        try:
            infos.append(METRICS.get(name).info)
        except UserError:
            continue  # METRICS.broken() tells of it
    families = sorted({info.family for info in infos})
    if family is not None and family not in families:
        raise UnknownNameError("family", family, families, fix="Families: " + ", ".join(families))
    return [info for info in infos if family in (None, info.family)]


def list_known_models(family: str | None, *, as_json: bool) -> None:
    """Prints the models that are known by name, those of one family when it is named."""
    from beholder._errors import UnknownNameError
    from beholder.backends.engine_table import broken_engines
    from beholder.backends.pool import list_models

    cards = list_models()
    families = sorted({card.family for card in cards})
    if family is not None and family not in families:
        raise UnknownNameError("family", family, families, fix="Families: " + ", ".join(families))
    chosen = [card for card in cards if family in (None, card.family)]
    broken = broken_engines()
    if as_json:
        put_json({"models": [asdict(card) for card in chosen], "broken": [asdict(item) for item in broken]})
    else:
        _put_models(chosen)
        _say_broken(broken)


def _list_protocols(*, as_json: bool) -> None:
    from beholder.protocol_runs import list_protocols
    from beholder.protocols.catalog import PROTOCOLS
    from beholder.report.render import to_text
    from beholder.report.tables import Column, Table

    cards = list_protocols()
    broken = PROTOCOLS.broken()
    if as_json:
        put_json({"protocols": [asdict(card) for card in cards], "broken": [asdict(item) for item in broken]})
        return
    rows = [(card.name, ", ".join(use.spec for use in card.metrics), card.summary) for card in cards]
    titles = (Column("protocol"), Column("metrics"), Column("what it says"))
    put(to_text(Table(titles, tuple(rows)), width=stdout_width()))
    _say_broken(broken)


def _put_metrics(infos: Sequence[MetricInfo]) -> None:
    from beholder.report.render import to_text
    from beholder.report.tables import Column, Table

    titles = ("metric", "family", "", "unit", "default model", "what it says")
    rows = [
        (info.name, info.family, _DIRECTIONS[info.higher_is_better], info.unit, info.default_model or "", info.summary)
        for info in infos
    ]
    put(to_text(Table(tuple(Column(title) for title in titles), tuple(rows)), width=stdout_width()))


def _put_models(cards: Sequence[ModelCard]) -> None:
    from beholder.backends.hub import format_size
    from beholder.report.render import to_text
    from beholder.report.tables import Column, Table

    titles = ("model", "also", "family", "input", "size", "licence", "")
    rows = [
        (
            card.id,
            ", ".join(card.aliases),
            card.family,
            "×".join(map(str, card.input_size)) if card.input_size else "",
            format_size(card.size_bytes) if card.size_bytes else "",
            card.licence or "not checked",
            "planned" if card.planned else "",
        )
        for card in cards
    ]
    put(to_text(Table(tuple(Column(title) for title in titles), tuple(rows)), width=stdout_width()))


def _say_broken(broken: Sequence[Broken]) -> None:
    for item in broken:
        say(f"Broken plug-in {item.name} ({item.target}): {item.reason}")
