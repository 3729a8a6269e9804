"""What the encoder-decoder answer scorers share: prompts to rows of embeddings, rows to log probabilities.

The decoder is T5's. It is given the answer's tokens (teacher forcing), so one pass gives every column of an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import OptionError, WeightsMismatchError
from beholder.backends.base import Made, ResolvedModel
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.forward import forward_pass
from beholder.backends.hf_text import find_ending, load_tokenizer
from beholder.backends.preprocess import Preprocessing
from beholder.backends.tensors import normalise, on_device, stacked, to_numpy
from beholder.backends.torch_io import quiet_transformers
from beholder.functional.answers import form_ids, read_logits
from beholder.media.base import Picture


@dataclass(frozen=True)
class Text:
    """A tokenized text: its ids, how many there were before truncation, and whether any were cut."""

    ids: list[int]
    n_tokens: int
    truncated: bool


class PromptTokenizer:
    """A tokenizer whose long texts keep their beginning, a given tail and the tokens that end every text."""

    def __init__(self, folder: Path) -> None:
        with quiet_transformers():  # it would remark on model types that it does not know
            self._tokenizer = load_tokenizer(folder)
        self._ending = find_ending(self._tokenizer)
        self.forms = form_ids(self._tokenizer.get_vocab())

    def __call__(self, text: str, *, limit: int, tail: str = "") -> Text:
        """The ids of `text` + `tail`, at most `limit` of them: what is cut is the end of `text`, never the tail."""
        ids = self.ids(text + tail)
        if len(ids) <= limit:
            return Text(ids, len(ids), False)
        kept = [*self._encode(tail, special=False), *self._ending]
        return Text([*ids[: limit - len(kept)], *kept], len(ids), True)

    def ids(self, text: str) -> list[int]:
        """All ids of a text, its special tokens included."""
        return self._encode(text, special=True)

    def _encode(self, text: str, *, special: bool) -> list[int]:
        found = self._tokenizer(text, add_special_tokens=special, padding=False, truncation=False, verbose=False)
        return [int(number) for number in found["input_ids"]]


@dataclass(frozen=True)
class Row:
    """One pair as the encoder takes it: (length, width) embeddings, and its text's tokens."""

    embeddings: Any
    n_tokens: int
    truncated: bool


class T5AnswerScorer:
    """An `AnswerScorer` over an encoder and a T5 decoder; families say what they see and how they ask.

    A family gives `_build` (its networks), `_see` (pictures to what is shared by all texts of a picture, computed once
    a picture and call) and `_rows` (that and a question to the encoder's input). Rows of different length are padded on
    the right and masked; a row's numbers differ by rounding only with the batch it stands in.
    """

    takes_video = False

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        self.model = model
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        on_cpu = self._device.type == "cpu"
        self.batch, self.pair_batch = (8, 8) if on_cpu else (32, 16)
        self.constants: Mapping[str, float] = {}
        self._pixels = Preprocessing.from_json(model.preprocessing)
        self._table = on_device(self._pixels.table(), self._device)
        self._tokenizer = PromptTokenizer(self.folder)
        self._language: Any = None
        self._build()

    @property
    def folder(self) -> Path:
        """Where tokenizer and preprocessing files are."""
        return Path(self.model.locations.get("processor") or self.model.location)

    def prepare(self, pictures: Sequence[Picture]) -> np.ndarray:
        """(3, h, w) uint8 of one picture; thread-safe."""
        return self._pixels.to_uint8(pictures[0].pixels)

    def answer(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], *, answer: str = "Yes") -> Made:
        """See `backends.base.AnswerScorer`. The end token counts as part of the answer, as in the published rule.

        Also gives "n_tokens" (n,) int32, the question's tokens before truncation with markup, and "truncated".

        Raises:
            OptionError: an answer without a token of its own.
        """
        wanted = self._tokenizer.ids(answer)
        if not answer.strip() or len(wanted) < 2:
            raise OptionError("an answer must have at least one token and the end token", got=repr(answer))
        used = sorted({at for at, _ in pairs})
        with forward_pass():
            seen = dict(zip(used, self._look([visuals[at] for at in used])))
            parts = [
                self._score(
                    self._rows([(seen[at], text) for at, text in pairs[start : start + self.pair_batch]]), wanted
                )
                for start in range(0, len(pairs), self.pair_batch)
            ]
        return Made({name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else ())})

    def close(self) -> None:
        """Releases the networks and, on a GPU, their memory."""
        self._language = None
        self._drop()
        release_memory(self._device)

    def _build(self) -> None:
        raise NotImplementedError

    def _drop(self) -> None:
        raise NotImplementedError

    def _see(self, pixels: Any) -> Any:
        raise NotImplementedError

    def _rows(self, asked: Sequence[tuple[Any, str]]) -> list[Row]:
        raise NotImplementedError

    def _look(self, visuals: Sequence[np.ndarray]) -> list[Any]:
        """What `_see` makes of each visual, in batches."""
        seen: list[Any] = []
        for start in range(0, len(visuals), self.batch):
            stack = on_device(stacked(visuals[start : start + self.batch], self._device), self._device)
            seen += list(self._see(normalise(stack, self._table).to(self._language.dtype)))
        return seen

    def _embed(self, ids: Sequence[int]) -> Any:
        """(length, width) embeddings of token ids."""
        import torch

        return self._language.get_input_embeddings()(torch.tensor(list(ids), device=self._device))

    def _score(self, rows: Sequence[Row], wanted: list[int]) -> dict[str, np.ndarray]:
        import torch
        from torch.nn.utils.rnn import pad_sequence

        inputs = pad_sequence([row.embeddings for row in rows], batch_first=True)
        lengths = torch.tensor([len(row.embeddings) for row in rows], device=self._device)
        mask = (torch.arange(inputs.shape[1], device=self._device)[None, :] < lengths[:, None]).long()
        given = torch.tensor([[self._start(), *wanted[:-1]]] * len(rows), device=self._device)
        logits = self._language(
            inputs_embeds=inputs, attention_mask=mask, decoder_input_ids=given, use_cache=False
        ).logits
        return {
            **read_logits(to_numpy(logits), wanted, self._tokenizer.forms),
            "n_tokens": np.asarray([row.n_tokens for row in rows], dtype=np.int32),
            "truncated": np.asarray([row.truncated for row in rows], dtype=bool),
        }

    def _start(self) -> int:
        """The decoder's first input: T5 begins with its padding token."""
        config = self._language.config
        start = getattr(config, "decoder_start_token_id", None)
        return int(config.pad_token_id if start is None else start)


def check_head(language: Any, state: Mapping[str, Any], *, prefix: str, name: str) -> None:
    """Flan-T5's output layer is its own. Versions of transformers that tie it to the input embeddings lose it.

    Raises:
        WeightsMismatchError: the loaded output layer is not the stored one.
    """
    import torch

    stored = state.get(f"{prefix}lm_head.weight")
    loaded = language.get_output_embeddings().weight
    if stored is not None and not torch.equal(loaded.cpu(), stored.to(loaded.dtype)):
        raise WeightsMismatchError(
            f"the output layer of {name} must be the stored one (lm_head.weight)",
            got="another: this version of transformers ties it to the input embeddings",
            fix="Use transformers 5.24 or newer",
        )
