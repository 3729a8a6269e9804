"""Damaged and hostile files: whatever the bytes, a decoder gives a picture or a status, a reader rows or its error.

The examples are drawn anew from one seed, so that a failure comes back; each test is bounded in time.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from beholder._errors import MediaError, UserError
from beholder.manifest import open_source
from beholder.media.base import DecodeOptions
from beholder.media.files import BytesMedium
from beholder.media.image import decode_image
from beholder.media.sources import as_medium
from beholder.media.visual import examine
from beholder.records import Status
from beholder.runs.journal import Journal

BOUNDED = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "ICO", "PPM", "TGA", "JPEG2000")


def encoded(kind: str) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (24, 20, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


FILES = [encoded(kind) for kind in FORMATS]
CHANGES = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True), st.sampled_from(["flip", "set", "cut", "drop", "twice"]), st.integers(0, 255)
    ),
    min_size=1,
    max_size=6,
)


def changed(data: bytes, changes: list[tuple[float, str, int]]) -> bytes:
    """Bytes after some damage; each change names its place as a share of the length."""
    out = bytearray(data)
    for where, what, value in changes:
        if not out:
            break
        at = int(where * len(out))
        if what == "flip":
            out[at] ^= 1 << (value % 8)
        elif what == "set":
            out[at] = value
        elif what == "cut":
            del out[at:]
        elif what == "drop":
            del out[at : at + value % 16 + 1]
        else:
            out[at:at] = out[at : at + value + 1]
    return bytes(out)


def decoded(data: bytes) -> None:
    """Decodes, and holds the outcome to the contract."""
    caught: MediaError | None = None
    try:
        picture = decode_image(data, DecodeOptions(max_pixels=1_000_000), name="it")
    except MediaError as error:
        caught = error
    if caught is not None:
        assert Status(caught.status) in (Status.UNREADABLE, Status.TOO_LARGE)
        assert caught.reason.startswith("it")
        return
    assert picture.pixels.dtype == np.uint8
    assert picture.pixels.ndim == 3
    assert picture.pixels.shape[2] == 3
    assert picture.pixels.size <= 3_000_000


@BOUNDED
@given(data=st.sampled_from(FILES), changes=CHANGES)
def test_damaged_pictures_are_pictures_or_a_status(data: bytes, changes: list[tuple[float, str, int]]) -> None:
    decoded(changed(data, changes))


@BOUNDED
@given(
    head=st.sampled_from([data[:12] for data in FILES] + [b"", b"\x00\x00\x00\x1cftypavif"]),
    rest=st.binary(max_size=300),
)
def test_any_bytes_behind_a_known_beginning_are_a_status(head: bytes, rest: bytes) -> None:
    decoded(head + rest)


@BOUNDED
@given(data=st.sampled_from(FILES), changes=CHANGES, name=st.sampled_from(["a.gif", "a.webp", "a", "a.mp4", "a.png"]))
def test_looking_at_what_a_file_is_never_fails_otherwise(
    data: bytes, changes: list[tuple[float, str, int]], name: str
) -> None:
    sha, is_video = examine(BytesMedium(changed(data, changes), name))
    assert len(sha) == 64
    assert is_video in (True, False)


def png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), *chunks, (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (png(60_000, 60_000, (b"IDAT", zlib.compress(b"\0" * 10_000_000))), Status.TOO_LARGE),
        (png(2**31 - 1, 2**31 - 1, (b"IDAT", b"")), Status.TOO_LARGE),
        (png(4, 4, (b"zTXt", b"a\0\0" + zlib.compress(b"\0" * 200_000_000)), (b"IDAT", b"")), None),
        (png(4, 4, (b"iCCP", b"a\0\0" + zlib.compress(b"\0" * 200_000_000)), (b"IDAT", b"")), None),
    ],
    ids=["pixels", "sides", "text", "profile"],
)
def test_files_that_swell_are_refused_before_they_do(data: bytes, status: Status | None) -> None:
    began = time.perf_counter()
    with pytest.raises(MediaError) as caught:
        decode_image(data, DecodeOptions(), name="it")
    assert Status(caught.value.status) in ((Status.UNREADABLE,) if status is None else (status,))
    assert time.perf_counter() - began < 5


def test_gzip_files_that_swell_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beholder.media.archives.SWELLS_FROM", 1 << 20)
    bomb = gzip.compress(b" " * (1 << 23), mtime=0)
    for name in ("a.jsonl.gz", "a.csv.gz", "a.json.gz"):
        (tmp_path / name).write_bytes(bomb)
        with pytest.raises(UserError, match="must not unpack"):
            open_source(str(tmp_path / name)).check()
    tar = tmp_path / "a.tar.gz"
    tar.write_bytes(bomb)
    with pytest.raises(MediaError) as caught:
        as_medium(f"{tar}::a.png").fingerprint()
    assert Status(caught.value.status) is Status.TOO_LARGE
    # What is merely repetitive is read: the limit is far above what text packs to.
    lines = "".join(json.dumps({"output": f"{at}.png", "prompt": "the same words " * 12}) + "\n" for at in range(6000))
    assert len(lines) > 1 << 20
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    assert sum(1 for _ in open_source(str(tmp_path / "b.jsonl.gz"))) == 6000


ROWS = [{"id": str(at), "output": f"{at}.png", "prompt": f"a prompt, number {at}", "seed": at} for at in range(5)]


def manifests() -> dict[str, bytes]:
    table = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), table)
    lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    return {
        "a.jsonl": lines,
        "a.jsonl.gz": gzip.compress(lines, mtime=0),
        "a.csv": b"id,output,prompt\n" + b"".join(f'{at},{at}.png,"a, b"\n'.encode() for at in range(5)),
        "a.tsv": b"id\toutput\tprompt\n0\t0.png\tx\n",
        "a.json": json.dumps({"samples": ROWS}).encode(),
        "a.parquet": table.getvalue(),
        "a.txt": b"a red car\na blue car\n",
    }


MANIFESTS = manifests()


@BOUNDED
@given(name=st.sampled_from(sorted(MANIFESTS)), changes=CHANGES)
def test_damaged_manifests_give_rows_or_their_error(
    tmp_path: Path, name: str, changes: list[tuple[float, str, int]]
) -> None:
    path = tmp_path / name
    path.write_bytes(changed(MANIFESTS[name], changes))
    read(str(path))


@BOUNDED
@given(name=st.sampled_from(sorted(MANIFESTS)), data=st.binary(max_size=200))
def test_any_bytes_as_a_manifest_give_rows_or_an_error(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    read(str(path))


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["id", "output", "prompt", "references", "masks", "seed", "concept", "method", "other", "image"]
)


@BOUNDED
@given(rows=st.lists(st.dictionaries(NAMES, VALUES, max_size=5) | VALUES, max_size=4))
def test_any_json_as_rows_gives_samples_or_an_error(tmp_path: Path, rows: list[Any]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    read(str(path))


def read(data: str) -> None:
    """Opens, checks and reads a data set: sound samples, or one of our own errors."""
    with suppress(UserError):
        source = open_source(data)
        source.check()
        for sample in source:
            assert isinstance(sample.id, str)


def archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in (("a.png", FILES[0]), ("b.jpg", FILES[1]), ("a.txt", b"a red car")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


ARCHIVE = archive()


@BOUNDED
@given(changes=CHANGES)
def test_damaged_archives_give_pictures_or_a_status(tmp_path: Path, changes: list[tuple[float, str, int]]) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(changed(ARCHIVE, changes))
    for member in ("a.png", "b.jpg"):
        with suppress(MediaError):
            as_medium(f"{path}::{member}").decode(DecodeOptions())
    read(str(path))


@pytest.mark.parametrize("member", ["../secret.png", "/etc/hostname", "a/../../secret.png"])
def test_members_of_an_archive_never_reach_outside(tmp_path: Path, member: str) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    inside = tmp_path / "in"
    inside.mkdir()
    path = inside / "a.tar"
    path.write_bytes(ARCHIVE)
    with pytest.raises(MediaError) as caught:
        as_medium(f"{path}::{member}").decode(DecodeOptions())
    assert Status(caught.value.status) is Status.MISSING


def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        for kind, name in ((tarfile.SYMTYPE, "soft.png"), (tarfile.LNKTYPE, "hard.png")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, str(tmp_path / "secret.png")
            tar.addfile(info)
    for name in ("soft.png", "hard.png"):
        with pytest.raises(MediaError):
            as_medium(f"{path}::{name}").decode(DecodeOptions())


@BOUNDED
@given(data=st.binary(max_size=400), changes=CHANGES)
def test_any_bytes_as_a_journal_are_read_as_far_as_they_are_whole(
    tmp_path: Path, data: bytes, changes: list[tuple[float, str, int]]
) -> None:
    whole = tmp_path / "whole.bin"
    if not whole.exists():
        with Journal(whole) as journal:
            for at in range(3):
                journal.append({"chunk": str(at)}, pa.record_batch({"id": [str(at)], "value": [float(at)]}))
    for content in (data, changed(whole.read_bytes(), changes), b"BHJ1" + data):
        path = tmp_path / "journal.bin"
        path.write_bytes(content)
        with Journal(path, write=False) as journal:
            for frame in journal.frames():
                table = journal.read(frame)
                at = int(frame.header["chunk"])
                assert table.to_pydict() == {"id": [str(at)], "value": [float(at)]}
