"""The metric that docs/plugins.md shows works as it stands there."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beholder
from beholder.metrics import catalog

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that the page's first listing makes."""
    module = types.ModuleType("shown_metric")
    monkeypatch.setitem(sys.modules, "shown_metric", module)
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    exec(compile(code, str(PAGE), "exec"), module.__dict__)
    return module


def test_the_metric_of_the_page_scores(shown: Any, tmp_path: Path) -> None:
    encoder = beholder.FakeEncoder(dim=2, texts={"good": [1, 0], "bad": [0, 1], "none": [0, 0]})
    beholder.register_encoder("page", encoder)
    pixels = Image.fromarray(np.full((8, 8, 3), 90, np.uint8))
    rows = [
        {"id": "a", "output": pixels, "prompt": "good", "negative_prompt": "bad"},
        {"id": "b", "output": pixels, "prompt": "bad", "negative_prompt": "good"},
        {"id": "c", "output": pixels, "prompt": "good", "negative_prompt": " "},
        {"id": "d", "output": pixels, "prompt": "good", "negative_prompt": "none"},
    ]
    metric = shown.PromptMargin({"model": "page"})
    run = beholder.evaluate(rows, metrics=[metric, "clip_score(model=page)"], out=str(tmp_path / "out"))
    column = run.scores.to_pydict()
    first, second = column["prompt_margin"][:2]
    assert first == pytest.approx(-second)
    assert first == pytest.approx(column["clip_score"][0] - column["clip_score"][1], abs=1e-6)
    assert column["prompt_margin_status"] == ["ok", "ok", "empty_prompt", "degenerate_embedding"]


def test_the_metric_of_the_page_works_as_a_plug_in(shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("prompt_margin", "shown_metric:PromptMargin", "beholder.metrics")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point] * (group == "beholder.metrics"))
    for name in ("_targets", "_loaded"):
        monkeypatch.setattr(catalog.METRICS, name, dict(getattr(catalog.METRICS, name)))
    monkeypatch.setattr(catalog.METRICS, "_broken", {})
    monkeypatch.setattr(catalog.METRICS, "_plugins_read", False)
    assert "prompt_margin" in [info.name for info in beholder.list_metrics()]
    assert catalog.METRICS.broken() == []
