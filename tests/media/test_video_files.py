"""Video files: the frames are exactly those of sequential decoding, however they are asked for."""

from __future__ import annotations

import gc
import io
import os
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image
from tests.media.video_inputs import blocks, clip, needs_av, sequential, with_matrix

from beholder._hashing import hash_bytes
from beholder.media import pyav, serving
from beholder.media.base import DecodeOptions, Video
from beholder.media.exif import turn
from beholder.media.video import choose_frames, open_video

pytestmark = needs_av

# x265 writes outside its memory for pictures lower than 64 pixels
HEVC = {"codec": "libx265", "size": (128, 96)}
# name → how the clip is made, whether its packets alone tell the frames, and whether jumps into it are allowed
CLIPS = {
    "h264_mp4": ({}, True, True),
    "h264_mkv": ({"container": "matroska"}, True, True),
    "h264_open_gop": ({"options": {"x264-params": "open-gop=1:scenecut=0"}}, True, False),
    "h264_intra_refresh": ({"options": {"x264-params": "intra-refresh=1:scenecut=0"}, "b_frames": 0}, True, False),
    "h264_avi": ({"container": "avi"}, False, False),
    "h264_ts": ({"container": "mpegts"}, False, False),
    "hevc": (HEVC | {"options": {"x265-params": "log-level=none:open-gop=0"}}, True, True),
    "hevc_open_gop": (HEVC | {"options": {"x265-params": "log-level=none:open-gop=1"}}, True, False),
    "mpeg4_mp4": ({"codec": "mpeg4"}, False, False),
    "mpeg4_avi": ({"codec": "mpeg4", "container": "avi"}, False, False),
    "vp8_hidden": (
        {"codec": "libvpx", "container": "webm", "options": {"auto-alt-ref": "1", "lag-in-frames": "16"}},
        False,
        False,
    ),
    "vp9_hidden": (
        {"codec": "libvpx-vp9", "container": "webm", "options": {"auto-alt-ref": "1", "lag-in-frames": "16"}},
        True,
        True,
    ),
    "ffv1": ({"codec": "ffv1", "container": "matroska"}, False, False),
    "h264_variable_rate": ({"stamps": [at * at * 7 for at in range(30)]}, True, True),
}


@pytest.fixture(scope="module")
def clips():
    return {name: clip(**made) for name, (made, _, _) in CLIPS.items()}


