"""Texts to token ids, with the tokenizer and the limit that belong to the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import MissingExtraError, WeightsMismatchError


@dataclass(frozen=True)
class Tokens:
    """Token ids of n texts, all padded on the right to one length.

    Args:
        ids: (n, length) int64.
        mask: (n, length) int64, 1 for tokens and 0 for padding.
        n_tokens: (n,) int32, tokens before truncation, start and end included.
        truncated: (n,) bool.
    """

    ids: np.ndarray
    mask: np.ndarray
    n_tokens: np.ndarray
    truncated: np.ndarray


class HFTokenizer:
    """A transformers tokenizer with a fixed length.

    A text that is too long keeps its first tokens and the end token, as the tokenizer's own truncation does; ids are
    never cut blindly, since a text without its end token is encoded wrongly.

    Args:
        folder: folder with the tokenizer's files.
        length: tokens that a text may have; every text is padded to it.
        clean: what is done to a text first, or None.
        extra_tokens: special tokens that get the ids behind the vocabulary, in this order.
        kind: transformers' class, for files that don't say it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        length: int,
        clean: Callable[[str], str] | None = None,
        extra_tokens: Sequence[str] = (),
        kind: str = "AutoTokenizer",
    ) -> None:
        self._tokenizer = load_tokenizer(folder, kind=kind)
        if extra_tokens:
            self._tokenizer.add_tokens(list(extra_tokens), special_tokens=True)
        self.length, self._clean = length, clean
        self.ending = find_ending(self._tokenizer)
        pad: Any = self._tokenizer.pad_token_id
        if pad is None and self.ending:
            pad = self.ending[-1]
        if pad is None:
            raise WeightsMismatchError("a tokenizer must have a padding or an end token", got=f"neither in {folder}")
        self.pad_id = int(pad)

    @property
    def separator_id(self) -> int:
        """The id of the separator token.

        Raises:
            WeightsMismatchError: the tokenizer has none.
        """
        if self._tokenizer.sep_token_id is None:
            raise WeightsMismatchError("this model's tokenizer must have a separator token", got="none")
        return int(self._tokenizer.sep_token_id)

    def __call__(self, texts: Sequence[str]) -> Tokens:
        if self._clean is not None:
            texts = [self._clean(text) for text in texts]
        rows = self._tokenizer(
            list(texts), add_special_tokens=True, padding=False, truncation=False, return_attention_mask=False,
            verbose=False,
        )["input_ids"]  # fmt: skip
        counts = np.asarray([len(row) for row in rows], dtype=np.int32)
        ids = np.full((len(rows), self.length), self.pad_id, dtype=np.int64)
        for row, kept in enumerate(rows):
            kept = self._shorten(kept)
            ids[row, : len(kept)] = kept
        mask = (np.arange(self.length)[None, :] < counts[:, None]).astype(np.int64)
        return Tokens(ids, mask, counts, counts > self.length)

    def _shorten(self, ids: list[int]) -> list[int]:
        if len(ids) <= self.length:
            return ids
        return [*ids[: self.length - len(self.ending)], *self.ending]


def find_ending(tokenizer: Any) -> tuple[int, ...]:
    """The tokens that a tokenizer puts behind every text; () when it puts none."""
    bare, full = (tokenizer("a", add_special_tokens=special, verbose=False)["input_ids"] for special in (False, True))
    start = next((at for at in range(len(full)) if full[at : at + len(bare)] == bare), 0)
    return tuple(int(token) for token in full[start + len(bare) :])


def load_tokenizer(folder: Path, *, kind: str = "AutoTokenizer") -> Any:
    """The tokenizer in a folder, in transformers' layout.

    Raises:
        MissingExtraError: it needs a package that is not installed.
        WeightsMismatchError: its files do not load.
    """
    import transformers

    _need_sentencepiece(folder)
    try:
        # Padding and truncation are done here, always on the right.
        return getattr(transformers, kind).from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False, padding_side="right"
        )
    except ImportError as error:
        raise MissingExtraError(f"the tokenizer in {folder.name}", _missing_package(error), "siglip") from error
    except (ValueError, OSError, KeyError, TypeError) as error:
        raise WeightsMismatchError(
            "a model's tokenizer files must load", got=f"{type(error).__name__}: {error}", fix="Fetch the model again"
        ) from error


def _need_sentencepiece(folder: Path) -> None:
    """SigLIP's tokenizer exists in SentencePiece form only; without that package another one would step in silently."""
    import importlib.util

    from beholder.backends.files import read_json

    path = folder / "tokenizer_config.json"
    if path.is_file() and read_json(path).get("tokenizer_class") == "SiglipTokenizer":
        for package, module in (("sentencepiece", "sentencepiece"), ("protobuf", "google.protobuf")):
            try:
                found = importlib.util.find_spec(module)
            except ModuleNotFoundError:
                found = None
            if found is None:
                raise MissingExtraError("SigLIP's tokenizer", package, "siglip")


def _missing_package(error: ImportError) -> str:
    if error.name:
        return error.name
    return next(
        (name for name in ("sentencepiece", "protobuf", "jieba") if name in str(error).lower()), "sentencepiece"
    )
