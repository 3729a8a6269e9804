"""From runs to everything that a report shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beholder._errors import UserError
from beholder.comparing.baselines import Pairs, matched_run, pairs_of, put_first
from beholder.comparing.compare import compare
from beholder.comparing.marks import marks_of
from beholder.comparing.marks import side_rows as named_sides
from beholder.comparing.records import Compared, Comparison, SetCompared
from beholder.comparing.sides import RunLike, make_sides, opened, run_names
from beholder.comparing.sides import Side as ComparedSide
from beholder.protocol_runs import read_results
from beholder.protocols.results import Results, partial_totals
from beholder.records import Summary
from beholder.report.html.data import Delta, Histogram, Metric, Report, Samples, Side, View
from beholder.report.numbers import decimals_for, format_estimate
from beholder.report.ranking import Marks
from beholder.report.render import to_latex, to_markdown
from beholder.report.tables import RunView, Table, wide_table
from beholder.reporting.commands import report_commands
from beholder.reporting.deltas import sample_delta, set_delta
from beholder.reporting.evaluations import attribute_blockers, only_evaluations, split_evaluations
from beholder.reporting.groups import asked_columns, changed_slices, group_bars, group_table, odd_slices
from beholder.reporting.picks import first_screen
from beholder.reporting.samples import group_names, make_samples, side_rows
from beholder.reporting.sets import SetFindings, set_findings
from beholder.reporting.views.attributes import attributes_view
from beholder.reporting.views.protocols import protocol_view
from beholder.reporting.warnings import comparable, environment_warnings, run_blockers, run_warnings
from beholder.runs.results import Run

_BINS = 40
_MOST_GROUP_COLUMNS = 6


@dataclass(frozen=True)
class _Sources:
    """The runs of a report and their sides."""

    runs: Sequence[Run]
    names: Sequence[str]
    compared: Sequence[ComparedSide]
    sides: Sequence[Side]
    pairs: Pairs

    def run_of(self, at: int) -> int:
        return list(self.names).index(self.sides[at].run)


def collect(
    runs: Sequence[RunLike],
    *,
    baseline: str | None = None,
    by: Sequence[str] = (),
    seed: int = 0,
    resamples: int = 1000,
) -> Report:
    """Everything that a report of some runs shows.

    Args:
        runs: run folders or runs; folders of `beholder attributes` too, whose tables and maps are shown beside them.
        baseline: side that the others are compared with, or of runs with the same methods a run; the first when None.
        by: columns whose groups are shown and compared, before those that offer themselves.
        seed: seed of resamples and of the random draw.
        resamples: bootstrap resamples of comparisons.

    Raises:
        UserError: a folder that is no run, one run named twice, a run without any metric.
        UnknownNameError: no side has the baseline's name; no run has a column of `by`.
        OptionError: a column of `by` that holds a metric's values, or more than 200 others.
    """
    named, folders = split_evaluations(runs)
    evaluations = [attributes_view(path) for path in folders]
    standing = [text for path in folders for text in attribute_blockers(path)]
    if not named:
        return only_evaluations(evaluations, standing, report_commands([], baseline, evaluations=folders, seed=seed))
    sources = _sources(opened(named), baseline)
    blockers = [text for run, name in zip(sources.runs, sources.names) for text in run_blockers(run, name)]
    labels, refused = comparable(sources.compared)
    samples = make_samples(
        sources.runs,
        side_rows(sources.runs, sources.compared, [sources.run_of(at) for at in range(len(sources.sides))]),
        list(dict.fromkeys(label for side in sources.compared for label in side.labels)),
        chosen_by=(asked := asked_columns(sources.runs, by)),
        pairs=sources.pairs,
    )
    metrics = sample_metrics(sources.runs, samples)
    sets = set_findings(sources.runs, [side.name for side in sources.sides], sources.pairs)
    groups = list(dict.fromkeys([*asked, *group_names(samples)[:_MOST_GROUP_COLUMNS]]))
    found, why_not = _comparison(sources, labels, groups, baseline, seed, resamples)
    cells = _cells(sources)
    bars = {
        column: group_bars(sources.runs, sources.names, sources.sides, column, metrics) for column in groups if metrics
    }
    sliced = asked or groups
    slices, slices_note = (
        changed_slices(found, sliced)
        if found
        else odd_slices({name: bars[name] for name in sliced if name in bars}, cells, metrics, sources.sides)
    )
    results = [read_results(run) if run.finished else None for run in sources.runs]
    table = _table(sources, found)
    return Report(
        title=" · ".join(sources.names),
        facts=[_run_facts(run, name) for run, name in zip(sources.runs, sources.names)],
        command=report_commands(sources.runs, baseline, by=asked, evaluations=folders, seed=seed),
        sides=sources.sides,
        metrics=metrics,
        set_metrics=sets.metrics,
        blockers=[*refused, *sets.blockers, *why_not, *blockers, *_partial(sources, results), *standing],
        warnings=_warnings(sources, found),
        verdicts=_verdicts(sources, found, sets) or _plain_verdict(sources, cells, [*metrics, *sets.metrics]),
        cells=cells,
        deltas=_deltas(sources, found, sets),
        against={at: one for one, at in sources.pairs},
        latex=to_latex(table),
        markdown=to_markdown(table),
        slices=slices,
        slices_note=slices_note,
        picks=first_screen(samples, metrics, len(sources.sides), sources.pairs, seed=seed),
        histograms=[_histogram(samples, metric, len(sources.sides)) for metric in metrics],
        groups=bars,
        group_tables={column: group_table(column, own, sources.sides, found) for column, own in bars.items()},
        views=[*_protocol_views(sources, results, samples), *evaluations],
        identity={name: _identity(run.header) for run, name in zip(sources.runs, sources.names)},
        samples=samples,
    )


def _sources(runs: Sequence[Run], baseline: str | None) -> _Sources:
    compared = put_first(make_sides(runs, least=1), baseline)
    sides, _ = sides_of(runs, compared)
    if not any(run.labels for run in runs):
        raise UserError("a report needs a run with a metric", got="none", fix="Name another run")
    pairs = pairs_of(compared, matched_run(compared, baseline))
    return _Sources(runs, run_names(runs), compared, sides, pairs)


def _partial(sources: _Sources, results: Sequence[Results | None]) -> list[str]:
    return [
        f"{name}: {text}"
        for name, found in zip(sources.names, results)
        if found is not None
        for text in partial_totals(found)
    ]


def _protocol_views(sources: _Sources, results: Sequence[Results | None], samples: Samples) -> list[View]:
    """What the protocols that ran add to the page."""
    return [
        protocol_view(run, name, found, samples, [at for at, side in enumerate(sources.sides) if side.run == name])
        for run, name, found in zip(sources.runs, sources.names, results)
        if found is not None
    ]


def sides_of(runs: Sequence[Run], compared: Sequence[ComparedSide]) -> tuple[list[Side], list[int]]:
    """The sides as they are shown, and the index of each one's run."""
    names = run_names(runs)
    rows = named_sides(runs, names)
    sides = [Side(side.name, *rows[side.name], side.table.num_rows) for side in compared]
    return sides, [names.index(side.run) for side in sides]


