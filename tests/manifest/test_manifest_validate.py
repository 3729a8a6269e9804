"""Validation: both kinds of faults, counts, warnings, notices."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from PIL import Image
from tests.photographs import scene

from beholder._errors import Fault, InputError
from beholder.manifest import Sample, open_source
from beholder.manifest.validate import validate
from beholder.media.base import DecodeOptions


def test_a_sound_set(write, draw):
    for name in ("a", "b"):
        draw(f"{name}.png")
    rows = [{"output": f"{name}.png", "prompt": "x", "seed": seed} for seed, name in enumerate("ab")]
    report = validate(open_source(write("m.jsonl", rows)))
    assert report.ok
    assert report.exit_code == 0
    assert report.warnings == ()
    assert report.notices == ()
    assert report.counts == {
        "rows": 2,
        "prompts": 1,
        "methods": 0,
        "concepts": 0,
        "outputs_per_prompt": {"min": 2, "max": 2, "prompts_by_outputs": {"2": 1}},
    }
    assert report.lines()[0].endswith("m.jsonl: 2 rows, 1 prompt, 0 methods, 0 concepts")
    assert report.lines()[-1] == "no faults"
    assert json.loads(json.dumps(report.to_dict()))["ok"] is True


@pytest.mark.parametrize("workers", [1, 3])
def test_both_kinds_of_faults_with_their_rows(write, draw, workers):
    draw("a.png")
    draw("m.png", size=(9, 9))
    half = draw("whole.jpg", size=(64, 64)).read_bytes()
    write("half.jpg", half[: len(half) // 2])
    write("text.png", "no picture")
    path = write(
        "m.jsonl",
        [
            {"id": "1", "output": "a.png", "prompt": "x", "references": ["gone.png", "a.png"]},
            {"id": "1", "output": "gone.png", "prompt": ""},
            {"id": "3", "output": "gone.png", "prompt": "x"},
            {"id": "4", "output": "half.jpg", "prompt": "x"},
            {"id": "5", "output": "text.png", "prompt": " "},
            {"id": "6", "output": "a.png", "prompt": None},
            {"id": "7", "output": None, "prompt": "x"},
            {"id": "8", "output": "a.png", "prompt": "x", "masks": {"dog": "m.png"}},
            {"id": "9", "output": "a.png", "prompt": "x", "masks": {"size": [4, 5], "counts": [20]}},
            {"id": "10", "output": "a.png", "prompt": True},
        ],
    )
    report = validate(open_source(path), workers=workers)
    assert report.exit_code == 2
    assert [(fault.row, fault.where) for fault in report.faults if fault.form] == [(2, "id"), (10, "prompt")]
    assert [(fault.row, fault.where) for fault in report.faults if not fault.form] == [
        (1, "references"),
        (2, "output"),
        (2, "prompt"),
        (3, "output"),
        (4, "output"),
        (5, "output"),
        (5, "prompt"),
        (6, "prompt"),
        (7, "output"),
        (8, "masks"),
        (9, "masks"),
    ]
    said = {fault.row: fault.message for fault in report.faults if not fault.form and fault.where != "prompt"}
    assert said[1] == "missing: gone.png: no such file"
    assert said[4].startswith("unreadable")
    assert "got 9×9 for 4×4 pixels" in said[8]
    assert "got 5×4 for 4×4 pixels" in said[9]
    text = "\n".join(report.lines())
    assert "2 faults of form (they stop a run):\n  row 2, id: rows 1 and 2" in text
    assert "11 faults of rows (each costs its row):\n  row 1, references: missing" in text
    assert {fault["kind"] for fault in report.to_dict()["faults"]} == {"form", "row"}


def test_without_decoding_a_broken_picture_passes_and_a_missing_one_does_not(write):
    write("text.png", "no picture")
    source = open_source(write("m.jsonl", [{"output": "text.png"}, {"output": "gone.png"}]))
    assert [fault.row for fault in validate(source, decode=False).faults] == [2]
    assert [fault.row for fault in validate(source).faults] == [1, 2]


def test_options_of_decoding_reach_the_files(write, draw):
    draw("a.png", size=(20, 20))
    source = open_source(write("m.jsonl", [{"output": "a.png"}]))
    (fault,) = validate(source, options=DecodeOptions(max_pixels=100)).faults
    assert fault.message.startswith("too_large")


def test_n4_outputs_per_prompt_and_prompts_equal_but_for_case(draw):
    rows = [{"output": f"a{i}.png", "prompt": "A cat", "seed": i} for i in range(25)]
    rows += [{"output": f"b{i}.png", "prompt": "a  cat", "seed": i} for i in range(5)]
    report = validate(open_source(rows), decode=False)
    assert report.counts["prompts"] == 2
    assert report.counts["outputs_per_prompt"] == {"min": 5, "max": 25, "prompts_by_outputs": {"5": 1, "25": 1}}
    assert any("from 5 ('a  cat') to 25 ('A cat')" in notice for notice in report.notices)
    assert any("equal but for case" in notice and "'A cat' and 'a  cat'" in notice for notice in report.notices)
    assert "outputs per prompt: 5 to 25" in report.lines()


def test_counts_by_method(draw):
    rows = [
        {"output": f"{m}{p}{s}.png", "prompt_id": p, "prompt": f"p{p}", "method": m, "seed": s, "concept": "dog"}
        for m in "ab"
        for p in (1, 2)
        for s in (0, 1)
    ]
    report = validate(open_source(rows), decode=False)
    assert [report.counts[name] for name in ("rows", "prompts", "methods", "concepts")] == [8, 2, 2, 1]
    assert report.counts["outputs_per_prompt"] == {"min": 2, "max": 2, "prompts_by_outputs": {"2": 4}}
    assert report.warnings == ()


def test_unequal_seeds_are_a_warning():
    rows = [{"output": f"{p}{s}.png", "prompt": p, "seed": s} for p in "xyz" for s in (0, 1)]
    assert validate(open_source(rows), decode=False).warnings == ()
    rows[-1]["seed"] = 7
    (warning,) = validate(open_source(rows), decode=False).warnings
    assert "seeds are not those of most prompts: 1 ('z')" in warning


def test_leaks_and_same_content(write, draw):
    draw("a.png", colour=(1, 2, 3))
    draw("ref.png", colour=(1, 2, 3))
    draw("b.png", colour=(1, 2, 3))
    draw("c.png", colour=(9, 9, 9))
    rows = [{"output": "a.png", "refs": ["ref.png"]}, {"output": "b.png"}, {"output": "c.png"}]
    report = validate(open_source(write("m.jsonl", rows)))
    assert report.ok
    leak, same = report.warnings
    assert leak == "leak: outputs that are byte for byte a reference: 2 (row 1; row 2, a reference of row 1)"
    assert same == "outputs that are byte for byte the same: 1 (rows 1 and 2)"
    assert "rows without references: 2 of 3" in report.notices


def test_n2_names_that_differ_in_extension_and_leftovers(write, draw, tmp_path):
    draw("a.png")
    draw("a.jpg")
    draw("left.png")
    draw(".hidden.png")
    report = validate(open_source(write("m.jsonl", [{"output": "a.png"}, {"output": "a.jpg"}])))
    assert report.ok
    assert any("differ in their extension only: 1 (rows 1 and 2, a.jpg)" in text for text in report.warnings)
    (notice,) = (text for text in report.notices if "no row names" in text)
    assert f"1 ({tmp_path / 'left.png'})" in notice


def test_n5_many_references_and_one_missing(write, draw):
    for name in ("a.png", "b.png", "c.png", *(f"r{i}.png" for i in range(4))):
        draw(name)
    references = [f"r{i}.png" for i in range(5)]
    path = write("m.jsonl", [{"output": f"{name}.png", "refs": references} for name in "abc"])
    source = open_source(path)
    source.check()
    assert [len(sample.references) for sample in source] == [5, 5, 5]
    report = validate(source)
    assert [(fault.row, fault.form) for fault in report.faults] == [(1, False), (2, False), (3, False)]
    assert all("r4.png" in fault.message for fault in report.faults)


def test_masks_of_references(write, draw):
    draw("a.png")
    draw("r.png")
    draw("m.png", size=(2, 2))
    row = {"output": "a.png", "references": ["r.png", "r.png"], "reference_masks": [None, "m.png"]}
    (fault,) = validate(open_source(write("m.jsonl", [row]))).faults
    assert (fault.where, fault.form) == ("reference_masks", False)


def test_masks_that_are_none_and_masks_of_shades(write, draw, tmp_path):
    draw("a.png", size=(64, 64))
    Image.open(scene("astronaut.png")).resize((64, 64)).save(tmp_path / "photo.png")
    Image.fromarray(np.tile(np.arange(0, 256, 4, np.uint8), (64, 1))).save(tmp_path / "soft.png")
    Image.fromarray(np.eye(64, dtype=np.uint8) * 255).save(tmp_path / "hard.png")
    masks = ["photo.png", "soft.png", "hard.png", {"size": [64, 64], "counts": [1, 2]}]
    rows = [{"id": str(at), "output": "a.png", "masks": mask} for at, mask in enumerate(masks)]
    source = open_source(write("m.jsonl", rows))
    report = validate(source)
    assert [(fault.row, fault.where) for fault in report.faults] == [(1, "masks"), (4, "masks")]
    assert "photo.png: a photograph, not a mask" in report.faults[0].message
    assert "the mask: no mask" in report.faults[1].message
    (warning,) = (text for text in report.warnings if "masks" in text)
    assert warning.startswith("masks of shades, of which what is at least half of white is taken for the subject: 1 (")
    assert "row 2" in warning
    assert "soft.png" in warning
    assert validate(source, decode=False).ok


def test_videos_are_looked_into(write, draw, tmp_path):
    for at in range(3):
        draw(f"clip/{at}.png", colour=(at * 50, 0, 0))
    frames = [Image.open(tmp_path / "clip" / f"{at}.png") for at in range(3)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    (tmp_path / "cut.gif").write_bytes((tmp_path / "a.gif").read_bytes()[:30])
    (tmp_path / "empty").mkdir()
    outputs = ["clip", "a.gif", "cut.gif", "empty"]
    rows = [{"id": name, "output": name, "prompt": "x"} for name in outputs]
    source = open_source(write("m.jsonl", rows))
    report = validate(source)
    assert [fault.row for fault in report.faults] == [3, 4]
    stills = validate(source, options=DecodeOptions(first_frame=True))
    assert [fault.row for fault in stills.faults] == [3, 4]


def test_without_pyav_videos_are_named_and_are_no_fault_of_their_rows(write, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "a.webm").write_bytes(b"\x1a\x45\xdf\xa3" + bytes(100))
    report = validate(open_source(write("m.jsonl", [{"output": "a.webm", "prompt": "x"}])))
    assert report.ok
    (warning,) = report.warnings
    assert warning.startswith("video files that were not looked into, and that no run can read here: pip install")
    assert "row 1, a.webm" in warning


def test_a_generator_and_pictures_in_memory():
    black = np.zeros((2, 2, 3), np.uint8)
    report = validate(open_source({"output": black, "prompt": "x"} for _ in range(2)))
    assert report.ok
    assert report.counts["rows"] == 2
    assert any("byte for byte the same" in warning for warning in report.warnings)


def test_references_are_looked_at_once(draw, monkeypatch):
    from beholder.media import files

    draw("r.png")
    read = []
    original = files.read_file
    monkeypatch.setattr(files, "read_file", lambda path, name: read.append(name) or original(path, name))
    path = str(draw("a.png"))
    reference = path.replace("a.png", "r.png")
    rows = [{"id": i, "output": path, "references": [reference]} for i in range(20)]
    validate(open_source(rows), workers=1)
    assert len([name for name in read if name == reference]) == 1


class OtherSource:
    """A source of somebody else's."""

    name, replayable, notices = "other", True, ("a remark",)

    def __iter__(self):
        yield Sample(id="a", output=None, row=1)
        raise InputError("other", [Fault("late", row=2)])

    def check(self) -> None:
        raise InputError("other", [Fault("early", row=3), Fault("late", row=2)])

    def count(self) -> None:
        return None


def test_a_source_of_somebody_elses():
    report = validate(OtherSource())
    assert [(fault.row, fault.message, fault.form) for fault in report.faults] == [
        (2, "late", True),
        (3, "early", True),
        (1, "missing: the row names no output", False),
    ]
    assert "a remark" in report.notices


def test_leftovers_of_a_folder_are_faults(draw, tmp_path):
    draw("out/a.png")
    draw("out/b.png")
    report = validate(open_source(tmp_path / "out", prompts={"a": "x"}))
    assert [(fault.where, fault.message) for fault in report.faults] == [("b.png", "no prompt for this file")]
    assert report.counts["rows"] == 1
