"""Scorer objects: what the page types works as typed, shapes hold, models stay loaded, every visual is made once."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.models import make_tiny_clip
from tests.runs.helpers import CountingEncoder, cosine

import beholder
from beholder import (
    CLIPScore,
    FakeModel,
    ITMScore,
    UserError,
    VQAScore,
    get_score_model,
    list_all_clipscore_models,
    list_all_itmscore_models,
    list_all_models,
    list_all_vqascore_models,
    register_model,
)
from beholder._errors import DeviceError, OptionError, PlannedError, UnknownNameError, WeightsMissingError
from beholder.backends import pool


@pytest.fixture
def pictures(tmp_path: Path) -> list[str]:
    generator = np.random.default_rng(0)
    paths = []
    for at in range(3):
        path = tmp_path / f"{at}.png"
        Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)).save(path)
        paths.append(str(path))
    return paths


@pytest.fixture
def video(tmp_path: Path) -> str:
    folder = tmp_path / "clip"
    folder.mkdir()
    generator = np.random.default_rng(5)
    for at in range(2):
        Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)).save(folder / f"{at}.png")
    return str(folder)


@pytest.fixture
def encoder() -> CountingEncoder:
    made = CountingEncoder("counted")
    beholder.register_encoder("counted", made)
    return made


def test_the_pages_lines_as_they_are_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model files and the GPU are stood in for; every line after the import is the page's own."""
    import beholder.backends.hf_clip  # looks up the device for itself: the stand-in below is for the objects alone

    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (32, 32), (200, 20, 20)).save("sample.png")
    clip_folder = make_tiny_clip(tmp_path / "clip")
    fakes = {"clip-flant5-xxl": FakeModel("AnswerScorer"), "blip2-itm": FakeModel("Matcher")}
    resolve = pool.resolve_model

    def resolved(name: str, **settings: Any) -> Any:
        if name in fakes:
            import dataclasses

            return dataclasses.replace(fakes[name].model, asked=name)
        return resolve(str(clip_folder) if name == "openai:ViT-L-14" else name, **settings)

    load = pool.load_model
    monkeypatch.setattr(pool, "resolve_model", resolved)
    monkeypatch.setattr(
        pool,
        "load_model",
        lambda model, device: fakes[model.asked] if model.asked in fakes else load(model, device="cpu"),
    )
    # Not `choose_device`: a module that is first imported meanwhile would keep another one for good.
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)

    print(list_all_clipscore_models()[:5])  # noqa: T201

    clip = CLIPScore(model="openai:ViT-L/14", device="cuda")
    score = clip.forward(images="sample.png", texts="a red sports car on a wet street")
    print(float(score.item()))  # noqa: T201

    vqa = VQAScore(model="clip-flant5-xxl", device="cuda")
    score = vqa.forward(
        images="sample.png",
        texts="Is there a dog wearing sunglasses in this image?",
    )
    print(float(score.item()))  # noqa: T201

    itm = ITMScore(model="blip2-itm", device="cuda")
    score = itm.forward(images="sample.png", texts="a cat sitting on a windowsill")
    print(float(score.item()))  # noqa: T201

    lines = capsys.readouterr().out.splitlines()
    assert "openai:ViT-L-14" in lines[0]
    expected = float(beholder.score("clip_score", images="sample.png", texts="a red sports car on a wet street",
                                    model=str(clip_folder)))  # fmt: skip
    assert float(lines[1]) == pytest.approx(expected, abs=1e-6)
    assert 0 <= float(lines[2]) <= 1
    assert 0 <= float(lines[3]) <= 1


def test_a_gpu_that_is_not_there_is_a_clear_error() -> None:
    import torch

    if torch.cuda.is_available():
        CLIPScore(model="fake", device="cuda")
        return
    for make in (CLIPScore, VQAScore, ITMScore):
        with pytest.raises(DeviceError, match="needs a CUDA GPU"):
            make(model="fake", device="cuda")


@pytest.mark.parametrize("make", [CLIPScore, VQAScore, ITMScore])
@pytest.mark.parametrize(("images", "texts"), [(1, 1), (3, 1), (1, 4), (3, 4)])
def test_types_and_shapes_never_vary(make: Any, images: int, texts: int, pictures: list[str]) -> None:
    import torch

    scorer = make(model="fake")
    visuals: Any = pictures[0] if images == 1 else pictures[:images]
    captions: Any = "text 0" if texts == 1 else [f"text {at}" for at in range(texts)]
    found = scorer.forward(visuals, captions)
    assert (type(found), found.dtype, tuple(found.shape)) == (torch.Tensor, torch.float32, (images, texts))
    assert torch.equal(scorer(visuals, captions), found)
    paired = scorer.pairs([pictures[0]] * texts, captions)
    assert tuple(paired.shape) == (texts,)
    assert torch.allclose(paired, found[0], atol=1e-6)


