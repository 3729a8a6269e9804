"""Frame policies against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder._errors import OptionError
from beholder.media.sampling import FramePolicy, frame_indices


@pytest.mark.parametrize(
    "text", ["uniform:8", "uniform:1", "fps:2", "fps:0.5", "fps:29.97", "first", "all", "stride:16"]
)
def test_policies_print_back(text):
    policy = FramePolicy.parse(text)
    assert str(policy) == text
    assert FramePolicy.parse(str(policy)) == policy


def test_one_policy_has_one_text():
    assert (
        str(FramePolicy.parse(" fps:2.0 ")) == str(FramePolicy.parse("fps:2.")) == str(FramePolicy("fps", 2)) == "fps:2"
    )
    assert FramePolicy.parse("fps:.5") == FramePolicy("fps", 0.5)
    assert str(FramePolicy("fps", 1e-7)) == "fps:0.0000001"
    assert FramePolicy.parse("fps:0.0000001").value == 1e-7


@given(rate=st.floats(1e-6, 1e6))
def test_every_rate_prints_back_exactly(rate):
    assert FramePolicy.parse(str(FramePolicy("fps", rate))).value == rate


@pytest.mark.parametrize(
    "text",
    ["", "uniform", "uniform:0", "uniform:-1", "uniform:2.5", "uniform:08", "fps", "fps:0", "fps:-1", "fps:nan",
     "fps:inf", "fps:1e3", "first:1", "all:2", "stride:0", "Uniform:8", "every", "uniform:8,", "fps:" + "9" * 400],
)  # fmt: skip
def test_other_texts_are_refused(text):
    with pytest.raises(OptionError, match="uniform:n, fps:x, first, all or stride:k"):
        FramePolicy.parse(text)


@pytest.mark.parametrize(
    "parts",
    [("uniform", None), ("uniform", 2.0), ("uniform", True), ("all", 1), ("fps", 0.0), ("fps", None), ("odd", 1)],
)
def test_other_values_are_refused(parts):
    with pytest.raises(OptionError):
        FramePolicy(*parts)


@pytest.mark.parametrize(
    ("policy", "count", "expected"),
    [
        ("uniform:4", 10, [0, 3, 6, 9]),
        ("uniform:3", 10, [0, 4, 9]),  # 9/2 = 4.5 is cut off
        ("uniform:8", 81, [0, 11, 22, 34, 45, 57, 68, 80]),  # 80/7 = 11.43, 22.86, 34.29, 45.71, 57.14, 68.57
        ("uniform:2", 2, [0, 1]),
        ("uniform:2", 1, [0, 0]),
        ("uniform:5", 2, [0, 0, 0, 0, 1]),
        ("uniform:7", 3, [0, 0, 0, 1, 1, 1, 2]),
        ("uniform:1", 1, [0]),
        ("uniform:1", 2, [0]),
        ("uniform:1", 3, [1]),
        ("uniform:1", 10, [4]),
        ("first", 7, [0]),
        ("all", 3, [0, 1, 2]),
        ("stride:16", 16, list(range(16))),
        ("stride:16", 31, list(range(16))),  # floor(31/16) = 1: the second half is never seen
        ("stride:16", 33, list(range(0, 32, 2))),
        ("stride:16", 80, list(range(0, 80, 5))),
        ("stride:16", 5, [0, 1, 2, 3, 4]),
        ("stride:2", 1, [0]),
    ],
)
def test_by_number(policy, count, expected):
    assert frame_indices(policy, count).tolist() == expected
    assert frame_indices(FramePolicy.parse(policy), [k / 8 for k in range(count)]).tolist() == expected


@given(count=st.integers(1, 5000))
def test_uniform_32_is_what_opens2v_takes(count):
    np.testing.assert_array_equal(frame_indices("uniform:32", count), np.linspace(0, count - 1, 32, dtype=int))


def test_by_time():
    thirty = [k / 30 for k in range(30)]
    assert frame_indices("fps:10", thirty).tolist() == list(range(0, 30, 3))
    assert frame_indices("fps:30", thirty).tolist() == list(range(30))
    assert frame_indices("fps:1", thirty).tolist() == [0]
    assert frame_indices("fps:4", thirty).tolist() == [0, 7, 15, 22]  # 0.25 s lies between frames 7 and 8
    assert frame_indices("fps:2", [0.0, 2.0]).tolist() == [0, 0, 0, 0, 1]
    assert frame_indices("fps:5", [0.0]).tolist() == [0]


def test_variable_rate_follows_the_time_stamps():
    times = [0.0, 0.1, 0.15, 1.0, 1.05]
    assert frame_indices("fps:10", times).tolist() == [0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3]
    assert frame_indices("fps:1", [time + 7 for time in times]).tolist() == [0, 3]


def test_time_stamps_that_are_rounded_to_milliseconds_lose_no_frame():
    times = [round(k / 30, 3) for k in range(31)]  # 66.667 ms is stamped 67 ms
    assert frame_indices("fps:15", times).tolist() == list(range(0, 31, 2))


@pytest.mark.parametrize(
    ("policy", "clip"),
    [("fps:2", 10), ("all", 0), ("uniform:2", []), ("fps:2", [0.0, 2.0, 1.0]), ("fps:2", [0.0, float("nan")])],
)
def test_clips_that_do_not_fit(policy, clip):
    with pytest.raises(OptionError):
        frame_indices(policy, clip)


@given(
    policy=st.sampled_from(["uniform:1", "uniform:9", "first", "all", "stride:4", "fps:3", "fps:0.1"]),
    steps=st.lists(st.floats(0.002, 2), max_size=40),
)
def test_indices_are_ascending_and_of_the_clip(policy, steps):
    times = np.cumsum([0.0, *steps])
    indices = frame_indices(policy, times)
    assert len(indices) >= 1
    assert indices[0] >= 0
    assert indices[-1] < len(times)
    assert (np.diff(indices) >= 0).all()
