"""Videos that need no PyAV: animations, folders, lists, arrays and still pictures."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image
from tests.media.media_inputs import BLUE, GREEN, RED, encode, exif_block, noise

from beholder._errors import MediaError, MissingExtraError, NoValue, OptionError
from beholder._hashing import hash_bytes
from beholder.media.base import DecodeOptions, Video
from beholder.media.image import decode_image
from beholder.media.video import choose_frames, need_frames, open_video

COLOURS = (RED, GREEN, BLUE)


def animation(fmt, duration, **options):
    frames = [Image.new("RGB", (8, 6), colour) for colour in COLOURS]
    return encode(frames[0], fmt, save_all=True, append_images=frames[1:], duration=duration, **options)


ANIMATIONS = {
    "gif": animation("GIF", [100, 200, 300]),
    "webp": animation("WEBP", [100, 200, 300], lossless=True),
    "apng": animation("PNG", [100, 200, 300]),
}


def colours(video, indices):
    return [tuple(picture.pixels[3, 4].tolist()) for picture in video.frames(indices)]


def refused(value, **options):
    with pytest.raises(MediaError) as caught, open_video(value, **options) as video:
        list(video.frames(range(video.frame_count)))
    return caught.value


# ---------------------------------------------------------------- animations


@pytest.mark.parametrize("kind", ANIMATIONS)
def test_an_animation_is_a_video_with_its_durations_as_time_stamps(kind):
    with open_video(ANIMATIONS[kind]) as video:
        assert isinstance(video, Video)
        assert (video.codec, video.frame_count, video.size) == (kind, 3, (8, 6))
        assert video.times == (0.0, 0.1, pytest.approx(0.3))
        assert video.notes == ()
        assert colours(video, [0, 1, 2]) == list(COLOURS)
        assert colours(video, [2, 0, 1, 2, 2]) == [BLUE, RED, GREEN, BLUE, BLUE]
        assert video.fingerprint() == hash_bytes(ANIMATIONS[kind])


@pytest.mark.parametrize("kind", ANIMATIONS)
def test_the_first_frame_is_the_picture_that_first_frame_takes(kind):
    picture = decode_image(ANIMATIONS[kind], DecodeOptions(first_frame=True))
    with open_video(ANIMATIONS[kind]) as video:
        np.testing.assert_array_equal(next(video.frames([0])).pixels, picture.pixels)


@pytest.mark.parametrize("kind", ANIMATIONS)
def test_a_cut_animation_is_unreadable(kind):
    data = ANIMATIONS[kind]
    for size in {*range(40, len(data) - 2, 7), len(data) - 1}:
        assert refused(data[:size]).status == "unreadable", size
    assert "ends early" in refused(data[: len(data) - 1]).reason


def test_junk_behind_a_gif_is_ignored():
    with open_video(ANIMATIONS["gif"] + b"\0\0junk") as video:
        assert video.frame_count == 3


def test_gif_frames_that_state_no_duration_show_for_100_ms():
    for duration in (0, 10):
        with open_video(animation("GIF", duration)) as video:
            assert video.times == (0.0, 0.1, 0.2)
            assert video.notes == ("frame_duration=100ms_assumed",)
    with open_video(animation("GIF", 20)) as video:
        assert video.times == (0.0, 0.02, 0.04)
        assert video.notes == ()


def test_gif_frames_that_paint_over_a_part():
    first, second = Image.new("RGB", (16, 16), RED), Image.new("RGB", (16, 16), RED)
    second.putpixel((5, 5), BLUE)
    with open_video(encode(first, "GIF", save_all=True, append_images=[second], duration=50)) as video:
        picture = next(video.frames([1]))
        assert picture.pixels[5, 5].tolist() == list(BLUE)
        assert picture.pixels[0, 0].tolist() == list(RED)


def test_transparency_goes_over_the_background():
    frames = [Image.new("RGBA", (8, 6), (*colour, 0)) for colour in COLOURS]
    data = encode(frames[0], "WEBP", save_all=True, append_images=frames[1:], duration=50, lossless=True, exact=True)
    with open_video(data, DecodeOptions(background=(1, 2, 3))) as video:
        pictures = list(video.frames([0, 2]))
    assert [picture.pixels[0, 0].tolist() for picture in pictures] == [[1, 2, 3]] * 2
    assert pictures[0].notes == ("alpha_over=1,2,3",)


def test_an_exif_block_turns_every_frame():
    frames = [Image.fromarray(noise(seed=seed)) for seed in range(2)]
    data = encode(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True, exif=exif_block(6))
    with open_video(data) as video:
        assert video.size == (24, 32)
        for picture, frame in zip(video.frames([0, 1]), frames, strict=True):
            np.testing.assert_array_equal(picture.pixels, np.rot90(np.asarray(frame), -1))


def chunk(kind, body):
    return struct.pack(">L", len(body)) + kind + body + struct.pack(">L", zlib.crc32(kind + body))


def test_the_default_picture_of_an_apng_is_not_a_frame():
    frames = [Image.new("RGB", (8, 6), colour) for colour in COLOURS]
    data = encode(frames[0], "PNG", save_all=True, append_images=frames[1:], duration=40, default_image=True)
    with open_video(data) as video:
        assert video.frame_count == 2
        assert colours(video, [1, 0]) == [BLUE, GREEN]


def test_a_wrong_checksum_in_an_apng_is_found():
    data = bytearray(ANIMATIONS["apng"])
    data[data.index(b"fdAT") + 10] ^= 1
    assert "checksum" in refused(bytes(data)).reason


def test_an_animation_that_is_too_large():
    assert refused(ANIMATIONS["gif"], options=DecodeOptions(max_pixels=47)).status == "too_large"


def test_an_animation_in_a_file(tmp_path):
    path = tmp_path / "clip.mp4"  # the bytes decide, not the name
    path.write_bytes(ANIMATIONS["gif"])
    with open_video("clip.mp4", base=tmp_path) as video:
        assert (video.name, video.codec) == ("clip.mp4", "gif")


# ---------------------------------------------------------------- still pictures, folders, lists


@pytest.mark.parametrize("fmt", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_still_picture_is_a_video_of_one_frame(fmt):
    data = encode(Image.fromarray(noise()), fmt)
    with open_video(data) as video:
        assert (video.frame_count, video.times, video.size, video.notes) == (1, (0.0,), (32, 24), ("still_image",))
        assert video.codec == fmt.lower()
        np.testing.assert_array_equal(next(video.frames([0])).pixels, decode_image(data).pixels)
        assert video.fingerprint() == hash_bytes(data)
        assert choose_frames(video, "fps:8").indices == (0,)


def test_pixels_in_memory_are_a_video_of_one_frame():
    for value in (noise(), Image.fromarray(noise())):
        with open_video(value) as video:
            assert video.frame_count == 1
            np.testing.assert_array_equal(next(video.frames([0])).pixels, noise())


@pytest.fixture
def folder(tmp_path):
    for number in (10, 2, 1):
        Image.new("RGB", (8, 6), (number, 0, 0)).save(tmp_path / f"{number}.png")
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".3.png").touch()
    return tmp_path


def test_a_folder_gives_its_pictures_in_natural_order(folder):
    with open_video(folder) as video:
        assert (video.codec, video.frame_count, video.times) == ("frames", 3, None)
        assert [red for red, _, _ in colours(video, [0, 1, 2, 0])] == [1, 2, 10, 1]
        assert video.size == (8, 6)


def test_frames_are_fingerprinted_in_their_order(folder):
    paths = [folder / "1.png", folder / "2.png", folder / "10.png"]
    marks = {
        open_video(value, **options).fingerprint()
        for value, options in (
            (folder, {}),
            (paths[::-1], {}),
            (paths[:2], {}),
            (folder, {"frame_rate": 8}),
        )
    }
    assert len(marks) == 4
    assert open_video(paths).fingerprint() == open_video(folder).fingerprint()
    assert open_video([paths[0]]).fingerprint() != open_video(paths[0]).fingerprint()


def test_a_frame_rate_makes_time_stamps(folder):
    with open_video(folder, frame_rate=4) as video:
        assert video.times == (0.0, 0.25, 0.5)
        assert choose_frames(video, "fps:2").indices == (0, 2)
    with pytest.raises(NoValue, match=r"not_applicable.*needs time stamps"):
        choose_frames(open_video(folder), "fps:2")
    for rate in (0, -1, float("nan"), float("inf")):
        with pytest.raises(OptionError, match="frame_rate"):
            open_video(folder, frame_rate=rate)


def test_frames_are_decoded_when_they_are_taken(folder):
    (folder / "2.png").write_bytes(b"broken")
    with open_video(folder) as video:
        frames = video.frames([0, 1])
        assert next(frames).pixels[0, 0, 0] == 1
        with pytest.raises(MediaError, match=r"2\.png"):
            next(frames)
        assert len(list(video.frames([0, 2]))) == 2


def test_lists_and_arrays_of_frames():
    frames = [noise(seed=seed) for seed in range(3)]
    for value in (frames, tuple(frames), np.stack(frames), [Image.fromarray(frame) for frame in frames]):
        with open_video(value) as video:
            assert video.frame_count == 3
            for picture, at in zip(video.frames([2, 0]), (2, 0), strict=True):
                np.testing.assert_array_equal(picture.pixels, frames[at])
    floats = np.stack(frames).astype(np.float32) / 255
    with open_video(floats, value_range=(0, 1)) as video:
        np.testing.assert_array_equal(next(video.frames([1])).pixels, frames[1])


def test_tensors_of_frames():
    torch = pytest.importorskip("torch")
    frames = [noise(seed=seed) for seed in range(2)]
    tensor = torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)
    with open_video(tensor) as video:
        np.testing.assert_array_equal(next(video.frames([1])).pixels, frames[1])


def test_nothing_to_open(tmp_path):
    with pytest.raises(OptionError, match="must not be empty"):
        open_video([])
    with pytest.raises(OptionError):
        open_video(3)
    assert "found 0 images" in refused(tmp_path).reason
    assert refused(tmp_path / "none.mp4").status == "missing"
    assert refused(tmp_path / "none").status == "missing"
    assert "not a video but text" in refused(b"hello").reason
    assert "0 bytes" in refused(b"").reason
    (tmp_path / "empty.mp4").touch()
    assert refused(tmp_path / "empty.mp4").status == "unreadable"


# ---------------------------------------------------------------- records, minimum, PyAV


def test_records_are_json_ready():
    with open_video(ANIMATIONS["gif"]) as video:
        record = choose_frames(video, "uniform:2").to_json()
    assert json.loads(json.dumps(record)) == record
    assert record == {
        "policy": "uniform:2",
        "indices": [0, 2],
        "times": [0.0, 0.3],
        "frame_count": 3,
        "size": [8, 6],
        "codec": "gif",
        "notes": [],
    }


@pytest.mark.parametrize(("count", "minimum", "fits"), [(1, 2, False), (2, 2, True), (7, 8, False), (1, 1, True)])
def test_a_declared_minimum(count, minimum, fits):
    video = open_video([noise()] * count)
    if fits:
        need_frames(video, minimum)
        return
    with pytest.raises(NoValue) as caught:
        need_frames(video, minimum)
    assert caught.value.status == "too_short"
    assert f"has {count} frame{'s' if count > 1 else ''}, at least {minimum} are needed" in caught.value.reason


def test_without_pyav_a_video_file_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtraError, match=r"beholder\[video\]"):
        open_video(b"\x1a\x45\xdf\xa3" + bytes(100))
    assert "text" in refused(b"text").reason
    with open_video(ANIMATIONS["gif"]) as video:
        assert len(list(video.frames([0, 1]))) == 2


def test_importing_the_room_loads_no_pyav():
    script = "import sys, beholder.media.video, beholder.media.sources; print('av' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
