"""Writing a manifest and reading it again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder._errors import InputError
from beholder.manifest import Sample, open_source, write_manifest
from beholder.manifest.columns import canonical_name
from beholder.media.sources import as_medium


def lines(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def test_paths_are_relative_below_the_manifest_and_absolute_elsewhere(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"output": "set/a.png", "references": ["r.png", "memory://b/c.png"], "masks": {"dog": "set/m.png"}},
        {"output": "set/shards.tar::b.png", "prompt": "", "masks": {"size": [1, 2], "counts": "x"}},
    ]
    assert write_manifest(open_source(rows), "set/m.jsonl") == 2
    a, b = lines("set/m.jsonl")
    assert a == {
        "id": "set/a.png",
        "output": "a.png",
        "references": [str(tmp_path / "r.png"), "memory://b/c.png"],
        "masks": {"dog": "m.png"},
    }
    assert b == {
        "id": "set/shards.tar::b.png",
        "output": "shards.tar::b.png",
        "prompt": "",
        "masks": {"size": [1, 2], "counts": "x"},
    }
    a, b = open_source("set/m.jsonl", base="set")
    assert os.path.abspath(a.output.path) == str(tmp_path / "set/a.png")
    assert os.path.abspath(b.output.tar) == str(tmp_path / "set/shards.tar")


def test_template_to_manifest(draw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw("out/sdxl/3_0.png")
    source = open_source(prompts={"3": "a cat"}, outputs="out/{method}/{prompt_id}_{seed}.png")
    write_manifest(source, "m.jsonl")
    assert lines("m.jsonl") == [
        {
            "id": "sdxl/3/0",
            "output": "out/sdxl/3_0.png",
            "prompt": "a cat",
            "method": "sdxl",
            "seed": 0,
            "prompt_id": "3",
        }
    ]


def test_nothing_is_written_when_rows_cannot_be(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text("old")
    rows = [
        {"output": "a.png"},
        {"output": np.zeros((2, 2, 3), np.uint8)},
        {"output": "c.png", "blob": b"x"},
    ]
    with pytest.raises(InputError) as caught:
        write_manifest(open_source(rows), path)
    assert [fault.row for fault in caught.value.faults] == [2, 3]
    assert "is in memory; save it as a file first" in caught.value.faults[0].message
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["m.jsonl"]


def test_extras_whose_names_would_be_canonical_stay_extras(write, tmp_path):
    source = open_source(
        write("in.jsonl", [{"output": "a.png", "prompt": "x", "Caption": "y", "mood": "m"}]),
        mapping={"Caption": "Caption"},
    )
    write_manifest(source, tmp_path / "m.jsonl")
    assert lines(tmp_path / "m.jsonl")[0]["extras"] == {"Caption": "y"}
    (sample,) = open_source(tmp_path / "m.jsonl")
    assert sample.extras == {"mood": "m", "Caption": "y"}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LABEL = TEXT.map(str.strip).filter(bool)
NAME = st.text("abc_-. 1é猫", min_size=1, max_size=12).filter(lambda name: name.strip(" .") != "")
PATH = NAME.map(lambda name: as_medium(f"/data/{name.strip()}x.png"))
EXTRA = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
WORD = LABEL.filter(lambda text: not set("|[") & set(text))
SEED = st.integers(-99, 99) | LABEL.filter(lambda text: not text.lstrip("+-").isdigit())


def optional(strategy):
    return st.none() | strategy


SAMPLES = st.lists(
    st.builds(
        Sample,
        id=LABEL,
        output=optional(PATH),
        prompt=optional(TEXT),
        references=st.lists(PATH, max_size=3).map(tuple),
        masks=optional(PATH | st.dictionaries(LABEL, PATH, min_size=1, max_size=2)),
        concept=optional(LABEL),
        class_name=optional(LABEL),
        seg_prompt=optional(WORD | st.lists(LABEL, min_size=2, max_size=3).map(tuple)),
        task=optional(LABEL),
        method=optional(LABEL),
        group=optional(LABEL),
        seed=optional(SEED),
        eval_prompt=optional(TEXT),
        knowledge_id=optional(LABEL),
        prompt_id=optional(LABEL),
        extras=st.dictionaries(LABEL, EXTRA, max_size=3),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda sample: sample.id,
)


@settings(max_examples=150, deadline=None)
@given(samples=SAMPLES)
def test_what_is_written_is_read_again(samples, tmp_path_factory):
    if all(sample.output is None for sample in samples):
        return
    path = tmp_path_factory.mktemp("round") / "m.jsonl"
    assert write_manifest(open_source(samples), path) == len(samples)
    again = list(open_source(path))
    for row, (before, after) in enumerate(zip(samples, again, strict=True), 1):
        assert after.row == row
        for name in Sample.__dataclass_fields__:
            if name in ("row", "output", "references", "masks"):
                continue
            assert getattr(after, name) == getattr(before, name), name
        assert _places(after) == _places(before)


def _places(sample):
    masks = sample.masks.items() if isinstance(sample.masks, dict) else [(None, sample.masks)]
    media = [("o", sample.output), *(("r", ref) for ref in sample.references), *masks]
    return [(name, medium and medium.path) for name, medium in media]


def test_canonical_name():
    assert canonical_name("File Name") == canonical_name("file-name") == "output"
    assert canonical_name("ID") == "id"
    assert canonical_name("mood") is None
