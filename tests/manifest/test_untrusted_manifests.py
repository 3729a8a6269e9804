"""Data of others: with a root no row reads a file outside it; without one a manifest names its user's own files."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beholder._errors import InputError, OptionError, UserError
from beholder.manifest import open_source
from beholder.media.sources import as_medium


def picture(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (200, 30, 30)).save(path)
    return path


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A folder `data` with pictures, and a secret beside it."""
    for name in ("data/a.png", "data/in/b.png", "data/frames/0.png", "secret.png", "database/c.png"):
        picture(tmp_path / name)
    with tarfile.open(tmp_path / "secret.tar", "w") as tar:
        tar.add(tmp_path / "secret.png", "s.png")
    os.symlink(tmp_path / "secret.png", tmp_path / "data/link.png")
    os.symlink(tmp_path, tmp_path / "data/up")
    os.symlink(tmp_path / "secret.png", tmp_path / "data/frames/1.png")
    os.symlink("a.png", tmp_path / "data/inner.png")
    return tmp_path


def faults(house: Path, root: Path | None, **row: Any) -> list[str]:
    manifest = house / "data/rows.jsonl"
    manifest.write_text(json.dumps({"output": "a.png", "prompt": "p", **row}) + "\n", encoding="utf-8")
    try:
        open_source(str(manifest), root=root).check()
    except InputError as error:
        return [fault.message for fault in error.faults]
    return []


OUTSIDE = [
    {"output": "../secret.png"},
    {"output": "in/../../secret.png"},
    {"output": "/etc/passwd"},
    {"output": "link.png"},
    {"output": "up/secret.png"},
    {"output": "../database/c.png"},
    {"output": "frames"},
    {"output": "~/x.png"},
    {"output": "file:///etc/passwd"},
    {"output": "memory://a.png"},
    {"output": "../secret.tar::s.png"},
    {"references": ["a.png", "../secret.png"]},
    {"references": "a.png|../secret.png"},
    {"masks": {"cat": "../secret.png"}},
    {"masks": '{"cat": "../secret.png"}'},
    {"references": ["a.png"], "reference_masks": ["../secret.png"]},
]
INSIDE = [
    {"output": "a.png"},
    {"output": "in/../a.png"},
    {"output": "inner.png"},
    {"output": "..a.png"},
    {"references": ["in/b.png"], "masks": "in/b.png"},
    {"masks": {"size": [2, 2], "counts": [4]}},
]


@pytest.mark.parametrize("row", OUTSIDE, ids=str)
def test_with_a_root_nothing_outside_is_read(house: Path, row: dict[str, Any]) -> None:
    found = faults(house, house / "data", **row)
    assert len(found) == 1
    assert f"not below {house / 'data'} (--root)" in found[0]


@pytest.mark.parametrize("row", INSIDE, ids=str)
def test_with_a_root_what_is_inside_is_read(house: Path, row: dict[str, Any]) -> None:
    assert faults(house, house / "data", **row) == []
    absolute = {"output": str(house / "data/a.png")}
    assert faults(house, house / "data", **absolute) == []


@pytest.mark.parametrize("row", [*OUTSIDE[:8], *INSIDE], ids=str)
def test_without_a_root_files_may_lie_anywhere(house: Path, row: dict[str, Any]) -> None:
    assert faults(house, None, **row) == []


def test_folders_templates_tables_and_samples_are_held_to_the_root_too(house: Path) -> None:
    with pytest.raises(InputError, match=r"link\.png"):
        open_source(str(house / "data"), root=house / "data").check()
    template = str(house / "data/{prompt_id}.png")
    with pytest.raises(InputError, match=r"link\.png"):
        open_source(outputs=template, root=house / "data").check()
    rows = [{"output": str(house / "secret.png")}]
    with pytest.raises(InputError, match=r"secret\.png"):
        open_source(rows, root=house / "data").check()
    samples = list(open_source(rows))
    with pytest.raises(InputError, match=r"secret\.png"):
        list(open_source(iter(samples), root=house / "data"))
    held = [{"output": np.zeros((4, 4, 3), dtype=np.uint8)}]
    assert len(list(open_source(held, root=house / "data"))) == 1


def test_a_root_that_is_no_folder_is_refused(house: Path) -> None:
    with pytest.raises(UserError, match="must be a folder that exists"):
        open_source(str(house / "data"), root=house / "nowhere")
    with pytest.raises(OptionError, match="root= goes with"):
        open_source(open_source(str(house / "data")), root=house / "data")


def test_rows_outside_are_all_told_with_their_numbers(house: Path) -> None:
    manifest = house / "data/rows.csv"
    manifest.write_text("id,output\n1,a.png\n2,../secret.png\n3,in/b.png\n4,/etc/passwd\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        open_source(str(manifest), root=house / "data").check()
    assert [(fault.row, fault.where) for fault in caught.value.faults] == [(2, "output"), (4, "output")]


@pytest.mark.parametrize("name", ["../x.png", "/x.png", "in\\x.png", "C:\\x.png", "a/../../x.png"])
def test_members_of_an_archive_are_read_from_the_archive_whatever_their_name(tmp_path: Path, name: str) -> None:
    held = io.BytesIO()
    Image.new("RGB", (3, 3), (1, 2, 3)).save(held, "PNG")
    inside = tmp_path / "in"
    inside.mkdir()
    picture(tmp_path / "x.png")
    with tarfile.open(inside / "a.tar", "w") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(held.getvalue())
        tar.addfile(info, io.BytesIO(held.getvalue()))
    samples = list(open_source(str(inside / "a.tar")))
    assert [sample.output.fingerprint() for sample in samples if sample.output] == [
        as_medium(held.getvalue()).fingerprint()
    ]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.tar", "in", "x.png"]
