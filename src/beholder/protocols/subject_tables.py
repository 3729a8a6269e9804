"""Tables of subject-driven benchmarks: the paper's shape, every aggregate of every cell, and single concepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beholder._identity import OptionValue, format_spec, parse_spec
from beholder.protocols.base import Finished, MetricUse, Scored
from beholder.protocols.results import Number, ResultTable
from beholder.protocols.subject_rows import GENERATION, RECONSTRUCTION
from beholder.protocols.tally import number_of, unit_codes
from beholder.records import Summary

SOURCE = "third-party notes on arXiv 2603.12743"
PUBLISHED_METHODS: Mapping[str, Mapping[str, float]] = {
    "Naive-DB": {
        "Rec CLIP-I": 0.874, "Rec CLIP-I-Seg": 0.758, "Gen CLIP-I": 0.789, "Gen CLIP-I-Seg": 0.717,
        "Gen CLIP-T": 0.291, "Gen Pick Score": 20.80,
    },
    "Enc-FT": {
        "Rec CLIP-I": 0.582, "Rec CLIP-I-Seg": 0.553, "Gen CLIP-I": 0.591, "Gen CLIP-I-Seg": 0.562,
        "Gen CLIP-T": 0.197, "Gen Pick Score": 18.34,
    },
    "MoKus": {
        "Rec CLIP-I": 0.867, "Rec CLIP-I-Seg": 0.764, "Gen CLIP-I": 0.761, "Gen CLIP-I-Seg": 0.718,
        "Gen CLIP-T": 0.305, "Gen Pick Score": 21.30,
    },
}  # fmt: skip
"""The published table of MoKus, as notes give it."""

NAMES: Mapping[str, str] = {
    "clip_i": "CLIP-I", "clip_i_seg": "CLIP-I-Seg", "clip_t": "CLIP-T", "pick_score": "Pick Score", "dino_i": "DINO-I",
    "dino_i_seg": "DINO-I-Seg",
}  # fmt: skip
_PAPERS: Mapping[str, OptionValue] = {"reduce": "mean", "segment": "pred", "invert": False}
"""Options that the paper's words settle; another value makes another quantity."""
_SHORT = {RECONSTRUCTION: "Rec", GENERATION: "Gen"}
_AGGREGATES = ("macro", "micro", "pairs", "skip", "zero", "unsegmented", "seg_found", "over_seeds")
_ALL = "(all outputs)"
_NO_TASK = "(none)"


def paper_table(
    finished: Finished,
    uses: Sequence[MetricUse],
    *,
    caveats: Sequence[str],
    published: Mapping[str, Mapping[str, float]],
) -> ResultTable:
    """A row a method, a column a task and metric: the headline values, ± sd over seeds where outputs have seeds."""
    tasks = _tasks(finished)
    cells = _cells(finished, ("task", "method"))
    spreads = _spreads(finished)
    columns, numbers = [], []
    for task in tasks:
        for scored in finished.metrics:
            if not _applies(uses, scored, task):
                continue
            column = _column(finished, scored, task, alone=not published and tasks == [GENERATION])
            columns.append(column)
            for method in _methods(finished):
                found = cells.get((scored.label, task, method, "headline"))
                if found is None:
                    continue
                spread = spreads.get((scored.label, task, method))
                sd = {} if spread is None or spread.sd is None else {"sd": spread.sd, "sd_over": "seed"}
                numbers.append(number_of(found, (method or _ALL,), column, **sd))
    numbers += [
        Number((method,), column, value, source=SOURCE)
        for method, row in published.items()
        for column, value in row.items()
        if column in columns
    ]
    means = sorted({number.aggregate for number in numbers if not number.is_published})
    notes = [f"Aggregate: {' and '.join(means)} mean; counts stand in the table cells.", *(caveats if numbers else ())]
    return ResultTable(
        "paper", "Subject and prompt fidelity", ("method",), tuple(columns), tuple(numbers), tuple(notes), show_n=False
    )


def cell_table(finished: Finished, uses: Sequence[MetricUse]) -> ResultTable:
    """Every aggregate of every task, method and metric; a metric that does not apply says why."""
    cells = _cells(finished, ("task", "method"))
    spreads = _spreads(finished)
    numbers, notes = [], []
    for task in _tasks(finished):
        for method in _methods(finished):
            for scored in finished.metrics:
                row = (task or _NO_TASK, method or _ALL, scored.label)
                if not _applies(uses, scored, task):
                    numbers.append(_not_applicable(finished, scored, task, method, row))
                    notes.append(f"{scored.label} does not apply to the task {task}: {_why(uses, scored)}.")
                    continue
                for name in _AGGREGATES:
                    found = cells.get((scored.label, task, method, name))
                    if found is not None:
                        numbers.append(number_of(found, row, name))
                spread = spreads.get((scored.label, task, method))
                if spread is not None:
                    more: dict[str, Any] = {"sd": spread.sd, "sd_over": "seed", "n_missing": {}}
                    numbers.append(number_of(spread, row, "over_seeds", **more))
    columns = tuple(name for name in _AGGREGATES if any(number.column == name for number in numbers))
    meaning = (
        "macro: mean over concepts of the concept's mean; micro: mean over outputs; pairs: mean over all pairs of an "
        "output and a reference."
    )
    masks = (
        "An output without a mask is left out (skip), counts as 0 (zero) or as its plain value (unsegmented); "
        "seg_found is the share with a mask."
    )
    told = [meaning, *([masks] if "seg_found" in columns else []), *dict.fromkeys(notes)]
    return ResultTable("cells", "All aggregates", ("task", "method", "metric"), columns, tuple(numbers), tuple(told))


