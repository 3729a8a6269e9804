"""KnowCusBench and the other subject-driven benchmarks: how much outputs look like their subject, and do as prompted.

KnowCusBench-style: what the paper's passage on metrics leaves open (encoder, fill, missing masks, aggregation) is our
choice, named in each result. Sources: Zhu et al. 2026, MoKus, arXiv 2603.12743; Ruiz et al. 2022, DreamBooth, arXiv
2208.12242.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from beholder.manifest import open_source
from beholder.manifest.schema import Sample, SampleSource
from beholder.manifest.source import RowSource
from beholder.manifest.validate import ValidationReport
from beholder.protocols.base import DataCheck, Finished, MetricUse, Protocol, ProtocolInfo
from beholder.protocols.results import ResultTable
from beholder.protocols.subject_data import check_subjects, subject_reader, without_reconstructions
from beholder.protocols.subject_rows import GENERATION, TEXTS
from beholder.protocols.subject_tables import PUBLISHED_METHODS, cell_table, concept_table, counts_of, paper_table
from beholder.records import OptionInfo

WHY = "a prompt of a reconstruction names its subject and says nothing about the picture"
ENCODER = "openai:ViT-B-32"
_OPTIONS = (
    OptionInfo("segmenter", None, "What finds the subject; masks where the data has them, else sam3."),
    OptionInfo(
        "text",
        "given",
        "What clip_t scores: eval_prompt where the data has it, else the prompt (given); the prompt always (prompt); "
        "or the prompt with the class in the knowledge's place (class). Identifiers are taken out of all.",
        choices=TEXTS,
    ),
)
_FORMS = (
    'A JSON object {"concepts": […], "items": […], "defaults": {…}}, or a folder with concepts and items in files.',
    "A folder with references/CONCEPT/*, generated/[METHOD/]TASK/CONCEPT/PROMPT_ID[_kN][_sN].png, prompts.json and "
    "classes.csv.",
    "A manifest with the columns concept, class_name, references, task, prompt, seed, method ….",
)
_TABLES = {
    "paper": "a row a method: macro means over concepts, ± the sd over seeds",
    "cells": "each task, method and metric: macro, micro and pairs means, and what missing masks would change",
    "concepts": "mean of each concept",
}


class SubjectProtocol(Protocol):
    """What all subject-driven benchmarks share; subclasses differ in their cards."""

    def source(self, data: Any, *, mapping: Mapping[str, str] | None = None, allow_extra: bool = False) -> SampleSource:
        reader = subject_reader(data, text=self.options["text"], task=GENERATION)
        if reader is None:
            return open_source(data, mapping=mapping, allow_extra=allow_extra)
        return RowSource(reader, mapping=mapping)

    @property
    def uses(self) -> tuple[MetricUse, ...]:
        segmenter = self.options["segmenter"]
        if segmenter is None:
            return self.info.metrics
        return tuple(
            replace(use, spec=f"{use.spec}(segmenter={segmenter})") if use.spec.endswith("_seg") else use
            for use in self.info.metrics
        )

    def counts(self, finished: Finished) -> Mapping[str, Any]:
        return counts_of(finished)

    def tables(self, finished: Finished) -> Iterable[ResultTable]:
        yield paper_table(finished, self.uses, caveats=self.info.caveats, published=self.published)
        yield cell_table(finished, self.uses)
        yield concept_table(finished, self.uses)

    @property
    def published(self) -> Mapping[str, Mapping[str, float]]:
        """Published rows of the table in the paper's shape: method → column → value."""
        return {}

    def examine(self, samples: Iterator[Sample]) -> DataCheck:
        names = {use.name for use in self.uses}
        return check_subjects(
            samples,
            needs_masks=any(name.endswith("_seg") for name in names),
            needs_texts=bool({"clip_t", "pick_score"} & names),
        )

    def check(self, source: SampleSource) -> ValidationReport:
        report = super().check(source)
        if not source.replayable or any(fault.form for fault in report.faults):
            return report
        return replace(report, faults=tuple(without_reconstructions(report.faults, iter(source))))


