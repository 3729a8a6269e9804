"""A gate for continuous integration: may the candidate replace the baseline, and does it meet its floors?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from beholder._errors import OptionError, UnknownNameError, UserError
from beholder.comparing.compare import compare
from beholder.comparing.records import Compared, SetCompared
from beholder.comparing.sides import RunLike, opened, texts
from beholder.records import Summary
from beholder.runs.results import Run

Outcome = Literal["pass", "fail", "inconclusive"]

_REQUIREMENT = re.compile(r"^\s*(?P<label>.+?)\s*(?P<sign>>=|<=|>|<)\s*(?P<bound>[^<>=]+?)\s*$")


@dataclass(frozen=True)
class Requirement:
    """`label>=bound`: what the whole interval of a mean must meet."""

    label: str
    sign: str
    bound: float

    def __str__(self) -> str:
        return f"{self.label}{self.sign}{self.bound:g}"

    def met_by(self, value: float) -> bool:
        """Whether a number meets it."""
        return {
            ">=": value >= self.bound,
            ">": value > self.bound,
            "<=": value <= self.bound,
            "<": value < self.bound,
        }[self.sign]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Args:
        name: what must hold ("max-drop clip_score 0.002").
        group: {column: value} of the rows it is about; empty for all.
        outcome: whether it holds.
        value: the number looked at, or None.
        low: lower end of its interval, or None.
        high: upper end, or None.
        text: what was found, in words.
    """

    name: str
    group: Mapping[str, Any]
    outcome: Outcome
    value: float | None
    low: float | None
    high: float | None
    text: str


@dataclass(frozen=True)
class GateResult:
    """All checks.

    Args:
        checks: in the order they were asked for.
        passed: whether the gate is met.
        warnings: what differs between candidate and baseline.
        notices: what else to know.
    """

    checks: tuple[Check, ...]
    passed: bool
    warnings: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def parse_requirement(text: str) -> Requirement:
    """`clip_score>=0.30` as its parts.

    Raises:
        OptionError: not of that form.
    """
    found = _REQUIREMENT.match(text)
    try:
        if found is None:
            raise ValueError(text)
        return Requirement(found["label"], found["sign"], _finite(found["bound"]))
    except ValueError as error:
        raise OptionError("a requirement must look like clip_score>=0.30", got=repr(text)) from error


def parse_drops(texts: Sequence[str], metrics: Sequence[str]) -> dict[str, float]:
    """`clip_score=0.002` items, or one number for the metrics named, as {label: allowed drop}.

    Raises:
        OptionError: not of that form, a negative number, or a number without a metric.
    """
    drops: dict[str, float] = {}
    for text in texts:
        label, equals, number = text.rpartition("=")
        try:
            allowed = _finite(number)
        except ValueError as error:
            raise OptionError("an allowed drop must look like clip_score=0.002", got=repr(text)) from error
        if allowed < 0:
            raise OptionError("an allowed drop must be 0 or more", got=repr(text))
        labels = [label] if equals else list(metrics)
        if not labels:
            raise OptionError("a drop needs a metric", got=repr(text), fix="Write METRIC=DROP, or name it with -m")
        drops.update(dict.fromkeys(labels, allowed))
    return drops


