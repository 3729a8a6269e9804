"""Consistency, windows and smoothness against plain sums."""

from __future__ import annotations

import numpy as np
import pytest

from beholder._errors import OptionError
from beholder.backends.clip_meters import in_windows
from beholder.functional.temporal import consistency, smoothness, windows


def test_consistency_is_vbenchs() -> None:
    rng = np.random.default_rng(0)
    frames = rng.normal(size=(7, 5)) + 0.3
    total, parts = 0.0, []
    for at in range(1, 7):

        def cos(a: np.ndarray, b: np.ndarray) -> float:
            return max(0.0, float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))

        parts.append((cos(frames[at], frames[at - 1]) + cos(frames[at], frames[0])) / 2)
        total += parts[-1]
    found = consistency(frames)
    assert found.value == pytest.approx(total / 6, abs=1e-6)
    assert found.value == pytest.approx((found.to_previous + found.to_first) / 2, abs=1e-12)
    assert found.worst == int(np.argmin(parts)) + 1
    assert not found.degenerate


def test_consistency_at_the_ends() -> None:
    same = np.tile([[0.3, 0.4]], (4, 1))
    assert consistency(same).value == pytest.approx(1.0, abs=1e-6)
    assert consistency([[1.0, 0.0], [-1.0, 0.0]]).value == 0.0, "negative cosines count 0"
    assert consistency([[1.0, 0.0], [0.0, 0.0]]).degenerate
    with pytest.raises(OptionError):
        consistency([[1.0, 0.0]])


@pytest.mark.parametrize(
    ("n", "wanted"),
    [
        (1, [(0, 0, 0)]),
        (2, [(0, 0, 0), (0, 0, 1)]),
        (3, [(0, 0, 0), (0, 1, 2), (1, 1, 2)]),
        (4, [(0, 0, 0), (0, 1, 2), (1, 2, 3), (2, 2, 3)]),
    ],
)
def test_windows(n: int, wanted: list[tuple[int, int, int]]) -> None:
    assert windows(n) == wanted
    assert list(in_windows(range(n))) == wanted, "the stream gives the same windows"


def test_smoothness() -> None:
    assert smoothness([0.5] * 9) == (1.0, (), 0.0)
    one = smoothness([0.5] * 5 + [0.6] * 5)
    assert one.value == pytest.approx(1 - 2 / 10)
    assert one.artefacts == (4, 5)
    two = smoothness([0.5] * 4 + [0.6] + [0.7] * 5)
    assert two.value == pytest.approx(1 - 3 / 10)
    assert two.artefacts == (3, 4, 5)
    assert two.largest_jump == pytest.approx(0.1)
    assert smoothness([0.0, 0.025]).value == 1.0, "a jump of exactly 0.025 is smooth"
    assert smoothness([0.0, 0.0251]).value == 0.0
    with pytest.raises(OptionError):
        smoothness([0.5])


def test_the_published_sample() -> None:
    # faceobj_14 has 69 frames and the value 0.8985507246376812 = 62/69: seven artefact frames, here of three jumps,
    # two of which are neighbours (2 + 2 + 3).
    scores = np.full(69, 0.5)
    scores[10:] += 0.1
    scores[30:] -= 0.1
    scores[50:] += 0.1
    scores[51:] += 0.1
    assert smoothness(scores).value == 0.8985507246376812
