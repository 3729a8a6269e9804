"""From two encoded sets to rows of tables: every statistic with its interval, null level, p and corrected value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from beholder.attributing.columns import CORRECTED, PAIRED, PLACES, RELEVANCE, SINGLE, SIZES, parts_of
from beholder.attributing.encode import EncodedSet
from beholder.attributing.settings import AttributeSettings
from beholder.functional.divergence import Direction, condition_numbers, pairs
from beholder.functional.maps import regions_of
from beholder.functional.placement import Background
from beholder.functional.relevance import relevance
from beholder.functional.score_sums import fit
from beholder.metrics.attribute_lists import Attribute
from beholder.records import Status
from beholder.stats.correction import benjamini_hochberg
from beholder.stats.map_sets import JudgedMap, MapSettings, judge_maps
from beholder.stats.region_sets import JudgedRegions, judge_regions
from beholder.stats.resample import Judged
from beholder.stats.score_sets import Density, Drawn, ScoreSettings, draw_scores, judge_draws, mean_of

LEAST = 3
"""Images that a set needs for a distribution."""

Row = dict[str, Any]


@dataclass
class SetReport:
    """What the comparison of one generated set with the reference gives.

    Args:
        attributes: one row an attribute.
        pairs: one row a pair.
        summary: one row.
        maps: arrays (C, rows, columns) by name, with `valid` (C,) telling which hold something; {} without maps.
    """

    attributes: list[Row]
    pairs: list[Row]
    summary: Row
    maps: dict[str, np.ndarray] = field(default_factory=dict)


def compare_sets(
    ref: EncodedSet, gen: EncodedSet, attributes: Sequence[Attribute], settings: AttributeSettings
) -> SetReport:
    """Every statistic of one generated set against the reference."""
    rows: list[Row] = [
        {"set": gen.name, "attribute": item.name, "group": item.group, "positive": item.positive,
         "counterpart": item.counterpart} for item in attributes
    ]  # fmt: skip
    pair_rows: list[Row] = []
    summary: Row = {"set": gen.name, "n_ref": int(ref.ok.sum()), "n_gen": int(gen.ok.sum())}
    if settings.by_class:
        _add_scores_by_class(rows, summary, ref, gen, settings)
    else:
        pair_rows = _add_scores(rows, summary, ref, gen, attributes, settings)
    maps = _add_maps(rows, summary, ref, gen, settings)
    for name in CORRECTED:
        _adjust(rows, name)
    for name in PAIRED:
        _adjust(pair_rows, name)
    _summarise(summary, rows, ref, gen)
    return SetReport(rows, pair_rows, summary, maps)


def score_settings(settings: AttributeSettings) -> ScoreSettings:
    """The part of the settings that statistics of scores take."""
    return ScoreSettings(
        unit=settings.unit, direction=cast("Direction", settings.direction), density=cast("Density", settings.density),
        floor=settings.floor, seed=settings.seed, resamples=settings.resamples, permutations=settings.permutations,
        level=settings.level, legacy_scale=settings.legacy_scale,
    )  # fmt: skip


def _add_scores(
    rows: list[Row],
    summary: Row,
    ref: EncodedSet,
    gen: EncodedSet,
    attributes: Sequence[Attribute],
    settings: AttributeSettings,
) -> list[Row]:
    sides = [side.scored() for side in (ref, gen)]
    counts = [len(side) for side in sides]
    for row in rows:
        row |= {"n_ref": counts[0], "n_gen": counts[1], **_evidence(counts, "scored images")}
    if min(counts) < LEAST:
        return []
    drawn = draw_scores(sides[0], sides[1], score_settings(settings))
    found = judge_draws(drawn, score_settings(settings))
    for name in SINGLE:
        for c, row in enumerate(rows):
            _put(row, name, found[name], c)
    for name in ("sad_mean", "pad_mean"):
        if name in found:
            _put(summary, name, found[name], None)
    if settings.score == "ra_clip_score":
        _add_relevance(rows, sides, settings)
    _add_sad_of_relevant(summary, rows, [drawn["sad"].column(c) for c in range(len(rows))], settings)
    first, second = pairs(len(attributes))
    condition = condition_numbers(fit(sides[0], unit=settings.unit), floor=settings.floor)
    made = []
    for k, (i, j) in enumerate(zip(first, second)):
        row = {"set": gen.name, "first": attributes[i].name, "second": attributes[j].name}
        _put(row, "pad", found["pad"], k)
        _put(row, "dependence", found["dependence"], k)
        made.append(row | {"condition_number": float(condition[k])})
    return made


def _evidence(counts: Sequence[int], what: str) -> Row:
    """`status` and `reason` of an attribute by the images that both sets have for it."""
    if min(counts) >= LEAST:
        return {"status": Status.OK.value, "reason": None}
    reason = f"each set needs {LEAST} {what}: the reference has {counts[0]}, the generated set {counts[1]}"
    return {"status": Status.NOT_ENOUGH_EVIDENCE.value, "reason": reason}


def _add_sad_of_relevant(
    summary: Row, rows: Sequence[Row], drawn: Sequence[Drawn], settings: AttributeSettings
) -> None:
    """Mean SAD over the attributes that are not flagged as irrelevant."""
    chosen = [one for row, one in zip(rows, drawn, strict=True) if not row.get("irrelevant")]
    if chosen:
        mean = mean_of(chosen, score_settings(settings), apart=settings.by_class, lies_high=True)
        _put(summary, "sad_mean_relevant", mean, None)


def _add_scores_by_class(
    rows: list[Row], summary: Row, ref: EncodedSet, gen: EncodedSet, settings: AttributeSettings
) -> None:
    have, drawn = [], []
    for c, row in enumerate(rows):
        sides = [side.scored(row["attribute"])[:, [c]] for side in (ref, gen)]
        counts = [len(side) for side in sides]
        what = f"scored images whose class_name is {row['attribute']!r}"
        row |= {"n_ref": counts[0], "n_gen": counts[1], **_evidence(counts, what)}
        if min(counts) < LEAST:
            continue
        draws = draw_scores(sides[0], sides[1], score_settings(settings))
        found = judge_draws(draws, score_settings(settings))
        for name in SINGLE:
            _put(row, name, found[name], 0)
        if settings.score == "ra_clip_score":
            _add_relevance([row], sides, settings)
        have.append(row)
        drawn.append(draws["sad"].column(0))
    if drawn:
        mean = mean_of(drawn, score_settings(settings), apart=True, lies_high=True)
        _put(summary, "sad_mean", mean, None)
        _add_sad_of_relevant(summary, have, drawn, settings)


def _add_relevance(rows: list[Row], sides: Sequence[np.ndarray], settings: AttributeSettings) -> None:
    found = relevance(
        sides[0], sides[1], prevalence_floor=settings.prevalence_floor, spread_floor=settings.spread_floor
    )
    for c, row in enumerate(rows):
        for name in RELEVANCE:
            row[name] = float(getattr(found, name)[c])
        row["irrelevant"] = bool(found.irrelevant[c])


def _add_maps(
    rows: list[Row], summary: Row, ref: EncodedSet, gen: EncodedSet, settings: AttributeSettings
) -> dict[str, np.ndarray]:
    if not ref.maps or not gen.maps or ref.grid is None:
        return {}
    grid = ref.grid
    map_settings = MapSettings(
        grid, cast("Background", settings.background), settings.mass_floor, settings.seed, settings.resamples,
        settings.permutations, settings.level,
    )  # fmt: skip
    arrays = _empty_maps(len(rows), grid)
    for name in ("regional_kl", "regional_kl_p", "regional_kl_q"):
        arrays[name] = np.full((len(rows), *regions_of(grid, settings.regions)), float(name != "regional_kl"))
    every: list[JudgedMap] = []
    everywhere: list[JudgedRegions] = []
    for own, (first, second) in enumerate(zip(ref.maps, gen.maps)):
        chosen = [own] if settings.by_class else list(range(len(rows)))
        if min(first.sums.n, second.sums.n) < LEAST:
            for c in chosen:
                rows[c]["map_status"] = rows[c]["placement_status"] = Status.NOT_ENOUGH_EVIDENCE.value
            continue
        judged = judge_maps(first, second, map_settings)
        _fill(arrays, chosen, first.sums.mean(), second.sums.mean(), judged, grid, settings)
        regional = judge_regions(ref.regions[own], gen.regions[own], map_settings, direction=str(settings.direction))
        every += judged
        everywhere += regional
        for k, c in enumerate(chosen):
            _fill_regions(arrays, c, regional[k].cells)
            _add_map_row(rows[c], judged[k], settings)
            _put(rows[c], "regional_kl", regional[k].mean, None)
    if every:
        _add_map_means(summary, every, everywhere, settings)
    return arrays


def _add_map_means(
    summary: Row, judged: Sequence[JudgedMap], regional: Sequence[JudgedRegions], settings: AttributeSettings
) -> None:
    """Means over attributes, from their draws: |R-SaD|, KL by region, and JSD of the placement."""
    how = score_settings(settings)
    parts = {
        "mar": [Drawn(one.sizes["mar"].value, *one.mar_draws) for one in judged],
        "regional_kl": [Drawn(one.mean.value, one.boot, one.null) for one in regional],
        # Null draws of two attributes are made apart, so only the bootstrap can be averaged.
        "placement_jsd": [Drawn(one.placement["jsd"].value, one.jsd_draws) for one in judged if one.placement],
    }
    for name, own in parts.items():
        if own:
            _put(summary, f"{name}_mean", mean_of(own, how, apart=settings.by_class), None)


def _empty_maps(count: int, grid: tuple[int, int]) -> dict[str, np.ndarray]:
    names = ("ref_mean", "gen_mean", "r_sad", "r_sad_low", "r_sad_high", "t", "p")
    arrays: dict[str, np.ndarray] = {name: np.zeros((count, *grid)) for name in names}
    arrays["significant"] = np.zeros((count, *grid), dtype=bool)
    arrays["valid"] = np.zeros(count, dtype=bool)
    return arrays


def _fill(
    arrays: dict[str, np.ndarray],
    chosen: Sequence[int],
    ref_mean: np.ndarray,
    gen_mean: np.ndarray,
    judged: Sequence[JudgedMap],
    grid: tuple[int, int],
    settings: AttributeSettings,
) -> None:
    for k, c in enumerate(chosen):
        one = judged[k]
        cells = {
            "ref_mean": ref_mean[k], "gen_mean": gen_mean[k], "r_sad": one.difference, "r_sad_low": one.low,
            "r_sad_high": one.high, "t": one.t, "p": one.p_cells,
        }  # fmt: skip
        for name, values in cells.items():
            # Without draws there is no interval and no p: the plain value, and a p of 1, claim nothing.
            if values is None:
                values = np.ones(grid) if name == "p" else one.difference
            arrays[name][c] = np.asarray(values).reshape(grid)
        arrays["significant"][c] = arrays["p"][c] < 1.0 - settings.level
        arrays["valid"][c] = True


def _fill_regions(arrays: dict[str, np.ndarray], c: int, cells: Judged) -> None:
    arrays["regional_kl"][c] = cells.value.reshape(arrays["regional_kl"][c].shape)
    if cells.p is not None:
        adjusted = np.asarray(benjamini_hochberg(cells.p.tolist()))
        for name, values in (("regional_kl_p", cells.p), ("regional_kl_q", adjusted)):
            arrays[name][c] = values.reshape(arrays[name][c].shape)


def _add_map_row(row: Row, judged: JudgedMap, settings: AttributeSettings) -> None:
    row["map_status"] = Status.OK.value
    row["map_null"] = judged.method
    row["significant_cells"] = (
        int((judged.p_cells < 1.0 - settings.level).sum()) if judged.p_cells is not None else None
    )
    row["t_threshold"] = judged.threshold
    for name in SIZES:
        _put(row, name, judged.sizes[name], None)
    row["mass_ref"], row["mass_gen"] = judged.masses
    row["placement_status"] = (Status.OK if judged.placement else Status.NOT_ENOUGH_EVIDENCE).value
    for name in PLACES:
        if judged.placement:
            _put(row, f"placement_{name}", judged.placement[name], None)


def _put(row: Row, name: str, judged: Judged, at: int | None) -> None:
    """A statistic and everything about it as columns `<name>`, `<name>_low` …; what was not made is None."""

    def pick(values: np.ndarray | None) -> float | None:
        if values is None:
            return None
        return float(values if at is None else values[at])

    row[name] = pick(judged.value)
    row |= {f"{name}_{part}": pick(getattr(judged, part)) for part in parts_of(name)}


def _adjust(rows: Sequence[Row], name: str) -> None:
    """Adds `<name>_q`: p-values adjusted over the rows that have one."""
    have = [row for row in rows if row.get(f"{name}_p") is not None]
    for row, q in zip(have, benjamini_hochberg([row[f"{name}_p"] for row in have]) if have else []):
        row[f"{name}_q"] = float(q)


def _summarise(summary: Row, rows: Sequence[Row], ref: EncodedSet, gen: EncodedSet) -> None:
    def mean(name: str, chosen: Sequence[Row]) -> float | None:
        values = [row[name] for row in chosen if row.get(name) is not None]
        return float(np.mean(values)) if values else None

    relevant = [row for row in rows if not row.get("irrelevant")]
    for name in ("sad", "mar", "regional_kl", "placement_jsd"):
        summary.setdefault(f"{name}_mean", mean(name, rows))
    summary.setdefault("sad_mean_relevant", mean("sad", relevant))
    summary |= {
        "n_attributes": len(rows), "n_relevant": len(relevant),
        "significant_attributes": sum(1 for row in rows if row.get("sad_q") is not None and row["sad_q"] < 0.05),
    }  # fmt: skip
    summary["n_missing_ref"], summary["n_missing"] = _missing(ref), _missing(gen)


def _missing(side: EncodedSet) -> dict[str, int]:
    """Images without scores, by status."""
    return dict(Counter(status.value for status in side.statuses if status is not Status.OK))
