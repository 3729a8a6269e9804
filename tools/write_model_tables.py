"""Writes the tables of models into docs/families/*.md, from the cards. Run it after a card has changed.

    python tools/write_model_tables.py

A page's own words stand above the marker; everything below it is written anew.
"""

from __future__ import annotations

from pathlib import Path

from beholder.backends.cards import all_cards
from beholder.records import ModelCard

PAGES = Path(__file__).parents[1] / "docs" / "families"
MARKER = "<!-- the table below is written by tools/write_model_tables.py -->"
FAMILIES = {
    "clip_score": ("ImageTextEncoder",),
    "video": ("VideoTextEncoder",),
    "vqa_score": ("AnswerScorer",),
    "itm_score": ("Matcher",),
}
_FP32_LIMIT = 4e9


def page_with_table(name: str) -> str:
    """The text that a page should have."""
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    return text.split(MARKER)[0] + MARKER + "\n\n" + "\n".join(_lines(FAMILIES[name])) + "\n"


def _lines(capabilities: tuple[str, ...]) -> list[str]:
    cards = [card for card in all_cards() if set(card.capabilities) & set(capabilities) and card.engine != "fake"]
    head = ["| model | download | in memory | licence | remarks |", "|---|---:|---:|---|---|"]
    return head + [f"| {' | '.join(_cells(card))} |" for card in cards]


def _cells(card: ModelCard) -> tuple[str, ...]:
    names = [f"`{name}`" for name in (card.id, *card.aliases)]
    remarks = [f"**not built yet**: {card.planned}"] if card.planned else list(card.notes)
    licence = card.licence or "not checked"
    if card.commercial is False:
        licence += " (not for commercial use)"
    return ("<br>".join(names), *_sizes(card), licence, " ".join(remarks).replace("|", "\\|"))


def _sizes(card: ModelCard) -> tuple[str, str]:
    """Size of the download and of the weights in memory under `--dtype auto`."""
    if card.engine == "api":
        return "none", "none"
    if not card.size_bytes:
        return "not known", "not known"
    return f"{card.size_bytes / 1e9:.1f} GB", "as stored" if card.size_bytes > _FP32_LIMIT else "float32"


def main() -> None:
    for name in FAMILIES:
        (PAGES / f"{name}.md").write_text(page_with_table(name), encoding="utf-8")


if __name__ == "__main__":
    main()
