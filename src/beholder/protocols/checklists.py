"""DSG and TIFA: checklists of questions about each output, with a breakdown by what the questions are about.

Source: Cho et al. 2024, Davidsonian Scene Graph, arXiv 2310.18235; Hu et al. 2023, TIFA, arXiv 2303.11897.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import Fault, OptionError
from beholder.functional.checklist import check_questions
from beholder.manifest import open_source
from beholder.manifest.schema import Sample, SampleSource
from beholder.manifest.source import RowSource
from beholder.metrics.checklist import read_questions
from beholder.protocols.base import DataCheck, Finished, MetricUse, Protocol, ProtocolInfo, Scored
from beholder.protocols.checklist_data import (
    DSG_COLUMNS,
    ChecklistReader,
    ItemReader,
    read_dsg,
    read_tifa,
)
from beholder.protocols.files import is_folder
from beholder.protocols.results import Number, ResultTable
from beholder.protocols.tally import number_of, ratio_number, summaries, unit_codes

METRIC = "vqa_checklist"
ALL = "(all outputs)"
DSG_SOURCE = "j-min/DSG README, Stable Diffusion 2.1 answered by PaLI-17B"
DSG_PUBLISHED: Mapping[str, float] = {
    "tifa": 0.881, "paragraph": 0.851, "relation": 0.344, "count": 0.704, "real_user": 0.897, "pose": 0.896,
    "defying": 0.844, "text": 0.837, "all": 0.805,
}  # fmt: skip
"""Mean score of each part of DSG-1k as the authors' repository prints it, over 1,060 items."""

_MANIFEST = "A manifest with a column questions: a list of {q, answer, needs, tag}."


class Checklist(Protocol):
    """What both have in common; subclasses say what their files of questions look like."""

    def source(self, data: Any, *, mapping: Mapping[str, str] | None = None, allow_extra: bool = False) -> SampleSource:
        if is_folder(data):
            folder = os.fspath(data)
            questions = self.questions_file(Path(folder))
            if questions is not None:
                images = self.images_file(Path(folder))
                return RowSource(ChecklistReader(folder, questions, self.reader, images), mapping=mapping)
        return open_source(data, mapping=mapping, allow_extra=allow_extra)

    @property
    @abstractmethod
    def reader(self) -> ItemReader:
        """Reads a file of questions."""

    @abstractmethod
    def questions_file(self, folder: Path) -> Path | None:
        """The folder's file of questions, or None."""

    def images_file(self, folder: Path) -> Path | None:
        """A file that says where the outputs are, or None."""
        return None

    def counts(self, finished: Finished) -> Mapping[str, Any]:
        methods = finished.values_of("method", none=ALL)
        return {
            "outputs": finished.n,
            "prompts": len(set(unit_codes(finished).tolist())),
            "models": {name: methods.count(name) for name in dict.fromkeys(methods)},
        }

    def tables(self, finished: Finished) -> Iterable[ResultTable]:
        yield _score_table(finished, published=DSG_PUBLISHED if self.info.name == "dsg" else {})
        tagged = [scored for scored in finished.metrics if scored.name == METRIC]
        if tagged:
            yield _tag_table(finished, tagged)

    def examine(self, samples: Iterator[Sample]) -> DataCheck:
        found = DataCheck()
        without, tags, questions = 0, dict[str, int](), 0
        for sample in samples:
            try:
                listed = read_questions(sample.column("questions"))
                check_questions(listed)
            except OptionError as error:
                found.faults.append(Fault(str(error), row=sample.row, where="questions", form=False))
                continue
            without += not listed
            questions += len(listed)
            for question in listed:
                tags[question.tag or "(no tag)"] = tags.get(question.tag or "(no tag)", 0) + 1
        found.counts = {"questions": questions, "questions_by_tag": tags}
        if without:
            found.warnings.append(f"outputs without questions, which have no value: {without}")
        return found


class Dsg(Checklist):
    """`dsg`: see its card."""

    info = ProtocolInfo(
        name="dsg",
        summary="Share of DSG's yes-or-no questions that a model answers rightly, with their dependencies.",
        data=(
            "A folder with dsg-1k-anns.csv (or another CSV with its columns) and outputs named MODEL/ITEM_ID.png.",
            _MANIFEST,
        ),
        metrics=(MetricUse(METRIC),),
        tables={
            "scores": "mean score of each model, and on each part of DSG-1k",
            "tags": "share of rightly answered questions by what they are about",
        },
        paper="Cho et al., Davidsonian Scene Graph: Improving Reliability in Fine-Grained Evaluation, arXiv 2310.18235",
        reference_code="https://github.com/j-min/DSG",
        version="1",
        caveats=(
            "The published row is that of another question-answering model and generator; it is not recomputed.",
            "As published, a question counts only where those that it depends on are answered rightly.",
        ),
    )

    @property
    def reader(self) -> ItemReader:
        return read_dsg

    def questions_file(self, folder: Path) -> Path | None:
        for path in sorted(folder.glob("*.csv")):
            with path.open(encoding="utf-8-sig", errors="replace") as lines:
                if set(DSG_COLUMNS) <= {name.strip().strip('"') for name in lines.readline().split(",")}:
                    return path
        return None


