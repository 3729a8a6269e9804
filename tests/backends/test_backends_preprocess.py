"""Preprocessing: bit-identical to Pillow's path of transformers, and right by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backends.backends_pictures import noise_picture

from beholder._errors import ModelError
from beholder.backends.preprocess import Preprocessing, read_preprocessor
from beholder.backends.tensors import normalise, to_numpy, to_torch

SIZES = [(224, 224), (300, 200), (201, 305), (64, 50), (7, 1000), (1000, 7), (225, 224), (227, 224), (1, 1)]


def clip_processor(**settings: Any) -> Any:
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    return CLIPImageProcessorPil(**settings)


@pytest.mark.parametrize("size", SIZES)
def test_clip_is_bit_identical_to_transformers_pil_path(size: tuple[int, int]) -> None:
    picture = noise_picture(*size)
    ours = read_preprocessor({}, model_type="clip", image_size=224).to_float(picture.pixels)
    theirs = clip_processor()(picture.pixels, input_data_format="channels_last", return_tensors="np").pixel_values[0]
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("size", SIZES)
def test_siglip_squash_is_bit_identical_to_transformers_pil_path(size: tuple[int, int]) -> None:
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    picture = noise_picture(*size)
    settings: dict[str, Any] = {
        "size": {"height": 64, "width": 64}, "resample": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
    }  # fmt: skip
    ours = read_preprocessor(settings, model_type="siglip", image_size=64).to_float(picture.pixels)
    processor = SiglipImageProcessorPil(**settings)
    theirs = processor(picture.pixels, input_data_format="channels_last", return_tensors="np").pixel_values[0]
    np.testing.assert_array_equal(ours, theirs)


def test_crop_of_a_picture_that_is_too_small_pads_as_transformers_does() -> None:
    picture = noise_picture(9, 12)
    settings = {"do_resize": False, "crop_size": {"height": 15, "width": 15}}
    ours = read_preprocessor(settings, model_type="clip", image_size=15).to_float(picture.pixels)
    processor = clip_processor(**settings)
    theirs = processor(picture.pixels, input_data_format="channels_last", return_tensors="np").pixel_values[0]
    np.testing.assert_array_equal(ours, theirs)


def test_values_by_hand() -> None:
    pixels = np.zeros((224, 224, 3), dtype=np.uint8)
    pixels[..., 1] = 255
    prepared = read_preprocessor({}, model_type="clip", image_size=224).to_float(pixels)
    assert prepared[0, 0, 0] == pytest.approx(-0.48145466 / 0.26862954, abs=1e-6)
    assert prepared[1, 5, 7] == pytest.approx((1 - 0.4578275) / 0.26130258, abs=1e-6)


def test_golden_tensor_of_a_high_frequency_picture() -> None:
    # Provenance: CLIPImageProcessorPil of transformers 5.24 with Pillow 13 on this picture; Pillow's resize works in
    # fixed-point arithmetic, so the bits are the same on every machine.
    prepared = read_preprocessor({}, model_type="clip", image_size=224).to_uint8(noise_picture(301, 452).pixels)
    assert prepared[:, 0, :4].tolist() == GOLDEN_CORNER
    assert int(prepared.astype(np.int64).sum()) == GOLDEN_SUM


GOLDEN_CORNER = [[174, 198, 86, 169], [110, 90, 207, 145], [138, 187, 190, 73]]
GOLDEN_SUM = 19_163_779


def test_values_looked_up_on_the_device_are_the_values_computed() -> None:
    preprocessing = read_preprocessor({}, model_type="clip", image_size=32)
    pictures = [noise_picture(40, 50, seed=seed).pixels for seed in range(3)]
    looked_up = to_numpy(
        normalise(to_torch(np.stack([preprocessing.to_uint8(p) for p in pictures])), to_torch(preprocessing.table()))
    )
    np.testing.assert_array_equal(looked_up, np.stack([preprocessing.to_float(p) for p in pictures]))


def test_description_reads_back_and_is_json() -> None:
    import json

    preprocessing = read_preprocessor(
        {"size": {"shortest_edge": 30}, "crop_size": 28}, model_type="clip", image_size=28
    )
    assert Preprocessing.from_json(json.loads(json.dumps(preprocessing.as_json()))) == preprocessing
    assert preprocessing.input_size == (28, 28)


@pytest.mark.parametrize(
    "settings",
    [
        {"do_center_crop": False},
        {"do_pad": True},
        {"resample": 9},
        {"size": {"longest_edge": 3}},
        {"size": True},
        {"image_mean": [0.5]},
    ],
)
def test_steps_that_are_not_understood_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        read_preprocessor(settings, model_type="clip", image_size=224)


def test_a_model_that_does_not_resize_refuses_other_sizes() -> None:
    preprocessing = read_preprocessor({"do_resize": False, "do_center_crop": False}, model_type="siglip", image_size=32)
    with pytest.raises(ModelError, match="pictures of"):
        preprocessing.to_uint8(noise_picture(31, 32).pixels)
