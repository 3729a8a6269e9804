"""Agreement with people as tables and records: nothing here computes a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beholder.report.comparison import p_text
from beholder.report.numbers import DASH, decimals_for, format_estimate, format_number
from beholder.report.tables import Column, Table

if TYPE_CHECKING:
    from beholder.comparing.records import Agreement, MetricAgreement, QuestionAgreement

STATISTICS = ("tau_b", "tau_c", "spearman", "pearson")


def agreement_table(found: Agreement) -> Table:
    """One row a question and metric, followed by its chance lines; ceilings and contrasts are notes."""
    several = len(found.questions) > 1
    shown = [name for name in STATISTICS if any(name in m.statistics for q in found.questions for m in q.metrics)]
    titles = [Column("question")] if several else []
    titles += [Column("metric"), Column("accuracy %", True), *(Column(name, True) for name in shown)]
    titles += [Column("ε", True), Column("items", True), Column("pairs", True)]
    rows, notes = [], []
    for entry in found.questions:
        first = [entry.question or "(none)"] if several else []
        for metric in entry.metrics:
            cells = [_estimate(metric.statistics.get(name)) for name in shown]
            facts = [_epsilon(metric), str(metric.n_items), str(metric.n_pairs)]
            rows.append((*first, metric.label, _percent(metric), *cells, *facts))
        rows += [(*first, *line) for line in _chance_rows(entry, len(shown))]
        notes += _question_notes(entry)
    return Table(tuple(titles), tuple(rows), (*_general_notes(found), *dict.fromkeys(notes)))


def _estimate(item: Any) -> str:
    return DASH if item is None else format_estimate(item.value, item.interval.low, item.interval.high)


def _percent(metric: MetricAgreement) -> str:
    found = metric.accuracy
    ends = [None if end is None else 100 * end for end in (found.value, found.interval.low, found.interval.high)]
    return format_estimate(*ends)


def _epsilon(metric: MetricAgreement) -> str:
    return DASH if metric.epsilon is None else format_number(metric.epsilon, decimals_for(metric.epsilon))


def _chance_rows(entry: QuestionAgreement, statistics: int) -> list[tuple[str, ...]]:
    known = next((metric for metric in entry.metrics if metric.constant is not None), None)
    if known is None or known.constant is None or known.random is None:
        return []
    rest = (*["0"] * statistics, DASH, DASH, str(known.n_pairs))
    none = (*[DASH] * statistics, DASH, DASH, str(known.n_pairs))
    lines = [("(constant metric)", f"{100 * known.constant:.1f}", *none)]
    lines.append(("(random metric)", f"{100 * known.random:.1f}", *rest))
    if entry.person is not None:
        ends = (entry.person.value, entry.person.interval.low, entry.person.interval.high)
        told = format_estimate(*(None if end is None else 100 * end for end in ends))
        lines.append(("(one person)", told, *none[:-1], DASH))
    return lines


def _general_notes(found: Agreement) -> list[str]:
    where = {"within": "pairs within a prompt", "pooled": "all pairs of outputs"}
    pairs = where.get(found.pairs, "the pairs that were voted on")
    tuned = {
        "heldout": "ε tuned on one half of the prompts, accuracy on the other",
        "paper": "ε tuned on the same prompts, as published evaluations do",
        "none": "no threshold: ε is 0",
    }[found.calibration if found.pairs != "sets" else "none"]
    unit = "sets or concepts" if found.pairs == "sets" else "prompts"
    return [f"accuracy over {pairs}, ties counted; {tuned}; {found.level * 100:g} % intervals over {unit}."]


def _strength(entry: QuestionAgreement, name: str, value: float) -> str:
    interval = entry.strength_intervals[name]
    ends = "" if interval.low is None or interval.high is None else f" [{interval.low:+.2f}, {interval.high:+.2f}]"
    return f"{name} {value:+.2f}{ends}"


def _question_notes(entry: QuestionAgreement) -> list[str]:
    about = f"{entry.question}: " if entry.question else ""
    alpha = entry.alpha
    told_alpha = format_estimate(alpha.value, entry.alpha_interval.low, entry.alpha_interval.high)
    known = alpha.value is not None
    ceiling = f"Krippendorff's alpha {told_alpha}" if known else f"no Krippendorff's alpha: {alpha.note}"
    thing = {"ratings": "ratings", "votes": "votes"}.get(entry.kind, "votes between sets")
    notes = [
        f"{about}{entry.n_ratings} {thing} by {entry.n_raters} rater{'' if entry.n_raters == 1 else 's'}; {ceiling}."
    ]
    notes += [f"{about}{metric.label}: {metric.note}." for metric in entry.metrics if metric.note]
    told = {note for metric in entry.metrics if (note := metric.accuracy.interval.note) and note != metric.note}
    notes += [f"{about}{note}." for note in sorted(told)]
    if entry.strengths:
        order = sorted(entry.strengths.items(), key=lambda item: -item[1])
        notes.append(f"{about}Bradley-Terry: " + ", ".join(_strength(entry, *item) for item in order) + ".")
    elif entry.strengths_note:
        notes.append(f"{about}{entry.strengths_note}.")
    for item in entry.contrasts:
        d = item.difference
        ends = [None if end is None else 100 * end for end in (d.value, d.interval.low, d.interval.high)]
        tested = f", p Holm {p_text(item.holm)}" if item.holm is not None else ""
        notes.append(f"{about}{item.b} − {item.a}: {format_estimate(*ends)} points of accuracy{tested}.")
    return notes


def agreement_records(found: Agreement) -> list[dict[str, Any]]:
    """One flat dict a question and metric, unrounded."""
    return [
        {
            "run": metric.label,
            "group": {} if entry.question is None else {"question": entry.question},
            "metric": metric.metric,
            **_flat("accuracy", metric.accuracy),
            "epsilon": metric.epsilon,
            **{key: value for name in STATISTICS for key, value in _flat(name, metric.statistics.get(name)).items()},
            "constant": metric.constant,
            "random": metric.random,
            **_flat("person", entry.person),
            "alpha": entry.alpha.value,
            "alpha_low": entry.alpha_interval.low,
            "alpha_high": entry.alpha_interval.high,
            "n_raters": entry.n_raters,
            "n_items": metric.n_items,
            "n_pairs": metric.n_pairs,
            "n_prompts": metric.n_prompts,
            "note": metric.note,
        }
        for entry in found.questions
        for metric in entry.metrics
    ]


def _flat(name: str, estimate: Any) -> dict[str, float | None]:
    if estimate is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: estimate.value, f"{name}_low": estimate.interval.low, f"{name}_high": estimate.interval.high}


def agreement_json(found: Agreement) -> dict[str, Any]:
    """The whole agreement as one JSON value."""
    return {
        "pairs": found.pairs,
        "calibration": found.calibration,
        "level": found.level,
        "notices": list(found.notices),
        "rows": agreement_records(found),
        "questions": [
            {
                "question": entry.question,
                "kind": entry.kind,
                "n_ratings": entry.n_ratings,
                "n_raters": entry.n_raters,
                "alpha": vars(entry.alpha) | {"low": entry.alpha_interval.low, "high": entry.alpha_interval.high},
                **_flat("person", entry.person),
                "strengths": dict(entry.strengths),
                "strength_intervals": {
                    name: [interval.low, interval.high] for name, interval in entry.strength_intervals.items()
                },
                "strengths_note": entry.strengths_note,
                "contrasts": [
                    {"a": c.a, "b": c.b, **_flat("difference", c.difference), "p": c.p.value, "p_holm": c.holm}
                    for c in entry.contrasts
                ],
            }
            for entry in found.questions
        ],
    }
