"""Any `AutoModelForImageTextToText` of transformers as an `AnswerScorer`: its own processor and chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import ModelError, NoValue
from beholder.backends.base import Made, ResolvedModel
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.files import read_json
from beholder.backends.forward import forward_pass
from beholder.backends.tensors import to_numpy
from beholder.backends.torch_io import load_transformers
from beholder.backends.vlm_processor import PinnedProcessor, image_settings
from beholder.backends.vlm_prompt import PROBE, Prompts, Style, check_question, describe_prompt, special_marks
from beholder.functional.answers import Forms, form_ids, read_logits
from beholder.media.base import Picture


@dataclass
class Visual:
    """One prepared visual.

    Args:
        inputs: the model's inputs beside the text's, as torch tensors on the CPU.
        extras: inputs with one entry a token of the probe's prompt (token types …), (1, length).
        kind: "image" or "video".
        head: the prompt up to the question, the placeholder replaced by what the visual takes.
        plain_head: the same before that.
        suffix: what the processor puts behind every prompt (a line's end, mostly nothing).
        special: whether the tokenizer adds its special tokens.
        ids: token ids of the probe's prompt.
        probe: the whole prompt about the probe, the placeholder replaced.
    """

    inputs: dict[str, Any]
    extras: dict[str, Any]
    kind: str
    head: str
    plain_head: str
    suffix: str
    special: bool
    ids: list[int]
    probe: str


@dataclass
class Targets:
    """What is read at the answer's place: its tokens, and the ids of the forms of yes and no."""

    answer: list[int]
    forms: Forms


_READ = ("first_token", "sequence", "yes", "no")


class GenericVLM:
    """A loaded vision-language model of transformers.

    The visual features are made once for all texts about one visual; each text then is one pass of the whole prompt,
    since an unknown model may let the picture's tokens look at the text. Families that don't share more (see
    `vlm_prefix.py`).

    Columns are read from the logits in float64 (see `functional.answers`, which also decides which tokens say yes and
    no). Where the vocabulary has no such token, the columns "yes" and "no" are left out.
    """

    takes_video = False
    STYLE = Style()
    TOKEN_INPUTS: tuple[str, ...] = ("token_type_ids", "mm_token_type_ids")
    MODEL_CLASS: str | None = None
    PROCESSOR_CLASS: str | None = None
    ARRAYS = "pt"

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        self.model = model
        self.constants: Mapping[str, float] = dict(model.constants)
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        on_cpu = self._device.type == "cpu"
        self.batch = 1
        self.pair_batch = 16 if on_cpu else 64
        self._rows = 8 if on_cpu else 32
        folder = Path(model.location)
        self._config = read_json(folder / "config.json")
        self._network: Any = load_transformers(model, self._model_class()).to(self._device)
        self._processor = PinnedProcessor(
            folder,
            class_name=self.PROCESSOR_CLASS,
            model_type=str(model.details["model_type"]),
            video=self._video_processor(folder),
            arrays=self.ARRAYS,
        )
        self._fill_processor()
        self._prompts = Prompts(self._processor, model.preprocessing["prompt"]["chat_template"], self.STYLE)
        self._marks = special_marks(self._processor)
        self._forms = form_ids(self._processor.tokenizer.get_vocab())
        self._targets: dict[tuple[str, str], Targets] = {}
        self._visual_ids = _visual_ids(self._network.config, self._processor)
        self._limit = _position_limit(self._network.config)

    @classmethod
    def describe(cls, config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """The preprocessing as JSON: what the files ask for, done by Pillow; and how a prompt is made."""
        return {
            "library": "pillow",
            "image_processor": image_settings(folder),
            "prompt": describe_prompt(cls.STYLE, folder),
        }

    def _model_class(self) -> str:
        if self.MODEL_CLASS is not None:
            return self.MODEL_CLASS
        from transformers.models.auto import modeling_auto

        kind = str(self.model.details["model_type"])
        name = modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(kind)
        if name is None:
            raise ModelError(
                "an answer needs a model of transformers' image-text-to-text classes",
                got=f"model_type {kind!r} ({', '.join(self._config.get('architectures') or ['no class named'])})",
            )
        return str(name[0] if isinstance(name, (tuple, list)) else name)

    def _video_processor(self, folder: Path) -> Any:
        return None

    def _fill_processor(self) -> None:
        """Families set what old processor files leave out."""

    # --- preparing

    def prepare(self, pictures: Sequence[Picture]) -> Visual:
        """Pixels and the expanded prompt of one visual; several pictures are a video's frames. Thread-safe."""
        kind = "image" if len(pictures) == 1 else "video"
        if kind == "video" and not self.takes_video:
            raise ModelError("this model takes one picture at a time", got=f"{len(pictures)} pictures")
        plain = self._prompts.render(PROBE, visual=kind)
        special = self._prompts.adds_special_tokens(plain)
        pixels = self._pixels(pictures, kind)
        inputs, text = self._processor(plain, add_special_tokens=special, **pixels)
        ids = inputs.pop("input_ids")[0].tolist()
        inputs.pop("attention_mask", None)
        inputs.pop("labels", None)
        extras = {name: inputs.pop(name) for name in self.TOKEN_INPUTS if name in inputs}
        head, _, tail = text.partition(PROBE)
        plain_head, _, plain_tail = plain.partition(PROBE)
        suffix = tail.removeprefix(plain_tail)
        if self._tokens(text, special) != ids or (tail, suffix.strip()) != (plain_tail + suffix, ""):
            raise ModelError(
                "the visual must stand before the question in a model's prompt", got=f"a template that gives {plain!r}"
            )
        return Visual(inputs, extras, kind, head, plain_head, suffix, special, ids, text)

    def _pixels(self, pictures: Sequence[Picture], kind: str) -> dict[str, Any]:
        """The visual as keywords of the processor."""
        from PIL import Image

        return {"images": [Image.fromarray(pictures[0].pixels)]}

    def _tokens(self, text: str, special: bool) -> list[int]:
        return self._processor.ids(text, add_special_tokens=special)

    def _prompt_ids(self, visual: Visual, question: str) -> list[int]:
        """Token ids of the prompt about a prepared visual.

        Raises:
            NoValue: a question that holds the model's own markup, or that is too long for it.
        """
        check_question(question, self._marks)
        plain = self._prompts.render(question, visual=visual.kind)
        if not plain.startswith(visual.plain_head):
            raise ModelError("a prompt must begin the same whatever is asked", got=f"a template that gives {plain!r}")
        ids = self._tokens(visual.head + plain[len(visual.plain_head) :] + visual.suffix, visual.special)
        if self._limit is not None and len(ids) > self._limit:
            raise NoValue("too_large", f"{len(ids)} tokens, more than the {self._limit} that the model takes")
        return ids

    # --- answering

    def answer(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], *, answer: str = "Yes") -> Made:
        """See `AnswerScorer.answer`."""
        rows: list[np.ndarray | None] = [None] * len(pairs)
        failures: dict[int, NoValue] = {}
        targets: Targets | None = None
        for number in dict.fromkeys(number for number, _ in pairs):
            visual = visuals[number]
            targets = self._find_targets(visual, answer)
            texts: list[tuple[int, list[int]]] = []
            for at, (other, question) in enumerate(pairs):
                if other == number:
                    try:
                        texts.append((at, self._prompt_ids(visual, question)))
                    except NoValue as error:
                        failures[at] = error
            if texts:
                for (at, _), row in zip(texts, self._score(visual, [ids for _, ids in texts], targets), strict=True):
                    rows[at] = row
        return Made(_columns(rows, targets), failures)

    def _find_targets(self, visual: Visual, answer: str) -> Targets:
        known = self._targets.get((visual.kind, answer))
        if known is not None:
            return known
        ids = self._prompts.answer_ids(visual.probe, answer, add_special_tokens=visual.special)
        found = Targets(ids, self._forms)
        if not found.answer:
            raise ModelError("an answer must have at least one token", got=repr(answer))
        if self.STYLE.counts_end:
            found.answer.append(int(self._processor.tokenizer.eos_token_id))
        self._targets[visual.kind, answer] = found
        return found

    def _score(self, visual: Visual, prompts: Sequence[list[int]], targets: Targets) -> list[np.ndarray]:
        """A row of numbers (see `read_rows`) for each prompt about one visual."""
        rows: list[np.ndarray] = []
        tail = targets.answer[:-1]
        with forward_pass(), RememberedFeatures(self._network):
            inputs = self._to_device(visual.inputs)
            for ids in prompts:
                whole = [*ids, *tail]
                output = self._network(
                    input_ids=self._long([whole]),
                    attention_mask=self._long([[1] * len(whole)]),
                    **inputs,
                    **self._stretch(visual, len(whole)),
                    use_cache=False,
                )
                rows += read_rows(output.logits[:, -len(targets.answer) :], targets)
        return rows

    def _stretch(self, visual: Visual, length: int) -> dict[str, Any]:
        """The inputs that have one entry a token, for a prompt of another length: what follows the visual is text."""
        import torch

        found = {}
        for name, value in visual.extras.items():
            head = value[:, : min(length, self._visual_end(visual))]
            rest = torch.zeros((1, length - head.shape[1]), dtype=value.dtype)
            found[name] = torch.cat([head, rest], dim=1).to(self._device)
        return found

    def _visual_end(self, visual: Visual) -> int:
        """How many tokens of the prompt there are up to and with the last one of the visual."""
        return max((at for at, token in enumerate(visual.ids) if token in self._visual_ids), default=-1) + 1

    def _long(self, rows: Sequence[Sequence[int]]) -> Any:
        import torch

        return torch.tensor(rows, dtype=torch.long, device=self._device)

    def _to_device(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        dtype = self._network.dtype
        return {
            name: value.to(self._device, dtype) if value.is_floating_point() else value.to(self._device)
            for name, value in inputs.items()
            if hasattr(value, "to")
        }

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)


def _visual_ids(config: Any, processor: PinnedProcessor) -> set[int]:
    """Ids of the tokens that stand for pixels in a prompt."""
    names = ("image_token_id", "image_token_index", "video_token_id", "video_token_index")
    found = {getattr(owner, name, None) for owner in (config, processor.processor) for name in names}
    return {int(token) for token in found if isinstance(token, int)}


def _position_limit(config: Any) -> int | None:
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    return int(limit) if limit else None


def read_rows(logits: Any, targets: Targets) -> list[np.ndarray]:
    """(n, k, vocabulary) logits to a row of four numbers each: first token, sequence, yes, no."""
    found = read_logits(to_numpy(logits), targets.answer, targets.forms)
    silent = np.full(len(found["sequence"]), -np.inf)
    return list(np.stack([found.get(name, silent) for name in _READ], axis=1))


def _columns(rows: Sequence[np.ndarray | None], targets: Targets | None) -> dict[str, np.ndarray]:
    empty = np.full(len(_READ), -np.inf)
    table = np.stack([empty if row is None else row for row in rows]) if rows else np.zeros((0, len(_READ)))
    columns = dict(zip(_READ, table.T.copy(), strict=True))
    if targets is not None and not all(targets.forms):
        del columns["yes"], columns["no"]
    columns["n_answer"] = np.full(len(rows), len(targets.answer) if targets else 0, dtype=np.int32)
    columns["rest"] = np.full(len(rows), -np.inf)
    return columns


class RememberedFeatures:
    """While open, the model's `get_image_features` works once and gives the same result after that."""

    def __init__(self, network: Any) -> None:
        base = getattr(network, "model", network)
        self._owner = base if hasattr(base, "get_image_features") else network
        self._found: Any = None

    def __enter__(self) -> None:
        original = getattr(self._owner, "get_image_features", None)
        if original is None:
            return

        def once(*arguments: Any, **settings: Any) -> Any:
            if self._found is None:
                self._found = original(*arguments, **settings)
            return self._found

        self._owner.get_image_features = once

    def __exit__(self, *_: object) -> None:
        self._found = None
        self._owner.__dict__.pop("get_image_features", None)
