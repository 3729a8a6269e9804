"""What a comparison needs, as a table and records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beholder.report.comparison import variance_text
from beholder.report.numbers import DASH, decimals_for, format_number
from beholder.report.tables import Column, Table

if TYPE_CHECKING:
    from beholder.comparing.plan import PlanResult
    from beholder.stats.power import Need


def plan_table(found: PlanResult) -> Table:
    """One row a metric and pair: prompts needed for each number of seeds, and what can be shown now."""
    seeds = [need.seeds for need in found.entries[0].needs] if found.entries else []
    titles = [Column("metric"), Column("rests on"), Column("basis")]
    titles += [Column(f"prompts at {count} seed{'s' if count > 1 else ''}", True) for count in seeds]
    titles += [Column("prompts now", True), Column("detectable now", True)]
    rows, notes = [], [_told(found)]
    told: dict[str, list[str]] = {}
    for entry in found.entries:
        now = DASH if entry.detectable is None else format_number(entry.detectable, decimals_for(entry.detectable))
        cells = [_needed(need, known=entry.variance.seed is not None) for need in entry.needs]
        rows.append((entry.label, entry.pair, entry.basis, *cells, str(entry.n_prompts), now))
        facts = [variance_text(entry.variance)] if entry.variance.prompt is not None else []
        facts += [entry.note] if entry.note else []
        for fact in facts:
            told.setdefault(fact, []).append(f"{entry.label}, {entry.pair}, {entry.basis}")
    notes += [f"{'; '.join(places)}: {fact}." for fact, places in told.items()]
    return Table(tuple(titles), tuple(rows), tuple(notes))


def _needed(need: Need, *, known: bool) -> str:
    """Prompts; at most so many where nothing is known of seeds."""
    if need.prompts is None:
        return DASH
    return str(need.prompts) if known or need.seeds == 1 else f"≤ {need.prompts}"


def _told(found: PlanResult) -> str:
    return (
        f"prompts needed to find a true difference of {found.detect:g} with power {100 * found.power:g} % "
        f"at {100 * found.level:g} %; every method needs prompts × seeds outputs."
    )


def plan_records(found: PlanResult) -> list[dict[str, Any]]:
    """One flat dict a metric, pair and number of seeds, unrounded."""
    return [
        {
            "run": entry.pair,
            "group": {},
            "label": entry.label,
            "basis": entry.basis,
            "detect": found.detect,
            "power": found.power,
            "level": found.level,
            "seeds": need.seeds,
            "prompts": need.prompts,
            "outputs": need.outputs,
            "variance_concept": entry.variance.concept,
            "variance_prompt": entry.variance.prompt,
            "variance_seed": entry.variance.seed,
            "variance_judge": entry.variance.judge,
            "n_prompts": entry.n_prompts,
            "detectable": entry.detectable,
            "note": entry.note,
        }
        for entry in found.entries
        for need in entry.needs
    ]
