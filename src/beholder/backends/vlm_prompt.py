"""Prompts and answers of vision-language models: chat markup, where the picture goes, which tokens an answer is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beholder._errors import ModelError, NoValue
from beholder.backends.vlm_processor import FIXED_DATE, PinnedProcessor, chat_template

PROBE = "qzQzq"
"""Stands for the question while a picture is prepared: letters that no template changes."""

ANSWER_RULE = (
    "The answer's tokens are those that follow the prompt's when both are tokenised as one text. Where the chat "
    "template itself puts white space between its opening of the answer and the answer, that white space is part of "
    "the text (and so, mostly, of the first token). Where the text grows together with the prompt's end, its own "
    "tokens are taken."
)


@dataclass(frozen=True)
class Style:
    """How a family's prompt is made where the files have no chat template, or where it is not to be used.

    Args:
        plain: prompt with {visual} and {question}; None demands a chat template.
        lead: white space between a plain prompt and the answer.
        ignore_template: True uses `plain` even where there is a chat template.
        image: the picture's placeholder in a plain prompt.
        counts_end: True where the family's published rule counts the end token among the answer's.
    """

    plain: str | None = None
    lead: str = ""
    ignore_template: bool = False
    image: str = "<image>"
    counts_end: bool = False


def describe_prompt(style: Style, folder: Path) -> dict[str, Any]:
    """The JSON-ready account of how a prompt is made."""
    template = None if style.ignore_template else chat_template(folder)
    if template is None and style.plain is None:
        raise ModelError(
            "a vision-language model's files must have a chat template (chat_template.jinja, chat_template.json or an "
            "entry in tokenizer_config.json)",
            got=f"none in {folder.name}",
            fix="A model that was not tuned for chat has none; use the tuned one",
        )
    return {
        "chat_template": template,
        "plain": style.plain if template is None else None,
        "order": ["visual", "text"],
        "date_string": FIXED_DATE,
        "answer": ANSWER_RULE,
        "end_token_counts": style.counts_end,
    }


class Prompts:
    """Renders prompts of one model and finds the tokens of answers.

    Args:
        processor: the model's processor.
        template: its chat template, or None.
        style: what holds where there is none.
    """

    def __init__(self, processor: PinnedProcessor, template: str | None, style: Style) -> None:
        self._processor, self._template, self._style = processor, template, style
        self._bos = processor.tokenizer.bos_token

    def render(self, question: str, *, visual: str = "image") -> str:
        """The prompt with the visual's placeholder in it, up to where the answer begins."""
        if self._template is None:
            plain = str(self._style.plain).replace("{visual}", self._style.image)
            return plain.replace("{question}", question)
        return self._processor.chat([self._question(question, visual)], self._template, prompt=True)

    def _question(self, question: str, visual: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": visual}, {"type": "text", "text": question}]}

    def adds_special_tokens(self, prompt: str) -> bool:
        """False when the template has put the start token there already."""
        return not (self._bos and prompt.startswith(self._bos))

    def lead(self, answer: str) -> str:
        """The white space that the chat template puts between its opening of the answer and the answer."""
        if self._template is None:
            return self._style.lead
        asked = self._question(PROBE, "image")
        opened = self._processor.chat([asked], self._template, prompt=True)
        for content in ([{"type": "text", "text": answer}], answer):
            try:
                whole = self._processor.chat(
                    [asked, {"role": "assistant", "content": content}], self._template, prompt=False
                )
            except Exception:  # templates raise what they like about forms of messages that they don't take
                continue
            between, found, _ = whole[len(opened) :].partition(answer)
            if whole.startswith(opened) and found:
                return between if between.isspace() else ""
        return ""

    def answer_ids(self, prompt: str, answer: str, *, add_special_tokens: bool) -> list[int]:
        """Tokens of `answer` behind a prompt (whose placeholder is replaced already)."""
        return self._behind(prompt, self.lead(answer) + answer, add_special_tokens)

    def _behind(self, prompt: str, text: str, add_special_tokens: bool) -> list[int]:
        ids = self._processor.ids
        before = ids(prompt, add_special_tokens=add_special_tokens)
        both = ids(prompt + text, add_special_tokens=add_special_tokens)
        if both[: len(before)] == before and len(both) > len(before):
            return both[len(before) :]
        # The text grew together with the prompt's end: its own tokens are the next best reading.
        return ids(text, add_special_tokens=False)


def check_question(question: str, marks: Sequence[str]) -> None:
    """Refuses texts that hold a model's own marks, which would change the prompt's structure.

    Raises:
        NoValue: `not_applicable`, naming the mark.
    """
    for mark in marks:
        if mark in question:
            raise NoValue("not_applicable", f"the text holds {mark!r}, which is markup of this model")


def special_marks(processor: PinnedProcessor) -> tuple[str, ...]:
    """Texts that the tokenizer reads as one of its special tokens, and the placeholders of visuals."""
    tokenizer = processor.tokenizer
    marks = {str(token.content) for token in tokenizer.added_tokens_decoder.values() if token.special}
    marks |= {str(getattr(processor.processor, name, None) or "") for name in ("image_token", "video_token")}
    return tuple(sorted(mark for mark in {*marks, *map(str, tokenizer.all_special_tokens)} if len(mark) > 2))