@pytest.mark.parametrize("name", CLIPS)
def test_any_order_is_equal_to_sequential_decoding(name, clips, monkeypatch):
    expected = sequential(clips[name])
    last = len(expected) - 1
    assert len({picture.tobytes() for picture in expected}) == len(expected) == 30
    for room in (serving.KEPT_BYTES, 0):  # with 0, every step back is a jump or a new start
        monkeypatch.setattr(serving, "KEPT_BYTES", room)
        with open_video(clips[name]) as video:
            assert video.frame_count == len(expected)
            for wanted in ([last, 0, last // 2], [*range(last + 1)], [12, 3, 12, last, last], [25, 24, 23, 11, 10, 9]):
                pictures = list(video.frames(wanted))
                assert len(pictures) == len(wanted)
                for at, picture in zip(wanted, pictures, strict=True):
                    np.testing.assert_array_equal(picture.pixels, expected[at], err_msg=f"frame {at} of {wanted}")


@pytest.mark.parametrize("name", CLIPS)
def test_counting_and_jumping_happen_only_where_they_are_exact(name, clips, monkeypatch):
    _, by_packets, jumps = CLIPS[name]
    with open_video(clips[name]) as video:
        assert ("counted_by_decoding" not in video.notes) == by_packets
        landed = []
        jump = pyav._FileReader._from_packet

        def seen(reader, start):
            frames = jump(reader, start)
            landed.append(start if frames is not None else None)
            return frames

        monkeypatch.setattr(pyav._FileReader, "_from_packet", seen)
        list(video.frames([29]))
        assert any(landed) == jumps


def test_repeated_and_passed_frames_are_converted_once(clips, monkeypatch):
    made = []
    convert = pyav._FileReader._picture
    monkeypatch.setattr(
        pyav._FileReader, "_picture", lambda self, frame: made.append(frame.pts) or convert(self, frame)
    )
    with open_video(clips["h264_mp4"]) as video:
        assert len(list(video.frames([0, 0, 1, 1, 1, 5]))) == 6
        assert len(made) == 3
        made.clear()
        list(video.frames([5, 2, 5, 3]))
        assert len(made) == 4 - 1


def pictures_alive():
    gc.collect()
    return sum(type(thing).__name__ == "Picture" for thing in gc.get_objects())


def test_frames_are_not_kept(clips):
    before = pictures_alive()  # other tests of this process may hold some
    with open_video(clips["h264_mp4"]) as video:
        frames = video.frames(range(30))
        pictures = [next(frames) for _ in range(10)]
        references = [picture.pixels.ctypes.data for picture in pictures]
        assert len(set(references)) == 10
        del pictures
        assert pictures_alive() <= before + 2
        frames.close()


def test_two_requests_at_once(clips):
    expected = sequential(clips["h264_mp4"])
    with open_video(clips["h264_mp4"]) as video:
        for at, (one, other) in enumerate(zip(video.frames(range(30)), video.frames(range(29, -1, -1)), strict=True)):
            np.testing.assert_array_equal(one.pixels, expected[at])
            np.testing.assert_array_equal(other.pixels, expected[29 - at])


# ---------------------------------------------------------------- time stamps


def test_time_stamps_of_a_steady_and_of_a_variable_rate(clips):
    with open_video(clips["h264_mp4"]) as video:
        assert video.times == pytest.approx([at / 25 for at in range(30)])
        assert choose_frames(video, "fps:5").indices == (0, 5, 10, 15, 20, 25)
    with open_video(clips["h264_variable_rate"]) as video:
        assert video.times == pytest.approx([at * at * 0.007 for at in range(30)])
        # 0, 1, 2 … 5 s: the last frame with 7·k² ms up to there
        assert choose_frames(video, "fps:1").indices == (0, 11, 16, 20, 23, 26)


def test_time_stamps_start_with_the_first_frame():
    with open_video(clip(container="matroska", count=4, stamps=[5000, 5040, 5080, 5300])) as video:
        assert video.times == pytest.approx([0, 0.04, 0.08, 0.3])


def test_avi_without_time_stamps_takes_the_frame_rate(clips):
    with open_video(clips["h264_avi"]) as video:
        assert video.times == pytest.approx([at / 25 for at in range(30)])
        assert "times_from_rate" in video.notes


def test_the_record_of_a_file(clips):
    with open_video(clips["h264_mp4"]) as video:
        assert isinstance(video, Video)
        record = choose_frames(video, "uniform:4")
        assert (record.indices, record.codec, record.size, record.frame_count) == ((0, 9, 19, 29), "h264", (48, 32), 30)
        assert record.times == pytest.approx([0, 0.36, 0.76, 1.16])
        assert record.notes == ("yuv_matrix=bt601_assumed", "yuv_range=limited")


# ---------------------------------------------------------------- shapes and turns


@pytest.mark.parametrize(
    "made",
    [
        {"size": (49, 33), "pix_fmt": "yuv444p"},
        {"codec": "libvpx-vp9", "container": "webm", "size": (49, 33)},
        {"codec": "ffv1", "container": "matroska", "size": (49, 33)},
        {"size": (16, 2)},
    ],
)
def test_odd_sizes(made):
    data = clip(**made, count=3)
    with open_video(data) as video:
        assert video.size == made["size"]
        for picture, expected in zip(video.frames([0, 1, 2]), sequential(data), strict=True):
            assert picture.pixels.flags.c_contiguous
            assert not picture.pixels.flags.writeable
            np.testing.assert_array_equal(picture.pixels, expected)


def test_one_frame():
    data = clip(count=1)
    with open_video(data) as video:
        assert (video.frame_count, video.times) == (1, (0.0,))
        assert choose_frames(video, "uniform:3").indices == (0, 0, 0)
        np.testing.assert_array_equal(list(video.frames([0, 0]))[1].pixels, sequential(data)[0])


@pytest.mark.parametrize(
    ("corner", "orientation"),
    [
        ((1, 0, 0, 1), 1),
        ((-1, 0, 0, 1), 2),
        ((-1, 0, 0, -1), 3),
        ((1, 0, 0, -1), 4),
        ((0, 1, 1, 0), 5),
        ((0, 1, -1, 0), 6),  # a point to the right goes down, one below goes left: clockwise by 90°
        ((0, -1, -1, 0), 7),
        ((0, -1, 1, 0), 8),
    ],
)
def test_display_matrices_are_applied_once(corner, orientation):
    plain = clip(count=3)
    upright = [np.asarray(turn(Image.fromarray(frame), orientation)) for frame in sequential(plain)]
    with open_video(with_matrix(plain, corner)) as video:
        assert video.size == upright[0].shape[1::-1]
        assert (f"display_matrix={orientation}" in video.notes) == (orientation > 1)
        for picture, expected in zip(video.frames([0, 2]), (upright[0], upright[2]), strict=True):
            np.testing.assert_array_equal(picture.pixels, expected)
            assert picture.pixels.flags.c_contiguous
            assert picture.size == video.size


def test_a_matrix_that_is_no_quarter_turn_is_noted():
    with open_video(with_matrix(clip(count=1), (0.7071, 0.7071, -0.7071, 0.7071))) as video:
        assert "display_matrix_ignored" in video.notes
        assert video.size == (48, 32)


def test_pixels_that_are_not_square_are_noted():
    def narrow(stream):
        stream.codec_context.sample_aspect_ratio = Fraction(8, 9)

    with open_video(clip(count=1, setup=narrow)) as video:
        assert "sar=8:9" in video.notes
        assert video.size == (48, 32)


# ---------------------------------------------------------------- colours


def flat(luma, blue, red, pix_fmt="yuv444p"):
    import av

    frame = av.VideoFrame(16, 16, pix_fmt)
    for plane, value in zip(frame.planes, (luma, blue, red), strict=True):
        plane.update(bytes([value]) * plane.buffer_size)
    return frame


def by_formula(luma, blue, red, *, kr, kb, full):
    """RGB of the standards' equations for 8-bit samples."""
    y = luma / 255 if full else (luma - 16) / 219
    cb, cr = ((part - 128) / (255 if full else 224) for part in (blue, red))
    r, b = y + 2 * (1 - kr) * cr, y + 2 * (1 - kb) * cb
    g = (y - kr * r - kb * b) / (1 - kr - kb)
    return np.clip(np.array([r, g, b]) * 255, 0, 255)


@pytest.mark.parametrize(
    ("matrix", "name", "kr", "kb"),
    [
        (1, "bt709", 0.2126, 0.0722),
        (5, "bt601", 0.299, 0.114),
        (6, "bt601", 0.299, 0.114),
        (9, "bt2020", 0.2627, 0.0593),
        (2, "bt601_assumed", 0.299, 0.114),
    ],
)
@pytest.mark.parametrize("full", [False, True])
def test_yuv_becomes_rgb_as_the_file_states_it(matrix, name, kr, kb, full):
    def tag(stream):
        stream.codec_context.colorspace, stream.codec_context.color_range = matrix, 2 if full else 1

    # not more than one channel at its end, so that a wrong matrix or range cannot hide behind a clip
    for samples in ((126, 110, 150), (150, 140, 100), (90, 128, 128)):
        frame = flat(*samples)
        frame.colorspace, frame.color_range = matrix, 2 if full else 1
        data = clip(count=1, size=(16, 16), pix_fmt="yuv444p", frames=[frame], setup=tag, options={"qp": "0"})
        with open_video(data) as video:
            assert video.notes[:2] == (f"yuv_matrix={name}", f"yuv_range={'full' if full else 'limited'}")
            pixel = next(video.frames([0])).pixels[8, 8]
        # swscale computes with rounded tables; a wrong matrix or range is off by far more
        np.testing.assert_allclose(pixel, by_formula(*samples, kr=kr, kb=kb, full=full), atol=2.01)


def test_ten_bits_become_eight():
    with open_video(clip(count=1, pix_fmt="yuv420p10le")) as video:
        assert "10bit_to_8bit" in video.notes
        assert abs(next(video.frames([0])).pixels.astype(int) - sequential(clip(count=1))[0]).mean() < 12


@pytest.mark.parametrize(("codec", "pix_fmt"), [("qtrle", "argb"), ("png", "rgba")])
def test_transparency_goes_over_the_background(codec, pix_fmt):
    import av

    picture = np.dstack([blocks(3), np.repeat([[0, 128, 255]], 32, 0).repeat(16, 1)]).astype(np.uint8)
    frame = av.VideoFrame.from_ndarray(picture, format="rgba").reformat(format=pix_fmt)
    data = clip(codec, "mov", count=1, pix_fmt=pix_fmt, frames=[frame], b_frames=0)
    with open_video(data, DecodeOptions(background=(10, 20, 30))) as video:
        found = next(video.frames([0]))
    alpha = picture[:, :, 3:].astype(float) / 255
    np.testing.assert_allclose(found.pixels, picture[:, :, :3] * alpha + np.array([10, 20, 30]) * (1 - alpha), atol=1)
    assert found.notes == ("alpha_over=10,20,30",)


def test_a_layer_of_transparency_that_is_not_read_is_noted():
    with open_video(clip("libvpx-vp9", "webm", count=2, pix_fmt="yuva420p")) as video:
        assert "alpha_not_read" in video.notes


# ---------------------------------------------------------------- where the bytes come from


def test_all_sources_give_the_same(tmp_path, clips):
    data = clips["h264_mp4"]
    path = tmp_path / "a.mp4"
    path.write_bytes(data)
    expected = sequential(data)[7]
    for value in (path, str(path), data, {"bytes": data}, {"path": str(path)}, path.as_uri()):
        with open_video(value) as video:
            np.testing.assert_array_equal(next(video.frames([7])).pixels, expected)
            assert video.fingerprint() == hash_bytes(data)
    with open_video("a.mp4", base=tmp_path) as video:
        assert video.name == "a.mp4"


def test_nothing_stays_open_and_nothing_is_written(tmp_path, clips, monkeypatch):
    path = tmp_path / "a.mp4"
    path.write_bytes(clips["h264_mp4"])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))  # a temporary file would fail

    def opened():
        links = (os.path.join("/proc/self/fd", entry) for entry in os.listdir("/proc/self/fd"))
        return sum(os.path.exists(link) and os.path.realpath(link) == str(path) for link in links)

    video = open_video(path)
    list(video.frames([3, 1]))
    partly = video.frames([3, 1])
    next(partly)
    partly.close()
    video.close()
    open_video(path)  # dropped without closing
    with open_video(path):
        pass
    gc.collect()
    if os.path.isdir("/proc/self/fd"):
        assert opened() == 0
    assert os.listdir(tmp_path) == ["a.mp4"]


def test_cover_pictures_are_not_the_video():
    import av

    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as output:
        stream = output.add_stream("aac", rate=16000)
        cover = output.add_stream("png", rate=1)
        cover.width, cover.height, cover.pix_fmt = 16, 16, "rgb24"
        cover.disposition = av.stream.Disposition.attached_pic.value
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 4096), np.float32), format="fltp", layout="mono")
        sound.rate = 16000
        for packet in cover.encode(av.VideoFrame(16, 16, "rgb24")):
            output.mux(packet)
        output.mux(stream.encode(sound))
        output.mux(stream.encode())
    with pytest.raises(Exception, match="holds no video"):
        open_video(buffer.getvalue())
