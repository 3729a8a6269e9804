"""Does a run come out again? A random part of its rows is scored anew, from the identity that the run stored."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import OptionError, UserError
from beholder.manifest.schema import Sample
from beholder.report.identity import identity_warnings
from beholder.runs.config import RunConfig, make_config
from beholder.runs.engine import Scorer, chunks
from beholder.runs.folder import make_header
from beholder.runs.inputs import config_source
from beholder.runs.plan import Plan, look_ahead, make_plan, score_names
from beholder.runs.results import Run
from beholder.runs.store import FeatureStore

RELATIVE, ABSOLUTE = 1e-4, 1e-5
"""|new − old| up to ABSOLUTE + RELATIVE · |old| counts as the same number: other hardware rounds otherwise."""

_OF_SETS = "it is of whole sets, not of rows; run it again to see"
_UNUSED = ("out", "by", "store", "overwrite", "workers", "max_failed", "batch_size", "metrics", "model")


@dataclass(frozen=True)
class VerifiedMetric:
    """What came of one metric.

    Args:
        label: its column.
        identity: its printed name.
        checked: rows that were scored again.
        identical: rows whose value and status are the same to the last bit.
        close: rows whose status is the same and whose value differs within the tolerance.
        different: ids of the other rows.
        largest: the largest difference of two values, or None where no row has two.
        note: why it was not checked, or None.
    """

    label: str
    identity: str
    checked: int = 0
    identical: int = 0
    close: int = 0
    different: tuple[str, ...] = ()
    largest: float | None = None
    note: str | None = None


@dataclass(frozen=True)
class Verification:
    """The answer of `beholder verify`.

    Args:
        run: the run folder.
        rows: rows of the run.
        metrics: what came of each metric.
        gone: ids that were drawn and are no longer in the input.
        changes: what differs from when the run was made: weights, libraries, settings.
    """

    run: str
    rows: int
    metrics: tuple[VerifiedMetric, ...]
    gone: tuple[str, ...]
    changes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True when every drawn row came out again."""
        return not self.gone and not any(metric.different for metric in self.metrics)


def verify(
    run: str | os.PathLike[str] | Run,
    *,
    n: int = 100,
    seed: int = 0,
    data: str | None = None,
    device: str | None = None,
    cache_dir: str | None = None,
    offline: bool | None = None,
) -> Verification:
    """Scores a random part of a finished run again, with an empty feature store; the call behind `beholder verify`.

    Args:
        run: a run folder or an opened run.
        n: rows to score again; all of them when the run has no more.
        seed: seed of the drawing.
        data: the input, where it has moved; by default where the run had it, seen from the root or from the folder.
        device: device; that of the run when None.
        cache_dir: folder to look for weights in first; that of the run when None.
        offline: True never fetches anything.

    Returns:
        By metric how many rows came out again, and what has changed since. Values that depend on other rows (win
        probabilities) are not checked, and say so.

    Raises:
        UserError: the run is not finished, was made of data in memory, its input is gone, or it has metrics or models
            that exist in another process only.
    """
    if n < 1:
        raise OptionError("at least one row must be checked", got=str(n))
    found = run if isinstance(run, Run) else Run(os.fspath(run))
    if not found.finished:
        raise UserError("only a finished run can be verified", got=str(found.path), fix="Run the same command again")
    config = run_config(found, data=data, device=device, cache_dir=cache_dir, offline=offline)
    entries = [entry for entry in found.header["metrics"] if entry["label"] in found.sample_labels]
    of_sets = [entry for entry in found.header["metrics"] if entry["label"] not in found.sample_labels]
    if not entries:
        raise UserError("a run of metrics of whole sets has no rows to verify", got=str(found.path))
    asked = [str(entry["identity"]) for entry in entries]
    plan = make_plan(config, metrics=asked, samples=config_source(config) if look_ahead(config, asked) else None)
    labels = [str(entry["label"]) for entry in entries]
    old = _rows(found, labels, n, seed)
    new = _score_again(config, plan, labels, set(old))
    header = make_header(config, plan, source=str(found.header["source"]))
    for entry, label in zip(header["metrics"], labels, strict=True):
        entry["label"] = label  # a run's own labels
    return Verification(
        run=str(found.path),
        rows=found.n,
        metrics=tuple(
            _compare(label, planned.metric.identity, old, new, skip=_depends_on_others(found, label))
            for label, planned in zip(labels, plan.metrics, strict=True)
        )
        + tuple(VerifiedMetric(str(entry["label"]), str(entry["identity"]), note=_OF_SETS) for entry in of_sets),
        gone=tuple(name for name in old if name not in new),
        changes=tuple(identity_warnings([("the run", found.header), ("today", header)])),
    )


