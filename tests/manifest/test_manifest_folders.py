"""Folders: N1, N2, N3, M4 of the inputs that broke other tools; tar files."""

from __future__ import annotations

import io
import json
import tarfile

import pytest
from PIL import Image

from beholder._errors import InputError, UserError
from beholder.manifest import open_source
from beholder.media.base import DecodeOptions


def messages(source):
    with pytest.raises(InputError) as caught:
        source.check()
    return [(fault.where, fault.message) for fault in caught.value.faults]


def test_n1_natural_order(draw, tmp_path):
    for number in (10, 2, 1):
        draw(f"out/{number}.png")
    assert [sample.id for sample in open_source(tmp_path / "out")] == ["1.png", "2.png", "10.png"]


def test_plain_folder(draw, write, tmp_path):
    draw("out/sub/b.PNG")
    draw("out/a.jpg")
    draw("out/.hidden.png")
    write("out/notes.md", "x")
    source = open_source(tmp_path / "out")
    source.check()
    assert [(sample.id, sample.prompt) for sample in source] == [("a.jpg", None), ("sub/b.PNG", None)]
    assert source.count() == 2
    assert all(sample.output.decode(DecodeOptions()).size == (4, 4) for sample in source)


def test_n2_two_files_of_one_name(draw, tmp_path):
    draw("out/a.png")
    draw("out/a.jpg")
    source = open_source(tmp_path / "out")
    assert messages(source) == [("a.png", "another file has this name with another extension")]
    source = open_source(tmp_path / "out", allow_extra=True)
    source.check()
    assert "1 (a.png)" in source.notices[0]
    assert len(list(source)) == 2


def test_m4_empty_folder_unknown_extension_and_a_file(write, draw, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"found 0 images .* under .*empty, extensions \.jpg"):
        open_source(tmp_path / "empty").check()
    write("odd/a.xyz", "x")
    with pytest.raises(UserError, match="found 0 images"):
        open_source(tmp_path / "odd").check()
    (sample,) = open_source(draw("one.png"))
    assert sample.output.name.endswith("one.png")
    with pytest.raises(UserError, match="must be a folder; got"):
        open_source(draw("two.png"), prompts={"two": "x"})


def test_prompt_files(draw, write, tmp_path):
    for name in ("2", "10"):
        draw(f"out/{name}.png")
        write(f"out/{name}.txt", f"\ufeffprompt {name}\r\n")
    source = open_source(tmp_path / "out")
    source.check()
    assert [(sample.id, sample.prompt) for sample in source] == [("2.png", "prompt 2"), ("10.png", "prompt 10")]


def test_prompt_files_leftovers_on_both_sides(draw, write, tmp_path):
    draw("out/a.png")
    draw("out/b.png")
    write("out/a.txt", "x")
    write("out/c.txt", "y")
    assert messages(open_source(tmp_path / "out")) == [
        ("b.png", "no prompt for this file"),
        ("c.txt", "no file for this prompt"),
    ]
    source = open_source(tmp_path / "out", allow_extra=True)
    source.check()
    assert [sample.prompt for sample in source] == ["x", None]
    assert any("b.png" in notice for notice in source.notices)


@pytest.mark.parametrize("key", ["a", "a.png", "sub/a", "sub/a.png"])
@pytest.mark.parametrize("beside", [True, False])
def test_captions_by_id(draw, write, tmp_path, key, beside):
    draw("out/sub/a.png")
    captions = write("out/captions.json" if beside else "captions.json", json.dumps({key: "a cat"}))
    source = open_source(captions) if beside else open_source(tmp_path / "out", prompts=captions)
    source.check()
    (sample,) = source
    assert (sample.id, sample.prompt) == (key, "a cat")
    assert sample.output.decode(DecodeOptions()).size == (4, 4)


def test_n1_captions_are_joined_by_id_not_by_position(draw, write, tmp_path):
    for number in (1, 2, 10):
        draw(f"out/{number}.png")
    captions = {"10": "ten", "1": "one", "2": "two"}
    source = open_source(write("out/c.json", json.dumps(captions)))
    source.check()
    assert {sample.output.name: sample.prompt for sample in source} == {
        "1.png": "one",
        "2.png": "two",
        "10.png": "ten",
    }


