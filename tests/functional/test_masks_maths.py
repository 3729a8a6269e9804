"""Run lengths, polygons, boxes, fills and crops: against plain loops, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder._errors import OptionError
from beholder.functional.masks import (
    CLIP_MEAN,
    box_masks,
    choose_instances,
    crop_to_mask,
    decode_masks,
    encode_masks,
    fill_outside,
    mask_boxes,
    parse_counts,
    polygon_mask,
    run_areas,
)

RED, GREEN = (255, 0, 0), (0, 255, 0)


def plain_runs(mask: np.ndarray) -> list[int]:
    """Run lengths by walking over the pixels, column by column."""
    runs, value, length = [], False, 0
    for x in range(mask.shape[1]):
        for y in range(mask.shape[0]):
            if bool(mask[y, x]) != value:
                runs.append(length)
                value, length = not value, 0
            length += 1
    return [*runs, length]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 3), st.integers(1, 7), st.integers(1, 7), st.integers(0, 2**32 - 1), st.sampled_from([0, 0.5, 1]))
def test_run_lengths_come_back(n: int, height: int, width: int, seed: int, share: float) -> None:
    masks = np.random.default_rng(seed).random((n, height, width)) < share
    counts, lengths = encode_masks(masks)
    assert counts.tolist() == [run for mask in masks for run in plain_runs(mask)]
    assert counts.dtype == np.uint32
    back = decode_masks(counts, lengths, (height, width))
    assert back.shape == (n, height, width)
    assert (back == masks).all()
    assert run_areas(counts, lengths).tolist() == masks.sum(axis=(1, 2)).tolist()


def test_runs_that_do_not_fill_the_size_are_refused() -> None:
    with pytest.raises(OptionError, match="add up to 6"):
        decode_masks([2, 2], [2], (2, 3))
    with pytest.raises(OptionError, match="lengths"):
        decode_masks([2, 2, 2], [2], (2, 3))
    with pytest.raises(OptionError):
        encode_masks(np.zeros((2, 2), bool))


def coco_text(runs: list[int]) -> str:
    """COCO's compressed text, written from its description: six bits a character, five of them of the number."""
    text = ""
    for at, run in enumerate(runs):
        value = run - (runs[at - 2] if at > 2 else 0)
        while True:
            piece = value & 31
            value >>= 5
            last = value == (-1 if piece & 16 else 0)
            text += chr(48 + piece + (0 if last else 32))
            if last:
                break
    return text


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 100_000), max_size=12))
def test_compressed_runs(runs: list[int]) -> None:
    assert parse_counts(coco_text(runs)).tolist() == runs


def test_compressed_runs_by_hand() -> None:
    # 6, 1, 40, 4, 5: "6", "1", 40 = 8 + 1·32 -> "X1", 4 - 1 = 3, 5 - 40 = -35 -> "mN"
    assert parse_counts("61X13mN").tolist() == [6, 1, 40, 4, 5]
    assert parse_counts(b"61X13mN").tolist() == [6, 1, 40, 4, 5]
    for bad in ("X", "6\x00", "6~"):
        with pytest.raises(OptionError, match="compressed"):
            parse_counts(bad)


def inside(x: float, y: float, corners: list[tuple[float, float]]) -> bool:
    """Even-odd rule for one point."""
    found = False
    for (x0, y0), (x1, y1) in zip(corners, [*corners[1:], corners[0]]):
        if (y0 <= y) != (y1 <= y) and x > x0 + (y - y0) * (x1 - x0) / (y1 - y0):
            found = not found
    return found


@pytest.mark.parametrize("text", ["o" * 12 + "0", "o" * 200_000 + "0", "ooooooooooo?" * 8])
def test_runs_longer_than_any_picture_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="compressed"):
        parse_counts(text)


def test_runs_whose_sum_leaves_the_range_of_int64_are_refused() -> None:
    wrapping = [2**62, 2**62, 2**62, 2**62 + 6]
    with np.errstate(over="ignore"):
        assert np.asarray(wrapping).sum() == 6
    with pytest.raises(OptionError, match=f"add up to 6; got {2**64 + 6}"):
        decode_masks(wrapping, [4], (2, 3))


def test_a_polygon_of_many_corners_is_filled_by_the_even_odd_rule() -> None:
    # A comb: 50 teeth of width 1 with gaps of width 1 below, on a bar.
    corners = [[0, 4], [0, 0]]
    for tooth in range(50):
        corners += [[2 * tooth + 1, 0], [2 * tooth + 1, 3], [2 * tooth + 2, 3], [2 * tooth + 2, 0]]
    corners = [*corners[:-2], [99, 3], [99, 4]]
    mask = polygon_mask([np.asarray(corners, float)], (4, 100))
    assert mask[3, :99].all()
    assert (mask[:3, :99] == (np.arange(99) % 2 == 0)).all()
    assert not mask[:, 99].any()


