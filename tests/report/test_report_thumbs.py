"""Thumbnails of every kind of medium, against colours that are known."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beholder.media.sources import as_medium
from beholder.media.visual import FramesMedium
from beholder.report.html.thumbs import SIDE, Wish, make, thumbnails

RED, BLUE = (220, 30, 30), (30, 30, 220)


def opened(data: bytes | None) -> Image.Image:
    assert data is not None
    return Image.open(BytesIO(data)).convert("RGB")


def near(image: Image.Image, place: tuple[int, int], colour: tuple[int, int, int]) -> bool:
    return max(abs(a - b) for a, b in zip(image.getpixel(place), colour)) <= 12  # what JPEG may change


def halves(width: int, height: int) -> Image.Image:
    """Left half red, right half blue."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (width // 2, 0, width, height))
    return image


@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "bmp"])
def test_a_picture_keeps_its_shape_and_colours(tmp_path: Path, ending: str) -> None:
    halves(800, 400).save(tmp_path / f"a.{ending}")
    image = opened(make(Wish(as_medium(tmp_path / f"a.{ending}"))))
    assert image.size == (SIDE, SIDE // 2)
    assert near(image, (20, 40), RED)
    assert near(image, (170, 40), BLUE)


def test_a_small_picture_is_not_blown_up(tmp_path: Path) -> None:
    halves(40, 20).save(tmp_path / "a.png")
    assert opened(make(Wish(as_medium(tmp_path / "a.png")))).size == (40, 20)


def test_an_orientation_is_applied(tmp_path: Path) -> None:
    image = halves(400, 200)
    exif = image.getexif()
    exif[0x0112] = 6  # turn by 90° clockwise: left becomes top
    image.save(tmp_path / "a.jpg", exif=exif)
    upright = opened(make(Wish(as_medium(tmp_path / "a.jpg"))))
    assert upright.size == (SIDE // 2, SIDE)
    assert near(upright, (48, 20), RED)
    assert near(upright, (48, 170), BLUE)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "I;16", "1", "L"])
def test_other_modes_go_through_the_common_decoder(tmp_path: Path, mode: str) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.full((30, 30), 65535, dtype=np.uint16))
    elif mode in ("RGBA", "LA"):
        image = Image.new(mode, (30, 30))  # black and wholly transparent: the white behind it shows
    else:
        image = Image.new("RGB", (30, 30), (255, 255, 255)).convert(mode)
    image.save(tmp_path / "a.png")
    assert near(opened(make(Wish(as_medium(tmp_path / "a.png")))), (15, 15), (255, 255, 255))


def test_what_moves_shows_its_first_frame(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (64, 48), colour) for colour in (RED, BLUE)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    (tmp_path / "clip").mkdir()
    for number, frame in enumerate(frames):
        frame.save(tmp_path / "clip" / f"{number}.png")
    media: list[Any] = [as_medium(tmp_path / "a.gif"), as_medium(tmp_path / "clip"), FramesMedium(frames)]
    for medium in media:
        assert near(opened(make(Wish(medium))), (32, 24), RED), medium.name


def test_a_video_file_shows_its_first_frame(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="PyAV is not installed (base environment)")
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for colour in (RED, BLUE):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), colour, dtype=np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    assert near(opened(make(Wish(as_medium(tmp_path / "a.mp4")))), (32, 24), RED)


def test_masks_that_are_files_or_written(tmp_path: Path) -> None:
    mask = np.zeros((40, 60), dtype=np.uint8)
    mask[:, 30:] = 1
    Image.fromarray(mask).save(tmp_path / "m.png")
    written = {"size": [40, 60], "counts": [30 * 40, 30 * 40]}  # columns first, as COCO's
    for source in (as_medium(tmp_path / "m.png"), written):
        image = opened(make(Wish(source, mask=True)))
        assert near(image, (10, 20), (0, 0, 0))
        assert near(image, (50, 20), (255, 255, 255))


def test_what_cannot_be_read_has_none(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"\x89PNG not really")
    (tmp_path / "empty.jpg").write_bytes(b"")
    wishes = [Wish(as_medium(tmp_path / name)) for name in ("broken.png", "empty.jpg", "missing.png")]
    wishes.append(Wish({"size": [4, 4], "counts": [99]}, mask=True))
    assert list(thumbnails(wishes)) == [None] * 4
    assert wishes[2].key() is None


def test_the_key_is_the_files_state_and_the_order_is_kept(tmp_path: Path) -> None:
    for at in range(5):
        Image.new("RGB", (20 + at, 10), RED).save(tmp_path / f"{at}.png")
    wishes = [Wish(as_medium(tmp_path / f"{at}.png")) for at in range(5)]
    assert len({wish.key() for wish in wishes}) == 5
    assert wishes[0].key() != Wish(wishes[0].source, mask=True).key()
    assert [opened(data).width for data in thumbnails(wishes * 80, workers=2)] == [20, 21, 22, 23, 24] * 80
    assert list(thumbnails([])) == []