def test_n2_captions_leftovers_and_duplicates(draw, write, tmp_path):
    for name in ("a.png", "a.jpg", "b.png"):
        draw(f"out/{name}")
    captions = write("captions.json", json.dumps({"a": "x", "c": "y"}))
    source = open_source(tmp_path / "out", prompts=captions)
    assert messages(source) == [
        ("a", "a.jpg and a.png both belong to this id; remove one"),
        ("b.png", "no prompt for this file"),
        ("c", "no file for this prompt"),
    ]


def test_n3_nothing_matched(draw, write, tmp_path):
    draw("out/a.png")
    captions = write("captions.json", json.dumps({"x": "1", "y": "2"}))
    found = messages(open_source(tmp_path / "out", prompts=captions))
    assert found[-1][1].startswith("nothing matched: none of 2 ids names a file under")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_image_folder(draw, write, tmp_path, kind):
    draw("set/train/1.png")
    draw("set/train/2.png")
    draw("set/ref.png")
    rows = [
        {"file_name": "train/2.png", "text": "two", "refs": "ref.png"},
        {"file_name": "train/1.png", "text": "one", "refs": "ref.png"},
    ]
    if kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "set/metadata.parquet")
    elif kind == "jsonl":
        write("set/metadata.jsonl", rows)
    else:
        write("set/metadata.csv", "file_name,text,refs\ntrain/2.png,two,ref.png\ntrain/1.png,one,ref.png\n")
    source = open_source(tmp_path / "set")
    source.check()
    assert [(sample.id, sample.prompt) for sample in source] == [("train/2.png", "two"), ("train/1.png", "one")]
    draw("set/train/extra.png")
    source = open_source(tmp_path / "set")
    assert messages(source) == [("train/extra.png", f"this file is not listed in metadata.{kind}")]
    source = open_source(tmp_path / "set", allow_extra=True)
    source.check()
    assert "extra.png" in source.notices[0]
    assert len(list(source)) == 2


def test_several_metadata_files(write, tmp_path):
    write("set/metadata.csv", "file_name\n")
    write("set/metadata.jsonl", "\n")
    with pytest.raises(UserError, match="must have one metadata file"):
        open_source(tmp_path / "set")


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def picture(level: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (3, 2), (level, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["s.tar", "s.tar.gz"])
def test_tar_in_webdataset_form(tmp_path, name):
    with tarfile.open(tmp_path / name, "w:gz" if name.endswith("gz") else "w") as archive:
        for index in range(3):
            add(archive, f"d/{index}.png", picture(index))
            add(archive, f"d/{index}.reference.png", picture(9))
            add(archive, f"d/{index}.txt", f"prompt {index}".encode())
            add(archive, f"d/{index}.json", json.dumps({"seed": index, "mood": "m"}).encode())
    source = open_source(tmp_path / name)
    source.check()
    samples = list(source)
    assert [(s.id, s.prompt, s.seed, s.extras) for s in samples] == [
        (f"d/{i}", f"prompt {i}", i, {"mood": "m"}) for i in range(3)
    ]
    assert [s.output.decode(DecodeOptions()).pixels[0, 0, 0] for s in samples] == [0, 1, 2]
    assert samples[0].references[0].decode(DecodeOptions()).pixels[0, 0, 0] == 9


def test_tar_faults(tmp_path, write):
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        add(archive, "a.png", picture(1))
        add(archive, "a.jpg", picture(2))
        add(archive, "b.png", picture(1))
        add(archive, "b.json", b"{")
    source = open_source(tmp_path / "s.tar")
    with pytest.raises(InputError) as caught:
        source.check()
    assert [fault.row for fault in caught.value.faults] == [1, 2]
    with pytest.raises(UserError, match="must be a tar file"):
        open_source(write("t.tar", "no tar")).check()


def test_members_of_a_tar_named_in_a_manifest(tmp_path, write):
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        add(archive, "a.png", picture(5))
        add(archive, "m.jsonl", b'{"output": "a.png"}\n')
    (sample,) = open_source(write("m.jsonl", [{"output": "s.tar::a.png"}]))
    assert sample.output.decode(DecodeOptions()).pixels[0, 0, 0] == 5
    (sample,) = open_source(f"{tmp_path}/s.tar::m.jsonl")
    assert sample.output.decode(DecodeOptions()).pixels[0, 0, 0] == 5