def gate(
    candidate: RunLike,
    *,
    baseline: RunLike | None = None,
    max_drop: Mapping[str, float] | None = None,
    require: Sequence[str] = (),
    by: Sequence[str] = (),
    min_coverage: float | None = None,
    max_missing_rise: float = 0.01,
    inconclusive: Literal["fail", "pass"] = "fail",
    pair_on: Sequence[str] = (),
    allow_different: bool = False,
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
) -> GateResult:
    """Checks a candidate; the call behind `beholder gate`.

    A drop passes when the whole interval of the paired difference lies above −drop (in the metric's direction), fails
    when it lies below, and is inconclusive otherwise. A requirement must be met by the whole interval of the mean.

    Args:
        candidate: the run to check.
        baseline: the run that it may not fall behind.
        max_drop: label → allowed drop, 0 or more; needs a baseline.
        require: floors and ceilings such as "clip_score>=0.30".
        by: columns by whose values everything is checked too.
        min_coverage: least share of samples with a value, for each metric looked at.
        max_missing_rise: allowed rise of the share of samples without a value against the baseline.
        inconclusive: what an inconclusive check counts as.
        pair_on: columns to pair on.
        allow_different: accept metrics whose identities differ, with a warning.
        seed: seed of the intervals.
        resamples: bootstrap samples.
        level: confidence level.

    Raises:
        UserError: nothing to check, unknown metrics, a metric without direction under max_drop.
    """
    run = opened([candidate])[0]
    drops, asked = dict(max_drop or {}), [parse_requirement(text) for text in require]
    _check_asked(run, drops, asked, baseline, min_coverage, max_missing_rise, inconclusive)
    checks: list[Check] = []
    warnings: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    if baseline is not None:
        base = opened([baseline])[0]
        labels = list(drops) or [item.label for item in asked if item.label in base.labels] or run.labels
        found = compare(
            base, run, metrics=labels, by=by, pair_on=pair_on, allow_different=allow_different, seed=seed,
            resamples=resamples, level=level,
        )  # fmt: skip
        warnings, notices = found.warnings, found.notices
        if len(found.sides) > 2:
            raise UserError(
                "a gate compares one candidate with one baseline",
                got=f"{len(found.sides)} sides: {', '.join(found.sides)}",
                fix="Use runs of one method each",
            )
        checks += [_drop_check(row, drops[row.label]) for row in found.rows if row.label in drops]
        checks += [_set_drop_check(item, drops[item.label]) for item in found.sets if item.label in drops]
        checks += _missing_checks(run, base, labels, by, max_missing_rise)
        notices = (*notices, *_undivided(found.sets, drops, by))
    looked_at = list(dict.fromkeys([*drops, *(item.label for item in asked)])) or run.labels
    summaries = [item for item in _summaries(run, by) if item.headline]
    checks += [_require_check(item, summary) for item in asked for summary in summaries if summary.label == item.label]
    if min_coverage is not None:
        checks += [_coverage_check(item, min_coverage) for item in summaries if item.label in looked_at]
    allowed = {"pass", "inconclusive"} if inconclusive == "pass" else {"pass"}
    return GateResult(tuple(checks), all(item.outcome in allowed for item in checks), warnings, notices)


def _check_asked(
    run: Run,
    drops: Mapping[str, float],
    asked: Sequence[Requirement],
    baseline: RunLike | None,
    min_coverage: float | None,
    max_missing_rise: float,
    inconclusive: str,
) -> None:
    if not drops and not asked and min_coverage is None:
        raise UserError(
            "a gate needs something to check", got="nothing", fix="Give --max-drop, --require or --min-coverage"
        )
    if drops and baseline is None:
        raise UserError("an allowed drop needs a baseline", got="none", fix="Name one with --baseline RUN")
    if inconclusive not in ("fail", "pass"):
        raise OptionError("inconclusive must count as fail or pass", got=repr(inconclusive))
    for name, share in (("min_coverage", min_coverage), ("max_missing_rise", max_missing_rise)):
        if share is not None and not 0 <= share <= 1:
            raise OptionError(f"{name} must lie between 0 and 1", got=repr(share))
    for label in [*drops, *(item.label for item in asked)]:
        if label not in run.labels:
            raise UnknownNameError(
                "metric", label, run.labels, fix="Metrics of the candidate: " + ", ".join(run.labels)
            )
    for label in drops:
        entry = next(item for item in run.header["metrics"] if item["label"] == label)
        if entry.get("info", {}).get("higher_is_better") is None:
            raise UserError(
                f"a drop of {label} needs a direction, and the metric has none", got=label, fix="Use --require"
            )


def _summaries(run: Run, by: Sequence[str]) -> list[Summary]:
    columns = {frozenset(), frozenset(by)}
    found = run.summarise(by=by) if by else run.summary
    return [item for item in found if frozenset(item.group) in columns]


def _drop_check(row: Compared, allowed: float) -> Check:
    name = f"max-drop {row.label} {allowed:g}"
    found, sign = row.difference, -1.0 if row.higher_is_better is False else 1.0
    if found.value is None:
        return Check(name, row.group, "inconclusive", None, None, None, found.note or "no pairs")
    interval = (found.interval.low, found.interval.high)
    return _judged_drop(name, row.group, found.value, interval, sign, allowed, found.note)


def _set_drop_check(item: SetCompared, allowed: float) -> Check:
    name, sign = f"max-drop {item.label} {allowed:g}", -1.0 if item.higher_is_better is False else 1.0
    if item.difference is None:
        return Check(name, {}, "inconclusive", None, None, None, item.note or "no value")
    return _judged_drop(name, {}, item.difference, (item.low, item.high), sign, allowed, item.note_b)


