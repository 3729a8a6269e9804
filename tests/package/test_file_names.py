"""Names from data never are a path, on any system."""

from __future__ import annotations

import ntpath
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder._file_names import file_name

HOSTILE = [
    "../../x",
    "/abs",
    "..",
    ".",
    "",
    "a\0b",
    "NUL",
    "nul.txt",
    "COM1",
    "C:\\x",
    "a/b",
    "x" * 5000,
    " ",
    "a.",
    "\n",
]


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_hostile_names_name_one_file_in_their_folder(tmp_path: Path, text: str) -> None:
    name = file_name(text)
    (tmp_path / name).write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(name) < 80


@given(st.text(max_size=80))
def test_any_text_is_one_part_of_a_path(text: str) -> None:
    name = file_name(text)
    assert name not in ("", ".", "..")
    assert os.path.basename(name) == ntpath.basename(name) == name
    assert name == name.strip(" .")


def test_fit_names_stay_and_unfit_ones_stay_apart() -> None:
    assert [file_name(text) for text in ("SDXL 1.0", "flux-dev", "模型")] == ["SDXL 1.0", "flux-dev", "模型"]
    names = [file_name(text) for text in (*HOSTILE, "../x", "/x", "..\\x", "-x", "x", "-x-")]
    assert len(set(names)) == len(names)