def run_config(found: Run, *, data: str | None, **changes: Any) -> RunConfig:
    """The settings of a run, its input where it is now; metrics, model and output folder are left out."""
    asked: dict[str, Any] = {k: v for k, v in found.header["asked"].items() if v is not None and k not in _UNUSED}
    asked |= {name: value for name, value in changes.items() if value is not None}
    places = found.header.get("input")
    if data is not None:
        asked |= {"data": os.fspath(data)}
        asked.pop("prompts", None)
        asked.pop("outputs", None)
    elif places is None:
        raise UserError(
            "a run of data in memory cannot be read again", got=str(found.path), fix="Name its data with --data"
        )
    else:
        names = [name for name in ("data", "prompts", "outputs") if asked.get(name)]
        for at, name in enumerate(names):
            asked[name] = _place(found.path, places, at, check=name != "outputs")
    return make_config(asked, source=f"the settings of {found.path}")


def _place(folder: Path, places: Mapping[str, Sequence[str]], at: int, *, check: bool) -> str:
    """Where an input is now: at its old place, or at the same place as seen from the run folder."""
    absolute, relative = places["absolute"][at], places["from_run"][at]
    if "://" in absolute or os.path.exists(absolute):
        return absolute
    moved = os.path.normpath(folder / relative)
    if check and not os.path.exists(moved):
        raise UserError(
            "the input of the run must be there", got=f"neither {absolute} nor {moved}", fix="Name it with --data"
        )
    return moved if check else absolute


def _rows(found: Run, labels: Sequence[str], n: int, seed: int) -> dict[str, dict[str, Any]]:
    """Randomly drawn rows by id: each metric's value and status."""
    names = ["id", *(name for label in labels for name in score_names(label)[:2])]
    table = found.read(names)
    chosen = np.sort(np.random.default_rng(seed).choice(table.num_rows, size=min(n, table.num_rows), replace=False))
    return {str(row["id"]): row for row in table.take(chosen).to_pylist()}


def _score_again(config: RunConfig, plan: Plan, labels: Sequence[str], ids: set[str]) -> dict[str, dict[str, Any]]:
    """The drawn rows, scored with nothing remembered. Batches are full, as in the run itself."""
    source = config_source(config)
    source.check()
    samples: list[Sample] = [sample for sample in source if sample.id in ids]
    store = FeatureStore(None)
    scorer = Scorer(plan, config, store)
    rows: dict[str, dict[str, Any]] = {}
    try:
        for part in chunks(samples):
            chunk, columns = scorer.prepare(part)
            _, batch = scorer.score(chunk, columns)
            for row in batch.to_pylist():
                rows[str(row["id"])] = {
                    name: row.get(ours)
                    for label, planned in zip(labels, plan.metrics, strict=True)
                    for name, ours in zip(score_names(label)[:2], score_names(planned.label)[:2], strict=True)
                }
    finally:
        scorer.close()
        store.close()
    return rows


def _depends_on_others(found: Run, label: str) -> str | None:
    entry = next(item for item in found.header["metrics"] if item["label"] == label)
    if entry["options"].get("output") == "probability" and entry["info"]["family"] == "preference":
        return "its values depend on other rows; verify the score instead"
    return None


def _compare(
    label: str, identity: str, old: Mapping[str, Any], new: Mapping[str, Any], *, skip: str | None
) -> VerifiedMetric:
    if skip is not None:
        return VerifiedMetric(label, identity, note=skip)
    value, status = score_names(label)[:2]
    identical = close = 0
    different: list[str] = []
    gaps: list[float] = []
    for name in old:
        if name not in new:
            continue
        before, after = old[name], new[name]
        if before[status] != after[status]:
            different.append(name)
            continue
        if before[value] is None or after[value] is None:
            identical += before[value] == after[value]
            continue
        gap = abs(after[value] - before[value])
        gaps.append(gap)
        if gap == 0:
            identical += 1
        elif gap <= ABSOLUTE + RELATIVE * abs(before[value]):
            close += 1
        else:
            different.append(name)
    checked = identical + close + len(different)
    return VerifiedMetric(label, identity, checked, identical, close, tuple(different), max(gaps, default=None))
