"""Perceptual hashes against a DCT that is written out, and what they must and must not tell apart."""

from __future__ import annotations

import numpy as np
import pytest

from beholder._errors import OptionError
from beholder.functional.picture_hash import NEAR, SIDE, hamming, perceptual_hash


def gray(seed: int) -> np.ndarray:
    """A smooth random picture: a few waves."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE
    waves = [
        generator.uniform(10, 60) * np.cos(2 * np.pi * (a * x + b * y) + generator.uniform(0, 6))
        for a, b in generator.uniform(0, 3, (6, 2))
    ]
    return np.clip(128 + np.sum(waves, axis=0), 0, 255)


def written_out(values: np.ndarray) -> int:
    """The recipe again: the DCT as a sum over all pixels, the bits one by one."""
    n = np.arange(SIDE)
    coefficients = []
    for u in range(8):
        for v in range(8):
            wave = np.outer(np.cos(np.pi * u * (2 * n + 1) / (2 * SIDE)), np.cos(np.pi * v * (2 * n + 1) / (2 * SIDE)))
            norm = (np.sqrt(1 / SIDE) if u == 0 else np.sqrt(2 / SIDE)) * (
                np.sqrt(1 / SIDE) if v == 0 else np.sqrt(2 / SIDE)
            )
            coefficients.append(norm * float((values * wave).sum()))
    median = sorted(coefficients[1:])[31]
    number = 0
    for at, value in enumerate(coefficients):
        number = 2 * number + (1 if at > 0 and value > median else 0)
    return number


@pytest.mark.parametrize("seed", range(5))
def test_the_hash_is_the_recipe(seed: int) -> None:
    assert int(perceptual_hash(gray(seed))) == written_out(gray(seed))


def test_golden_hashes() -> None:
    # Made once by `written_out` above on the pictures of seeds 0 to 2, numpy 2.4.
    assert [int(perceptual_hash(gray(seed))) for seed in range(3)] == [
        7534514414192972455,
        1141671018041188430,
        8714612453266493351,
    ]


def test_brightness_and_contrast_do_not_count() -> None:
    picture = gray(3)
    assert perceptual_hash(picture) == perceptual_hash(0.5 * picture + 40)


def test_noise_is_near_and_other_pictures_are_far() -> None:
    generator = np.random.default_rng(0)
    for seed in range(6):
        noisy = gray(seed) + generator.normal(0, 2, (SIDE, SIDE))
        assert hamming(perceptual_hash(gray(seed)), perceptual_hash(noisy))[0] <= NEAR
        assert hamming(perceptual_hash(gray(seed)), perceptual_hash(gray(seed + 50)))[0] > 3 * NEAR


def test_one_colour_has_no_bits() -> None:
    for value in (0.0, 17.0, 255.0):
        assert int(perceptual_hash(np.full((SIDE, SIDE), value))) == 0


def test_hamming_counts_bits() -> None:
    numbers = np.random.default_rng(1).integers(0, 2**63, 50, dtype=np.uint64)
    expected = [bin(int(number) ^ int(numbers[0])).count("1") for number in numbers]
    assert hamming(numbers, numbers[0]).tolist() == expected
    assert hamming(np.uint64(0), np.uint64(2**64 - 1)).tolist() == [64]


def test_a_mirrored_copy_is_found() -> None:
    references = [gray(seed) for seed in (1, 2, 3)]
    plain = np.array([perceptual_hash(picture) for picture in references])
    turned = np.array([perceptual_hash(picture[:, ::-1]) for picture in references])
    copy = perceptual_hash(references[1][:, ::-1])
    assert hamming(copy, turned)[1] == 0
    assert hamming(copy, plain).min() > NEAR
    assert np.delete(hamming(copy, turned), 1).min() > NEAR


def test_other_shapes_are_refused() -> None:
    with pytest.raises(OptionError, match="32×32"):
        perceptual_hash(np.zeros((8, 8)))
