"""GenAI-Bench: how well outputs follow compositional prompts, by skill, and how well metrics agree with people on it.

Source: Li et al. 2024, GenAI-Bench, arXiv 2406.13743; Lin et al. 2024, VQAScore, arXiv 2404.01291.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from beholder._errors import Fault
from beholder.manifest import open_source
from beholder.manifest.data_files import ParquetReader
from beholder.manifest.locations import suffix_of
from beholder.manifest.schema import Sample, SampleSource
from beholder.manifest.source import RowReader, RowSource
from beholder.manifest.tables import table_reader
from beholder.media.kinds import media_kind
from beholder.protocols.base import AgreementAsk, DataCheck, Finished, MetricUse, Protocol, ProtocolInfo
from beholder.protocols.files import find_file, is_folder
from beholder.protocols.genai_data import (
    PROMPT_FILES,
    SKILL_GROUPS,
    GenAIFolderReader,
    GenAITableReader,
    is_published_table,
    table_skills,
)
from beholder.protocols.results import Number, ResultTable
from beholder.protocols.tally import cell_list, mean_number, number_of, summaries, unit_codes

PAPER = "Li et al., GenAI-Bench: Evaluating and Improving Compositional Text-to-Visual Generation, arXiv 2406.13743"
SOURCE = "arXiv 2406.13743"
COLUMNS = ("accuracy %", "Pearson ×100", "Kendall τ-b ×100")
PUBLISHED: Mapping[str, Mapping[str, tuple[float, float, float]]] = {
    "image": {
        "CLIPScore L-336": (50.8, 16.4, 11.8),
        "BLIP2-ITM": (52.2, 17.2, 14.7),
        "ImageReward": (56.6, 35.0, 24.0),
        "PickScore": (57.1, 35.4, 25.0),
        "HPSv2": (49.6, 13.9, 9.6),
        "VQAScore CLIP-FlanT5-XXL": (64.1, 49.9, 39.8),
    },
    "video": {
        "CLIPScore L-336": (53.6, 25.3, 18.0),
        "BLIP2-ITM": (54.6, 25.3, 20.1),
        "ImageReward": (60.0, 42.9, 31.4),
        "PickScore": (56.8, 34.6, 24.8),
        "HPSv2": (51.5, 18.4, 13.7),
        "VQAScore CLIP-FlanT5-XXL": (63.2, 50.6, 38.2),
    },
}
"""Published agreement with people: pairwise accuracy in percent, 100 Pearson, 100 Kendall."""

LOWEST, HIGHEST = 1.0, 5.0
HUMAN = "human rating"
_NO_MODEL = "(all outputs)"
_AS_PUBLISHED = "as published"


class GenAIBench(Protocol):
    """`genai-bench`: see its card."""

    info = ProtocolInfo(
        name="genai-bench",
        summary="How well outputs follow compositional prompts, by skill; and agreement of metrics with human ratings.",
        data=(
            "The published folder: genai_image.json or genai_video.json, genai_skills.json, MODEL/PROMPT_ID.jpeg; "
            "a folder of your own model's outputs beside the others is a model without ratings.",
            "The published table (Parquet, a Hugging Face data set): a row a prompt, a picture column a model, "
            "MODEL_HumanRating columns.",
            "A manifest with the columns skills (a list) and ratings (a list) beside the usual ones.",
        ),
        metrics=(MetricUse("vqa_score"),),
        tables={
            "skills": "mean score of each model on each skill, and the mean human rating",
            "agreement": "pairwise accuracy, Pearson and Kendall against the human ratings, beside published ones",
        },
        paper=PAPER,
        reference_code="https://github.com/linzhiqiu/t2v_metrics",
        version="1",
        caveats=(
            f"Published rows are those of {SOURCE}, on its own outputs, prompts and ratings; they are not recomputed.",
            "They pool the pairs of all outputs and choose the threshold of ties on the same ratings; the rows "
            f"'{_AS_PUBLISHED}' do the same. The rows 'within prompts' choose it on other prompts.",
        ),
    )
    agreement_asks = (
        AgreementAsk(_AS_PUBLISHED, "pooled", "paper"),
        AgreementAsk("within prompts", "within", "heldout"),
    )

    def source(self, data: Any, *, mapping: Mapping[str, str] | None = None, allow_extra: bool = False) -> SampleSource:
        if is_folder(data) and find_file(data, PROMPT_FILES) is not None:
            return RowSource(GenAIFolderReader(os.fspath(data)), mapping=mapping)
        is_path = isinstance(data, str | os.PathLike)
        table: RowReader | None = None
        if is_path and suffix_of(os.fspath(data)) in (".parquet", ".pq") and os.path.isfile(data):
            table = ParquetReader(os.fspath(data))
        elif not is_path:
            table = table_reader(data)
        if table is not None and is_published_table(table.columns()):
            return RowSource(GenAITableReader(table, table.columns() or ()), mapping=mapping)
        return open_source(data, mapping=mapping, allow_extra=allow_extra)

    def counts(self, finished: Finished) -> Mapping[str, Any]:
        methods = finished.values_of("method", none=_NO_MODEL)
        return {
            "outputs": finished.n,
            "prompts": len(set(unit_codes(finished).tolist())),
            "models": {name: methods.count(name) for name in dict.fromkeys(methods)},
            "skills": {name: len(rows) for _, name, rows in _skills(finished)},
            "ratings": sum(map(len, _ratings(finished))),
        }

    def ratings(self, finished: Finished) -> list[dict[str, Any]]:
        ids = finished.column("id")
        return [
            {"id": name, "rating": rating, "rater": f"rater {at}"}
            for name, given in zip(ids, _ratings(finished))
            for at, rating in enumerate(given, start=1)
        ]

    def tables(self, finished: Finished) -> Iterable[ResultTable]:
        yield _skill_table(finished)
        if any(_ratings(finished)):
            yield _agreement_table(finished)

    def examine(self, samples: Iterator[Sample]) -> DataCheck:
        found = DataCheck()
        tagged, rated, skills = 0, 0, dict[str, int]()
        for sample in samples:
            tags, given = _tags_of(sample.extras), cell_list(sample.extras.get("ratings"))
            tagged, rated = tagged + bool(tags), rated + bool(given)
            skills.update({tag: skills.get(tag, 0) + 1 for tag in tags})
            wrong = [item for item in given if _rating(item) is None]
            if wrong:
                text = f"a rating must be a number from {LOWEST:g} to {HIGHEST:g}; got {wrong[0]!r}"
                found.faults.append(Fault(text, row=sample.row, where="ratings", form=False))
        found.counts = {"outputs_with_skills": tagged, "outputs_with_ratings": rated, "skills": skills}
        if not tagged:
            found.warnings.append("no output has skill tags: the table has one row a model")
        if not rated:
            found.warnings.append("no output has human ratings: there is no table of agreement")
        return found


def _skill_table(finished: Finished) -> ResultTable:
    methods = finished.values_of("method", none=_NO_MODEL)
    units = unit_codes(finished)
    means = np.array([np.mean(given) if given else np.nan for given in _ratings(finished)])
    columns = [scored.label for scored in finished.metrics] + ([HUMAN] if np.isfinite(means).any() else [])
    numbers: list[Number] = []
    unrated = []
    for method in dict.fromkeys(methods):
        mine = np.array([name == method for name in methods])
        unrated += [] if np.isfinite(means[mine]).any() else [method]
        for group, skill, rows in _skills(finished):
            chosen = rows[mine[rows]]
            row = (method, group, skill)
            if not len(chosen):
                continue
            for scored in finished.metrics:
                headline = next(item for item in summaries(finished, scored, rows=chosen) if item.aggregate == "micro")
                numbers.append(number_of(headline, row, scored.label))
            if HUMAN in columns and method not in unrated:
                given = chosen[np.isfinite(means[chosen])]
                numbers.append(mean_number(means[given], units[given], finished, row, HUMAN))
    notes = ["Means over outputs; a prompt counts for each of its skills."]
    if unrated and HUMAN in columns:
        notes.append(f"No ratings of {', '.join(unrated)}.")
    untagged = sum(not tags for tags in _all_tags(finished))
    if untagged and untagged < finished.n:
        notes.append(f"{untagged} of {finished.n} outputs have no skill; the row 'all' has them too, 'tagged' has not.")
    return ResultTable(
        "skills", "Scores by model and skill", ("model", "group", "skill"), tuple(columns), tuple(numbers), tuple(notes)
    )


def _agreement_table(finished: Finished) -> ResultTable:
    numbers: list[Number] = []
    for agreed in finished.agreements:
        for record in agreed.records:
            row, n = (record["run"], agreed.ask.name), record["n_items"]
            for column, name in zip(COLUMNS, ("accuracy", "pearson", "tau_b")):
                numbers.append(_hundred(record, name, row, column, n))
        if agreed.records:
            first = agreed.records[0]
            for name in ("constant", "random"):
                value = first[name]
                row = (f"({name} metric)", agreed.ask.name)
                numbers.append(Number(row, COLUMNS[0], None if value is None else 100 * value, n=first["n_items"]))
    kinds = {media_kind(str(path)) for path in finished.column("output")}
    shown = PUBLISHED["video" if kinds == {"video"} else "image"]
    for name, values in shown.items():
        numbers += [
            Number((name, _AS_PUBLISHED), column, value, source=SOURCE)
            for column, value in zip(COLUMNS, values)
        ]  # fmt: skip
    notes = ["Each row's rating is the mean of its raters; raters are told apart by their place in the list."]
    return ResultTable(
        "agreement",
        "Agreement with the human ratings",
        ("metric", "pairs"),
        COLUMNS,
        tuple(numbers),
        (*notes, *GenAIBench.info.caveats),
    )


def _hundred(record: Mapping[str, Any], name: str, row: tuple[str, str], column: str, n: int) -> Number:
    """A statistic and its interval, times 100."""
    value, low, high = (
        None if record[key] is None else 100 * record[key] for key in (name, f"{name}_low", f"{name}_high")
    )
    note = record["note"] if value is None else None
    return Number(row, column, value, low, high, n=n, n_units=record["n_prompts"], unit="prompt", note=note)


def _skills(finished: Finished) -> list[tuple[str, str, np.ndarray]]:
    """(group, skill, rows) in the published order, unknown skills behind them, then the rows of all outputs."""
    tags = _all_tags(finished)
    there = dict.fromkeys(tag for row in tags for tag in row)
    known = [(group, tag) for group, listed in SKILL_GROUPS.items() for tag in listed if tag in there]
    others = [("other", tag) for tag in there if not any(tag in listed for listed in SKILL_GROUPS.values())]
    found = [
        (group, tag, np.array([at for at, row in enumerate(tags) if tag in row], dtype=np.intp))
        for group, tag in [*known, *others]
    ]
    tagged = np.array([at for at, row in enumerate(tags) if row], dtype=np.intp)
    if 0 < len(tagged) < finished.n:
        found.append(("overall", "tagged", tagged))
    return [*found, ("overall", "all", np.arange(finished.n))]


def _all_tags(finished: Finished) -> list[list[str]]:
    names = ("skills", "tags", "basic_skills", "advanced_skills")
    columns = [finished.column(name) for name in names]
    return [_tags_of(dict(zip(names, cells))) for cells in zip(*columns)]


def _tags_of(cells: Mapping[str, Any]) -> list[str]:
    listed = cells.get("skills")
    if listed is not None:
        return list(dict.fromkeys(str(tag).lower() for tag in cell_list(listed)))
    tags = cells.get("tags")
    if tags is not None and not isinstance(tags, Mapping) and not str(tags).lstrip().startswith("{"):
        return list(dict.fromkeys(str(tag).lower() for tag in cell_list(tags)))
    return table_skills({name: value for name, value in cells.items() if value is not None})


def _ratings(finished: Finished) -> list[list[float]]:
    """The ratings of each output; those that are no number from 1 to 5 are left out."""
    return [
        [found for item in cell_list(cell) if (found := _rating(item)) is not None]
        for cell in finished.column("ratings")
    ]


def _rating(item: Any) -> float | None:
    try:
        value = float(item)
    except (TypeError, ValueError):
        return None
    return value if LOWEST <= value <= HIGHEST else None
