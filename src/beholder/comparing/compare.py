"""Runs, or the methods of one run, compared metric by metric on the samples that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beholder._errors import UnknownNameError, UserError
from beholder.comparing.baselines import Pairs, matched_run, pairs_of, put_first, tell_pairs
from beholder.comparing.groups import group_rows
from beholder.comparing.pairing import Key, make_key
from beholder.comparing.records import Compared, Comparison, Pairing, Verdict
from beholder.comparing.sets import compare_sets, set_blockers, set_sides, shared_sets
from beholder.comparing.sides import RunLike, Side, make_sides, opened
from beholder.report.identity import metric_differences, run_differences
from beholder.runs.inputs import check_not_scores, group_columns
from beholder.stats.compare import Cells, Difference, compare_cells
from beholder.stats.correction import benjamini_hochberg, holm
from beholder.stats.ranks import RankStability, rank_stability


def compare(
    *runs: RunLike,
    metrics: Sequence[str] = (),
    baseline: str | None = None,
    pair_on: Sequence[str] = (),
    by: str | Sequence[str] = (),
    tie: float | None = None,
    allow_different: bool = False,
    seed: int = 0,
    resamples: int = 2000,
    draws: int = 9999,
    level: float = 0.95,
    power: float = 0.8,
) -> Comparison:
    """Compares runs, or the methods of one run; the call behind `beholder compare`.

    Rows are paired on the columns that the sides share among task, concept, knowledge_id, prompt_id (else prompt) and
    seed. Seeds are averaged within a prompt, and intervals and p-values are made over prompts, or over concepts where
    there are two and more. Where each of several runs has the same two and more methods, a method is compared with the
    same method of the first run.

    Args:
        runs: run folders or runs; the first is the baseline.
        metrics: labels to compare; all that the sides share when empty.
        baseline: name of the side to compare all others with; of runs with the same methods also the name of a run, to
            compare each method with the same method of that run.
        pair_on: columns to pair on instead.
        by: column, or columns whose combinations are compared apart as well.
        tie: differences of a prompt up to this size are ties; rounding only when None.
        allow_different: compare metrics whose identities differ (other encoder, template, scale), with a warning.
        seed: seed of bootstrap and permutations.
        resamples: bootstrap samples.
        draws: sign patterns of the permutation test where there are too many to count.
        level: confidence level.
        power: power of the detectable differences.

    Raises:
        UserError: no two sides, nothing to pair, identities that differ.
        UnknownNameError: a metric, side or column that is not there.
    """
    found = opened(runs)
    by = group_columns((by,) if isinstance(by, str) else by)
    for run in found:
        check_not_scores(by, run.labels)
    sides = put_first(make_sides(found, extra=[*pair_on, *by]), baseline)
    matched = matched_run(sides, baseline)
    pairs = pairs_of(sides, matched)
    measured = set_sides(found, [side.name for side in sides])
    set_labels = shared_sets(measured, metrics)
    blockers = set_blockers(measured, set_labels, pairs)
    sets = compare_sets(measured, set_labels, pairs, level)
    samples = [label for label in metrics if label not in set_labels]
    if sets and not samples and (metrics or not _shared(sides)):
        warnings = _differences(sides, pairs, (), blockers, allow_different=allow_different)
        names, notices = tuple(side.name for side in sides), tuple(tell_pairs(sides, matched, baseline))
        return Comparison((), names, (), (), {}, tuple(warnings), notices, level, power, sets, matched)
    labels = _labels(sides, samples)
    warnings = _differences(sides, pairs, labels, blockers, allow_different=allow_different)
    key = make_key(sides, pair_on=pair_on, pairs=pairs)
    pairings = tuple(_pairing(sides, key, one, at) for one, at in pairs)
    if not any(pair.rows_a > pair.unpaired_a for pair in pairings):
        raise _nothing_paired(pairings, key)
    settings = {"tie": tie, "seed": seed, "resamples": resamples, "draws": draws, "level": level, "power": power}
    rows = [
        _compared(sides, key, (one, at), label, group, chosen, settings)
        for group, chosen in [({}, None), *(group_rows(sides, by) if by else [])]
        for label in labels
        for one, at in pairs
    ]
    return Comparison(
        rows=_corrected(rows, level),
        sides=tuple(side.name for side in sides),
        key=key.columns,
        pairings=pairings,
        ranks=_ranks(sides, key, labels, seed=seed, resamples=resamples) if len(sides) > 2 and resamples else {},
        warnings=(*warnings, *_set_warnings(pairings)),
        notices=(*tell_pairs(sides, matched, baseline), *_notices(sides, labels, pairings, key)),
        level=level,
        power=power,
        sets=sets,
        matched=matched,
    )


def _shared(sides: Sequence[Side]) -> list[str]:
    """Metrics of samples that all sides have."""
    return [label for label in sides[0].labels if all(label in side.labels for side in sides)]


def _labels(sides: Sequence[Side], asked: Sequence[str]) -> list[str]:
    shared = _shared(sides)
    for label in asked:
        if label not in shared:
            raise UnknownNameError("metric of all sides", label, shared, fix="Shared: " + ", ".join(shared))
    if not shared:
        raise UserError(
            "sides must have a metric in common",
            got="; ".join(f"{side.name}: {', '.join(side.labels) or 'none of samples'}" for side in sides),
            fix="Run the same metrics on both",
        )
    return list(dict.fromkeys(asked)) or shared


def _differences(
    sides: Sequence[Side], pairs: Pairs, labels: Sequence[str], of_sets: Sequence[str], *, allow_different: bool
) -> list[str]:
    """Sentences on what differs; metrics that are not one number are refused unless that is allowed.

    `of_sets` are those about metrics of whole sets.
    """
    blockers, warnings = list(of_sets), []
    for first, side in ((sides[one], sides[at]) for one, at in pairs):
        for label in labels:
            blockers += [
                f"{label} of {side.name} is not the same number as that of {first.name}: {fact}"
                for fact in metric_differences(first.header, side.header, label)
            ]
        warnings += [
            f"{side.name} differs from {first.name} in {fact}" for fact in run_differences(first.header, side.header)
        ]
    if blockers and not allow_different:
        raise UserError(
            "numbers to compare must be made in one way",
            got="\n  " + "\n  ".join(blockers),
            fix="Run them with one identity (--like), choose metrics that agree (-m), or insist with --allow-different "
            "(allow_different=True)",
        )
    return [*blockers, *warnings]


def _pairing(sides: Sequence[Side], key: Key, one: int, at: int) -> Pairing:
    in_a, in_b = key.present(one), key.present(at)
    alone_a, alone_b = (
        int((~(other[codes] & (codes >= 0))).sum()) for codes, other in ((key.codes[one], in_b), (key.codes[at], in_a))
    )
    repeated = np.zeros(key.size, dtype=bool)
    for codes in (key.codes[one], key.codes[at]):
        repeated |= np.bincount(codes[codes >= 0], minlength=key.size) > 1
    return Pairing(
        sides[one].name,
        sides[at].name,
        len(key.codes[one]),
        len(key.codes[at]),
        alone_a,
        alone_b,
        int((repeated & in_a & in_b).sum()),
    )


def _nothing_paired(pairings: Sequence[Pairing], key: Key) -> UserError:
    others: dict[str, list[str]] = {}
    for pair in pairings:
        others.setdefault(pair.a, []).append(pair.b)
    return UserError(
        f"rows must pair on {', '.join(key.columns)}",
        got="; ".join(f"no row of {one} with a partner in {', '.join(found)}" for one, found in others.items()),
        fix="Look at the values of these columns, or name others with --pair-on (pair_on=)",
    )


@dataclass(frozen=True)
class _Means:
    """One side's values of one metric by key."""

    mean: np.ndarray
    count: np.ndarray
    within: float | None


