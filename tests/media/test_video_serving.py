"""Frames in any order out of a reader that only goes forward: each decoded once, few of them kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder._errors import OptionError
from beholder.media.base import Picture
from beholder.media.serving import KEPT_BYTES, StreamedVideo, in_order

SIDE = 4
BYTES = SIDE * SIDE * 3


class Counting:
    """A reader of numbered pictures, which notes what it is asked to do."""

    def __init__(self, starts=()):
        self.position, self.taken, self.returns, self.closed, self.starts = 0, [], 0, False, sorted({0, *starts})

    def go_to(self, index):
        if index < self.position:
            self.returns += 1
            self.position = max(start for start in self.starts if start <= index)

    def take(self):
        self.taken.append(self.position)
        self.position += 1
        return Picture(np.full((SIDE, SIDE, 3), self.position - 1, np.uint8), (SIDE, SIDE), "RGB")

    def skip(self):
        self.position += 1

    def close(self):
        self.closed = True


def served(indices, reader, kept_bytes=KEPT_BYTES):
    return [int(picture.pixels[0, 0, 0]) for picture in in_order(indices, reader, kept_bytes=kept_bytes)]


def test_sorted_requests_decode_each_frame_once_without_keeping_any():
    reader = Counting()
    assert served([0, 0, 0, 2, 2, 5], reader, kept_bytes=0) == [0, 0, 0, 2, 2, 5]
    assert reader.taken == [0, 2, 5]
    assert reader.returns == 0
    assert reader.closed


def test_frames_on_the_way_are_kept_for_later():
    reader = Counting()
    assert served([9, 0, 4, 9], reader) == [9, 0, 4, 9]
    assert sorted(reader.taken) == [0, 4, 9]
    assert reader.returns == 0


def test_without_room_frames_are_decoded_again():
    reader = Counting(starts=[5])
    assert served([9, 7, 9], reader, kept_bytes=0) == [9, 7, 9]
    assert reader.taken == [9, 7, 9]
    assert reader.returns == 1


@given(indices=st.lists(st.integers(0, 30), max_size=25), room=st.integers(0, 6), starts=st.sets(st.integers(1, 30)))
def test_any_order_gives_what_was_asked_for(indices, room, starts):
    reader = Counting(starts)
    assert served(indices, reader, kept_bytes=room * BYTES) == indices
    if room == 6 and len(set(indices)) <= 6:
        assert len(reader.taken) == len(set(indices))


def test_the_reader_is_closed_when_the_request_is_dropped():
    reader = Counting()
    pictures = in_order([0, 1], reader, kept_bytes=0)
    next(pictures)
    pictures.close()
    assert reader.closed


class Short(StreamedVideo):
    def __init__(self):
        super().__init__("short", codec="test", frame_count=3, times=None)

    @property
    def size(self):
        return SIDE, SIDE

    def fingerprint(self):
        return ""

    def _reader(self):
        return Counting()


@pytest.mark.parametrize("index", [-1, 3])
def test_frames_outside_the_clip_are_refused_at_the_call(index):
    with pytest.raises(OptionError, match=f"one of 0 … 2; got frame {index}"):
        Short().frames([0, index])


def test_numpy_indices_and_none_at_all():
    assert len(list(Short().frames(np.array([2, 0])))) == 2
    assert list(Short().frames([])) == []