def _judged_drop(
    name: str,
    group: Mapping[str, Any],
    value: float,
    interval: tuple[float | None, float | None],
    sign: float,
    allowed: float,
    note: str | None,
) -> Check:
    """A difference with its interval against the drop that is allowed."""
    low, high = interval
    if low is None or high is None:
        return Check(name, group, "inconclusive", value, None, None, f"Δ {value:.6g}; {note or 'no interval'}")
    worst, best = sorted((sign * low, sign * high))
    outcome: Outcome = "pass" if worst >= -allowed else "fail" if best < -allowed else "inconclusive"
    words = {"pass": "above", "fail": "below", "inconclusive": "on both sides of"}[outcome]
    text = f"Δ {value:.6g} [{low:.6g}, {high:.6g}]: {words} the allowed drop" + (f"; {note}" if note else "")
    return Check(name, group, outcome, value, low, high, text)


def _require_check(asked: Requirement, item: Summary) -> Check:
    name = f"require {asked}"
    if item.value is None or item.low is None or item.high is None:
        told = "no value" if item.value is None else f"{item.value:.6g}, no interval"
        outcome: Outcome = "fail" if item.value is None or not asked.met_by(item.value) else "inconclusive"
        return Check(name, item.group, outcome, item.value, None, None, f"{told}: {item.note or 'not known'}")
    met = asked.met_by(item.low) and asked.met_by(item.high)
    text = f"{item.value:.6g} [{item.low:.6g}, {item.high:.6g}]"
    if not met and asked.met_by(item.value):
        text += ": the mean meets it, its whole interval does not"
    if item.note:
        text += f"; {item.note}"
    return Check(name, item.group, "pass" if met else "fail", item.value, item.low, item.high, text)


def _coverage_check(item: Summary, least: float) -> Check:
    missing = sum(item.n_missing.values())
    total = item.n + missing
    share = item.n / total if total else 0.0
    outcome: Outcome = "pass" if total and share >= least else "fail"
    text = f"{item.n} of {total} samples have a value ({100 * share:.4g} %)"
    return Check(f"min-coverage {item.label} {least:g}", item.group, outcome, share, None, None, text)


def _undivided(sets: Sequence[SetCompared], drops: Mapping[str, float], by: Sequence[str]) -> list[str]:
    """Says of which metrics groups are not checked."""
    labels = list(dict.fromkeys(item.label for item in sets if item.label in drops))
    if not labels or not by:
        return []
    return [f"drops of {', '.join(labels)} are checked over all rows only: a set's groups have no rows to pair"]


def _missing_checks(run: Run, base: Run, labels: Sequence[str], by: Sequence[str], allowed: float) -> list[Check]:
    """The share of samples without a value may not rise by more than is allowed, over all rows and in each group."""
    checks = []
    for label in labels:
        before, now = (_missing_shares(one, label, by) for one in (base, run))
        for group, share in now.items():
            # A group that the baseline lacks had nothing missing.
            rise = share - before.get(group, 0.0)
            outcome: Outcome = "pass" if rise <= allowed + 1e-12 else "fail"
            text = f"{100 * before.get(group, 0.0):.4g} % → {100 * share:.4g} % of samples without a value"
            checks.append(Check(f"missing {label} +{allowed:g}", dict(group), outcome, rise, None, None, text))
    return checks


def _missing_shares(run: Run, label: str, by: Sequence[str]) -> dict[tuple[tuple[str, Any], ...], float]:
    """Share of the samples without a value: of all, under (), then of each group in the order of its values."""
    table = run.read([*by, f"{label}_status"])
    missing = [status != "ok" for status in table.column(f"{label}_status").to_pylist()]
    found: dict[tuple[tuple[str, Any], ...], list[bool]] = {(): missing}
    if by:
        rows = zip(*(texts(table, name).to_pylist() for name in by))
        named = [tuple(zip(by, values)) for values in rows]
        for group in sorted(set(named), key=lambda parts: [(value is None, str(value)) for _, value in parts]):
            found[group] = []
        for group, lost in zip(named, missing):
            found[group].append(lost)
    return {group: sum(lost) / len(lost) if lost else 0.0 for group, lost in found.items()}


def _finite(text: str) -> float:
    value = float(text)
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(text)
    return value