def concept_table(finished: Finished, uses: Sequence[MetricUse]) -> ResultTable:
    """The mean of each concept, by task and method."""
    columns = [name for name in ("task", "method", "concept") if name in finished.columns]
    numbers = []
    for scored in finished.metrics:
        for item in _grouped(finished, scored, columns):
            task = item.group.get("task")
            if item.aggregate != "micro" or not _applies(uses, scored, task):
                continue
            labels = (
                str(task or _NO_TASK),
                str(item.group.get("method") or _ALL),
                str(item.group.get("concept") or _ALL),
            )
            numbers.append(number_of(item, labels, scored.label))
    order = {row: at for at, row in enumerate(dict.fromkeys(number.row for number in numbers))}
    numbers.sort(key=lambda number: order[number.row])
    shown = tuple(scored.label for scored in finished.metrics)
    return ResultTable("concepts", "Means of concepts", ("task", "method", "concept"), shown, tuple(numbers))


def counts_of(finished: Finished) -> dict[str, Any]:
    """What the data held: outputs, and by task its concepts, knowledge items, prompts and seeds."""
    tasks, concepts = finished.column("task"), finished.column("concept")
    knowledge, seeds = finished.column("knowledge_id"), finished.column("seed")
    units = unit_codes(finished).tolist()
    by_task: dict[str, Any] = {}
    for task in dict.fromkeys(tasks):
        rows = [at for at, name in enumerate(tasks) if name == task]
        items = {(concepts[at], knowledge[at]) for at in rows if knowledge[at] is not None}
        by_task[task or _NO_TASK] = {
            "outputs": len(rows),
            "concepts": len({concepts[at] for at in rows} - {None}),
            "knowledge": len(items),
            "prompts": len({units[at] for at in rows}),
            "seeds": len({seeds[at] for at in rows} - {None}),
        }
    return {"outputs": finished.n, "concepts": len(set(concepts) - {None}), "tasks": by_task}


Key = tuple[str, Any, Any, str]


def _cells(finished: Finished, by: Sequence[str]) -> dict[Key, Summary]:
    """Summaries by label, task, method and aggregate; the headline also stands under "headline"."""
    columns = [name for name in by if name in finished.columns]
    found: dict[Key, Summary] = {}
    for scored in finished.metrics:
        for item in _grouped(finished, scored, columns):
            key = (scored.label, item.group.get("task"), item.group.get("method"))
            if item.aggregate == "over_seeds":
                continue
            found[(*key, item.aggregate)] = item
            if item.headline:
                found[(*key, "headline")] = item
    return found


def _spreads(finished: Finished) -> dict[tuple[str, Any, Any], Summary]:
    """Means and sds over seeds by label, task and method; none where outputs have no seeds."""
    columns = [name for name in ("task", "method", "seed") if name in finished.columns]
    if "seed" not in columns:
        return {}
    return {
        (item.label, item.group.get("task"), item.group.get("method")): item
        for item in finished.summarise(columns)
        if item.aggregate == "over_seeds" and item.n_units > 1
    }


def _grouped(finished: Finished, scored: Scored, columns: Sequence[str]) -> Iterator[Summary]:
    """One metric's summaries of exactly these columns' groups."""
    for item in finished.summarise(columns):
        if item.label == scored.label and set(item.group) == set(columns):
            yield item


def _not_applicable(finished: Finished, scored: Scored, task: Any, method: Any, row: tuple[str, ...]) -> Number:
    tasks, methods = finished.column("task"), finished.column("method")
    chosen = [at for at in range(finished.n) if tasks[at] == task and methods[at] == method]
    counts: dict[str, int] = {}
    for at in chosen:
        counts[scored.statuses[at]] = counts.get(scored.statuses[at], 0) + 1
    return Number(row, "macro", None, n=counts.pop("ok", 0), n_missing=counts, aggregate="macro")


def _applies(uses: Sequence[MetricUse], scored: Scored, task: str | None) -> bool:
    return all(use.applies_to(task) for use in uses if use.name == scored.name)


def _why(uses: Sequence[MetricUse], scored: Scored) -> str:
    return next((use.why for use in uses if use.name == scored.name), "")


def _tasks(finished: Finished) -> list[Any]:
    """The tasks that occur, reconstruction first, as the paper has them."""
    found = dict.fromkeys(finished.column("task"))
    known = [task for task in (RECONSTRUCTION, GENERATION) if task in found]
    return known + [task for task in found if task not in known]


def _methods(finished: Finished) -> list[Any]:
    return list(dict.fromkeys(finished.column("method")))


def _column(finished: Finished, scored: Scored, task: Any, *, alone: bool) -> str:
    """The paper's name of a metric in a task; labels where one metric stands twice, or is not what the paper names."""
    twins = sum(other.name == scored.name for other in finished.metrics)
    name = scored.label if twins > 1 else _variant(scored) or NAMES.get(scored.name, scored.label)
    return name if alone or task is None else f"{_SHORT.get(task, task)} {name}"


def _variant(scored: Scored) -> str | None:
    """The name of a metric whose options make another quantity than the paper's words; None where they do not.

    The closest reference alone, masked references or the background are no CLIP-I(-Seg), and must not stand in its
    column above published values.
    """
    options = parse_spec(scored.identity).options
    changed = {key: options[key] for key, plain in _PAPERS.items() if options.get(key, plain) != plain}
    if not changed:
        return None
    return scored.label if scored.label != scored.name else format_spec(scored.name, changed)
