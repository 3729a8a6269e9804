"""The fake encoder: content in, embeddings out, with hooks for what tests want to see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.backends.backends_pictures import noise_picture

from beholder._errors import OptionError
from beholder.backends.base import ImageTextEncoder
from beholder.backends.fake import FakeEncoder
from beholder.backends.pool import load_model, resolve_model
from beholder.media.base import Picture


def flat_picture(colour: tuple[int, int, int], size: int = 8) -> Picture:
    return Picture(np.full((size, size, 3), colour, dtype=np.uint8), (size, size), "RGB")


def embed(encoder: ImageTextEncoder, *pictures: Picture) -> np.ndarray:
    return encoder.encode_images(np.stack([encoder.prepare_image(picture) for picture in pictures]))


def test_it_is_an_encoder_and_deterministic() -> None:
    first, second = (load_model(resolve_model("fake:dim=16")) for _ in range(2))
    assert isinstance(first, ImageTextEncoder)
    picture = noise_picture(20, 30)
    np.testing.assert_array_equal(embed(first, picture), embed(second, picture))
    assert embed(first, picture).shape == (1, 16)
    assert embed(first, picture).dtype == np.float32
    texts = first.encode_texts(["a cat", "a dog", "act a"])
    np.testing.assert_array_equal(texts["embedding"], second.encode_texts(["a cat", "a dog", "act a"])["embedding"])
    assert len(np.unique(texts["embedding"].round(4), axis=0)) == 3


def test_golden_embeddings() -> None:
    # Provenance: this project's own arithmetic (version 1); PCG64's stream and CRC-32 are fixed by their definitions.
    encoder = FakeEncoder(dim=3)
    np.testing.assert_allclose(embed(encoder, flat_picture((10, 20, 30)))[0], GOLDEN_IMAGE, atol=1e-4)
    np.testing.assert_allclose(encoder.encode_texts(["a cat"])["embedding"][0], GOLDEN_TEXT, atol=1e-4)


GOLDEN_IMAGE = [0.875524, -6.554219, 12.292902]
GOLDEN_TEXT = [2.348396, 6.325435, 3.358057]


def test_an_item_has_the_same_bits_in_any_place_of_any_batch() -> None:
    encoder, picture = FakeEncoder(dim=16), noise_picture(9, 9)
    items = np.stack([encoder.prepare_image(picture)] * 8)
    assert len(np.unique(encoder.encode_images(items), axis=0)) == 1
    assert len(np.unique(encoder.encode_texts(["a cat"] * 8)["embedding"], axis=0)) == 1
    assert np.array_equal(encoder.encode_images(items[:3]), encoder.encode_images(items)[:3])


def test_one_changed_pixel_changes_the_embedding() -> None:
    encoder, picture = FakeEncoder(), noise_picture(50, 50)
    changed = picture.pixels.copy()
    changed[17, 23, 1] ^= 1
    before, after = embed(encoder, picture, Picture(changed, (50, 50), "RGB"))
    assert not np.array_equal(before, after)


def test_dimensions_and_seeds_are_other_models() -> None:
    names = ["fake", "fake:dim=8", "fake:seed=1", "fake:zero=x", "fake:fail=x", "fake:context=5"]
    assert len({resolve_model(name).weights_sha256 for name in names}) == len(names)
    assert len({resolve_model(name).key for name in names}) == len(names)


def test_given_vectors(tmp_path: Path) -> None:
    cat = tmp_path / "cat.png"
    Image.fromarray(noise_picture(9, 9, seed=1).pixels).save(cat)
    encoder = FakeEncoder(dim=2, texts={"a cat": [1, 0]}, images={str(cat): [0, 2]})
    assert encoder.encode_texts(["a cat", "a dog"])["embedding"][0].tolist() == [1, 0]
    assert embed(encoder, noise_picture(9, 9, seed=1), noise_picture(9, 9, seed=2))[0].tolist() == [0, 2]
    assert embed(encoder, noise_picture(9, 9, seed=2))[0].tolist() != [0, 2]
    with pytest.raises(OptionError, match="must have 2 numbers"):
        FakeEncoder(dim=2, texts={"a cat": [1, 0, 0]})


def test_zero_embeddings_where_asked() -> None:
    encoder = load_model(resolve_model("fake:zero=blurry"))
    embeddings = encoder.encode_texts(["a blurry cat", "a cat"])["embedding"]
    assert not embeddings[0].any()
    assert embeddings[1].any()
    encoder = load_model(resolve_model("fake:zero=#000000"))
    embeddings = embed(encoder, flat_picture((0, 0, 0)), flat_picture((0, 0, 1)), noise_picture(8, 8))
    assert [bool(row.any()) for row in embeddings] == [False, True, True]


def test_failures_where_asked() -> None:
    encoder = load_model(resolve_model("fake:fail=boom"))
    encoder.encode_texts(["fine"])
    with pytest.raises(RuntimeError, match="boom"):
        encoder.encode_texts(["fine", "a boom"])
    encoder = load_model(resolve_model("fake:fail=#ff0000"))
    encoder.prepare_image(flat_picture((255, 0, 1)))
    with pytest.raises(RuntimeError, match="#ff0000"):
        encoder.prepare_image(flat_picture((255, 0, 0)))


def test_tokens_and_truncation() -> None:
    columns = load_model(resolve_model("fake:context=5")).encode_texts(["a b c", "a b c d", ""])
    assert columns["n_tokens"].tolist() == [5, 6, 2]
    assert columns["truncated"].tolist() == [False, True, False]


@pytest.mark.parametrize(
    "name",
    ["fake:dim", "fake:dim=x", "fake:colour=red", "fake:zero=", "fake:dim=0", "fake:zero=#0", "fake:fail=#gggggg"],
)
def test_parameters_that_are_not_understood_are_refused(name: str) -> None:
    with pytest.raises(OptionError):
        resolve_model(name)


def test_no_texts_and_one_pixel() -> None:
    encoder = FakeEncoder()
    assert encoder.encode_texts([])["embedding"].shape == (0, 64)
    assert np.isfinite(embed(encoder, flat_picture((1, 2, 3), size=1))).all()


def test_it_loads_no_torch() -> None:
    code = (
        "import sys; from beholder.backends.fake import FakeEncoder; FakeEncoder().encode_texts(['a']);"
        "print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
