"""The examples in the docstrings of the protocols, and in their manual, are true."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest

import beholder.protocols
from beholder.protocol_runs import make_protocol
from beholder.protocols.catalog import PROTOCOLS

MANUAL = Path(__file__).parents[2] / "docs" / "protocols.md"


@pytest.mark.parametrize("name", sorted(module.name for module in pkgutil.iter_modules(beholder.protocols.__path__)))
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"beholder.protocols.{name}")).failed == 0


def test_the_manual_names_every_protocol_with_its_metrics_and_tables() -> None:
    rows = dict(re.findall(r"^\| `([\w+-]+)` \|(.+)\|$", MANUAL.read_text(encoding="utf-8"), re.MULTILINE))
    assert sorted(rows) == PROTOCOLS.names()
    for name, row in rows.items():
        info = PROTOCOLS.get(name).info
        assert all(f"`{use.name}`" in row for use in info.metrics), name
        assert "the same three" in row or all(f"`{table}`" in row for table in info.tables), name


def test_the_manuals_manifest_is_read(tmp_path: Path) -> None:
    text = MANUAL.read_text(encoding="utf-8")
    (block,) = re.findall(r"```json\n(.+?)```", text, re.DOTALL)
    (tmp_path / "manifest.json").write_text(block)
    source = make_protocol("knowcusbench").source(tmp_path / "manifest.json")
    source.check()
    first, second = source
    assert (first.task, first.prompt) == ("reconstruction", "the bronze statue in the harbour")
    assert second.prompt == "the bronze statue in the harbour in snowy ice"
    assert second.eval_prompt == "a statue in snowy ice"
    assert json.loads(block)["items"][1]["mask"] == "mask/p03_k0_s0.png"
    assert len(second.references) == 2
