"""The pool: engines by name, plug-ins, registered encoders, and the cards that are listed."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beholder._errors import MissingExtraError, OptionError, UnknownNameError, UserError
from beholder._registry import Registry
from beholder.backends import engine_table, pool
from beholder.backends.base import Engine, ImageTextEncoder, LoadOptions, ResolvedModel
from beholder.backends.cards import all_cards
from beholder.backends.fake import FakeEncoder
from beholder.records import ModelCard

Folder = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _own_registrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_REGISTERED", {})


class PlugEngine:
    """An engine as a plug-in would bring it."""

    name = "plug"

    def cards(self) -> list[ModelCard]:
        return [ModelCard(id="plug:a", engine="plug", family="plug", arch="a", weights="a")]

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        return FakeEncoder(name, dim=3).model

    def load(self, model: ResolvedModel, *, device: str) -> ImageTextEncoder:
        return FakeEncoder(model.id, dim=3)


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points: one engine that works, one whose module is not there, one that wants a taken name."""
    target = f"{__name__}:PlugEngine"
    points = [
        importlib.metadata.EntryPoint("plug", target, "beholder.backends"),
        importlib.metadata.EntryPoint("gone", "no_such_module:ENGINE", "beholder.backends"),
        importlib.metadata.EntryPoint("hf", target, "beholder.backends"),
    ]
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: points if group == "beholder.backends" else []
    )
    engines: Registry[Any] = Registry("engine", group="beholder.backends")
    for name in ("hf", "demo", "open_clip", "fake"):
        engines.add(name, engine_table.ENGINES._targets[name])
    for module in (pool, engine_table):
        monkeypatch.setattr(module, "ENGINES", engines)


def test_built_in_engines_fit_the_contract() -> None:
    for name in ("hf", "demo", "fake"):
        engine: Engine = engine_table.engine_of(name)
        assert engine.name == name
        assert all(card.engine == name for card in engine.cards())


@pytest.mark.usefixtures("plugins")
def test_plugins_serve_and_broken_ones_are_listed() -> None:
    assert pool.resolve_model("plug:anything").id == "plug:anything"
    assert pool.load_model(pool.resolve_model("plug:anything")).encode_texts(["a"])["embedding"].shape == (1, 3)
    listed = [card.id for card in pool.list_models()]
    assert "plug:a" in listed
    assert "hf:openai/clip-vit-large-patch14" in listed
    broken = {item.name: item.reason for item in engine_table.broken_engines()}
    assert "no_such_module" in broken["gone"]
    assert "taken" in broken["hf"]
    with pytest.raises(UserError, match="no_such_module"):
        pool.resolve_model("gone:x")


def test_a_registered_encoder_serves_under_its_name_and_stays_open() -> None:
    class Closable(FakeEncoder):
        closed = False

        def close(self) -> None:
            self.closed = True

    mine = Closable(dim=4)
    pool.register_encoder("mine", mine)
    resolved = pool.resolve_model("mine")
    assert (resolved.asked, resolved.id) == ("mine", "mine")
    encoder = pool.load_model(resolved)
    assert isinstance(encoder, ImageTextEncoder)
    assert encoder.model.id == "mine"
    assert encoder.device is None
    mine.device = "cuda:1"  # the engine asks where a batch is to go
    assert pool.load_model(resolved).device == "cuda:1"
    np.testing.assert_array_equal(
        encoder.encode_texts(["a"])["embedding"], FakeEncoder(dim=4).encode_texts(["a"])["embedding"]
    )
    encoder.close()
    assert not mine.closed
    assert pool.find_card("mine") == mine.model.card
    assert mine.model.card in pool.list_models()
    with pytest.raises(UnknownNameError, match="mine"):
        pool.resolve_model("mime")


@pytest.mark.parametrize("name", ["", "fake", "openai:ViT-L-14", "demo:emoji", "hf:openai/clip-vit-base-patch32"])
def test_registering_needs_a_name_of_its_own(name: str) -> None:
    with pytest.raises(OptionError, match="name of its own"):
        pool.register_encoder(name, FakeEncoder())