def test_forward_equals_the_cosines_and_encodes_everything_once(encoder: CountingEncoder, pictures: list[str]) -> None:
    texts = ["a", "b", "a", "c"]
    scorer = CLIPScore(model="counted")
    found = scorer.forward([*pictures, pictures[0]], texts).numpy()
    assert encoder.prepared == 3
    assert sorted(encoder.texts) == ["a", "b", "c"]
    vectors = encoder.encode_texts(texts)["embedding"]
    for at, path in enumerate(pictures):
        image = encoder.encode_images(encoder.prepare_image(_picture(path))[None])[0]
        expected = [cosine(image, text) for text in vectors]
        assert found[at] == pytest.approx(expected, abs=1e-5)
    assert found[3].tolist() == found[0].tolist()


def test_a_model_is_loaded_once_and_unloaded_at_the_end(monkeypatch: pytest.MonkeyPatch, pictures: list[str]) -> None:
    loads: list[str] = []
    load = pool.load_model

    def counted(model: Any, device: str) -> Any:
        loads.append(model.id)
        return load(model, device=device)

    monkeypatch.setattr(pool, "load_model", counted)
    with CLIPScore(model="fake") as scorer:
        scorer.forward(pictures[0], "a")
        scorer.pairs(pictures[1], "b")
    assert loads == ["fake"]
    scorer.forward(pictures[0], "a")
    assert loads == ["fake", "fake"]


def test_videos_count_as_one_visual(encoder: CountingEncoder, pictures: list[str], video: str) -> None:
    scorer = CLIPScore(model="counted", frames="all")
    frames = [np.asarray(Image.open(f"{video}/{at}.png")) for at in range(2)]
    found = scorer.forward([video, frames, np.stack(frames), pictures[0]], ["a", "b"])
    assert tuple(found.shape) == (4, 2)
    assert found[1].tolist() == pytest.approx(found[0].tolist(), abs=1e-6)
    assert found[2].tolist() == pytest.approx(found[0].tolist(), abs=1e-6)
    alone = scorer.forward([f"{video}/0.png", f"{video}/1.png"], ["a", "b"]).numpy()
    assert found[0].tolist() == pytest.approx(alone.mean(axis=0).tolist(), abs=1e-6)


def test_batch_forward_of_equal_and_of_ragged_items(encoder: CountingEncoder, pictures: list[str], video: str) -> None:
    import torch

    scorer = CLIPScore(model="counted", frames="all")
    equal = [{"images": [pictures[at], pictures[2]], "texts": ["a", f"b{at}"]} for at in range(2)]
    found = scorer.batch_forward(equal, batch_size=1)
    assert tuple(found.shape) == (2, 2, 2)
    for at, item in enumerate(equal):
        assert torch.allclose(found[at], scorer.forward(item["images"], item["texts"]), atol=1e-6)
    ragged: Sequence[Any] = [
        {"images": pictures, "texts": ["a"]},
        {"videos": [video], "texts": ["a", "b"]},
        {"images": pictures[0], "videos": video, "texts": "c"},
    ]
    mixed = scorer.batch_forward(ragged, batch_size=2).numpy()
    assert mixed.shape == (3, 3, 2)
    assert np.isnan(mixed).tolist() == [
        [[False, True]] * 3,
        [[False, False], [True, True], [True, True]],
        [[False, True], [False, True], [True, True]],
    ]
    assert mixed[1, 0].tolist() == pytest.approx(scorer.forward(video, ["a", "b"])[0].tolist(), abs=1e-6)