def sample_metrics(runs: Sequence[Run], samples: Samples) -> list[Metric]:
    """The metrics of the samples, with as many decimals as tell single values apart."""
    entries = {item["label"]: item for run in reversed(runs) for item in run.header["metrics"]}
    found = []
    for label, values in samples.values.items():
        there = [value for value in values if value is not None]
        spread = float(np.std(there)) if len(there) > 1 else 0.0
        middle = float(np.mean(there)) if there else 0.0
        decimals = decimals_for(middle, middle - spread, middle + spread) if spread else decimals_for(middle)
        info = entries[label].get("info", {})
        found.append(
            Metric(
                label,
                str(entries[label]["identity"]),
                str(info.get("unit") or ""),
                info.get("higher_is_better"),
                str(info.get("summary") or ""),
                min(6, decimals + 1),
            )
        )
    return found


def _comparison(
    sources: _Sources, labels: Sequence[str], groups: Sequence[str], baseline: str | None, seed: int, resamples: int
) -> tuple[Comparison | None, list[str]]:
    """The comparison over all samples and over each group column, or why there is none."""
    if len(sources.sides) < 2 or not labels:
        return None, []
    settings: dict[str, Any] = {"metrics": labels, "baseline": baseline, "seed": seed, "resamples": resamples}
    try:
        whole = compare(*sources.runs, **settings)
    except UserError as error:
        return None, [f"The sides cannot be compared: {error}"]
    rows = list(whole.rows)
    shared = [name for name in groups if all(name in run.columns for run in sources.runs)]
    for column in shared:
        rows += [row for row in compare(*sources.runs, by=column, draws=1999, **settings).rows if row.group]
    return Comparison(**{**vars(whole), "rows": tuple(rows)}), []


