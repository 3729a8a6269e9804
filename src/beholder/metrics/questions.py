"""VQAScore: how sure a vision-language model is that the answer to a question about the text is yes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from beholder._errors import NoValue, OptionError
from beholder._identity import OptionValue
from beholder.functional.answers import VARIANTS, Answers, probability
from beholder.manifest.schema import Sample
from beholder.media.base import Medium
from beholder.metrics.base import FeatureBatch, Pair, Ragged, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.frames import FRAME_OPTIONS, reduce_frames
from beholder.metrics.outcome import Range, make_scores, truncation_evidence
from beholder.metrics.text_image import is_blank, output_of
from beholder.records import MetricInfo, OptionInfo, Status

DEFAULT_MODEL = "clip-flant5-xxl"
TEMPLATE = 'Does this image show "{text}"?'
FLAN_T5_TEMPLATE = 'Does this figure show "{text}"? Please answer yes or no.'
AS_IT_IS = "{text}"

_API = ("api:", "gpt-", "chatgpt-", "o1", "o3", "o4", "gemini-")
_BLANK_SIDE, _BLANK_GRAY = 336, 128
_PAPER = "Lin et al., Evaluating Text-to-Visual Generation with Image-to-Text Generation, arXiv 2404.01291"


class VqaScore(SampleMetric):
    """`vqa_score`: see its card."""

    info = MetricInfo(
        name="vqa_score",
        family="vqa",
        kind="sample",
        summary="How well the output fits the text: the probability that a model answers yes when asked about it.",
        inputs=("output", "prompt"),
        formula=(
            'P("Yes" | output, question), the question made of the text; first_token: the answer\'s first token; '
            "sequence, sequence_mean: exp of the sum or mean of the log probabilities of all its tokens; yes_no: "
            "P(yes) / (P(yes) + P(no)) over all their forms; pooled: P(yes) over all its forms"
        ),
        unit="probability",
        range=(0.0, 1.0),
        higher_is_better=True,
        degenerate=(
            "A blank text has the status empty_prompt; a model that says neither yes nor no has the status unparsable; "
            "one that refuses, refused; calibrate=prior with a prior of 0 has the status not_enough_evidence."
        ),
        paper=_PAPER,
        reference_code="https://github.com/linzhiqiu/t2v_metrics",
        version="1",
        capability="AnswerScorer",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Vision-language model; --model does not change it."),
            OptionInfo(
                "question_template",
                None,
                f"The question, with {{text}} where the text goes; {FLAN_T5_TEMPLATE} for clip-flant5 models, else "
                f"{TEMPLATE} {{}} is another spelling of {{text}}. A text that is a question already is asked as it is "
                f"with question_template={AS_IT_IS} alone.",
            ),
            OptionInfo("answer_template", "Yes", "The answer whose probability is the score."),
            OptionInfo(
                "variant",
                None,
                "Which probability; sequence_mean for clip-flant5 models, pooled for APIs, else first_token.",
                choices=VARIANTS,
            ),
            OptionInfo(
                "calibrate",
                "none",
                "prior divides by the probability of the same answer about an empty (gray) picture.",
                choices=("none", "prior"),
            ),
            OptionInfo("text", "prompt", "Column that holds the text."),
            *FRAME_OPTIONS,
        ),
        notes=(
            "Values of different models, templates or variants cannot be compared; the question that was asked stands "
            "in the evidence.",
            "sequence_mean with T5's end token is the square root of P(Yes) P(end | Yes): close to P(Yes), not it.",
            "Of an API that tells its top tokens only, the evidence has bounds: the mass that was not told may belong "
            "to either side.",
            "A video goes whole to models that take videos; others look at each frame.",
            "calibrate=prior has no upper limit and is no probability.",
        ),
    )

    def __init__(
        self, options: Mapping[str, OptionValue | None] | None = None, *, default_model: str | None = None
    ) -> None:
        super().__init__(options, default_model=default_model)
        self.options["question_template"] = read_template(self.template)
        answer = str(self.options["answer_template"])
        if is_blank(answer) or "{" in answer:
            raise OptionError("answer_template must be an answer, the same for every text", got=repr(answer))

    @classmethod
    def takes_model(cls) -> bool:
        return False

    @classmethod
    def dependent_defaults(cls, options: Mapping[str, OptionValue]) -> Mapping[str, OptionValue]:
        name = str(options["model"]).lower()
        if "clip-flant5" in name:
            return {"question_template": FLAN_T5_TEMPLATE, "variant": "sequence_mean"}
        return {"question_template": TEMPLATE, "variant": "pooled" if name.startswith(_API) else "first_token"}

    @property
    def template(self) -> str:
        """The question's template."""
        return str(self.options["question_template"])

    @property
    def calibrated(self) -> bool:
        """True when the model's prior is divided out."""
        return self.options["calibrate"] == "prior"

    @property
    def unit(self) -> str:
        return "probability ratio" if self.calibrated else self.info.unit

    @property
    def value_range(self) -> Range:
        return (0.0, None) if self.calibrated else self.info.range

    @property
    def slots(self) -> tuple[Slot, ...]:
        model, answer = str(self.options["model"]), (("answer", str(self.options["answer_template"])),)
        slot = Slot("answer", model, "answer", params=answer, frames=str(self.options["frames"]))
        return (slot, Slot("prior", model, "answer", params=answer)) if self.calibrated else (slot,)

    def select(self, sample: Sample) -> Selection:
        question = self.scored_text(sample)
        if question is None:
            name = str(self.options["text"])
            found = sample.column(name)
            if found is not None and not isinstance(found, str):
                raise NoValue(Status.FAILED, f"column {name!r} must hold text, got {type(found).__name__}")
            raise NoValue(Status.EMPTY_PROMPT, f"column {name!r} is empty")
        pair = Pair(output_of(sample), question)
        return {"answer": pair, "prior": Pair(blank_picture(), question)} if self.calibrated else {"answer": pair}

    def scored_text(self, sample: Sample) -> str | None:
        text = sample.column(str(self.options["text"]))
        if not isinstance(text, str) or is_blank(text):
            return None
        return self.template.replace(AS_IT_IS, text)

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        found = batch.slots["answer"]
        columns, offsets = (found.columns, found.offsets) if isinstance(found, Ragged) else (found, None)
        answers = probability(columns, str(self.options["variant"]))
        values = reduce_frames(answers.values, offsets, str(self.options["over_frames"]))
        statuses = answer_statuses(answers, offsets)
        if self.calibrated:
            prior = probability(batch.one_of("prior"), str(self.options["variant"]))
            zero = (prior.values <= 0) | prior.unparsable | prior.broken
            why = (Status.NOT_ENOUGH_EVIDENCE, "the model gives the answer no probability for an empty picture")
            statuses = {**{int(row): why for row in np.flatnonzero(zero)}, **statuses}
            values = values / np.where(zero, 1.0, prior.values)
        evidence = truncation_evidence(columns, offsets)
        for row, bounds in bounds_evidence(answers, offsets).items():
            evidence.setdefault(row, {})["bounds"] = bounds
        return make_scores(values, degenerate={}, within=self.value_range, statuses=statuses, evidence=evidence)

    def sample_evidence(self, sample: Sample) -> Mapping[str, Any]:
        question = self.scored_text(sample)
        if question is None:
            return {}
        text = str(sample.column(str(self.options["text"])))
        if self.template != AS_IT_IS and is_question(text):
            remark = (
                f"a text that is a question was put into a question; ask it as it is with question_template={AS_IT_IS}"
            )
            return {"question": question, "remark": remark}
        return {"question": question}

    def describe(self) -> dict[str, Any]:
        return {
            "template": self.template,
            "answer": self.options["answer_template"],
            "variant": self.options["variant"],
            "calibrate": self.options["calibrate"],
            "clamp": "none",
            "text": self.options["text"],
            "range": list(self.value_range),
        }