@pytest.mark.parametrize(
    ("dataset", "says"),
    [
        ([], "at least one item"),
        ([{"images": ["a.png"], "texts": ["a"]}, {"images": ["a.png"]}], "item 1"),
        ([{"images": [], "texts": ["a"]}], "item 0"),
        ([["a.png", "a"]], "item 0"),
    ],
)
def test_wrong_items_are_named(dataset: Any, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        CLIPScore(model="fake").batch_forward(dataset)


def test_a_pair_without_a_score_is_said_and_never_a_number(pictures: list[str], tmp_path: Path) -> None:
    scorer = CLIPScore(model="fake")
    with pytest.raises(UserError, match=r"1 of 2 without: .*nothing.png with 'a': missing"):
        scorer.forward([pictures[0], str(tmp_path / "nothing.png")], "a")
    with pytest.raises(UserError, match="empty_prompt"):
        scorer.forward(pictures[0], " ")
    table = scorer.table([pictures[0], str(tmp_path / "nothing.png")], "a")
    assert [row.score.status for row in table] == ["ok", "missing"]
    with pytest.raises(OptionError, match="as many images as texts"):
        scorer.pairs(pictures, ["a"])


def test_vqa_asks_the_question_of_its_template(pictures: list[str]) -> None:
    question = 'Does this image show "a cat"?'
    register_model("asked", FakeModel("AnswerScorer", values={question: 0.75, "Is it?": 0.5}))
    assert VQAScore(model="asked").forward(pictures[0], "a cat").item() == pytest.approx(0.75, abs=1e-6)
    as_it_is = VQAScore(model="asked", question_template="{text}")
    assert as_it_is.forward(pictures[0], "Is it?").item() == pytest.approx(0.5, abs=1e-6)
    table = VQAScore(model="asked").table(pictures[0], "Is it?")
    evidence = table.rows[0].score.evidence
    assert evidence is not None
    assert evidence["question"] == 'Does this image show "Is it?"?'
    assert any("question" in notice for notice in table.notices)


@pytest.mark.parametrize("template", ["{}", 'Does this image show "{}"?', "Look: {text} {}"])
def test_the_other_spelling_of_a_template(pictures: list[str], template: str) -> None:
    register_model("asked", FakeModel("AnswerScorer"))
    vqa = VQAScore(model="asked", question_template=template)
    (row,) = vqa.table(pictures[0], "is {it} {} {text}?").rows
    # Only a template without {text} has its {} read as one; braces of the text stay.
    shown = template if "{text}" in template else template.replace("{}", "{text}")
    assert row.score.evidence["question"] == shown.replace("{text}", "is {it} {} {text}?")
    assert vqa.identity == VQAScore(model="asked", question_template=shown).identity


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"question_template": "nothing"}, "must hold {text}"),
        ({"answer_template": " "}, "must be an answer"),
        ({"answer_template": "{}"}, "the same for every text"),
    ],
)
def test_templates_are_checked_when_the_object_is_made(options: Any, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        VQAScore(model="clip-flant5-xxl", **options)


def test_a_pickled_scorer_leaves_its_model_behind(
    encoder: CountingEncoder, pictures: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clip = CLIPScore(model=str(make_tiny_clip(tmp_path / "clip")), device="cpu")
    before = clip(pictures, ["a cat", "a dog"])
    kept = pickle.dumps(clip)
    assert len(kept) < 100_000 < sum(path.stat().st_size for path in (tmp_path / "clip").glob("*.safetensors"))
    again = pickle.loads(kept)
    assert (again.identity, again(pictures, ["a cat", "a dog"]).tolist()) == (clip.identity, before.tolist())


def test_a_path_names_a_local_model(pictures: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tiny_clip(tmp_path / "fake")  # a name that a model has, too: a path means the folder
    monkeypatch.chdir(tmp_path)
    near, far = CLIPScore(Path("fake"), "cpu"), CLIPScore(tmp_path / "fake", "cpu")
    assert near.identity == "clip_score(model=./fake)"
    assert near(pictures, "a cat").tolist() == far(pictures, "a cat").tolist()


def test_a_long_text_is_cut_in_an_error(pictures: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        CLIPScore(model="demo:emoji", device="cpu")(["nowhere.png"], "long " * 1000)
    assert "missing" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_planned_model_says_so() -> None:
    with pytest.raises(PlannedError, match="attend over time"):
        get_score_model("languagebind-video")


def test_published_defaults_of_clip_flant5() -> None:
    from beholder.metrics.questions import VqaScore

    metric = VqaScore({"model": "clip-flant5-xl"})
    assert metric.template == 'Does this figure show "{text}"? Please answer yes or no.'
    assert metric.options["variant"] == "sequence_mean"
    assert VqaScore({"model": "gpt-4o"}).options["variant"] == "pooled"
    assert VqaScore({"model": "hf:org/other"}).options["variant"] == "first_token"


def test_families_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name, kind in {"clip-flant5-xxl": VQAScore, "openai:ViT-L/14": CLIPScore, "blip2-itm": ITMScore}.items():
        made: list[str] = []
        monkeypatch.setattr(kind, "__init__", lambda self, model, device, made=made, **_: made.append(model))
        assert type(get_score_model(name)) is kind
        assert made == [name]
        monkeypatch.undo()
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert isinstance(get_score_model("vqa:fake"), VQAScore)
    with pytest.raises(UnknownNameError, match=r"Did you mean .*clip-flant5-xxl"):
        get_score_model("clip-flant5-xxxl")
    with pytest.raises(WeightsMissingError, match="clip-flant5-xxl"):
        get_score_model("clip-flant5-xxl")


def test_a_name_of_two_families_asks_for_one() -> None:
    # One file of UMT encodes and matches; its asset name says neither.
    with pytest.raises(OptionError, match=r"clip:b16_ptk710_f8_res224 or itm:b16_ptk710_f8_res224"):
        get_score_model("b16_ptk710_f8_res224")


def test_lists_hold_what_their_class_can_take() -> None:
    lists = {
        "clip": list_all_clipscore_models(), "vqa": list_all_vqascore_models(), "itm": list_all_itmscore_models(),
    }  # fmt: skip
    for names in lists.values():
        assert names
        assert len(set(names)) == len(names)
    assert {"openai:ViT-L-14", "pickscore-v1", "blip2-itc", "umt-b16-25m-clip"} <= set(lists["clip"])
    assert {"clip-flant5-xxl", "gpt-4o"} <= set(lists["vqa"])
    assert {"blip2-itm", "image-reward-v1", "umt-l16-25m-itm"} <= set(lists["itm"])
    assert set(list_all_models()) == set().union(*lists.values())


def _picture(path: str) -> Any:
    from beholder.media.base import DecodeOptions
    from beholder.media.sources import as_medium

    return as_medium(path).decode(DecodeOptions())
