"""Model names: every form is read, ambiguous and unknown ones say how to go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beholder._errors import ModelError, OptionError, UnknownNameError
from beholder.backends.cards import aliases, known_ids
from beholder.backends.engine_table import engine_names
from beholder.backends.names import parse_name, spell_arch

Folder = Callable[[str], Path]


@pytest.mark.parametrize(
    ("name", "model_id"),
    [
        ("openai:ViT-L-14", "hf:openai/clip-vit-large-patch14"),
        ("openai:ViT-L/14", "hf:openai/clip-vit-large-patch14"),
        ("openai:ViT-L-14-quickgelu", "hf:openai/clip-vit-large-patch14"),
        ("openai:ViT-B/32", "hf:openai/clip-vit-base-patch32"),
        ("openai:ViT-B-16", "hf:openai/clip-vit-base-patch16"),
        ("openai:ViT-L-14-336", "hf:openai/clip-vit-large-patch14-336"),
        ("openai:ViT-L/14@336px", "hf:openai/clip-vit-large-patch14-336"),
        (" openai:ViT-L-14 ", "hf:openai/clip-vit-large-patch14"),
        ("hf:openai/clip-vit-large-patch14", "hf:openai/clip-vit-large-patch14"),
        ("hf:org/name.v2@abc123", "hf:org/name.v2@abc123"),
        ("laion2b_s32b_b82k:ViT-L-14", "open_clip:ViT-L-14/laion2b_s32b_b82k"),
        ("laion2b_s32b_b82k:ViT-L/14", "open_clip:ViT-L-14/laion2b_s32b_b82k"),
        ("some_new_tag:ViT-Z-99", "open_clip:ViT-Z-99/some_new_tag"),
        ("open_clip:ViT-L-14-quickgelu/openai", "open_clip:ViT-L-14-quickgelu/openai"),
        ("open_clip:ViT-L/14/laion2b_s32b_b82k", "open_clip:ViT-L-14/laion2b_s32b_b82k"),
        ("open_clip:coca_ViT-L-14/laion2b_s13b_b90k", "open_clip:coca_ViT-L-14/laion2b_s13b_b90k"),
        ("open_clip:RN50-quickgelu/openai", "open_clip:RN50-quickgelu/openai"),
        ("pickscore-v1", "hf:yuvalkirstain/PickScore_v1"),
        ("hf:yuvalkirstain/PickScore_v1", "hf:yuvalkirstain/PickScore_v1"),
        ("demo:emoji", "demo:emoji"),
        ("fake", "fake"),
        ("fake:dim=64;zero=a b", "fake:dim=64;zero=a b"),
    ],
)
def test_every_form_is_read(name: str, model_id: str) -> None:
    parsed = parse_name(name)
    assert parsed.id == model_id
    assert parsed.asked == name
    assert parse_name(parsed.id).id == model_id


def test_every_known_id_and_alias_reads_back() -> None:
    engines = engine_names()
    for model_id in known_ids():
        assert parse_name(model_id, engines=engines).id == model_id
    for alias, model_id in aliases().items():
        assert parse_name(alias, engines=engines).id == model_id


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("pickscore_v1", "pickscore-v1"),
        ("openai:ViT-L-15", "openai:ViT-L-14"),
        ("demo:emojis", "demo:emoji"),
        ("fakes", "fake"),
    ],
)
def test_unknown_names_suggest_near_ones(name: str, near: str) -> None:
    if name.startswith("demo:"):
        from beholder.backends.pool import resolve_model

        with pytest.raises(UnknownNameError, match=near):
            resolve_model(name)
        return
    with pytest.raises(UnknownNameError, match=near):
        parse_name(name)


def test_a_bare_repository_is_told_to_use_hf() -> None:
    with pytest.raises(UnknownNameError, match="hf:org/name"):
        parse_name("org/name")


def test_openai_resnets_are_sent_to_open_clip() -> None:
    with pytest.raises(OptionError, match="open_clip:RN50-quickgelu/openai"):
        parse_name("openai:RN50")


@pytest.mark.parametrize(
    "name", ["", "  ", "hf:", "hf:name@", "hf:just-a-name", "open_clip:ViT-L/14", "open_clip:ViT-L-14/"]
)
def test_incomplete_names_are_refused(name: str) -> None:
    with pytest.raises(OptionError):
        parse_name(name)


def test_local_folders_in_every_form(tiny: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny("clip")
    monkeypatch.chdir(folder.parent)
    for name in (str(folder), "./clip", "clip", "hf:./clip", "hf:clip", f"hf:{folder}", "clip/model.safetensors"):
        parsed = parse_name(name)
        assert parsed.engine == "hf"
        assert parsed.path is not None
        assert parsed.path.is_absolute()
        assert str(folder.parent) not in parsed.id


def test_a_name_with_two_meanings_is_refused_with_both_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pickscore-v1").mkdir()
    with pytest.raises(OptionError, match=r"\./pickscore-v1.*hf:yuvalkirstain/PickScore_v1"):
        parse_name("pickscore-v1")
    (tmp_path / "org" / "name").mkdir(parents=True)
    with pytest.raises(OptionError, match=r"hf:\./org/name.*hf:org/name@main"):
        parse_name("hf:org/name")


def test_a_folder_of_both_layouts_is_refused_with_both_ways_out(tiny_copy: Folder) -> None:
    folder = tiny_copy("clip")
    (folder / "open_clip_config.json").write_text("{}", encoding="utf-8")
    assert parse_name(str(folder)).engine == "hf"
    (folder / "open_clip_model.safetensors").write_bytes(b"x")
    with pytest.raises(OptionError, match=r"hf:/.*open_clip:/"):
        parse_name(str(folder))
    assert parse_name(f"open_clip:{folder}").engine == "open_clip"
    assert parse_name(f"hf:{folder}").engine == "hf"


def test_local_files_that_are_no_model_say_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json"):
        parse_name(str(tmp_path))
    with pytest.raises(ModelError, match="no such folder"):
        parse_name("./nothing-here")
    checkpoint = tmp_path / "epoch_1.pt"
    checkpoint.write_bytes(b"x")
    with pytest.raises(ModelError, match="open_clip:ViT-B-32//path"):
        parse_name(str(checkpoint))
    parsed = parse_name(f"open_clip:ViT-B/32/{checkpoint}")
    assert (parsed.arch, parsed.path, parsed.id) == ("ViT-B-32", checkpoint, "open_clip:ViT-B-32/./epoch_1.pt")
    with pytest.raises(ModelError, match="no such"):
        parse_name("open_clip:ViT-B-32//nothing/here.pt")


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("ViT-L/14", "ViT-L-14"),
        ("x:coca_ViT-B/32", "x:coca_ViT-B/32"),
        ("x:roberta-ViT-B/32", "x:roberta-ViT-B-32"),
        ("x:EVA02-L/14", "x:EVA02-L-14"),
        ("hf:org/ViT-L", "hf:org/ViT-L"),
    ],
)
def test_spelling_of_architectures(text: str, spelled: str) -> None:
    assert spell_arch(text) == spelled
