"""Files of attributes, and the lists that come with the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beholder._errors import OptionError
from beholder.metrics.attribute_lists import BUILT_IN, Attribute, read_attributes


def test_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("# remarks\na cat\n\n  an owl  \n", encoding="utf-8")
    assert [item.name for item in read_attributes(path)] == ["a cat", "an owl"]


def test_json_and_csv(tmp_path: Path) -> None:
    items = ["a cat", {"positive": "open eyes", "counterpart": "closed eyes", "group": "face", "name": "eyes"}]
    (tmp_path / "a.json").write_text(json.dumps(items), encoding="utf-8")
    (tmp_path / "a.csv").write_text(
        "positive,counterpart,group,name\na cat,,,\nopen eyes,closed eyes,face,eyes\n", encoding="utf-8"
    )
    expected = [Attribute("a cat"), Attribute("open eyes", "closed eyes", "face", "eyes")]
    assert read_attributes(str(tmp_path / "a.json")) == expected == read_attributes(tmp_path / "a.csv")
    assert read_attributes(items) == expected


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_lists(name: str) -> None:
    found = read_attributes(name)
    assert len(found) == 20
    assert all(item.group for item in found)
    assert len({item.positive for item in found} & {item.counterpart for item in found}) == 0


@pytest.mark.parametrize(
    ("content", "suffix", "message"),
    [
        ("", "txt", "at least one"),
        ("a cat\na cat\n", "txt", "line 1, line 2: the name 'a cat' more than once"),
        ("{}", "json", "must hold a list"),
        ("[", "json", "valid JSON"),
        ("[3]", "json", "number 1: neither a text nor an object"),
        ('[{"positive": " "}]', "json", "number 1: no text in `positive`"),
        ('[{"positive": "x", "weight": 2}]', "json", "weight"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: str, suffix: str, message: str) -> None:
    path = tmp_path / f"list.{suffix}"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(OptionError, match=message):
        read_attributes(path)


def test_all_faults_are_told_at_once_by_line(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("positive,group\na cat,pets\n,pets\nan owl,birds,more\n\na cat,\n", encoding="utf-8")
    with pytest.raises(OptionError) as caught:
        read_attributes(path)
    for part in ("line 3: no text", "line 4: more cells than columns (more)", "line 2, line 6: the name 'a cat'"):
        assert part in str(caught.value)
    (tmp_path / "other.csv").write_text("attribute\na cat\n", encoding="utf-8")
    with pytest.raises(OptionError, match="column `positive`"):
        read_attributes(tmp_path / "other.csv")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(OptionError, match="animals, faces, scenes"):
        read_attributes("no-such-list")
