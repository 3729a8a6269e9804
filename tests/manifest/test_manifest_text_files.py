"""JSON Lines, CSV, TSV: what they give and which faults they have."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from beholder._errors import InputError, UserError
from beholder.manifest import open_source


def faults_of(source):
    with pytest.raises(InputError) as caught:
        source.check()
    return [(fault.row, fault.where, fault.message) for fault in caught.value.faults]


def test_jsonl_row(write):
    path = write("m.jsonl", [{"id": "x", "image": "a.png", "caption": "a cat", "seed": "007", "category": "pets"}])
    source = open_source(path)
    source.check()
    (sample,) = source
    assert (sample.id, sample.prompt, sample.seed, sample.row) == ("x", "a cat", 7, 1)
    assert sample.output.path == str(path.parent / "a.png")
    assert sample.extras == {"category": "pets"}
    assert sample.column("category") == "pets"
    assert source.count() == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_encodings_newlines_and_blank_lines(write, encoding, newline):
    text = newline.join(['{"output":"a.png","prompt":"一只猫"}', "", "   ", '{"output":"b.png","prompt":"é"}', ""])
    (a, b) = open_source(write("m.jsonl", text.encode(encoding)))
    assert (a.prompt, a.row, b.prompt, b.row) == ("一只猫", 1, "é", 4)
    table = newline.join(["output,prompt", 'a.png,"一只, 猫"', "", "b.png,é", ""])
    (a, b) = open_source(write("m.csv", table.encode(encoding)))
    assert (a.prompt, a.row, b.prompt, b.row) == ("一只, 猫", 1, "é", 2)


@pytest.mark.parametrize(("name", "mark"), [("m.csv", ","), ("m.csv", ";"), ("m.csv", "\t"), ("m.tsv", "\t")])
def test_csv_separators_and_list_cells(write, name, mark):
    refs = ["r1.png|r2.png", '["r1.png", "r2.png"]', "['r1.png', 'r2.png']"]
    quoted = ['"' + cell.replace('"', '""') + '"' for cell in refs]
    rows = [mark.join(["Image Path", "prompt", "refs", "mood"])]
    rows += [mark.join([f"{i}.png", "a cat", cell, ""]) for i, cell in enumerate(quoted)]
    samples = list(open_source(write(name, "\n".join(rows))))
    assert len(samples) == 3
    for sample in samples:
        assert [Path(ref.path).name for ref in sample.references] == ["r1.png", "r2.png"]
        assert sample.extras == {"mood": None}


def test_csv_leaves_pandas_index_out_and_keeps_blank_prompts(write):
    samples = list(open_source(write("m.csv", ",output,prompt,method\n0,a.png,,\n1,b.png,x,m\n,,,\n")))
    assert [(sample.prompt, sample.method) for sample in samples] == [("", None), ("x", "m")]
    assert all(sample.extras == {} for sample in samples)


def test_gzipped(write):
    path = write("m.jsonl.gz", gzip.compress(b'{"output":"a.png"}\n'))
    assert [sample.id for sample in open_source(path)] == ["a.png"]


def test_all_jsonl_faults_at_once_with_their_lines(write):
    path = write(
        "m.jsonl",
        b'{"id":"a","output":"a.png"}\n{"id":"a","output":"b.png"}\n{broken\n[1]\n{"id":"e","output":5}\n\n'
        b'{"id":"g","output":"g.png","prompt":true}\n{"id":"h","output":"h.png","prompt":"\xff"}\n'
        b'{"id":"i","output":"i.png","references":["r.png"],"reference_masks":["m.png","n.png"]}\n'
        b'{"id":"j","output":"j.png","references":["r.png",null]}\n{"id":"k","output":"k.png","prompt":["a","b"]}\n',
    )
    found = faults_of(open_source(path))
    assert [(row, where) for row, where, _ in found] == [
        (2, "id"),
        (3, None),
        (4, None),
        (5, "output"),
        (7, "prompt"),
        (8, None),
        (9, "reference_masks"),
        (10, "references"),
        (11, "prompt"),
    ]
    said = " ".join(message for _, _, message in found)
    for text in ("rows 1 and 2 have one id, 'a'", "not valid JSON", "a list [1]", "UTF-8", "1 references and 2 masks"):
        assert text in said


def test_iteration_gives_sound_rows_then_raises(write):
    path = write("m.jsonl", '{"output":"a.png"}\n{\n{"output":"b.png"}\n')
    samples = iter(open_source(path))
    assert [next(samples).id, next(samples).id] == ["a.png", "b.png"]
    with pytest.raises(InputError, match="row 2: not valid JSON"):
        next(samples)


def test_csv_faults(write):
    path = write("m.csv", "output,prompt,prompt\na.png,x\nb.png,x,y,z\nc.png,x,y\n")
    found = faults_of(open_source(path))
    assert [row for row, _, _ in found] == [None, 1, 2]
    assert "twice" in found[0][2]
    assert "2 cells and the header 3" in found[1][2]
    (fault,) = faults_of(open_source(write("n.csv", 'output,prompt\na.png,x\nb.png,"never closed\nc.png,y\n')))
    assert fault[0] == 2
    assert "not valid CSV" in fault[2]
    (fault,) = faults_of(open_source(write("o.csv", b"output,prompt\na.png,\xe9\n")))
    assert fault == (1, None, "the line is not UTF-8 text; save the file as UTF-8")


def test_types_of_cells(write):
    rows = [
        {"id": 3, "output": "a.png", "prompt": 1984, "prompt_id": 7.0, "seed": 4.0, "concept_ids": ["dog", "cat"]},
        {"output": "b.png", "prompt": 2.5, "seed": "x1", "seg_prompt": ["a dog", "dog"], "x": [1], "y": float("nan")},
        {"output": "c.png", "prompt": ["only"], "seg_prompt": "a dog|dog", "concept": "", "id": " "},
        {"output": "d.png", "prompt": None, "masks": {"dog": "m.png", "cat": None}},
        {"output": "e.png", "masks": {"size": [4, 6], "counts": "0"}},
    ]
    a, b, c, d, e = open_source(write("m.jsonl", rows))
    assert (a.id, a.prompt, a.prompt_id, a.seed, a.concept) == ("3", "1984", "7", 4, "dog|cat")
    assert (b.prompt, b.seed, b.seg_prompt, b.extras) == ("2.5", "x1", ("a dog", "dog"), {"x": [1], "y": None})
    assert (c.id, c.prompt, c.seg_prompt, c.concept) == ("c.png", "only", ("a dog", "dog"), None)
    assert d.prompt is None
    assert Path(d.masks["dog"].path).name == "m.png"
    assert list(d.masks) == ["dog"]
    assert e.masks == {"size": [4, 6], "counts": "0"}


@pytest.mark.parametrize(
    ("row", "where"),
    [
        ({"output": True}, "output"),
        ({"output": ["a.png", "b.png"]}, "output"),
        ({"output": {"a": 1}}, "output"),
        ({"output": "a.png", "id": False}, "id"),
        ({"output": "a.png", "prompt": {"en": "x"}}, "prompt"),
        ({"output": "a.png", "masks": "{broken"}, "masks"),
        ({"output": "a.png", "masks": 3}, "masks"),
        ({"output": "a.png", "seed": [1, 2]}, "seed"),
    ],
)
def test_wrong_types_are_faults(write, row, where):
    assert [fault[:2] for fault in faults_of(open_source(write("m.jsonl", [row])))] == [(1, where)]


def test_clashing_columns_are_told_once_and_the_mapping_settles_it(write):
    path = write("m.jsonl", [{"output": f"{i}.png", "image": "x.png", "prompt": "p"} for i in range(3)])
    (fault,) = faults_of(open_source(path))
    assert fault[0] == 1
    assert "'output' and 'image' both mean 'output'" in fault[2]
    samples = list(open_source(path, mapping={"image": "preview"}))
    assert [sample.id for sample in samples] == ["0.png", "1.png", "2.png"]
    assert samples[0].extras == {"preview": "x.png"}


def test_mapping(write):
    path = write("m.jsonl", [{"pic": "a.png", "q": "hello", "caption": "other"}])
    (sample,) = open_source(path, mapping={"pic": "output", "q": "prompt"})
    assert (sample.prompt, sample.extras) == ("hello", {"caption": "other"})
    found = faults_of(open_source(path, mapping={"pik": "output"}))
    assert found[0][1] == "pik"
    assert "did you mean 'pic'" in found[0][2]
    assert "no column names the generated file" in found[1][2]


@pytest.mark.parametrize(("name", "content"), [("m.jsonl", "\n\n"), ("m.csv", "output,prompt\n"), ("m.json", "[]")])
def test_no_rows(write, name, content):
    (fault,) = faults_of(open_source(write(name, content)))
    assert "no rows" in fault[2]


def test_what_is_not_there_or_not_understood(write, tmp_path):
    with pytest.raises(UserError, match="must be a file or folder that exists"):
        open_source(tmp_path / "nowhere.jsonl")
    with pytest.raises(UserError, match="must have rows; got an empty file"):
        open_source(write("m.jsonl", ""))
    with pytest.raises(UserError, match=r"must be one of: a manifest .*; got .*m\.xlsx"):
        open_source(write("m.xlsx", "x"))
    with pytest.raises(UserError, match="must be one of"):
        open_source(3)
    with pytest.raises(UserError, match=r"Prompts go with outputs: --prompts .*p\.txt --outputs 'out/"):
        open_source(write("p.txt", "a cat\n"))


def test_relative_paths_start_from_the_manifest(write, draw, tmp_path, monkeypatch):
    draw("data/img/a.png")
    path = write("data/m.jsonl", [{"output": "img/a.png"}, {"output": str(tmp_path / "b.png")}])
    monkeypatch.chdir(tmp_path)
    a, b = open_source("data/m.jsonl")
    assert a.output.path == os.path.join("data", "img/a.png")
    assert b.output.path == str(tmp_path / "b.png")
    (a, _) = open_source(path, base=tmp_path / "elsewhere")
    assert a.output.path == str(tmp_path / "elsewhere/img/a.png")


def test_working_folder_when_the_outputs_are_only_there(write, draw, tmp_path, monkeypatch):
    draw("out/b.png")
    write("lists/m.jsonl", [{"output": "out/a.png"}, {"output": "out/b.png"}])
    monkeypatch.chdir(tmp_path)
    source = open_source("lists/m.jsonl")
    source.check()
    assert [sample.output.path for sample in source] == ["out/a.png", "out/b.png"]
    (notice,) = source.notices
    assert "working folder" in notice


def test_fsspec_manifest_and_paths():
    import fsspec

    with fsspec.open("memory://bucket/set/m.csv", "wb") as handle:
        handle.write(b"output,prompt\na.png,x\ns3x.png,y\nmemory://other/c.png,z\n")
    try:
        samples = list(open_source("memory://bucket/set/m.csv"))
    finally:
        fsspec.filesystem("memory").rm("/bucket", recursive=True)
    assert [sample.output.url for sample in samples] == [
        "memory://bucket/set/a.png",
        "memory://bucket/set/s3x.png",
        "memory://other/c.png",
    ]


def test_column_names_that_are_no_text_and_two_kept_under_one_name_are_faults() -> None:
    with pytest.raises(InputError, match=r"column names must be text; got 5"):
        open_source([{"output": "a.png", 5: "x"}]).check()
    rows = [{"output": "a.png", "tag": "x", "label": "y"}]
    with pytest.raises(InputError, match=r"'tag' and 'label' would both be kept as 'label'"):
        open_source(rows, mapping={"tag": "label"}).check()
    (sample,) = open_source(rows, mapping={"tag": "label", "label": "old"})
    assert sample.extras == {"label": "x", "old": "y"}