class Tifa(Checklist):
    """`tifa`: see its card."""

    info = ProtocolInfo(
        name="tifa",
        summary="Share of TIFA's questions, some with choices, that a model answers rightly.",
        data=(
            "A folder with tifa_v1.0_question_answers.json (or another *question_answers*.json) and outputs named "
            "MODEL/TEXT_ID.jpg, or a file *imgs*.json with {text id: path}.",
            _MANIFEST,
        ),
        metrics=(MetricUse(METRIC),),
        tables={
            "scores": "mean score of each model",
            "tags": "share of rightly answered questions by the type of element that they are about",
        },
        paper="Hu et al., TIFA: Accurate and Interpretable Text-to-Image Faithfulness Evaluation, arXiv 2303.11897",
        reference_code="https://github.com/Yushi-Hu/tifa",
        version="1",
        caveats=(
            "Choices are compared by how likely the model finds each; the authors match a free answer to the choices "
            "by sentence similarity.",
        ),
    )

    @property
    def reader(self) -> ItemReader:
        return read_tifa

    def questions_file(self, folder: Path) -> Path | None:
        return next(iter(sorted(folder.glob("*question_answers*.json"))), None)

    def images_file(self, folder: Path) -> Path | None:
        return next(iter(sorted(folder.glob("*imgs*.json"))), None)


def _score_table(finished: Finished, *, published: Mapping[str, float]) -> ResultTable:
    """Means over outputs, of each model, on each category where there are several and on all."""
    methods = np.array(finished.values_of("method", none=ALL))
    categories = np.array(finished.values_of("category", none=""))
    parts = [name for name in dict.fromkeys(categories.tolist()) if name]
    numbers = []
    for method in dict.fromkeys(methods.tolist()):
        for part in [*(parts if len(parts) > 1 else []), "all"]:
            rows = np.flatnonzero((methods == method) & ((categories == part) | (part == "all")))
            if not len(rows):
                continue
            for scored in finished.metrics:
                found = next(item for item in summaries(finished, scored, rows=rows) if item.aggregate == "micro")
                numbers.append(number_of(found, (method, part), scored.label))
    first = next((scored.label for scored in finished.metrics if scored.name == METRIC), None)
    there = {"all", *parts} & set(published) if parts and first else set()
    numbers += [
        Number(("Stable Diffusion 2.1", part), first or "", value, source=DSG_SOURCE)
        for part, value in published.items()
        if part in there
    ]
    columns = tuple(scored.label for scored in finished.metrics)
    notes = Dsg.info.caveats if there else ()
    return ResultTable("scores", "Scores by model", ("model", "part"), columns, tuple(numbers), notes)


def _tag_table(finished: Finished, tagged: list[Scored]) -> ResultTable:
    """Σ right / Σ questions of each tag over a model's outputs; "attribute - color" also counts for "attribute"."""
    methods = np.array(finished.values_of("method", none=ALL))
    units = unit_codes(finished)
    numbers = []
    for method in dict.fromkeys(methods.tolist()):
        rows = np.flatnonzero(methods == method)
        for scored in tagged:
            for tag, (right, count) in _counts_by_tag(scored, rows).items():
                numbers.append(
                    ratio_number(
                        right, count, units[rows], finished, (method, tag), scored.label, aggregate="questions"
                    )
                )
    columns = tuple(scored.label for scored in tagged)
    notes = ("Rightly answered questions over all questions, with intervals over prompts; n counts questions.",)
    return ResultTable("tags", "Right answers by tag", ("model", "tag"), columns, tuple(numbers), notes)


def _counts_by_tag(scored: Scored, rows: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By tag, broad ones before their parts: (right, all) questions of each row."""
    ok = scored.ok
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for at, row in enumerate(rows):
        evidence = scored.evidence[row]
        if not ok[row] or evidence is None:
            continue
        for tag, (right, count) in evidence.get("tags", {}).items():
            for name in dict.fromkeys([tag.partition(" - ")[0], tag]):
                sums, counts = found.setdefault(name, (np.zeros(len(rows)), np.zeros(len(rows))))
                sums[at] += right
                counts[at] += count
        questions = evidence.get("questions", ())
        sums, counts = found.setdefault("all", (np.zeros(len(rows)), np.zeros(len(rows))))
        sums[at] += sum(bool(question["right"]) for question in questions)
        counts[at] += len(questions)
    broad = list(dict.fromkeys(name.partition(" - ")[0] for name in found if name != "all"))
    order = [name for part in broad for name in found if name == part or name.startswith(part + " - ")]
    return {name: found[name] for name in [*order, "all"] if name in found}
