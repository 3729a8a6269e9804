"""What engines with weights do alike: names, files, cards, and the resolved model that comes of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from beholder._errors import UnknownNameError, WeightsMissingError
from beholder._hashing import hash_json
from beholder.backends.cards import card_of
from beholder.backends.describing import (
    CardEngine,
    describe_files,
    describe_parts,
    local_folder,
    paths_of,
    plain_card,
    repository,
    weights_size,
    whole_files,
)
from beholder.backends.engine_table import ENGINES, SPECIAL
from beholder.backends.files import Choice
from beholder.backends.hub import Found
from beholder.backends.names import BUILT_IN, parse_name


class Own(CardEngine):
    name = "artscore"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BEHOLDER_CACHE", str(tmp_path / "cache"))
    made = tmp_path / "m"
    made.mkdir()
    for name, size in (("a.bin", 5), ("b.bin", 7), ("config.json", 2)):
        (made / name).write_bytes(bytes([size]) * size)
    return made


def test_cards_and_names_of_an_engine(folder: Path) -> None:
    engine = Own()
    ids = [card.id for card in engine.cards()]
    assert ids
    assert all(item.startswith("artscore:") for item in ids)
    known = parse_name(ids[0], engines=(*BUILT_IN, "artscore"))
    assert engine.card(known, what="head", fix="-") == card_of(ids[0])
    assert engine.card(parse_name(f"artscore:{folder}", engines=(*BUILT_IN, "artscore")), what="head", fix="-") is None
    with pytest.raises(UnknownNameError, match=rf"unknown head 'artscore:none'.*There is {' and '.join(ids)}"):
        engine.card(parse_name("artscore:none", engines=(*BUILT_IN, "artscore")), what="head", fix="There is {known}")


def test_every_engine_tells_its_own_cards() -> None:
    for registry in (ENGINES, SPECIAL):
        for name in registry.names():
            engine = registry.get(name)
            assert all(card.engine == engine.name for card in engine.cards()), name


def test_local_folders_and_repositories(folder: Path) -> None:
    for named in (folder, folder / "a.bin"):
        assert local_folder(parse_name(str(named))) == folder
    parsed = parse_name("gme:org/name@rev", engines=(*BUILT_IN, "gme"))
    assert repository(parsed) == ("org/name", "rev")
    assert repository(parse_name("gme:org/name", engines=(*BUILT_IN, "gme"))) == ("org/name", None)


def test_files_are_whole_or_the_message_says_what_is_not(folder: Path) -> None:
    choice = Choice(("a.bin", "b.bin"), ("config.json",), ())
    assert whole_files(folder, choice, must="m must be whole") == Found(folder, choice)
    (folder / "b.bin").write_bytes(b"")
    with pytest.raises(WeightsMissingError, match=r"^m must be whole; got b\.bin is empty\.$"):
        whole_files(folder, choice, must="m must be whole")
    with pytest.raises(WeightsMissingError, match=r"got .*/m: it lacks config\.json"):
        whole_files(folder, Choice(("a.bin",), (), ("config.json",)), must="m must be whole", where=True)


def test_a_model_of_found_files(folder: Path) -> None:
    parsed = parse_name(str(folder))
    found = Found(folder, Choice(("a.bin", "b.bin"), ("config.json",), ()), revision="r")
    card = plain_card(parsed, engine="hf", family="blip", capabilities=("Matcher",))
    model = describe_files(
        parsed, card, found, capability="Matcher", dtype="auto", preprocessing={"x": 1}, details={"kind": "k"}
    )
    assert (model.asked, model.id, model.location) == (str(folder), "hf:./m", str(folder))
    assert (model.dtype, model.capability, model.constants, model.locations) == ("float32", "Matcher", {}, {})
    assert dict(model.details) == {"kind": "k", "weights": ["a.bin", "b.bin"]}
    full = model.card
    assert (full.files, full.size_bytes, full.revision) == (("a.bin", "b.bin", "config.json"), 12, "r")
    assert (full.engine, full.family, full.arch, full.source, full.capabilities) == (
        "hf", "blip", "blip", None, ("Matcher",)
    )  # fmt: skip
    assert full.preprocessing == model.preprocessing == {"x": 1}
    # The second witness of the hash: the rule in plain words, over the bytes that were written above.
    sizes = {"model/a.bin": 5, "model/b.bin": 7, "model/config.json": 2}
    digests = {name: hashlib.sha256(bytes([size]) * size).hexdigest() for name, size in sizes.items()}
    assert model.weights_sha256 == hash_json(digests)
    own = describe_files(
        parsed, card, found, capability="Matcher", dtype="float32", preprocessing={}, paths=paths_of(found)
    )
    assert own.weights_sha256 == hash_json({name.partition("/")[2]: value for name, value in digests.items()})
    assert weights_size(found) == 12


def test_a_model_of_single_files(folder: Path) -> None:
    files = {"detector": folder / "a.bin", "head": folder / "b.bin"}
    parsed = parse_name(str(folder))
    card = plain_card(parsed, engine="hf", family="x")
    model = describe_parts(parsed, card, files, capability="FaceAnalyser", dtype="float32", preprocessing={})
    assert (model.location, model.card.files, model.card.size_bytes) == (str(folder / "a.bin"), ("a.bin", "b.bin"), 12)
    digests = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    assert model.weights_sha256 == hash_json(digests)
    named = describe_parts(
        parsed, card, files, capability="FaceAnalyser", dtype="float32", preprocessing={}, location=folder,
        locations={"head": "h"},
    )  # fmt: skip
    assert (named.location, dict(named.locations)) == (str(folder), {"head": "h"})