def _means(side: Side, codes: np.ndarray, label: str, size: int, chosen: np.ndarray | None) -> _Means:
    values, ok = side.values(label)
    keep = ok & (codes >= 0) if chosen is None else ok & (codes >= 0) & chosen
    values, codes = values[keep], codes[keep]
    # Sums in the order of the values: no number depends on the order of rows.
    order = np.argsort(values, kind="stable")
    values, codes = values[order], codes[order]
    count = np.bincount(codes, minlength=size)
    mean = np.bincount(codes, weights=values, minlength=size) / np.maximum(count, 1)
    spare = int((count - 1)[count > 1].sum())
    within = float(np.square(values - mean[codes]).sum()) / spare if spare else None
    return _Means(mean, count, within)


def make_cells(
    sides: tuple[Side, Side],
    codes: tuple[np.ndarray, np.ndarray],
    key: Key,
    label: str,
    chosen: tuple[np.ndarray, np.ndarray] | None,
) -> Cells:
    """The paired cells of one metric of two sides."""
    a, b = (
        _means(side, own, label, key.size, None if chosen is None else chosen[at])
        for at, (side, own) in enumerate(zip(sides, codes))
    )
    both = (a.count > 0) & (b.count > 0)
    noise, judge = None, None
    if a.within is not None or b.within is not None:
        spread = [part.within or 0.0 for part in (a, b)]
        judge = sum(spread)
        noise = spread[0] / a.count[both] + spread[1] / b.count[both]
    concepts = None if key.concepts is None else key.concepts[both]
    return Cells(a.mean[both], b.mean[both], key.prompts[both], concepts, noise, judge)


