"""Running a protocol: its samples and metrics become an ordinary run, and the run's scores its tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from beholder._errors import BeholderError, OptionError, UserError
from beholder._identity import parse_spec
from beholder.manifest.schema import SampleSource
from beholder.manifest.validate import ValidationReport
from beholder.metrics.base import SampleMetric, make_metric
from beholder.protocols.base import Agreed, Finished, Protocol, Scored
from beholder.protocols.catalog import PROTOCOLS
from beholder.protocols.results import Results
from beholder.records import Summary
from beholder.runs.config import RunConfig, make_config
from beholder.runs.plan import score_names
from beholder.runs.progress import NoProgress, Progress
from beholder.runs.results import Run
from beholder.runs.session import execute
from beholder.runs.store import write_atomic

FILE = "protocol.json"
"""What a protocol adds to a run folder: its tables."""
_TOLD = 3
"""Faults of rows that are told before a run; `check_data` lists all."""


@dataclass(frozen=True)
class ProtocolRun:
    """A finished run with its protocol's tables.

    Args:
        run: the run, like that of `beholder.evaluate`.
        results: the tables.
    """

    run: Run
    results: Results

    @property
    def tables(self) -> dict[str, Any]:
        """The tables by name."""
        return {table.name: table for table in self.results.tables}

    def __repr__(self) -> str:
        return f"<ProtocolRun {self.results.protocol} · {', '.join(self.tables)} · {self.run!r}>"


def make_protocol(name: str | Protocol, options: Mapping[str, Any] | None = None) -> Protocol:
    """A protocol by name, with options; an object is given back as it is.

    Raises:
        UnknownNameError: there is none of that name, or it has no such option.
    """
    return name if isinstance(name, Protocol) else PROTOCOLS.get(name)(options)


def list_protocols() -> list[Any]:
    """Cards of all protocols that load, by name."""
    cards = []
    for name in PROTOCOLS.names():
        try:
            cards.append(PROTOCOLS.get(name).info)
        except UserError:
            continue  # a broken plug-in
    return cards


def bench(
    protocol: str | Protocol,
    data: Any,
    *,
    metrics: str | SampleMetric | Sequence[str | SampleMetric] = (),
    only: bool = False,
    segmenter: str | None = None,
    text: str | None = None,
    out: str | None = None,
    mapping: Mapping[str, str] | None = None,
    allow_extra: bool = False,
    model: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    max_failed: float = 0.0,
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
    batch_size: int | None = None,
    workers: int | None = None,
    store: str | None = None,
    cache_dir: str | None = None,
    offline: bool | None = None,
    overwrite: bool = False,
    base_url: str | None = None,
    api_key: str | None = None,
    max_calls: int | None = None,
    max_cost: float | None = None,
    requests_per_minute: float | None = None,
    concurrency: int = 8,
    progress: Progress | None = None,
) -> ProtocolRun:
    """Runs a benchmark's protocol over a data set; the call behind `beholder bench`.

    >>> found = beholder.bench("genai-bench", "GenAI-Image-527", out="runs/genai")     # doctest: +SKIP
    >>> found.results.table("skills").number("DALLE_3", "advanced", "counting", column="vqa_score").value
    ...                                                                                 # doctest: +SKIP

    Args:
        protocol: its name, or an object.
        data: a data set in one of the forms of the protocol's card: a path, a data frame, a list of dicts …
        metrics: metrics beside the protocol's; one of the same name takes its place.
        only: True scores `metrics` alone.
        segmenter: segmenter of the metrics that need one and name none; the protocol's own choice when None.
        text: what `clip_t` scores in subject-driven protocols: "given", "prompt" or "class".
        out: run folder; as in `evaluate`, and so are the others.

    Returns:
        The finished run and the tables, which also stand in `protocol.json` in its folder.

    Raises:
        UserError: an unknown protocol, data of another form, faults of form: before anything is computed.
    """
    chosen = protocol_with(protocol, {"segmenter": segmenter, "text": text})
    asked = [metrics] if isinstance(metrics, (str, SampleMetric)) else list(metrics)
    named, own = protocol_metrics(chosen, asked, only=only, model=model)
    config = make_config(
        {
            "data": os.fspath(data) if isinstance(data, str | os.PathLike) else None, "mapping": mapping or {},
            "allow_extra": allow_extra, "metrics": tuple(str(item) for item in named), "model": model, "dtype": dtype,
            "segmenter": segmenter, "seed": seed, "resamples": resamples, "level": level,
            "out": None if out is None else os.fspath(out), "max_failed": max_failed, "device": device,
            "batch_size": batch_size, "workers": workers, "store": store, "cache_dir": cache_dir, "offline": offline,
            "overwrite": overwrite, "base_url": base_url, "api_key": api_key, "max_calls": max_calls,
            "max_cost": max_cost, "requests_per_minute": requests_per_minute, "concurrency": concurrency,
        },
        source="the call",
    )  # fmt: skip
    return run_protocol(chosen, data, config, metrics=named, own=own, progress=progress)


def protocol_metrics(
    protocol: Protocol, asked: Sequence[str | SampleMetric], *, only: bool = False, model: str | None = None
) -> tuple[list[Any], dict[str, SampleMetric]]:
    """What is scored, and the user's own metric objects by identity.

    Raises:
        OptionError: nothing is left to score.
    """
    objects = {item.identity: item for item in asked if isinstance(item, SampleMetric)}
    texts = [item.identity if isinstance(item, SampleMetric) else item for item in asked]
    named = protocol.metrics(texts, only=only, model=model)
    if not named:
        raise OptionError(
            "a protocol needs at least one metric",
            got="--only (only=True) without -m",
            fix="Name one: -m METRIC (metrics=)",
        )
    return [objects.get(text, text) for text in named], objects


def run_protocol(
    protocol: Protocol,
    data: Any,
    config: RunConfig,
    *,
    metrics: Sequence[Any] | None = None,
    own: Mapping[str, SampleMetric] | None = None,
    progress: Progress | None = None,
) -> ProtocolRun:
    """Runs a protocol with settings that are checked already.

    Args:
        protocol: the protocol.
        data: its data.
        config: the settings; `config.metrics` are what is scored.
        metrics: metrics to score instead (may be objects).
        own: the user's own metric objects by identity.
        progress: who is told.
    """
    source = protocol.source(data, mapping=config.mapping or None, allow_extra=config.allow_extra)
    source.check()
    for text in _found_in(protocol, source):
        (progress or NoProgress()).notice(text)
    run = execute(config, metrics=metrics, source=source, progress=progress)
    # Until the new tables are whole there are none: those of older scores must not be taken for these.
    (run.path / FILE).unlink(missing_ok=True)
    results = make_results(protocol, run, own=own)
    written = {**results.to_dict(), "options": _chosen_options(protocol), "run": _stamp(run)}
    text = json.dumps(written, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(run.path / FILE, text.encode())
    return ProtocolRun(run, results)


def _found_in(protocol: Protocol, source: SampleSource) -> list[str]:
    """What a protocol misses in its data, in a few lines: told first, since weights of gigabytes may be asked for next.

    Faults of rows cost their rows and stop nothing.
    """
    if not source.replayable:
        return []
    found = protocol.examine(iter(source))
    faults = [str(fault) for fault in found.faults]
    if len(faults) > _TOLD:
        faults = [*faults[:_TOLD], f"{len(faults) - _TOLD} more faults of rows"]
    if faults:
        faults[-1] += f". All of them: beholder validate DATA --protocol {protocol.info.name}"
    return [*faults, *found.warnings]


def make_results(protocol: Protocol, run: Run, *, own: Mapping[str, SampleMetric] | None = None) -> Results:
    """The protocol's tables of a finished run."""
    finished = finished_run(run, own=own)
    agreed, notices = _agreements(protocol, run, finished)
    finished = replace(finished, agreements=agreed)
    tables = tuple(protocol.tables(finished))
    info = protocol.info
    return Results(info.name, info.version, tables, protocol.counts(finished), tuple(notices))


