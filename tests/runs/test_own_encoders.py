"""Encoders that users register: what they give is checked before it is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.runs.helpers import write_set

import beholder
from beholder._errors import ModelError, OptionError


class Own(beholder.FakeEncoder):
    """A fake encoder whose answers are changed."""

    def __init__(self, images: Callable[[Any], Any] | None = None, texts: Callable[[Any], Any] | None = None) -> None:
        super().__init__("own", dim=8)
        self.change_images, self.change_texts = images, texts

    def encode_images(self, batch: np.ndarray) -> Any:
        found = super().encode_images(batch)
        return self.change_images(found) if self.change_images else found

    def encode_texts(self, texts: Any) -> Any:
        found = super().encode_texts(texts)
        return self.change_texts(found) if self.change_texts else found


def run(tmp_path: Path, encoder: Any, out: str = "out") -> beholder.Run:
    beholder.register_encoder("own", encoder)
    return beholder.evaluate(
        write_set(tmp_path, 3), metrics="clip_score", model="own", out=str(tmp_path / out), store=str(tmp_path / out)
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.tolist(),
        lambda found: found.astype(np.float64),
        torch.from_numpy,
        lambda found: torch.from_numpy(found).requires_grad_(),
        lambda found: found * np.float32(1e25),
    ],
)
def test_embeddings_of_any_array_kind_give_the_same(tmp_path: Path, change: Any) -> None:
    plain = run(tmp_path, Own(), "plain").scores.column("clip_score").to_pylist()
    changed = run(tmp_path, Own(change), "changed").scores.column("clip_score").to_pylist()
    assert changed == pytest.approx(plain, abs=1e-6)


@pytest.mark.parametrize(
    "change", [lambda found: found.astype(np.float16), lambda found: torch.from_numpy(found).bfloat16()]
)
def test_half_precision_embeddings_are_taken(tmp_path: Path, change: Any) -> None:
    plain = run(tmp_path, Own(), "plain").scores.column("clip_score").to_pylist()
    changed = run(tmp_path, Own(change), "changed").scores.column("clip_score").to_pylist()
    assert changed == pytest.approx(plain, abs=0.02)


@pytest.mark.parametrize(
    ("images", "texts", "message"),
    [
        (lambda found: None, None, "'embedding' must hold real numbers; got dtype object"),
        (lambda found: found[:1], None, r"one row of 'embedding' for each of 1024 items; got shape \(1, 8\)"),
        (lambda found: found[:, 0], None, r"a matrix \(n, d\)"),
        (lambda found: found[:, None], None, r"a matrix \(n, d\)"),
        (lambda found: found[:, :0], None, r"a matrix \(n, d\)"),
        (lambda found: found.astype(object), None, "dtype object"),
        (lambda found: found + 1j, None, "dtype complex"),
        (None, lambda found: found["embedding"], "a mapping with a column 'embedding' for texts; got ndarray"),
        (None, lambda found: {"emb": found["embedding"]}, "got columns 'emb'"),
        (None, lambda found: {**found, "truncated": [False]}, "one row of 'truncated'"),
        (lambda found: found[:, :4], None, "equal shapes"),
    ],
)
def test_an_encoder_that_breaks_its_contract_stops_the_run(
    tmp_path: Path, images: Any, texts: Any, message: str
) -> None:
    with pytest.raises((ModelError, OptionError), match=message):
        run(tmp_path, Own(images, texts))


@pytest.mark.parametrize("size", [0, -1, 2.5, None, True])
def test_batches_are_whole_numbers(size: Any) -> None:
    encoder = Own()
    encoder.image_batch = size
    with pytest.raises(OptionError, match="image_batch must be a whole number"):
        beholder.register_encoder("own", encoder)


def test_a_name_is_text() -> None:
    with pytest.raises(OptionError, match="a name of its own"):
        beholder.register_encoder(None, Own())  # type: ignore[arg-type]