def test_registering_needs_an_encoder() -> None:
    with pytest.raises(OptionError, match="encode_images"):
        pool.register_encoder("mine", object())  # type: ignore[arg-type]


def test_cards_are_found_by_every_name() -> None:
    card = pool.find_card("openai:ViT-L/14")
    assert card is not None
    assert card.id == "hf:openai/clip-vit-large-patch14"
    assert pool.find_card("hf:openai/clip-vit-large-patch14@abc") == card
    assert pool.find_card("hf:org/unknown") is None
    with pytest.raises(UnknownNameError):
        pool.find_card("nothing")


def test_open_clip_missing_is_one_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "open_clip" else real(name, *a))
    with pytest.raises(MissingExtraError, match=r'pip install "beholder\[openclip\]"'):
        pool.resolve_model("laion2b_s32b_b82k:ViT-L-14")
    assert "open_clip" in {card.engine for card in pool.list_models()}


NO_HUB = {"demo", "api", "retinaface", "dlib", "aesthetic", "artscore", "inception"}
"""Engines whose files come with a package, a release or a code repository, or that have a server instead."""

NO_FILES = {"fake", "masks", "boxes", "color", "pixels", "farneback", "differences", "sharpness"}
"""Engines that are arithmetic."""


def test_cards_hold_together() -> None:
    cards = all_cards()
    assert len({card.id for card in cards}) == len(cards)
    names = [name for card in cards for name in card.aliases]
    assert len(set(names)) == len(names)
    for card in cards:
        assert card.id.partition(":")[0] == card.engine
        assert card.size_bytes is None or card.size_bytes > 0
        assert all(len(value) == 64 for value in card.sha256.values())
        assert card.source or card.engine in (NO_HUB | NO_FILES)
        if card.engine in ("hf", "open_clip") and "AnswerScorer" not in card.capabilities:
            assert card.paper  # some vision-language models have none
    families = {card.family for card in cards}
    assert {"clip", "pickscore", "siglip", "siglip2", "metaclip2", "altclip", "chinese_clip", "fake"} <= families


def test_the_demo_card_reads_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder.backends import cards

    monkeypatch.setattr(cards, "DEMO_FOLDER", tmp_path)
    assert cards.demo_card().size_bytes is None
    (tmp_path / "card.json").write_text(json.dumps({"licence": "OFL-1.1", "notes": ["seed 0"]}), encoding="utf-8")
    card = cards.demo_card()
    assert card.licence == "OFL-1.1"
    assert "seed 0" in card.notes
    assert any("emoji scenes" in note for note in card.notes)


def test_the_demo_model_is_served_from_its_folder(tiny: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder.backends import hf_clip

    monkeypatch.setattr(hf_clip, "DEMO_FOLDER", tiny("clip"))
    resolved = pool.resolve_model("demo:emoji")
    assert (resolved.id, resolved.card.engine) == ("demo:emoji", "demo")
    assert pool.load_model(resolved, device="cpu").encode_texts(["a cat"])["embedding"].shape == (1, 16)
    with pytest.raises(UnknownNameError, match="demo:emoji"):
        pool.resolve_model("demo:emojis")


@pytest.mark.parametrize(
    ("engine", "capability"),
    [("inception", "ImageEncoder"), ("aesthetic", "EmbeddingHead"), ("artscore", "ImageScorer")],
)
def test_a_file_named_without_a_slash_is_told_how_to_be_named(
    engine: str, capability: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.pth").write_bytes(b"")
    with pytest.raises(UnknownNameError, match=rf"a file is written {engine}:\./file\.pth"):
        pool.resolve_model(f"{engine}:mine.pth", capability=capability)


def test_asking_twice_gives_equal_models(tiny: Folder) -> None:
    first, second = (pool.resolve_model(str(tiny("clip"))) for _ in range(2))
    assert first == second
    assert first.key == second.key
