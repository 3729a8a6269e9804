"""`beholder info`: the whole card of a metric, model or protocol."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder._identity import format_value
from beholder.cli import options
from beholder.cli.output import put_card, put_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beholder.metrics.base import SampleMetric
    from beholder.protocols.base import MetricUse, ProtocolInfo
    from beholder.records import MetricInfo, ModelCard

app = typer.Typer(add_completion=False)


@app.command()
def info(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A metric, also with options, a model or a protocol.", show_default=False),
    ],
    as_json: options.AsJson = False,
) -> None:
    """Print the whole card of a metric, model or protocol.

    Formula, range, options, degenerate input, licence, paper … Nothing is fetched or loaded.

    Example: beholder info clip_score

    Example: beholder info openai:ViT-L-14

    Example: beholder info genai-bench
    """
    from beholder.protocols.catalog import PROTOCOLS

    metric = find_metric(name)
    if metric is not None:
        put_json(asdict(metric_card(metric))) if as_json else put_card(metric.identity, metric_facts(metric))
        return
    if name in PROTOCOLS:
        protocol = PROTOCOLS.get(name).info
        put_json(asdict(protocol)) if as_json else put_card(protocol.name, protocol_facts(protocol))
        return
    card = find_model(name)
    put_json(asdict(card)) if as_json else put_card(card.id, model_facts(card))


def find_metric(name: str) -> SampleMetric | None:
    """The metric that a specification stands for; None when there is none of that name."""
    from beholder._errors import IdentityError
    from beholder._identity import parse_spec
    from beholder.metrics.base import make_metric
    from beholder.metrics.catalog import METRICS

    try:
        spec = parse_spec(name)
    except IdentityError:
        return None
    return make_metric(spec) if spec.name in METRICS else None


def find_model(name: str) -> ModelCard:
    """The card of a model; an unknown name suggests near metrics and models."""
    from beholder._errors import UnknownNameError
    from beholder.backends.base import LoadOptions
    from beholder.backends.pool import find_card, resolve_model
    from beholder.metrics.catalog import METRICS
    from beholder.protocols.catalog import PROTOCOLS

    try:
        card = find_card(name)
    except UnknownNameError as error:
        known = [*METRICS.names(), *PROTOCOLS.names(), *error.known]
        raise UnknownNameError("metric or model", name, known, fix="See: beholder list, beholder models") from None
    # A folder or a repository that no card is written for: its files tell.
    return card or resolve_model(name, options=LoadOptions(offline=True)).card


def metric_card(metric: SampleMetric) -> MetricInfo:
    """The card of a metric, with the unit, range and default model that its options make."""
    model = metric.dependent_defaults(metric.options).get("model", metric.info.default_model)
    return replace(
        metric.info, unit=metric.unit, range=metric.value_range, default_model=None if model is None else str(model)
    )


def metric_facts(metric: SampleMetric) -> Iterator[tuple[str, str]]:
    """The card of a metric, line by line, as its own options make it."""
    card = metric_card(metric)
    better = {True: "higher is better", False: "lower is better", None: "neither end is better"}
    yield "says", card.summary
    yield "family", card.family
    yield "kind", "one value a sample" if card.kind == "sample" else "one value a set"
    yield "reads", ", ".join(card.inputs)
    yield "formula", card.formula
    yield "unit", card.unit
    yield "range", f"{_range(card.range)}; {better[card.higher_is_better]}"
    yield "degenerate input", card.degenerate
    yield "default model", card.default_model or ""
    chosen = ", ".join(f"{name}={value}" for name, value in metric.options.items())
    yield "with", chosen if metric.identity != card.name else ""
    yield "options", "\n".join(_option(item) for item in card.options)
    yield "notes", "\n".join(card.notes)
    yield "licence", card.licence_note or ""
    yield "of its models", "\n".join(_licences(metric))
    yield "paper", card.paper or ""
    yield "reference code", card.reference_code or ""
    yield "version", card.version


def _licences(metric: SampleMetric) -> Iterator[str]:
    """The licence of every model that the metric asks for; a metric and a model may share a name."""
    from beholder._errors import UserError
    from beholder.backends.pool import find_card

    for name in dict.fromkeys(slot.model for slot in metric.slots):
        try:
            card = find_card(name)
        except UserError:
            card = None
        yield f"{name}: {_licence(card) if card is not None else 'no card, so its licence was not checked'}"


def _licence(card: ModelCard) -> str:
    commercial = {True: "commercial use allowed", False: "no commercial use", None: "commercial use not checked"}
    return f"{card.licence or 'not checked'}; {commercial[card.commercial]}"


def model_facts(card: ModelCard) -> Iterator[tuple[str, str]]:
    """The card of a model, line by line; what was not checked says so."""
    from beholder.backends.hub import format_size

    yield "planned", card.planned or ""
    yield "also called", ", ".join(card.aliases)
    yield "engine", card.engine
    yield "family", card.family
    yield "architecture", card.arch
    yield "weights", card.weights
    yield "source", (card.source or "") + (f" at {card.revision}" if card.revision else "")
    yield "size", format_size(card.size_bytes) if card.size_bytes else ""
    yield "licence", _licence(card)
    yield "paper", card.paper or ""
    yield "input", "×".join(map(str, card.input_size)) + " pixels" if card.input_size else "known once resolved"
    yield "preprocessing", ", ".join(f"{name} {value}" for name, value in (card.preprocessing or {}).items())
    yield "text length", f"{card.context_length} tokens" if card.context_length else "known once resolved"
    yield "embedding", f"{card.embed_dim} numbers" if card.embed_dim else "known once resolved"
    yield "languages", "English only" if card.english_only else ""
    yield "layout verified", card.layout_verified
    yield "sha256", "\n".join(f"{name} {value}" for name, value in card.sha256.items())
    yield "notes", "\n".join(card.notes)


def protocol_facts(card: ProtocolInfo) -> Iterator[tuple[str, str]]:
    """The card of a protocol, line by line."""
    yield "says", card.summary
    yield "data", "\n".join(card.data)
    yield "metrics", "\n".join(_use(use) for use in card.metrics)
    yield "tables", "\n".join(f"{name}: {text}" for name, text in card.tables.items())
    yield "options", "\n".join(_option(item) for item in card.options)
    yield "caveats", "\n".join(card.caveats)
    yield "paper", card.paper or ""
    yield "reference code", card.reference_code or ""
    yield "version", card.version


def _use(use: MetricUse) -> str:
    return use.spec + (f" (task {', '.join(use.tasks)} only: {use.why})" if use.tasks else "")


def _range(ends: tuple[float | None, float | None]) -> str:
    low, high = ("no limit" if end is None else f"{end:g}" for end in ends)
    return f"{low} to {high}"


def _typed(value: Any) -> str:
    """A value as `name(option=VALUE)` takes it; texts of several words in quotes, so that their end can be seen."""
    if isinstance(value, str) and " " in value:
        return json.dumps(value, ensure_ascii=False)
    return format_value(tuple(value) if isinstance(value, list) else value)


def _option(item: Any) -> str:
    default = "" if item.default is None else f" Default: {_typed(item.default)}."
    choices = f" One of: {', '.join(map(str, item.choices))}." if item.choices else ""
    return f"{item.name} ({item.kind}): {item.doc}{choices}{default}"
