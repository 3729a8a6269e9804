"""Metrics against people: how far each orders outputs as they do, and which metric does better."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from beholder._errors import OptionError, UnknownNameError, UserError
from beholder.comparing.ceilings import alpha_of, person_of, strengths_of, turned_votes
from beholder.comparing.ratings import Ratings, read_ratings
from beholder.comparing.records import Agreement, Contrast, MetricAgreement, QuestionAgreement
from beholder.comparing.sides import CANDIDATES, RunLike, methods_of, opened, texts
from beholder.runs.results import Run
from beholder.stats.agreement import Accuracy, Calibration, Judged, pairwise_accuracy
from beholder.stats.association import Draws, Estimate, associations
from beholder.stats.bootstrap import Interval
from beholder.stats.correction import holm
from beholder.stats.permutation import PValue, sign_flip_test
from beholder.stats.reliability import Scale

Pairs = Literal["within", "pooled"]
PAIRS = ("within", "pooled")


def agree(
    run: RunLike,
    human: Any,
    *,
    metrics: Sequence[str] = (),
    pairs: Pairs = "within",
    calibration: Calibration = "heldout",
    scale: Scale = "ordinal",
    mapping: Mapping[str, str] | None = None,
    sets: str = "method",
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
) -> Agreement:
    """Compares the metrics of a run with what people said; the call behind `beholder agree`.

    Args:
        run: a run folder or a run.
        human: a file, DataFrame or list of dicts: ratings (`id` or prompt_id, method, seed …; `rating`; `rater`,
            `question`), votes (`a`, `b` with ids, `winner`: a, b or tie), or votes between sets (`set_a`, `set_b`,
            `winner`, and `concept` where they are about one).
        metrics: labels; all of the run when empty.
        pairs: "within" a prompt, or "pooled" over all outputs.
        calibration: threshold of the metric's ties: "heldout", "paper" or "none".
        scale: what ratings mean to Krippendorff's alpha: "ordinal", "interval" or "nominal".
        mapping: own column of the ratings → its name above.
        sets: column of the run whose values are the sets.
        seed: seed of split, bootstrap and permutations.
        resamples: bootstrap samples.
        level: confidence level.

    Raises:
        UserError: unreadable ratings, no common samples.
        InputError: faults of the ratings, all of them with their rows.
    """
    if pairs not in PAIRS:
        raise OptionError(f"pairs must be one of: {', '.join(PAIRS)}", got=repr(pairs))
    one = opened([run])[0]
    labels = _labels(one, metrics)
    scored = [part for label in labels for part in (label, f"{label}_status")]
    table = one.read(list(dict.fromkeys(["id", "method", sets, *CANDIDATES, *scored])))
    said = read_ratings(human, table, mapping=mapping, sets=sets)
    if said.kind != "sets":
        labels = _of_samples(one, labels, metrics)
    maker = _Maker(one, table, labels, said, pairs, calibration, scale, sets, seed, resamples, level)
    questions = tuple(maker.question(code) for code in range(len(said.question_names)))
    return Agreement(
        questions, said.kind if said.kind != "ratings" else pairs, calibration, level, tuple(maker.notices)
    )


def _labels(run: Run, asked: Sequence[str]) -> list[str]:
    for label in asked:
        if label not in run.labels:
            raise UnknownNameError("metric", label, run.labels, fix="Metrics of the run: " + ", ".join(run.labels))
    return list(dict.fromkeys(asked)) or run.labels


def _of_samples(run: Run, labels: Sequence[str], asked: Sequence[str]) -> list[str]:
    """The labels that have a value a sample; only votes between sets judge metrics of whole sets."""
    found = [label for label in labels if label in run.sample_labels]
    if len(found) < len(labels) and (asked or not found):
        told = ", ".join(label for label in labels if label not in found)
        raise UserError("ratings of samples are compared with metrics of samples", got=f"{told}, of whole sets")
    return found


class _Maker:
    """Makes the entries of all questions with one set of settings."""

    def __init__(
        self,
        run: Run,
        table: pa.Table,
        labels: Sequence[str],
        said: Ratings,
        pairs: Pairs,
        calibration: Calibration,
        scale: Scale,
        sets: str,
        seed: int,
        resamples: int,
        level: float,
    ) -> None:
        self._run, self._table, self._labels, self._said = run, table, labels, said
        self._pairs, self._calibration, self._scale, self._sets = pairs, calibration, scale, sets
        self._seed, self._resamples, self._level = seed, resamples, level
        self.notices: list[str] = []
        self._made: dict[int, Draws] = {}
        self._unit = "prompt"
        if said.kind == "sets":
            self._unit = "concept" if len(np.unique(said.groups)) > 1 else "pair of sets"
        self._entries = {item["label"]: item for item in run.header["metrics"]}
        self._prompts = prompt_codes(table, pooled=pairs == "pooled") if said.kind != "sets" else np.zeros(0, np.intp)
        self._values = self._all_values()

    def _all_values(self) -> dict[str, np.ndarray]:
        """By label: a value a row (or set), higher meaning better, NaN for none."""
        if self._said.kind == "sets":
            found = _set_values(self._run, self._labels, self._said, self._sets)
        else:
            found = {label: _row_values(self._table, label) for label in self._labels}
        for label in self._labels:
            direction = self._direction(label)
            if direction is None:
                self.notices.append(f"{label} has no direction: higher values are taken to mean better")
            if direction is False:
                found[label] = -found[label]
        return found

    def _direction(self, label: str) -> bool | None:
        direction: bool | None = self._entries[label].get("info", {}).get("higher_is_better")
        return direction

    def question(self, code: int) -> QuestionAgreement:
        """The entry of one question."""
        said = self._said.of_question(code)
        question = self._said.question_names[code]
        judged, used = self._judged(said)
        made = [self._metric(label, question, found) for label, found in judged.items()]
        order = sorted(range(len(made)), key=lambda at: -(made[at][0].accuracy.value or -1.0))
        contrasts = self._contrasts([made[at] for at in order], question)
        units = self._units(said)
        draws = self._draws(int(units.max()) + 1)
        alpha, alpha_interval = alpha_of(said, self._scale, units, draws)
        strengths, strength_intervals, strengths_note = self._strengths(said, units, draws)
        places = units if said.kind == "sets" else self._prompts
        return QuestionAgreement(
            question=question,
            kind=said.kind,
            n_ratings=len(said.values),
            n_raters=len(np.unique(said.raters)),
            alpha=alpha,
            alpha_interval=alpha_interval,
            person=person_of(said, places, self._pairs, self._draws) if used else None,
            metrics=tuple(made[at][0] for at in order),
            contrasts=contrasts,
            strengths=strengths,
            strengths_note=strengths_note,
            strength_intervals=strength_intervals,
        )

    def _judged(self, said: Ratings) -> tuple[dict[str, Judged], int]:
        """Each metric beside the people, on the items that every metric has a value of."""
        if said.kind == "ratings":
            items, codes = np.unique(said.first, return_inverse=True)
            y = np.bincount(codes, weights=said.values) / np.bincount(codes)
            first, second, units = items, items, self._prompts[items]
        else:
            first, second, y, groups = _majorities(said)
            units = groups if said.kind == "sets" else self._prompts[first]
        x = {
            label: values[first] - (0.0 if said.kind == "ratings" else values[second])
            for label, values in self._values.items()
        }
        ok = np.all([np.isfinite(values) for values in x.values()], axis=0)
        if not ok.all():
            told = "" if said.kind == "sets" else self._lacking(np.union1d(first[~ok], second[~ok]))
            self.notices.append(
                f"{int((~ok).sum())} of {len(ok)} rated items lack a value of a metric and are left out{told}"
            )
        if not ok.any():
            raise UserError("rated items must have values", got="none that every metric has a value of")
        units = np.unique(units[ok], return_inverse=True)[1]
        pairs: Any = self._pairs if said.kind == "ratings" else "given"
        return {label: Judged(values[ok], y[ok], units, pairs) for label, values in x.items()}, int(ok.sum())

    def _lacking(self, rows: np.ndarray) -> str:
        """What is missing in some rows, by metric and status."""
        told = []
        for label in self._labels:
            statuses = self._table.column(f"{label}_status").take(pa.array(rows)).to_pylist()
            counts = Counter(str(status) for status in statuses if status != "ok")
            told += (
                [f"{label}: " + ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))] if counts else []
            )
        return f" ({'; '.join(told)})"

    def _metric(self, label: str, question: str | None, judged: Judged) -> tuple[MetricAgreement, Accuracy, np.ndarray]:
        calibration: Calibration = "none" if self._said.kind == "sets" else self._calibration
        accuracy = pairwise_accuracy(judged, calibration=calibration, seed=self._seed)
        draws = self._draws(len(accuracy.prompts))
        drawn = accuracy.resampled(draws.weights)
        interval = draws.interval(drawn)
        if accuracy.value is None:
            interval = Interval(None, None, self._level, None, interval.n_units, accuracy.note)
        n_prompts = int(judged.prompts.max()) + 1
        found = associations(judged, self._draws(n_prompts))
        entry = MetricAgreement(
            label=label,
            metric=str(self._entries[label]["identity"]),
            question=question,
            accuracy=Estimate(accuracy.value, interval),
            epsilon=accuracy.epsilon,
            statistics={name: estimate for name, (estimate, _) in found.items()},
            constant=accuracy.constant,
            random=accuracy.random,
            n_items=len(judged.x),
            n_pairs=accuracy.n_pairs,
            n_prompts=n_prompts,
            higher_is_better=self._direction(label),
            note=accuracy.note or ("it is constant" if np.ptp(judged.x) == 0 and judged.pairs != "given" else None),
        )
        return entry, accuracy, drawn

    def _draws(self, n_prompts: int) -> Draws:
        if n_prompts not in self._made:
            # A table of draws stays below 160 MB up to 100,000 prompts.
            resamples = min(self._resamples, max(200, 20_000_000 // max(n_prompts, 1)))
            self._made[n_prompts] = Draws.make(
                n_prompts, seed=self._seed, resamples=resamples, level=self._level, unit=self._unit
            )
        return self._made[n_prompts]

    def _contrasts(
        self, made: Sequence[tuple[MetricAgreement, Accuracy, np.ndarray]], question: str | None
    ) -> tuple[Contrast, ...]:
        found = []
        for one, other in itertools.combinations(made, 2):
            (a, accuracy_a, drawn_a), (b, accuracy_b, drawn_b) = one, other
            if accuracy_a.value is None or accuracy_b.value is None:
                continue
            draws = self._draws(len(accuracy_a.prompts))
            estimate = Estimate(accuracy_b.value - accuracy_a.value, draws.interval(drawn_b - drawn_a))
            found.append(
                Contrast(a.label, b.label, question, estimate, _contrast_p(accuracy_a, accuracy_b, self._seed))
            )
        known = [item for item in found if item.p.value is not None]
        adjusted = dict(zip(map(id, known), holm(np.array([item.p.value for item in known], dtype=np.float64))))
        return tuple(replace(item, holm=float(adjusted[id(item)]) if id(item) in adjusted else None) for item in found)

    def _units(self, said: Ratings) -> np.ndarray:
        """(n,) code of what is drawn, for each entry: the prompt; of votes between sets the concept, else the pair."""
        if said.kind != "sets":
            codes = self._prompts[said.first]
        else:
            codes = said.groups if len(np.unique(said.groups)) > 1 else turned_votes(said)[0]
        return np.unique(codes, return_inverse=True)[1]

    def _strengths(
        self, said: Ratings, units: np.ndarray, draws: Draws
    ) -> tuple[dict[str, float], dict[str, Interval], str | None]:
        """Strengths of the methods whose outputs were voted on, or of the sets."""
        if said.kind == "ratings":
            return {}, {}, None
        names = [name for name, _ in said.sets] if said.kind == "sets" else _row_methods(self._table)
        if names is None:
            return {}, {}, "no strengths: the run has one method"
        return strengths_of(said, names, units, draws)


def prompt_codes(table: pa.Table, *, pooled: bool) -> np.ndarray:
    """(n,) code of each row's prompt: its prompt id within its concept, else the prompt's text.

    Raises:
        UserError: pairs within a prompt are asked for and there is no prompt.
    """
    names = [name for name in ("prompt_id", "prompt") if name in table.column_names][:1]
    if not names:
        if pooled:
            return np.arange(table.num_rows)
        raise UserError(
            "pairs within a prompt need a column prompt_id or prompt",
            got="a run without them",
            fix="Use --pairs pooled (pairs='pooled')",
        )
    if names == ["prompt_id"] and "concept" in table.column_names:
        names.append("concept")
    parts = [texts(table, name).to_pylist() for name in names]
    keys: dict[Any, int] = {}
    return np.array(
        [
            keys.setdefault(key if key[0] is not None else (at, None, None), len(keys))
            for at, key in enumerate(zip(*parts))
        ],
        dtype=np.intp,
    )


def _row_values(table: pa.Table, label: str) -> np.ndarray:
    statuses = np.array(table.column(f"{label}_status").to_pylist())
    return np.where(statuses == "ok", np.asarray(table.column(label).fill_null(0.0), dtype=np.float64), np.nan)


def _row_methods(table: pa.Table) -> list[str | None] | None:
    return texts(table, "method").to_pylist() if len(methods_of(table)) > 1 else None


def _set_values(run: Run, labels: Sequence[str], said: Ratings, sets: str) -> dict[str, np.ndarray]:
    """By label: the headline value of each set (and concept)."""
    columns = [sets, "concept"] if any(concept is not None for _, concept in said.sets) else [sets]
    found: dict[tuple[str, str, str | None], float | None] = {}
    for item in run.summarise(by=columns):
        if item.headline and set(item.group) == set(columns):
            concept = item.group.get("concept")
            found[item.label, str(item.group[sets]), None if concept is None else str(concept)] = item.value
    result = {}
    for label in labels:
        values = [found.get((label, *place)) for place in said.sets]
        result[label] = np.array([np.nan if value is None else value for value in values])
    return result


def _majorities(said: Ratings) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Each pair that was voted on: both ends, the sign of the sum of the votes, and its group."""
    low, high = np.minimum(said.first, said.second), np.maximum(said.first, said.second)
    turned = np.where(said.first == low, said.values, -said.values)
    pairs, at, codes = np.unique(np.column_stack([low, high]), axis=0, return_index=True, return_inverse=True)
    total = np.bincount(codes.ravel(), weights=turned)
    # Votes between sets without a concept: the pair itself is the unit.
    groups = said.groups[at] if len(np.unique(said.groups)) > 1 else np.arange(len(pairs))
    return pairs[:, 0], pairs[:, 1], np.sign(total), groups


def _contrast_p(a: Accuracy, b: Accuracy, seed: int) -> PValue:
    if a.counts is None or b.counts is None or a.counts.pooled:
        return PValue(None, None, len(a.prompts))
    return sign_flip_test(b.counts.agreeing - a.counts.agreeing, seed=seed)
