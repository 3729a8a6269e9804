"""The pages of models say what the cards say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from beholder.backends.cards import all_cards

TOOL = Path(__file__).parents[2] / "tools" / "write_model_tables.py"


def tool() -> Any:
    spec = importlib.util.spec_from_file_location("write_model_tables", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["clip_score", "video", "vqa_score", "itm_score"])
def test_a_page_holds_the_table_of_the_cards(name: str) -> None:
    made = tool()
    text = (made.PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert text == made.page_with_table(name), "run: python tools/write_model_tables.py"


def test_every_model_that_scores_a_text_stands_on_a_page() -> None:
    made = tool()
    pages = "".join(path.read_text(encoding="utf-8") for path in made.PAGES.glob("*.md"))
    named = {"ImageTextEncoder", "VideoTextEncoder", "AnswerScorer", "Matcher"}
    for card in all_cards():
        if set(card.capabilities) & named and card.engine != "fake":
            assert f"`{card.id}`" in pages