def finished_run(run: Run, *, own: Mapping[str, SampleMetric] | None = None) -> Finished:
    """A run's columns and scores, as protocols take them."""
    table, asked = run.scores, run.header["asked"]
    taken = {name for label in run.labels for name in score_names(label)}
    columns = {name: table.column(name).to_pylist() for name in table.column_names if name not in taken}
    metrics = [_scored(item, table, own or {}) for item in run.header["metrics"] if item["label"] in run.sample_labels]
    settings = {name: asked[name] for name in ("seed", "resamples", "level")}
    return Finished(table.num_rows, columns, metrics, **settings, summarise=_remembered(run))


def read_results(run: Run) -> Results | None:
    """The tables in a run's folder; None where there are none, or where they are of other scores.

    Raises:
        UserError: the file cannot be read.
    """
    data = _written(run)
    if data is None:
        return None
    results = Results.from_dict(data)
    return results if data.get("run") == _stamp(run) else None


def read_options(run: Run) -> Mapping[str, Any]:
    """The protocol's own options that were given for the tables in a run's folder, other than the defaults.

    Empty where there are no tables, and for those of a version that did not write its options down.

    Raises:
        UserError: the file cannot be read.
    """
    found = (_written(run) or {}).get("options")
    return found if isinstance(found, Mapping) else {}