class KnowCusBench(SubjectProtocol):
    """`knowcusbench`: see its card."""

    info = ProtocolInfo(
        name="knowcusbench",
        summary="Subject and prompt fidelity of knowledge-aware customisation: reconstruction and generation.",
        data=_FORMS,
        metrics=(
            MetricUse("clip_i"),
            MetricUse("clip_i_seg"),
            MetricUse("clip_t", (GENERATION,), WHY),
            MetricUse("pick_score", (GENERATION,), WHY),
        ),
        tables=_TABLES,
        paper="Zhu et al., MoKus: Leveraging Cross-Modal Knowledge Transfer for Knowledge-Aware Concept "
        "Customization, arXiv 2603.12743",
        reference_code=None,
        version="1",
        options=_OPTIONS,
        caveats=(
            "This is KnowCusBench-style, not a reproduction: encoder, fill, rule for missing masks, instance rule, "
            "segmentation prompts, aggregation and the text of CLIP-T are not published, and are our choices here.",
            "Published rows come from third-party notes on arXiv 2603.12743 and were not checked against the paper.",
        ),
    )

    @property
    def published(self) -> Mapping[str, Mapping[str, float]]:
        return PUBLISHED_METHODS


class DreamBench(SubjectProtocol):
    """`dreambench`: see its card."""

    info = ProtocolInfo(
        name="dreambench",
        summary="DreamBooth's benchmark: DINO and CLIP-I against the subject, CLIP-T against the prompt.",
        data=(
            "DreamBench's folder (dataset/SUBJECT/*.jpg, dataset/prompts_and_classes.txt) with "
            "generated/[METHOD/]SUBJECT/PROMPT_NUMBER[_sN].png.",
            *_FORMS,
        ),
        metrics=(MetricUse("dino_i"), MetricUse(f"clip_i(model={ENCODER})"), MetricUse(f"clip_t(model={ENCODER})")),
        tables=_TABLES,
        paper="Ruiz et al., DreamBooth: Fine Tuning Text-to-Image Diffusion Models for Subject-Driven Generation, "
        "arXiv 2208.12242",
        reference_code="https://github.com/google/dreambooth",
        version="1",
        options=_OPTIONS,
        caveats=("The paper does not name its CLIP encoder; ViT-B/32 is what CustomConcept101 uses.",),
    )


class DreamBenchPlus(SubjectProtocol):
    """`dreambench++`: see its card."""

    info = ProtocolInfo(
        name="dreambench++",
        summary="DreamBench++: one reference an output; DINO and CLIP-I against it, CLIP-T against the prompt.",
        data=(
            "DreamBench++'s folder: [METHOD/]tgt_image/COLLECTION/I_J.jpg with src_image/ and text/ beside it.",
            *_FORMS,
        ),
        metrics=(
            MetricUse("dino_i(model=hf:facebook/dino-vits8)"),
            MetricUse(f"clip_i(model={ENCODER})"),
            MetricUse(f"clip_t(model={ENCODER})"),
        ),
        tables=_TABLES,
        paper="Peng et al., DreamBench++: A Human-Aligned Benchmark for Personalized Image Generation, "
        "arXiv 2406.16855",
        reference_code="https://github.com/yuangpeng/dreambench_plus",
        version="1",
        options=_OPTIONS,
        caveats=("The authors print 100 times the cosines; here they are cosines.",),
    )


class CustomConcept101(SubjectProtocol):
    """`customconcept101`: see its card."""

    info = ProtocolInfo(
        name="customconcept101",
        summary="CustomConcept101: CLIP-I over all pairs, DINO, and CLIP-T without the concept's token.",
        data=(
            "CustomConcept101's folder (dataset.json, prompt files, images) with "
            "generated/[METHOD/]CONCEPT/PROMPT_NUMBER[_sN].png.",
            *_FORMS,
        ),
        metrics=(MetricUse(f"clip_i(model={ENCODER})"), MetricUse(f"clip_t(model={ENCODER})"), MetricUse("dino_i")),
        tables=_TABLES,
        paper="Kumari et al., Multi-Concept Customization of Text-to-Image Diffusion, arXiv 2212.04488",
        reference_code="https://github.com/adobe-research/custom-diffusion",
        version="1",
        options=_OPTIONS,
        caveats=(
            "The authors' script prints 2.5·max(cos, 0) for the text; here it is the cosine.",
            "An output of several concepts is scored once a concept.",
        ),
    )