def _cells(sources: _Sources) -> dict[tuple[int, str], Summary]:
    found = {}
    for at, side in enumerate(sources.sides):
        group = {} if side.method is None else {"method": side.method}
        for item in sources.runs[sources.run_of(at)].summary:
            if item.headline and {name: str(value) for name, value in item.group.items()} == group:
                found[at, item.label] = item
    return found


def _deltas(sources: _Sources, found: Comparison | None, sets: SetFindings) -> dict[tuple[int, str], Delta]:
    place = {side.name: at for at, side in enumerate(sources.sides)}
    whole = [row for row in found.rows if not row.group] if found is not None else []
    deltas = {(place[row.b], row.label): sample_delta(row) for row in whole}
    return deltas | {(place[row.b], row.label): set_delta(row) for row in sets.rows}


def _histogram(samples: Samples, metric: Metric, n_sides: int) -> Histogram:
    values = np.array([np.nan if v is None else v for v in samples.values[metric.label]], dtype=np.float64)
    there = ~np.isnan(values)
    if not there.any():
        return Histogram(metric.label, [], [])
    low, high = float(values[there].min()), float(values[there].max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    bins = max(5, min(_BINS, int(math.sqrt(there.sum())) + 1))
    edges = np.linspace(low, high, bins + 1)
    sides = np.asarray(samples.sides)
    counts = [np.histogram(values[there & (sides == at)], edges)[0].tolist() for at in range(n_sides)]
    return Histogram(metric.label, edges.tolist(), counts)


def _table(sources: _Sources, found: Comparison | None) -> Table:
    views = []
    for run, name in zip(sources.runs, sources.names):
        split = any(side.run == name and side.method is not None for side in sources.sides)
        columns = {"method"} if split else set()
        views.append(RunView(name, run.header, [item for item in run.summary if set(item.group) == columns]))
    marks: Marks | None = None if found is None else marks_of(found, sources.runs, sources.names)
    return wide_table(views, rank=True, marks=marks)


def _verdicts(sources: _Sources, found: Comparison | None, sets: SetFindings) -> list[str]:
    """In words: on how many metrics a side beats the baseline, is worse, or neither can be told."""
    lines = []
    for first, side in ((sources.sides[one].name, sources.sides[at].name) for one, at in sources.pairs):
        rows: list[Compared | SetCompared] = [row for row in (found.rows if found is not None else ()) if not row.group]
        verdicts = [row.verdict for row in [*rows, *sets.rows] if row.b == side and row.higher_is_better is not None]
        if not verdicts:
            continue
        told = {name: verdicts.count(name) for name in ("better", "worse", "inconclusive", "equal")}
        many = "metric" if len(verdicts) == 1 else "metrics"
        words = [f"{side} beats {first} on {told['better'] or 'none'} of {len(verdicts)} {many}"]
        words += [f"worse on {told['worse']}"] if told["worse"] else []
        words += [f"{name} on {told[name]}" for name in ("inconclusive", "equal") if told[name]]
        lines.append(", ".join(words) + ".")
    return lines


def _plain_verdict(sources: _Sources, cells: Mapping[tuple[int, str], Summary], metrics: Sequence[Metric]) -> list[str]:
    """For sides that are not compared: what each metric says of each."""
    lines = []
    for at, side in enumerate(sources.sides):
        told = [
            f"{metric.label} {format_estimate(item.value, item.low, item.high)}"
            for metric in metrics
            if (item := cells.get((at, metric.label))) is not None
        ]
        lines.append(f"{side.name}: {', '.join(told) or 'no values'}.")
    return lines


def _warnings(sources: _Sources, found: Comparison | None) -> list[str]:
    lines = [text for run, name in zip(sources.runs, sources.names) for text in run_warnings(run, name)]
    lines += environment_warnings(sources.compared)
    if found is not None:
        lines += [f"{text[:1].upper()}{text[1:]}." for text in (*found.warnings, *found.notices)]
    return list(dict.fromkeys(lines))


def _run_facts(run: Run, name: str) -> str:
    when = run.header.get("finished") or run.header.get("started") or ""
    real = run.header.get("real")
    against = f"; real set {real.get('name')} of {real.get('n')}" if real else ""
    return f"{name}: {run.n} samples, {', '.join(run.labels)}{against}; {run.header['status']} {when}".strip()


def _identity(header: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that a run's numbers depend on, the metrics first."""
    names = ("metrics", "models", "real", "decode", "truncation", "versions", "asked", "source", "started", "finished")
    return {name: header[name] for name in names if name in header}