def _written(run: Run) -> Any:
    """What stands in a run's `protocol.json`; None where there is none."""
    path = run.path / FILE
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} must be readable JSON", got=str(error), fix="Give the bench command again") from error


def _chosen_options(protocol: Protocol) -> dict[str, Any]:
    """The options of a protocol that are not the defaults, JSON-ready."""
    defaults = {option.name: option.default for option in protocol.info.options}
    chosen = {name: value for name, value in protocol.options.items() if value != defaults.get(name)}
    plain = (str, int, float, bool)
    return {name: value if isinstance(value, plain) else str(value) for name, value in chosen.items()}


def check_data(
    protocol: str | Protocol, data: Any, *, mapping: Mapping[str, str] | None = None, allow_extra: bool = False
) -> ValidationReport:
    """Checks a data set for a protocol without scoring; the call behind `beholder validate DATA --protocol NAME`."""
    chosen = make_protocol(protocol)
    source: SampleSource = chosen.source(data, mapping=mapping, allow_extra=allow_extra)
    return chosen.check(source)


def protocol_with(protocol: str | Protocol, options: Mapping[str, Any]) -> Protocol:
    """A protocol with options of its own; those that are None stay as they are.

    Raises:
        OptionError: it has no such option.
    """
    chosen = make_protocol(protocol)
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if name not in chosen.options:
            raise OptionError(f"the protocol {chosen.info.name} takes no {name}", got=repr(value))
    return type(chosen)({**chosen.options, **given}) if given else chosen


def _remembered(run: Run) -> Callable[[Sequence[str]], Sequence[Summary]]:
    """The run's `summarise`, which makes the intervals of a grouping once."""
    known: dict[tuple[str, ...], list[Summary]] = {}

    def summarise(columns: Sequence[str]) -> Sequence[Summary]:
        key = tuple(columns)
        if key not in known:
            known[key] = run.summarise(by=key)
        return known[key]

    return summarise


def _stamp(run: Run) -> dict[str, Any]:
    """What tells a run's scores from those of another."""
    return {"plan_key": run.header.get("plan_key"), "input": run.header.get("input"), "n": run.n}


def _scored(item: Mapping[str, Any], table: pa.Table, own: Mapping[str, SampleMetric]) -> Scored:
    label, identity = item["label"], item["identity"]
    names = score_names(label)
    evidence = table.column(names[3]).to_pylist() if names[3] in table.column_names else [None] * table.num_rows
    weights = np.asarray(table.column(names[4]).fill_null(0), np.float64) if names[4] in table.column_names else None
    finish: Callable[[float], float] = float
    if not item.get("plain_mean"):
        finish = (own.get(identity) or make_metric(parse_spec(identity))).finish_aggregate
    return Scored(
        label=label,
        identity=identity,
        name=item["info"]["name"],
        values=np.asarray(table.column(label).fill_null(0.0), dtype=np.float64),
        statuses=table.column(names[1]).to_pylist(),
        evidence=[None if text is None else json.loads(text) for text in evidence],
        weights=weights,
        higher_is_better=item["info"].get("higher_is_better"),
        finish=finish,
        reasons=table.column(names[2]).to_pylist() if names[2] in table.column_names else (),
    )


def _agreements(protocol: Protocol, run: Run, finished: Finished) -> tuple[list[Agreed], list[str]]:
    """Metrics against people, as the protocol asks for it; where it cannot be told, a notice says why."""
    from beholder.comparing.agree import agree
    from beholder.report.agreement import agreement_records

    ratings = protocol.ratings(finished)
    agreed: list[Agreed] = []
    notices: list[str] = []
    for ask in protocol.agreement_asks if ratings else ():
        try:
            found = agree(
                run,
                ratings,
                pairs=ask.pairs,  # type: ignore[arg-type]
                calibration=ask.calibration,  # type: ignore[arg-type]
                seed=finished.seed,
                resamples=finished.resamples,
                level=finished.level,
            )
        except BeholderError as error:
            notices.append(f"No agreement {ask.name}: {error}")
            continue
        agreed.append(Agreed(ask, agreement_records(found)))
        notices += [f"{text[:1].upper()}{text[1:]}." for text in found.notices]
    return agreed, list(dict.fromkeys(notices))
