"""Memory stays flat however many rows; duplicates are found all the same."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from beholder._errors import InputError
from beholder.manifest import open_source
from beholder.manifest.ids import Ledger

MANY = 50_000
MEBIBYTE = 1 << 20


def rows(count):
    for index in range(count):
        yield {"output": f"out/{index}.png", "prompt": f"prompt {index}", "seed": 0, "note": "x" * 400}


def peak_of(action) -> float:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1] / MEBIBYTE
    finally:
        tracemalloc.stop()


def consume(source) -> None:
    source.check()
    assert sum(1 for _ in source) == MANY


def test_generator_is_never_materialised():
    # All the rows together take above 30 MiB; ids take 16 bytes a row, and up to 16,384 of them stand in a dict.
    assert peak_of(lambda: consume(open_source(rows(MANY)))) < 6


def test_files_are_never_materialised(tmp_path):
    path = tmp_path / "m.jsonl"
    with path.open("w") as handle:
        handle.writelines(json.dumps(row) + "\n" for row in rows(MANY))
    assert peak_of(lambda: consume(open_source(path))) < 6


def test_duplicates_far_apart(tmp_path):
    path = tmp_path / "m.jsonl"
    with path.open("w") as handle:
        handle.writelines(f'{{"id": {index}, "output": "a.png"}}\n' for index in range(40_000))
        handle.write('{"id": 5, "output": "b.png"}\n{"id": "39999", "output": "c.png"}\n')
    with pytest.raises(InputError) as caught:
        open_source(path).check()
    assert [fault.message.split(";")[0] for fault in caught.value.faults] == [
        "rows 6 and 40001 have one id, '5'",
        "rows 40000 and 40002 have one id, '39999'",
    ]


def test_ledger():
    ledger = Ledger()
    names = [f"name {index}" for index in range(40_000)]
    assert [ledger.add(name, index) for index, name in enumerate(names)] == [None] * len(names)
    assert len(ledger) == len(names)
    assert [ledger.find(name) for name in names[::997]] == list(range(0, 40_000, 997))
    assert ledger.add("name 3", 7) == 3
    assert ledger.find("name -1") is None
