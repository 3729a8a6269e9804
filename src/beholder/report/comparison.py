"""Comparisons as tables and records: nothing here computes a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beholder.report.numbers import DASH, decimals_for, format_estimate, format_interval, format_number, format_value
from beholder.report.ranking import format_with_spread
from beholder.report.tables import Column, Table
from beholder.stats.bca import plural

if TYPE_CHECKING:
    from beholder.comparing.records import Compared, Comparison, SetCompared
    from beholder.stats.ranks import RankStability

_ARROWS = {True: " ↑", False: " ↓", None: ""}


def comparison_table(found: Comparison) -> Table:
    """One row a metric, side and group: both means, the difference with its interval, p-values, effect, verdict."""
    several = len(found.sides) > 2
    groups = list(dict.fromkeys(name for row in found.rows for name in row.group))
    one, other = ("baseline", "side") if several else (found.sides[0], found.sides[1])
    # Where baselines differ, each row names its own.
    apart = [Column("side"), *([Column("against")] if found.matched else [])] if several else []
    titles = [Column("metric"), *apart, *(Column(name) for name in groups)]
    titles += [
        Column(text, True) for text in (one, other if not several else "value", "Δ", f"{found.level * 100:g} % CI")
    ]
    titles += [Column(text, True) for text in ("p", "p Holm", "p BH", "d_z", "P(higher)", "+/=/− %", "detectable", "n")]
    titles.append(Column("verdict"))
    rows = []
    for row in found.rows:
        cells = [row.label + _ARROWS[row.higher_is_better]]
        cells += [row.b, row.a][: len(apart)]
        cells += [_group_text(row.group, name) for name in groups]
        rows.append((*cells, *_number_cells(row), _verdict(row, row.difference.value)))
    for item in found.sets:
        cells = [item.label + _ARROWS[item.higher_is_better]]
        cells += [item.b, item.a][: len(apart)]
        rows.append((*cells, *("all" for _ in groups), *_set_cells(item), _verdict(item, item.difference)))
    notes = _comparison_notes(found) if found.rows else _verdicts(found)
    return Table(tuple(titles), tuple(rows), (*notes, *_set_notes(found)))


def _verdict(row: Compared | SetCompared, difference: float | None) -> str:
    """The verdict; where nothing could be compared, none."""
    return DASH if difference is None else row.verdict


def _set_cells(item: SetCompared) -> list[str]:
    values = [
        format_estimate(item.value_a, item.low_a, item.high_a),
        format_estimate(item.value_b, item.low_b, item.high_b),
        format_value(item.difference, item.low, item.high),
    ]
    interval = DASH if item.difference is None else format_interval(item.difference, item.low, item.high)
    size = str(item.n_b) if item.n_a == item.n_b else f"{item.n_b} against {item.n_a}"
    return [*values, interval, *([DASH] * 7), size]


def _set_notes(found: Comparison) -> list[str]:
    if not found.sets:
        return []
    labels = ", ".join(dict.fromkeys(item.label for item in found.sets))
    notes = [
        f"{labels}: values of whole sets, nothing is paired; n is pictures; the interval takes the sides as "
        "independent and is not corrected for the number of metrics."
    ]
    told: dict[str, list[str]] = {}
    for item in found.sets:
        for side, note, missing in ((item.a, item.note_a, item.missing_a), (item.b, item.note_b, item.missing_b)):
            for text in (note, _missing_text(missing)):
                if text:
                    told.setdefault(text, []).append(f"{item.label}, {side}")
    return notes + [f"{'; '.join(dict.fromkeys(places))}: {text}." for text, places in told.items()]


def _missing_text(missing: Mapping[str, int]) -> str:
    return "missing " + ", ".join(f"{count} {name}" for name, count in missing.items()) if missing else ""


def _group_text(group: Mapping[str, Any], name: str) -> str:
    if name not in group:
        return "all"
    return "(none)" if group[name] is None else str(group[name])


def _number_cells(row: Compared) -> list[str]:
    found, effect = row.difference, row.difference.effect
    if found.value is None or found.mean_a is None or found.mean_b is None or effect is None:
        return [DASH] * 11 + ["0"]
    low, high = found.interval.low, found.interval.high
    decimals = decimals_for(found.value, low, high)
    shares = "/".join(f"{100 * share:.0f}" for share in (effect.above, effect.tied, effect.below))
    return [
        format_with_spread(found.mean_a, found.interval_a.low, found.interval_a.high, "pm"),
        format_with_spread(found.mean_b, found.interval_b.low, found.interval_b.high, "pm"),
        format_number(found.value, decimals),
        format_interval(found.value, low, high),
        *(p_text(p) for p in (found.p.value, row.holm, row.bh)),
        DASH if effect.d_z is None else f"{effect.d_z:.2f}",
        f"{effect.superiority:.2f}",
        shares,
        DASH if found.detectable is None else format_number(found.detectable, decimals),
        f"{found.n_pairs}/{found.n_prompts}" if found.n_pairs != found.n_prompts else str(found.n_pairs),
    ]


def p_text(p: float | None) -> str:
    """A p-value as people read it.

    >>> p_text(0.0312), p_text(0.00002), p_text(None)
    ('0.031', '< 0.0001', '—')
    """
    if p is None:
        return DASH
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def _comparison_notes(found: Comparison) -> list[str]:
    # Unbalanced concepts give two numbers; who sees both must know which is which.
    by_concept = any(row.difference.unit == "concept" for row in found.rows)
    concepts = ", then prompts (the headline of show averages concepts first)" if by_concept else ""
    notes = [
        f"Δ is side − {found.baseline_text}; paired on {', '.join(found.key)}; "
        f"seeds averaged within a prompt{concepts}; "
        f"± is half the length of a side's own {found.level * 100:g} % interval; "
        "n is pairs/prompts; P(higher) counts half of the ties; "
        f"detectable is the true difference found with power {found.power * 100:g} %; "
        f"p Holm and p BH over the {_tests(found)} shown."
    ]
    notes += _verdicts(found)
    lines: dict[str, list[str]] = {}
    for row in found.rows:
        for text in _row_notes(row):
            lines.setdefault(text, []).append(_place(row, len(found.sides) > 2))
    notes += [f"{'; '.join(places[:12])}{' …' if len(places) > 12 else ''}: {text}." for text, places in lines.items()]
    return [*notes, *_rank_notes(found)]


def _tests(found: Comparison) -> str:
    count = sum(row.difference.p.value is not None for row in found.rows)
    return "1 test" if count == 1 else f"{count} tests"


def _verdicts(found: Comparison) -> list[str]:
    """In words: on how many metrics a side is better, worse or neither."""
    lines = []
    for side, baseline in found.baselines.items():
        rows = [row for row in found.rows if _counts(row, side) and not row.group]
        verdicts = [_verdict(row, row.difference.value) for row in rows]
        verdicts += [_verdict(item, item.difference) for item in found.sets if _counts(item, side)]
        if not verdicts:
            continue
        counts = {name: verdicts.count(name) for name in ("better", "worse", "inconclusive", "equal")}
        told = ", ".join(f"{name} on {count}" for name, count in counts.items() if count)
        if lost := verdicts.count(DASH):
            told += f"{', ' if told else ''}nothing to compare on {lost}"
        lines.append(f"{side} against {baseline}, of {len(verdicts)} metric{'s' if len(verdicts) > 1 else ''}: {told}.")
    return lines


def _counts(row: Compared | SetCompared, side: str) -> bool:
    return row.b == side and row.higher_is_better is not None


def _row_notes(row: Compared) -> list[str]:
    found = row.difference
    notes = [found.note] if found.note else []
    if found.interval.method:
        units = f"{found.interval.n_units} {plural(found.unit)}"
        notes.append(f"interval by {found.interval.method}, p by {found.p.method}, over {units}")
    if not row.group:
        notes += [variance_text(found.variance)] if found.variance.prompt is not None else []
    for side, missing in ((row.a, row.missing_a), (row.b, row.missing_b)):
        if missing:
            notes.append(f"missing in {side}: " + ", ".join(f"{count} {name}" for name, count in missing.items()))
    if row.higher_is_better is None:
        notes.append("the metric has no direction")
    return notes


def variance_text(split: Any) -> str:
    """The variance split as shares of one prompt-and-seed difference."""
    parts = {"concept": split.concept, "prompt": split.prompt, "seed": split.seed, "judge": split.judge}
    known = {name: value for name, value in parts.items() if value is not None}
    total = sum(known.values())
    if not total:
        return "no variance"
    shares = ", ".join(f"{name} {100 * value / total:.0f} %" for name, value in known.items())
    unknown = [name for name, value in parts.items() if value is None and name == "seed"]
    return f"variance of a single difference: {shares}" + (" (one seed a prompt, which it includes)" if unknown else "")


def _place(row: Compared, several: bool) -> str:
    parts = [row.label] + ([row.b] if several else [])
    return ", ".join([*parts, *(f"{name}={value}" for name, value in row.group.items())])


def _order(sides: Sequence[str], stable: RankStability) -> str:
    """The sides, best first; sides of one mean with "=" between them."""
    signs = [" = " if tied else " > " for tied in stable.tied] or [" > "] * (len(stable.order) - 1)
    return "".join(part for at, sign in zip(stable.order, [*signs, ""]) for part in (sides[at], sign))


def _rank_notes(found: Comparison) -> list[str]:
    return [
        f"{label}: order {_order(found.sides, stable)}; {100 * stable.same_best:.0f} % of "
        f"resamples keep the first, {100 * stable.same_order:.0f} % the whole order."
        for label, stable in found.ranks.items()
    ]


def comparison_records(found: Comparison) -> list[dict[str, Any]]:
    """One flat dict a row, unrounded, None where there is no value."""
    return [_record(row) for row in found.rows]


def flat_records(found: Comparison) -> list[dict[str, Any]]:
    """The same with metrics of whole sets, for a file of one table."""
    return [*comparison_records(found), *(_set_record(item, found.level) for item in found.sets)]


def _set_record(item: SetCompared, level: float) -> dict[str, Any]:
    """A metric of sets in the columns of the others; what only pairs have is None."""
    record: dict[str, Any] = dict.fromkeys(_COLUMNS)
    record["unit"] = "set"
    return record | {
        "run": item.b, "group": {}, "baseline": item.a, "label": item.label, "metric": item.metric,
        "higher_is_better": item.higher_is_better, "mean_baseline": item.value_a, "mean_baseline_low": item.low_a,
        "mean_baseline_high": item.high_a, "mean": item.value_b, "mean_low": item.low_b, "mean_high": item.high_b,
        "difference": item.difference, "low": item.low, "high": item.high, "level": level,
        "ci_method": None if item.low is None else "normal", "n_units": item.n_b, "verdict": item.verdict,
        "missing_baseline": dict(item.missing_a), "missing": dict(item.missing_b),
        "note": "; ".join(dict.fromkeys(filter(None, (item.note_a, item.note_b)))) or None,
    }  # fmt: skip


_COLUMNS = (
    "run", "group", "baseline", "label", "metric", "higher_is_better", "mean_baseline", "mean_baseline_low",
    "mean_baseline_high", "mean", "mean_low", "mean_high", "difference", "low", "high", "level", "ci_method", "unit",
    "p", "p_method", "p_holm", "p_bh", "d_z", "superiority", "above", "tied", "below", "variance_concept",
    "variance_prompt", "variance_seed", "variance_judge", "detectable", "n_pairs", "n_prompts", "n_units",
    "missing_baseline", "missing", "verdict", "note",
)  # fmt: skip
"""What a record of a comparison holds."""


def _record(row: Compared) -> dict[str, Any]:
    found, effect = row.difference, row.difference.effect
    return {
        "run": row.b,
        "group": dict(row.group),
        "baseline": row.a,
        "label": row.label,
        "metric": row.metric,
        "higher_is_better": row.higher_is_better,
        "mean_baseline": found.mean_a,
        "mean_baseline_low": found.interval_a.low,
        "mean_baseline_high": found.interval_a.high,
        "mean": found.mean_b,
        "mean_low": found.interval_b.low,
        "mean_high": found.interval_b.high,
        "difference": found.value,
        "low": found.interval.low,
        "high": found.interval.high,
        "level": found.interval.level,
        "ci_method": found.interval.method,
        "unit": found.unit,
        "p": found.p.value,
        "p_method": found.p.method,
        "p_holm": row.holm,
        "p_bh": row.bh,
        "d_z": None if effect is None else effect.d_z,
        "superiority": None if effect is None else effect.superiority,
        "above": None if effect is None else effect.above,
        "tied": None if effect is None else effect.tied,
        "below": None if effect is None else effect.below,
        "variance_concept": found.variance.concept,
        "variance_prompt": found.variance.prompt,
        "variance_seed": found.variance.seed,
        "variance_judge": found.variance.judge,
        "detectable": found.detectable,
        "n_pairs": found.n_pairs,
        "n_prompts": found.n_prompts,
        "n_units": found.interval.n_units,
        "missing_baseline": dict(row.missing_a),
        "missing": dict(row.missing_b),
        "verdict": row.verdict,
        "note": found.note,
    }


def comparison_json(found: Comparison) -> dict[str, Any]:
    """The whole comparison as one JSON value."""
    return {
        "sides": list(found.sides),
        "baselines": found.baselines,
        "matched": found.matched,
        "key": list(found.key),
        "level": found.level,
        "power": found.power,
        "pairings": [vars(pair) for pair in found.pairings],
        "warnings": list(found.warnings),
        "notices": list(found.notices),
        "rows": comparison_records(found),
        "sets": [vars(item) for item in found.sets],
        "ranks": {label: _rank_json(stable, found.sides) for label, stable in found.ranks.items()},
    }


def _rank_json(stable: Any, sides: Sequence[str]) -> dict[str, Any]:
    return {
        "order": [sides[at] for at in stable.order],
        "shares": {side: stable.shares[at].tolist() for at, side in enumerate(sides)},
        "same_order": stable.same_order,
        "same_best": stable.same_best,
        "n_units": stable.n_units,
    }
