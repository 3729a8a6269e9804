"""Engine "fake": a public encoder for tests of your own code. No torch, no weights, very fast, and deterministic.

    fake                      64 dimensions
    fake:dim=8;seed=3         another model: other embeddings, another weights hash
    fake:zero=blurry          texts that contain "blurry" get an all-zero embedding
    fake:zero=#000000         pictures of this one colour get an all-zero embedding
    fake:fail=boom            texts that contain "boom" (or pictures of a colour) raise an error

Embeddings are a fixed random projection of what is there (sampled pixels, or the bytes of a text) and of a checksum
over all of it: equal content gives equal embeddings, different content different ones, and nothing is meant by them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beholder._errors import OptionError
from beholder._hashing import hash_json
from beholder.backends.base import Columns, ImageTextEncoder, LoadOptions, ResolvedModel
from beholder.backends.describing import CardEngine
from beholder.backends.names import parse_name
from beholder.media.base import DecodeOptions, Picture
from beholder.records import ModelCard

_VERSION = 1
_SAMPLES = 56
_CONTEXT = 77
_PLAIN, _ZERO = 0, 1
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
Vectors = Mapping[str, Sequence[float]]


class FakeEncoder:
    """An `ImageTextEncoder` without a network.

    Args:
        name: the name it goes by; part of its identity.
        dim: width of the embeddings.
        seed: another seed is another model.
        texts: embeddings of given texts, by the exact text.
        images: embeddings of given image files, by path; they are known again by their pixels.
        zero_on: texts that contain this string, or pictures of this one colour ("#rrggbb"), get zeros.
        fail_on: the same for raising a RuntimeError.
        logit_scale: the constant of that name.
        context_length: tokens (words, start and end) beyond which a text counts as truncated.

    Raises:
        OptionError: a vector that has not `dim` numbers, a width below 1, or a colour that is none.

    >>> encoder = FakeEncoder(dim=2, texts={"a cat": [1.0, 0.0]})
    >>> encoder.encode_texts(["a cat"])["embedding"].tolist()
    [[1.0, 0.0]]
    """

    image_batch = 1024
    text_batch = 1024

    def __init__(
        self,
        name: str = "fake",
        *,
        dim: int = 64,
        seed: int = 0,
        texts: Vectors | None = None,
        images: Vectors | None = None,
        zero_on: str | None = None,
        fail_on: str | None = None,
        logit_scale: float = 100.0,
        context_length: int = _CONTEXT,
    ) -> None:
        if dim < 1:
            raise OptionError("dim must be at least 1", got=str(dim))
        self.dim = dim
        for hook in (zero_on, fail_on):
            if hook is not None and hook.startswith("#") and not _COLOUR.fullmatch(hook):
                raise OptionError("a colour must be written #rrggbb", got=repr(hook))
        self._texts = {text: _vector(text, vector, dim) for text, vector in (texts or {}).items()}
        self._images = {_pixels_key(path): _vector(path, vector, dim) for path, vector in (images or {}).items()}
        self._zero, self._fail = zero_on, fail_on
        self._length = context_length
        generator = np.random.default_rng([_VERSION, seed, dim])
        self._image_matrix = generator.standard_normal((_SAMPLES + 8, dim), dtype=np.float32)
        self._text_matrix = generator.standard_normal((256 + 8, dim), dtype=np.float32)
        self.constants: Mapping[str, float] = {"logit_scale": logit_scale}
        self.model = self._describe(name, seed, logit_scale)
        self._positions: dict[int, np.ndarray] = {}

    def prepare_image(self, picture: Picture) -> np.ndarray:
        """(73,) uint8: a mark, sampled bytes, and checksums of all bytes."""
        flat = picture.pixels.reshape(-1)
        out = np.empty(1 + _SAMPLES + 8, dtype=np.uint8)
        out[0] = self._mark(flat)
        positions = self._positions.get(flat.size)
        if positions is None:
            positions = self._positions.setdefault(flat.size, np.linspace(0, flat.size - 1, _SAMPLES).astype(np.intp))
        out[1 : 1 + _SAMPLES] = flat[positions]
        out[1 + _SAMPLES :] = np.frombuffer(_checksums(flat.data), dtype=np.uint8)
        return out

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        """(n, 65) uint8 from `prepare_image` to (n, dim) float32."""
        features = batch[:, 1:].astype(np.float32) / np.float32(127.5) - np.float32(1.0)
        embeddings = _product(features, self._image_matrix)
        embeddings[batch[:, 0] == _ZERO] = 0.0
        if self._images:
            for row, item in enumerate(batch):
                given = self._images.get(item[1 + _SAMPLES :].tobytes())
                if given is not None:
                    embeddings[row] = given
        return embeddings

    def encode_patches(self, batch: np.ndarray) -> Columns:
        """(n, 65) uint8 to the columns of a `PatchEncoder`: 4 × 4 patches that see one sample more, one by one."""
        embedding = self.encode_images(batch)
        samples = batch[:, 1 : 1 + _SAMPLES].astype(np.float32) / np.float32(127.5) - np.float32(1.0)
        shown = np.stack([np.roll(samples, at, axis=1) for at in range(16)], axis=1)
        patches = _product(shown, self._image_matrix[:_SAMPLES])
        attention = np.full((len(batch), 16, 16), 1 / 16, dtype=np.float16)
        return {
            "embedding": embedding, "embedding_bypassed": embedding[:, ::-1].copy(),
            "patches": patches.astype(np.float16), "attention": attention,
            "grid": np.full((len(batch), 2), 4, dtype=np.int32),
        }  # fmt: skip

    def encode_texts(self, texts: Sequence[str]) -> Columns:
        """Columns "embedding", "n_tokens" (words and two) and "truncated"."""
        if self._fail is not None and any(self._fail in text for text in texts):
            raise RuntimeError(f"the fake encoder fails on texts that contain {self._fail!r}, as asked")
        coded = [text.encode("utf-8", "surrogatepass") for text in texts]
        embeddings = _product(self._text_features(coded), self._text_matrix)
        if self._texts or self._zero is not None:
            self._override(texts, embeddings)
        n_tokens = np.asarray([len(text.split()) + 2 for text in texts], dtype=np.int32)
        return {"embedding": embeddings, "n_tokens": n_tokens, "truncated": n_tokens > self._length}

    def close(self) -> None:
        """Nothing to release: the encoder can be used again."""

    def _override(self, texts: Sequence[str], embeddings: np.ndarray) -> None:
        for row, text in enumerate(texts):
            given = self._texts.get(text)
            if given is not None:
                embeddings[row] = given
            elif self._zero is not None and self._zero in text:
                embeddings[row] = 0.0

    def _text_features(self, coded: Sequence[bytes]) -> np.ndarray:
        lengths = np.asarray([len(item) for item in coded], dtype=np.int64)
        rows = np.repeat(np.arange(len(coded)), lengths)
        letters = np.frombuffer(b"".join(coded), dtype=np.uint8)
        counts = np.bincount(rows * 256 + letters, minlength=256 * len(coded)).reshape(len(coded), 256)
        sums = np.frombuffer(b"".join(_checksums(item) for item in coded), dtype=np.uint8).reshape(-1, 8)
        features = np.empty((len(coded), 256 + 8), dtype=np.float32)
        features[:, :256] = counts
        features[:, :256] *= (8.0 / np.maximum(lengths, 1)).astype(np.float32)[:, None]
        features[:, 256:] = sums
        features[:, 256:] *= np.float32(1 / 127.5)
        features[:, 256:] -= np.float32(1.0)
        return features

    def _mark(self, flat: np.ndarray) -> int:
        for hook in (self._fail, self._zero):
            if hook is not None and hook.startswith("#") and _is_colour(flat, hook):
                if hook is self._fail:
                    raise RuntimeError(f"the fake encoder fails on pictures of the colour {hook}, as asked")
                return _ZERO
        return _PLAIN

    def _describe(self, name: str, seed: int, logit_scale: float) -> ResolvedModel:
        parameters: dict[str, Any] = {
            "version": _VERSION,
            "dim": self.dim,
            "seed": seed,
            "zero_on": self._zero,
            "fail_on": self._fail,
            "texts": {text: vector.tolist() for text, vector in self._texts.items()},
            "images": {key.hex(): vector.tolist() for key, vector in self._images.items()},
            "logit_scale": logit_scale,
            "context_length": self._length,
        }
        preprocessing = {"library": "none", "text": {"context_length": self._length}}
        card = ModelCard(
            id=name, engine="fake", family="fake", arch="fake", weights=name.partition(":")[2], embed_dim=self.dim,
            context_length=self._length, preprocessing=preprocessing, size_bytes=0,
            notes=("For tests of your own code: its embeddings mean nothing.",),
        )  # fmt: skip
        return ResolvedModel(
            asked=name,
            id=name,
            card=card,
            location="",
            weights_sha256=hash_json(parameters),
            preprocessing=preprocessing,
            dtype="float32",
            constants=dict(self.constants),
        )


class FakeEngine(CardEngine):
    """Makes fake encoders by name."""

    name = "fake"

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        return _by_name(name).model

    def load(self, model: ResolvedModel, *, device: str) -> ImageTextEncoder:
        return _by_name(model.asked)

    def patch_fault(self, model: ResolvedModel) -> str | None:
        """None: every fake encoder gives patch tokens."""
        return None


FAKE = FakeEngine()


def _by_name(name: str) -> FakeEncoder:
    parsed = parse_name(name)
    options: dict[str, Any] = {}
    for part in parsed.weights.replace(";", ",").split(",") if parsed.weights else ():
        key, _, value = part.strip().partition("=")
        if key in ("dim", "seed", "context") and value.isdigit():
            options["context_length" if key == "context" else key] = int(value)
        elif key in ("zero", "fail") and value:
            options[f"{key}_on"] = value
        else:
            raise OptionError(
                "the fake encoder is written fake or fake:dim=64;seed=0;zero=…;fail=…;context=77", got=repr(part)
            )
    return FakeEncoder(parsed.id, **options)


def _vector(what: str, vector: Sequence[float], dim: int) -> np.ndarray:
    array = np.asarray(vector, dtype=np.float32)
    if array.shape != (dim,):
        raise OptionError(f"the vector of {what!r} must have {dim} numbers", got=str(array.shape))
    return array


def _product(features: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Their product in float32, the same for an item in any place of any batch.

    Some processors' kernels of float32 products add up a row in an order that depends on the row's place; in float64
    what that changes is far below the last bit that is kept.
    """
    made: np.ndarray = (features.astype(np.float64) @ matrix.astype(np.float64)).astype(np.float32)
    return made


def _checksums(data: bytes | memoryview) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little") + zlib.adler32(data).to_bytes(4, "little")


def _is_colour(flat: np.ndarray, colour: str) -> bool:
    rgb = bytes.fromhex(colour[1:])
    return all((flat[channel::3] == value).all() for channel, value in enumerate(rgb))


def _pixels_key(path: str) -> bytes:
    from beholder.media.sources import as_medium

    return _checksums(as_medium(path).decode(DecodeOptions()).pixels.reshape(-1).data)
