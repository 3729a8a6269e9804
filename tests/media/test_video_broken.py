"""Video files that do not decode completely are `MediaError` with a plain reason, and nothing else."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.media.video_inputs import clip, needs_av, sequential

from beholder._errors import MediaError
from beholder.media.base import DecodeOptions
from beholder.media.containers import is_clean_start
from beholder.media.video import open_video

KINDS = {
    "mp4": {},
    "mp4_index_first": {"container_options": {"movflags": "faststart"}},
    "mp4_fragments": {"container_options": {"movflags": "frag_keyframe+empty_moov"}},
    "mkv": {"container": "matroska"},
    "webm": {"codec": "libvpx-vp9", "container": "webm"},
    "avi": {"codec": "mpeg4", "container": "avi"},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")  # an index that stands first needs a second pass over a file
    return {kind: clip(**made, count=12, path=folder / kind) for kind, made in KINDS.items()}


def outcome(data, options=DecodeOptions()):  # noqa: B008
    """All frames, or the error that stands in their place; any other exception comes through."""
    try:
        with open_video(data, options) as video:
            return list(video.frames(range(video.frame_count)))
    except MediaError as error:
        return error


@needs_av
@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_file_is_unreadable_at_every_length(kind, whole):
    data = whole[kind]
    assert len(outcome(data)) == 12
    for share in np.linspace(0.01, 0.995, 25):
        found = outcome(data[: int(len(data) * share)])
        assert isinstance(found, MediaError), f"{share:.2f} of the file"
        assert found.status == "unreadable"


@needs_av
@pytest.mark.parametrize("kind", ["mp4", "mkv", "avi"])
def test_the_reason_says_that_the_file_ends(kind, whole):
    assert "ends early" in outcome(whole[kind][: len(whole[kind]) // 2]).reason


@needs_av
def test_a_cut_transport_stream_gives_no_partial_picture():
    data = clip(container="mpegts", count=12)
    expected = {frame.tobytes() for frame in sequential(data)}
    for share in np.linspace(0.1, 0.99, 15):
        found = outcome(data[: int(len(data) * share)])
        # it says nowhere how long it is; frames that lie behind the cut in the file are shown before it
        assert isinstance(found, MediaError) or {picture.pixels.tobytes() for picture in found} <= expected


@needs_av
def test_what_is_no_video():
    assert "does not decode" in outcome(bytes(range(256)) * 8).reason
    assert "no index" in outcome(b"\0\0\0\x10ftypisom\0\0\0\0").reason
    playlist = b"\xff#EXTM3U\n#EXT-X-VERSION:3\n#EXTINF:1,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n"
    assert outcome(playlist).status == "unreadable"


@needs_av
def test_sound_alone_is_no_video():
    import av

    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as output:
        stream = output.add_stream("aac", rate=16000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 4096), np.float32), format="fltp", layout="mono")
        sound.rate = 16000
        output.mux(stream.encode(sound))
        output.mux(stream.encode())
    found = outcome(buffer.getvalue())
    assert found.status == "unreadable"
    assert "holds no video, only audio" in found.reason


@needs_av
def test_the_size_limit_is_for_one_frame(whole):
    assert outcome(whole["mp4"], DecodeOptions(max_pixels=48 * 32 - 1)).status == "too_large"
    assert len(outcome(whole["mp4"], DecodeOptions(max_pixels=48 * 32))) == 12


@needs_av
def test_an_index_that_lies_is_found_while_decoding(whole):
    # the first packet's units get a type that no decoder knows: it gives no frame, though its packet is there
    data = bytearray(whole["mp4"])
    at = data.index(b"mdat") + 4
    size = int.from_bytes(data[at : at + 4], "big")
    data[at + 4 + size + 4 : at + 4 + size + 5] = b"\x1f"
    assert isinstance(outcome(bytes(data)), MediaError)


@needs_av
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(list(KINDS)),
    share=st.floats(0, 1, exclude_max=True),
    damage=st.binary(min_size=1, max_size=40),
)
def test_damage_raises_nothing_but_media_errors(whole, kind, share, damage):
    data = bytearray(whole[kind])
    at = int(len(data) * share)
    data[at : at + len(damage)] = damage
    found = outcome(bytes(data), DecodeOptions(max_pixels=1_000_000))
    assert isinstance(found, MediaError) or found[0].pixels.dtype == np.uint8


def test_clean_starts_by_hand():
    four = b"\x01\x64\x00\x0a\xff"  # lengths of four bytes

    def unit(head, width=4):
        return (3).to_bytes(width, "big") + bytes([head, 0, 0])

    assert is_clean_start("h264", four, unit(0x06) + unit(0x65))  # a message, then a picture that resets all
    assert not is_clean_start("h264", four, unit(0x06) + unit(0x61))  # a picture that does not
    assert not is_clean_start("h264", four, b"")
    assert is_clean_start("h264", b"", b"\0\0\0\1\x67\x01\0\0\1\x65")
    assert not is_clean_start("h264", b"", b"\0\0\0\1\x67\x01\0\0\1\x41")
    two = b"\x01" + bytes(20) + b"\xfd"
    assert is_clean_start("hevc", two, unit(19 << 1, 2))
    assert is_clean_start("hevc", two, unit(20 << 1, 2))
    assert not is_clean_start("hevc", two, unit(21 << 1, 2))  # CRA: its leading pictures need what came before
    assert is_clean_start("vp9", b"", b"\x82")  # 10 00 0 0 1 0: a key frame of profile 0
    assert not is_clean_start("vp9", b"", b"\x86")  # no key frame
    assert not is_clean_start("vp9", b"", b"\x8a")  # shows an older frame again
    assert is_clean_start("vp9", b"", b"\xb1")  # 10 11 0 0 0 1: profile 3 has one bit more
    assert not is_clean_start("vp9", b"", b"")
    assert is_clean_start("mjpeg", b"", b"\xff\xd8")
    assert not is_clean_start("av1", b"", b"\x12\0")