def test_polygons() -> None:
    corners = [(1.2, 0.3), (8.7, 2.1), (5.0, 9.6), (2.5, 4.4)]
    other = [(0.0, 8.0), (2.0, 8.0), (2.0, 10.0), (0.0, 10.0)]
    found = polygon_mask([[v for corner in corners for v in corner], np.array(other)], (10, 10))
    for y in range(10):
        for x in range(10):
            assert found[y, x] == (inside(x + 0.5, y + 0.5, corners) or inside(x + 0.5, y + 0.5, other))
    assert found.sum() == 34 + 4  # golden; the area of the first is 33.2
    assert polygon_mask([[-5, -5, 50, -5, 50, 50, -5, 50]], (3, 4)).all()
    for bad in ([1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7]):
        with pytest.raises(OptionError):
            polygon_mask([bad], (3, 3))


def test_boxes_and_masks() -> None:
    masks = box_masks([[1, 0, 3, 2], [-4, 1, 99, 99], [2, 2, 2, 4]], (3, 4))
    assert masks.sum(axis=(1, 2)).tolist() == [4, 8, 0]
    assert mask_boxes(masks).tolist() == [[1, 0, 3, 2], [0, 1, 4, 3], [0, 0, 0, 0]]
    assert box_masks(np.zeros((0, 4)), (3, 4)).shape == (0, 3, 4)


@pytest.mark.parametrize(
    ("instances", "expected"),
    [("best", [[3]]), ("largest", [[0]]), ("union", [[0, 1, 3]]), ("all-mean", [[0], [1], [3]])],
)
def test_instances(instances: str, expected: list[list[int]]) -> None:
    areas, scores = [50, 40, 2, 40], [0.5, 0.8, 0.99, 0.9]
    found = choose_instances(areas, scores, instances=instances, least=3)  # type: ignore[arg-type]
    assert [part.tolist() for part in found] == expected
    assert choose_instances(areas, scores, instances=instances, least=60) == []  # type: ignore[arg-type]
    assert choose_instances([0], [1.0], instances=instances, least=0) == []  # type: ignore[arg-type]


def square_on_green() -> tuple[np.ndarray, np.ndarray]:
    picture = np.empty((64, 64, 3), np.uint8)
    picture[:] = GREEN
    mask = np.zeros((64, 64), bool)
    mask[16:48, 8:40] = True
    picture[mask] = RED
    return picture, mask


@pytest.mark.parametrize(
    ("fill", "colour"), [("black", (0, 0, 0)), ("white", (255,) * 3), ("gray", (128,) * 3), ("mean", CLIP_MEAN)]
)
def test_fills(fill: str, colour: tuple[int, int, int]) -> None:
    picture, mask = square_on_green()
    filled = fill_outside(picture, mask, fill=fill)  # type: ignore[arg-type]
    assert (filled[mask] == RED).all()
    assert (filled[~mask] == colour).all()
    assert (picture[~mask] == GREEN).all()  # the picture itself is left alone


def test_the_mean_fill_is_nothing_to_clip() -> None:
    mean, std = np.array([0.48145466, 0.4578275, 0.40821073]), np.array([0.26862954, 0.26130258, 0.27577711])
    assert (np.abs((np.array(CLIP_MEAN) / 255 - mean) / std) < 0.5 / 255 / std).all()


def test_noise_is_a_matter_of_its_seed() -> None:
    picture, mask = square_on_green()
    one, same, other = (fill_outside(picture, mask, fill="noise", seed=seed) for seed in (3, 3, 4))
    assert (one == same).all()
    assert (one != other).any()
    assert (one[mask] == RED).all()
    assert one[~mask].std() > 60
    assert fill_outside(picture, mask, fill="keep") is picture
    with pytest.raises(OptionError, match="size"):
        fill_outside(picture, mask[:-1], fill="black")


def test_crops() -> None:
    picture, mask = square_on_green()
    mask[:] = False
    mask[10:20, 4:44] = True
    picture[:] = np.arange(64, dtype=np.uint8)[:, None, None]
    assert crop_to_mask(picture, mask, crop="none") is picture
    assert crop_to_mask(picture, mask, crop="bbox").shape == (10, 40, 3)
    padded = crop_to_mask(picture, mask, crop="bbox", pad=0.2)
    assert padded.shape == (14, 52, 3)  # 8 pixels more on the left would leave the picture, so 4 are added
    assert padded[0, 0, 0] == 8
    square = crop_to_mask(picture, mask, crop="square")
    assert square.shape == (40, 40, 3)
    assert square[0, 0, 0] == 0  # fifteen rows above would leave the picture: it is moved down
    wide = crop_to_mask(picture[:30], mask[:30], crop="square", colour=(7, 8, 9))
    assert wide.shape == (40, 40, 3)
    assert (wide[:5] == (7, 8, 9)).all()
    assert (wide[35:] == (7, 8, 9)).all()
    assert wide[5, 0, 0] == 0
    assert wide[34, 0, 0] == 29