def _compared(
    sides: Sequence[Side],
    key: Key,
    places: tuple[int, int],
    label: str,
    group: Mapping[str, Any],
    chosen: Sequence[np.ndarray] | None,
    settings: Mapping[str, Any],
) -> Compared:
    one, at = places
    pair, codes = (sides[one], sides[at]), (key.codes[one], key.codes[at])
    rows = None if chosen is None else (chosen[one], chosen[at])
    found = compare_cells(make_cells(pair, codes, key, label, rows), **settings)
    found = seeds_named(found, key)
    paired = key.present(one) & key.present(at)
    missing = [
        side.missing(label, paired[own] & (own >= 0) & (True if rows is None else rows[index]))
        for index, (side, own) in enumerate(zip(pair, codes))
    ]
    entry = pair[0].entry(label)
    return Compared(
        label=label,
        metric=str(entry["identity"]),
        a=pair[0].name,
        b=pair[1].name,
        group=group,
        higher_is_better=entry.get("info", {}).get("higher_is_better"),
        difference=found,
        holm=None,
        bh=None,
        verdict="inconclusive",
        missing_a=missing[0],
        missing_b=missing[1],
    )


def seeds_named(found: Difference, key: Key) -> Difference:
    """Where the key has no seed, the repeated rows of a key are the seeds of its prompt."""
    split = found.variance
    if "seed" in key.columns or split.judge is None:
        return found
    named = replace(split, seed=split.judge, judge=None, seeds_per_prompt=split.judgements, judgements=1.0)
    return replace(found, variance=named)


def _corrected(rows: Sequence[Compared], level: float) -> tuple[Compared, ...]:
    """Adjusts the p-values over all rows and gives the verdicts."""
    tested = [row for row in rows if row.difference.p.value is not None]
    p = np.array([row.difference.p.value for row in tested], dtype=np.float64)
    adjusted = {id(row): pair for row, *pair in zip(tested, holm(p), benjamini_hochberg(p))}
    result = []
    for row in rows:
        one, other = adjusted.get(id(row), (None, None))
        row = replace(row, holm=None if one is None else float(one), bh=None if other is None else float(other))
        result.append(replace(row, verdict=_verdict(row, level)))
    return tuple(result)


def _verdict(row: Compared, level: float) -> Verdict:
    found = row.difference
    if found.effect is not None and found.effect.tied == 1.0 and found.n_prompts > 1:
        return "equal"
    low, high = found.interval.low, found.interval.high
    if low is None or high is None or row.holm is None or row.holm > 1 - level + 1e-12 or low <= 0 <= high:
        return "inconclusive"
    if row.higher_is_better is None:
        return "higher" if low > 0 else "lower"
    return "better" if (low > 0) == row.higher_is_better else "worse"


def _ranks(
    sides: Sequence[Side], key: Key, labels: Sequence[str], *, seed: int, resamples: int
) -> dict[str, RankStability]:
    """Stability of the order of three and more sides, on the keys that all have a value of."""
    result = {}
    for label in labels:
        higher = sides[0].entry(label).get("info", {}).get("higher_is_better")
        means = [_means(side, codes, label, key.size, None) for side, codes in zip(sides, key.codes)]
        full = np.all([part.count > 0 for part in means], axis=0)
        values = np.column_stack([part.mean[full] for part in means])
        by_prompt, units = _by_unit(values, key, full)
        if len(units) >= 2:
            result[label] = rank_stability(
                by_prompt, units, higher_is_better=higher is not False, seed=seed, resamples=resamples
            )
    return result


def _by_unit(values: np.ndarray, key: Key, full: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the prompts' means, and numbers of prompts, of each concept (or each prompt where there are none)."""
    from beholder.stats.compare import prompt_means

    if not full.any():
        return np.zeros((0, values.shape[1])), np.zeros(0)
    means, first = prompt_means(values, key.prompts[full])
    groups = np.arange(len(first)) if key.concepts is None else key.concepts[full][first]
    if len(np.unique(groups)) < 2:
        groups = np.arange(len(first))
    codes = np.unique(groups, return_inverse=True)[1]
    sums = np.column_stack([np.bincount(codes, weights=column) for column in means.T])
    return sums, np.bincount(codes).astype(np.float64)


def _set_warnings(pairings: Sequence[Pairing]) -> list[str]:
    return [
        f"{pair.a} and {pair.b} are not one set: {pair.unpaired_a} of {pair.rows_a} rows and {pair.unpaired_b} of "
        f"{pair.rows_b} have no partner and are left out"
        for pair in pairings
        if pair.unpaired_a or pair.unpaired_b
    ]


def _notices(sides: Sequence[Side], labels: Sequence[str], pairings: Sequence[Pairing], key: Key) -> list[str]:
    notes = ["the sides share no seed, so prompts are paired and their outputs averaged"] if key.own_seeds else []
    notes += [
        f"{pair.a} and {pair.b}: {pair.repeated_keys} keys have several rows, which are averaged"
        for pair in pairings
        if pair.repeated_keys
    ]
    for side in sides:
        others = [label for label in side.labels if any(label not in other.labels for other in sides)]
        if others:
            notes.append(f"only in some sides, so not compared: {', '.join(others)} of {side.name}")
        if side.header["status"] != "finished":
            notes.append(f"{side.name} is not finished: {side.table.num_rows} samples are scored so far")
    return list(dict.fromkeys(notes))