def read_template(template: str) -> str:
    """A question's template, its place written {text}; the public code writes {}, which is read as the same.

    Raises:
        OptionError: the template has no place for the text.
    """
    if AS_IT_IS not in template:
        template = template.replace("{}", AS_IT_IS)
    if AS_IT_IS not in template:
        raise OptionError("a question template must hold {text}, where the text goes", got=repr(template))
    return template


def is_question(text: str) -> bool:
    """True for a text that ends with a question mark."""
    return text.rstrip().endswith(("?", "？", "؟"))


def answer_statuses(answers: Answers, offsets: np.ndarray | None) -> dict[int, tuple[Status, str]]:
    """Samples of which an answer (of any frame) could not be read."""
    found: dict[int, tuple[Status, str]] = {}
    reasons = (
        (answers.unparsable, Status.UNPARSABLE, "the model's answer holds neither yes nor no"),
        (answers.broken, Status.FAILED, "the model gave a log probability that is none"),
    )
    for flags, status, reason in reasons:
        for unit in np.flatnonzero(flags):
            row = int(unit) if offsets is None else int(np.searchsorted(offsets, unit, side="right")) - 1
            found.setdefault(row, (status, reason))
    return found


def bounds_evidence(answers: Answers, offsets: np.ndarray | None) -> dict[int, list[float]]:
    """[low, high] by sample, where the model did not tell everything; of a video, the means over its frames."""
    open_units = answers.high - answers.low > 0
    low, high = reduce_frames(answers.low, offsets, "mean"), reduce_frames(answers.high, offsets, "mean")
    rows = open_units if offsets is None else np.logical_or.reduceat(open_units, offsets[:-1])
    return {int(row): [float(low[row]), float(high[row])] for row in np.flatnonzero(rows)}


@lru_cache(maxsize=1)
def blank_picture() -> Medium:
    """The empty picture of `calibrate=prior`: 336 × 336 pixels of gray 128."""
    from beholder.media.sources import as_medium

    return as_medium(np.full((_BLANK_SIDE, _BLANK_SIDE, 3), _BLANK_GRAY, dtype=np.uint8))
