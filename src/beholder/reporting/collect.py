"""From runs to everything that a report shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beholder._errors import UserError
from beholder.comparing.compare import compare
from beholder.comparing.marks import marks_of
from beholder.comparing.marks import side_rows as named_sides
from beholder.comparing.records import Compared, Comparison
from beholder.comparing.sides import RunLike, make_sides, opened, put_first, run_names
from beholder.comparing.sides import Side as ComparedSide
from beholder.records import Summary
from beholder.report.comparison import p_text
from beholder.report.html.data import Delta, GroupBar, Histogram, Metric, Report, Samples, Side, Slice
from beholder.report.numbers import decimals_for, format_estimate, format_interval, format_number
from beholder.report.ranking import Marks
from beholder.report.render import to_latex, to_markdown
from beholder.report.tables import RunView, Table, wide_table
from beholder.reporting.commands import report_commands
from beholder.reporting.evaluations import split_evaluations
from beholder.reporting.picks import first_screen
from beholder.reporting.samples import group_names, make_samples, side_rows
from beholder.reporting.warnings import comparable, environment_warnings, run_blockers, run_warnings
from beholder.runs.results import Run

_BINS = 40
_SLICES = 8
_MOST_GROUP_COLUMNS = 6
_LEAST_IN_SLICE = 5


@dataclass(frozen=True)
class _Sources:
    """The runs of a report and their sides."""

    runs: Sequence[Run]
    names: Sequence[str]
    compared: Sequence[ComparedSide]
    sides: Sequence[Side]

    def run_of(self, at: int) -> int:
        return list(self.names).index(self.sides[at].run)


def collect(runs: Sequence[RunLike], *, baseline: str | None = None, seed: int = 0, resamples: int = 1000) -> Report:
    """Everything that a report of some runs shows.

    Args:
        runs: run folders or runs; folders of `beholder attributes` too, whose tables and figures are shown beside them.
        baseline: side that the others are compared with; the first when None.
        seed: seed of resamples and of the random draw.
        resamples: bootstrap resamples of comparisons.

    Raises:
        UserError: a folder that is no run, one run named twice, a run without metrics of samples.
        UnknownNameError: no side has the baseline's name.
    """
    named, evaluations = split_evaluations(runs)
    if not named:
        raise UserError("a report needs a run of samples", got="none", fix="Name a folder that `beholder run` made")
    sources = _sources(opened(named), baseline)
    blockers = [text for run, name in zip(sources.runs, sources.names) for text in run_blockers(run, name)]
    labels, refused = comparable(sources.compared)
    samples = make_samples(
        sources.runs,
        side_rows(sources.runs, sources.compared, [sources.run_of(at) for at in range(len(sources.sides))]),
        list(dict.fromkeys(label for side in sources.compared for label in side.labels)),
    )
    metrics = sample_metrics(sources.runs, samples)
    groups = group_names(samples)[:_MOST_GROUP_COLUMNS]
    found, why_not = _comparison(sources, labels, groups, baseline, seed, resamples)
    cells = _cells(sources)
    bars = {column: _bars(sources, column, metrics) for column in groups}
    slices, slices_note = _changed_slices(found) if found else _odd_slices(bars, cells, metrics, sources)
    table = _table(sources, found)
    return Report(
        title=" · ".join(sources.names),
        facts=[_run_facts(run, name) for run, name in zip(sources.runs, sources.names)],
        command=report_commands(sources.runs, baseline),
        sides=sources.sides,
        metrics=metrics,
        blockers=[*refused, *why_not, *blockers],
        warnings=_warnings(sources, found),
        verdicts=_verdicts(found) if found else _plain_verdict(sources, cells, metrics),
        cells=cells,
        deltas={} if found is None else _deltas(found, sources),
        latex=to_latex(table),
        markdown=to_markdown(table),
        slices=slices,
        slices_note=slices_note,
        picks=first_screen(samples, metrics, len(sources.sides), seed=seed),
        histograms=[_histogram(samples, metric, len(sources.sides)) for metric in metrics],
        groups=bars,
        tables=_protocol_tables(sources),
        evaluations=evaluations,
        identity={name: _identity(run.header) for run, name in zip(sources.runs, sources.names)},
        samples=samples,
    )


def _sources(runs: Sequence[Run], baseline: str | None) -> _Sources:
    compared = put_first(make_sides(runs, least=1), baseline)
    sides, _ = sides_of(runs, compared)
    if not any(side.labels for side in compared):
        raise UserError("a report needs a run with a metric of samples", got="none", fix="Name another run")
    return _Sources(runs, run_names(runs), compared, sides)


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


def _deltas(found: Comparison, sources: _Sources) -> dict[tuple[int, str], Delta]:
    place = {side.name: at for at, side in enumerate(sources.sides)}
    return {(place[row.b], row.label): _delta(row) for row in found.rows if not row.group}


def _delta(row: Compared) -> Delta:
    found = row.difference
    if found.value is None:
        return Delta("—", row.verdict, found.note or "no pair has values on both sides")
    low, high = found.interval.low, found.interval.high
    detail = (
        f"p {p_text(found.p.value)}, after Holm {p_text(row.holm)}; {found.n_pairs} pairs, {found.n_prompts} prompts"
    )
    return Delta(_signed(found.value, low, high), row.verdict, detail)


def _signed(value: float, low: float | None, high: float | None) -> str:
    text = format_number(value, decimals_for(value, low, high))
    sign = "" if text.startswith("-") else "+"
    return f"{sign}{text} {format_interval(value, low, high) if low is not None else ''}".strip().replace("-", "−")


def _changed_slices(found: Comparison) -> tuple[list[Slice], str]:
    """The groups whose difference stands out most from 0, measured in half-lengths of their intervals."""
    scored = []
    for row in found.rows:
        change = row.difference
        low, high = change.interval.low, change.interval.high
        if len(row.group) != 1 or change.value is None or low is None or high is None or high <= low:
            continue
        if change.n_prompts >= _LEAST_IN_SLICE:
            scored.append((abs(change.value) / ((high - low) / 2), row))
    scored.sort(key=lambda pair: -pair[0])
    slices = []
    for _, row in scored[:_SLICES]:
        (column, value), change = next(iter(row.group.items())), row.difference
        assert change.value is not None
        text = _signed(change.value, change.interval.low, change.interval.high)
        slices.append(Slice(column, _group_text(value), row.label, row.b, text, row.verdict, change.n_prompts))
    return (
        slices,
        f"Difference to {found.sides[0]} with its interval; of groups with at least {_LEAST_IN_SLICE} prompts.",
    )


def _odd_slices(
    bars: Mapping[str, Mapping[str, Sequence[GroupBar]]],
    cells: Mapping[tuple[int, str], Summary],
    metrics: Sequence[Metric],
    sources: _Sources,
) -> tuple[list[Slice], str]:
    """The groups whose interval lies farthest from the mean of their side."""
    directions = {metric.label: metric.higher_is_better for metric in metrics}
    scored = []
    for column, by_label in bars.items():
        for label, found in by_label.items():
            for bar in found:
                whole = cells.get((bar.side, label))
                if whole is None or None in (whole.value, bar.value, bar.low, bar.high) or bar.n < _LEAST_IN_SLICE:
                    continue
                gap = bar.value - whole.value  # type: ignore[operator]
                half = (bar.high - bar.low) / 2  # type: ignore[operator]
                if half > 0 and abs(gap) > half:
                    scored.append((abs(gap) / half, column, label, bar, gap))
    scored.sort(key=lambda item: -item[0])
    slices = [
        Slice(
            column,
            bar.group,
            label,
            sources.sides[bar.side].name,
            format_estimate(bar.value, bar.low, bar.high),
            _word(gap, directions[label]),
            bar.n,
        )
        for _, column, label, bar, gap in scored[:_SLICES]
    ]
    return slices, "Groups whose own interval does not hold the mean of all samples; no correction for looking at many."


def _word(gap: float, higher: bool | None) -> str:
    if higher is None:
        return "higher" if gap > 0 else "lower"
    return "better" if (gap > 0) == higher else "worse"


def _bars(sources: _Sources, column: str, metrics: Sequence[Metric]) -> dict[str, list[GroupBar]]:
    """The means of every group of a column, by metric."""
    found: dict[str, list[GroupBar]] = {metric.label: [] for metric in metrics}
    for at, run in enumerate(sources.runs):
        if column not in run.columns:
            continue
        mine = {side.method: place for place, side in enumerate(sources.sides) if side.run == sources.names[at]}
        split = None not in mine
        for item in run.summarise(by=["method", column] if split else [column]):
            if column not in item.group or not item.headline or item.label not in found:
                continue
            side = mine.get(str(item.group["method"]) if split else None)
            if side is not None:
                bar = GroupBar(_group_text(item.group[column]), side, item.value, item.low, item.high, item.n)
                found[item.label].append(bar)
    return found


def _group_text(value: Any) -> str:
    return "(none)" if value is None else str(value)


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


def _verdicts(found: Comparison) -> list[str]:
    """In words: on how many metrics a side beats the baseline, is worse, or neither can be told."""
    lines = []
    for side in found.sides[1:]:
        rows = [row for row in found.rows if row.b == side and not row.group and row.higher_is_better is not None]
        if not rows:
            continue
        told = {name: sum(row.verdict == name for row in rows) for name in ("better", "worse", "inconclusive", "equal")}
        words = [f"{side} beats {found.sides[0]} on {told['better'] or 'none'} of {len(rows)} metrics"]
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
    return f"{name}: {run.n} samples, {', '.join(run.labels)}; {run.header['status']} {when}".strip()


def _protocol_tables(sources: _Sources) -> list[tuple[str, Table]]:
    """The tables of protocols that ran."""
    from beholder.protocol_runs import read_results
    from beholder.report.protocol import result_table

    found = []
    for run, name in zip(sources.runs, sources.names):
        results = read_results(run) if run.finished else None
        for table in results.tables if results is not None else ():
            found.append((f"{name}: {results.protocol}: {table.title}", result_table(table)))  # type: ignore[union-attr]
    return found


def _identity(header: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that a run's numbers depend on, the metrics first."""
    names = ("metrics", "models", "decode", "truncation", "versions", "asked", "source", "started", "finished")
    return {name: header[name] for name in names if name in header}
