"""CLIP-FlanT5, BLIP-2 and InstructBLIP with Flan-T5: tiny models in the published formats, from folder to number."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.backends.backends_pictures import noise_picture
from tests.backends.t5_reference import blip_logits, clip_t5_logits, plain_columns
from tests.backends.test_backends_hub import FakeHub
from tests.models_t5 import TINY_T5_FAMILIES

from beholder._errors import ModelError, OptionError, WeightsMismatchError, WeightsMissingError
from beholder.backends.base import LoadOptions
from beholder.backends.cards_t5 import VQASCORE_TEMPLATE
from beholder.backends.encoder_decoder import PromptTokenizer, check_head
from beholder.backends.flan_t5 import pad_to_square
from beholder.backends.pool import find_card, load_model, resolve_model
from beholder.functional.answers import probability
from beholder.media.base import Picture

KINDS = tuple(TINY_T5_FAMILIES)
PICTURES = [noise_picture(44, 61, seed=1), noise_picture(60, 31, seed=2), noise_picture(30, 30, seed=3)]
QUESTIONS = ["Does this figure show a cat?", "a dog", VQASCORE_TEMPLATE.replace("{text}", "no cat, one dog"), "x"]
PAIRS = [(0, 0), (1, 1), (0, 2), (2, 3), (0, 1), (2, 0), (1, 2), (0, 3), (2, 2), (1, 0), (0, 0)]

GOLDEN = {
    "clip_t5": [-5.520435, -5.774231, -5.510160],
    "blip-2": [-5.433413, -5.785822, -5.624242],
    "instructblip": [-5.157883, -5.917807, -5.358459],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a tiny model; made at the first request, never written to."""
    made: dict[str, Path] = {}

    def get(kind: str) -> Path:
        if kind not in made:
            made[kind] = TINY_T5_FAMILIES[kind](tmp_path_factory.mktemp("t5") / kind)
        return made[kind]

    return get


@pytest.fixture(scope="module")
def scorer(folder: Callable[[str], Path]) -> Callable[[str], Any]:
    """A loaded tiny model on the CPU."""
    loaded: dict[str, Any] = {}

    def get(kind: str) -> Any:
        if kind not in loaded:
            loaded[kind] = _load(folder(kind))
        return loaded[kind]

    return get


def _load(path: Path, **settings: str) -> Any:
    return load_model(resolve_model(str(path), capability="AnswerScorer", **settings), device="cpu")


def _answer(model: Any, pairs: list[tuple[int, int]], answer: str = "Yes") -> dict[str, np.ndarray]:
    visuals = [model.prepare([picture]) for picture in PICTURES]
    made = model.answer(visuals, [(at, QUESTIONS[number]) for at, number in pairs], answer=answer)
    assert not made.failures
    return dict(made.columns)


def _reference(kind: str, path: Path, picture: Picture, question: str, answer: str) -> tuple[torch.Tensor, list[int]]:
    if kind == "clip_t5":
        return clip_t5_logits(path, picture.pixels, question, answer)
    return blip_logits(path, picture.pixels, question, answer, instruct=kind == "instructblip")


@pytest.mark.parametrize("answer", ["Yes", "a cat"])
@pytest.mark.parametrize("kind", KINDS)
def test_values_equal_a_plain_computation(
    kind: str, answer: str, folder: Callable[[str], Path], scorer: Callable[[str], Any]
) -> None:
    columns = _answer(scorer(kind), PAIRS, answer)
    for row, (at, number) in enumerate(PAIRS):
        logits, wanted = _reference(kind, folder(kind), PICTURES[at], QUESTIONS[number], answer)
        expected = plain_columns(logits, wanted)
        for name, value in expected.items():
            assert columns[name][row] == pytest.approx(value, abs=1e-5), name
        assert columns["n_answer"][row] == len(wanted)
    assert (columns["rest"] == -np.inf).all()
    assert {columns[name].dtype for name in ("first_token", "sequence", "yes", "no")} == {np.dtype(np.float64)}


def test_the_published_rule_is_the_exponential_of_the_mean_cross_entropy(
    folder: Callable[[str], Path], scorer: Callable[[str], Any]
) -> None:
    values = probability(_answer(scorer("clip_t5"), [(0, 2)]), "sequence_mean").values
    logits, wanted = clip_t5_logits(folder("clip_t5"), PICTURES[0].pixels, QUESTIONS[2], "Yes")
    assert len(wanted) == 2  # "Yes" and the end token
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(wanted))
    assert values[0] == pytest.approx(math.exp(-float(loss)), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_golden_values(kind: str, scorer: Callable[[str], Any]) -> None:
    """First-token log probabilities as this code gave them on torch 2.13 (CPU) and transformers 5.24.

    The tolerance is that of float32 sums in another order; any change of prompt, padding or weights moves them more.
    """
    found = _answer(scorer(kind), [(0, 0), (1, 2), (2, 3)])["first_token"]
    assert found == pytest.approx(GOLDEN[kind], abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_one_equals_a_batch_of_many(kind: str, scorer: Callable[[str], Any]) -> None:
    model = scorer(kind)
    together = _answer(model, PAIRS)
    for row, pair in enumerate(PAIRS):
        alone = _answer(model, [pair])
        for name in ("first_token", "sequence", "yes", "no"):
            assert alone[name][0] == pytest.approx(together[name][row], abs=1e-5), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_keeps_its_place(kind: str, scorer: Callable[[str], Any]) -> None:
    there, back = _answer(scorer(kind), PAIRS), _answer(scorer(kind), PAIRS[::-1])
    assert there["sequence"] == pytest.approx(back["sequence"][::-1], abs=1e-5)
    assert (there["n_tokens"] == back["n_tokens"][::-1]).all()
    assert there["sequence"][0] != pytest.approx(there["sequence"][4], abs=1e-3)  # the question moves the number
    assert there["sequence"][0] != pytest.approx(there["sequence"][5], abs=1e-3)  # and so does the picture


@pytest.mark.parametrize(
    ("kind", "once", "each"),
    [
        ("clip_t5", ("_tower", "_projector"), ()),
        ("blip-2", ("_network.vision_model", "_network.qformer", "_network.language_projection"), ()),
        ("instructblip", ("_network.vision_model",), ("_network.qformer", "_network.language_projection")),
    ],
)
def test_texts_of_one_picture_share_its_work(
    kind: str, once: tuple[str, ...], each: tuple[str, ...], scorer: Callable[[str], Any]
) -> None:
    model, rows = scorer(kind), dict.fromkeys((*once, *each), 0)
    hooks = []
    for name in rows:
        part = model
        for step in name.split("."):
            part = getattr(part, step)

        def count(_module: Any, _inputs: Any, output: Any, name: str = name) -> None:
            rows[name] += len(output if isinstance(output, torch.Tensor) else output.last_hidden_state)

        hooks.append(part.register_forward_hook(count))
    try:
        _answer(model, [(1, number) for number in (0, 1, 2, 3, 0, 1)])
    finally:
        for hook in hooks:
            hook.remove()
    assert rows == {**dict.fromkeys(once, 1), **dict.fromkeys(each, 6)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_answers_token_rule(kind: str, scorer: Callable[[str], Any]) -> None:
    model = scorer(kind)
    short, long = _answer(model, [(0, 0)], "Yes"), _answer(model, [(0, 0)], "Yes cat")
    assert (short["n_answer"][0], long["n_answer"][0]) == (2, 3)
    assert short["first_token"] == pytest.approx(long["first_token"])  # one first token, whatever follows
    assert long["sequence"][0] < short["first_token"][0]
    with pytest.raises(OptionError, match="at least one token"):
        _answer(model, [(0, 0)], " ")
    assert model.answer([], []).columns == {}


@pytest.mark.parametrize("kind", KINDS)
def test_long_questions_keep_their_end_and_are_flagged(kind: str, scorer: Callable[[str], Any]) -> None:
    model = scorer(kind)
    visual = model.prepare([PICTURES[0]])
    columns = model.answer([visual], [(0, "dog " * 3000), (0, "dog")]).columns
    assert columns["truncated"].tolist() == [True, False]
    assert columns["n_tokens"][0] > 3000
    assert np.isfinite(columns["sequence"]).all()


def test_truncation_cuts_the_question_and_nothing_else(folder: Callable[[str], Path]) -> None:
    tokenizer = PromptTokenizer(folder("clip_t5"))
    tail = tokenizer.ids(" ASSISTANT: ")
    text = tokenizer("\ndog dog dog dog dog dog", tail=" ASSISTANT: ", limit=len(tail) + 2)
    dog = tokenizer.ids("dog")[0]
    assert text.ids == [dog, dog, *tail]
    assert text.truncated
    reader = PromptTokenizer(folder("instructblip") / "qformer_tokenizer")
    start, end = reader.ids("cat")[0], reader.ids("cat")[-1]
    assert reader("cat cat cat cat cat", limit=4).ids == [start, *reader.ids("cat")[1:-1] * 2, end]


def test_image_marks_in_a_prompt_are_text(scorer: Callable[[str], Any]) -> None:
    model = scorer("clip_t5")
    columns = model.answer([model.prepare([PICTURES[0]])], [(0, "a <image> of <image>"), (0, "a")]).columns
    assert np.isfinite(columns["sequence"]).all()
    assert columns["n_tokens"][0] > columns["n_tokens"][1]


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_stays_near(kind: str, folder: Callable[[str], Path], scorer: Callable[[str], Any]) -> None:
    model = _load(folder(kind), dtype="bfloat16")
    assert {parameter.dtype for parameter in model._language.parameters()} == {torch.bfloat16}
    difference = _answer(model, PAIRS)["first_token"] - _answer(scorer(kind), PAIRS)["first_token"]
    assert np.abs(difference).max() < 1.0  # 8 bits of mantissa through ten random layers
    model.close()


@pytest.mark.parametrize("kind", KINDS)
def test_flan_t5_keeps_an_output_layer_of_its_own(kind: str, folder: Callable[[str], Path], scorer: Any) -> None:
    language = scorer(kind)._language
    assert not torch.equal(language.lm_head.weight, language.shared.weight)
    assert language.config.scale_decoder_outputs is False
    assert torch.equal(language.encoder.embed_tokens.weight, language.shared.weight)
    with pytest.raises(WeightsMismatchError, match="output layer"):
        check_head(language, {"lm_head.weight": language.shared.weight}, prefix="", name="x")


def test_preprocessing_says_what_is_done(folder: Callable[[str], Path]) -> None:
    found = {
        kind: resolve_model(str(folder(kind)), capability="AnswerScorer").preprocessing for kind in KINDS
    }  # fmt: skip
    assert found["clip_t5"]["pad_to_square"] == [122, 116, 104]
    assert found["clip_t5"]["prompt"].endswith("user's questions. USER: <image>\n{question} ASSISTANT: ")
    assert found["blip-2"]["prompt"] == "<image>Question: {question} Answer:"
    assert found["instructblip"]["prompt"] == "<image>{question}"
    assert [found[kind]["visual_tokens"] for kind in KINDS] == [25, 4, 4]
    assert found["blip-2"]["resize"] == "squash"
    json.dumps(found)


def test_padding_puts_the_picture_in_the_middle() -> None:
    wide = np.full((2, 5, 3), 9, dtype=np.uint8)
    square = pad_to_square(wide, (122, 116, 104))
    assert square.shape == (5, 5, 3)
    assert (square[1:3] == 9).all()
    assert (square[[0, 3, 4]] == (122, 116, 104)).all()
    tall = pad_to_square(wide.transpose(1, 0, 2), (122, 116, 104))
    assert (tall == square.transpose(1, 0, 2)).all()
    assert pad_to_square(square, (0, 0, 0)) is square


def test_shards_give_the_same_numbers(folder: Callable[[str], Path], tmp_path: Path, scorer: Any) -> None:
    copy = Path(shutil.copytree(folder("clip_t5"), tmp_path / "sharded"))
    state = torch.load(copy / "pytorch_model.bin", weights_only=True)
    (copy / "pytorch_model.bin").unlink()
    names = [f"pytorch_model-0000{number}-of-00002.bin" for number in (1, 2)]
    parts: list[dict[str, Any]] = [{}, {}]
    for number, key in enumerate(sorted(state)):
        parts[number % 2][key] = state[key].clone()
    for name, part in zip(names, parts):
        torch.save(part, copy / name)
    index = {"weight_map": {key: name for name, part in zip(names, parts) for key in part}}
    (copy / "pytorch_model.bin.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert _answer(_load(copy), PAIRS)["sequence"].tolist() == _answer(scorer("clip_t5"), PAIRS)["sequence"].tolist()
    (copy / names[1]).unlink()
    with pytest.raises(WeightsMissingError, match="00002-of-00002"):
        _load(copy)


def _damage(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        state = torch.load(path / "pytorch_model.bin", weights_only=True)
        change(state)
        torch.save(state, path / "pytorch_model.bin")

    return apply


def _without(prefix: str) -> Callable[[dict[str, Any]], None]:
    def change(state: dict[str, Any]) -> None:
        for key in [key for key in state if key.startswith(prefix)]:
            del state[key]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without("vision_tower."), "must hold its vision tower"),
        (_without("mm_projector.2.weight"), "mm_projector.2.weight"),
        (_without("vision_tower.vision_tower.vision_model.encoder.layers.1.mlp.fc1.bias"), "layers.1.mlp.fc1.bias"),
        (_without("decoder.block.1.layer.1.EncDecAttention.q.weight"), "EncDecAttention.q.weight"),
        (lambda state: state.update({"extra.weight": torch.zeros(2)}), "extra.weight"),
        (lambda state: state.update({"mm_projector.0.weight": torch.zeros(3, 3)}), r"\(3, 3\) instead of \(32, 24\)"),
        (lambda state: state.update({"encoder.embed_tokens.weight": torch.zeros(160, 32)}), "must equal shared.weight"),
    ],
)
def test_weights_that_do_not_fit_are_an_error(
    change: Any, message: str, folder: Callable[[str], Path], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folder("clip_t5"), tmp_path / "damaged"))
    _damage(change)(copy)
    with pytest.raises(WeightsMismatchError, match=message):
        _load(copy)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("clip_t5", {"mm_vision_tower": "other/tower", "vision_config": None}, "other/tower"),
        ("clip_t5", {"mm_hidden_size": 7}, "mm_hidden_size"),
        ("clip_t5", {"mm_projector_type": "resampler"}, "resampler"),
        ("clip_t5", {"mm_vision_select_feature": "cls_patch"}, "patch tokens only"),
        ("blip-2", {"text_config": {"model_type": "opt"}}, "'opt'"),
    ],
)
def test_settings_that_are_not_served_are_named(
    kind: str, settings: dict[str, Any], message: str, folder: Callable[[str], Path], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folder(kind), tmp_path / "changed"))
    config = json.loads((copy / "config.json").read_text(encoding="utf-8")) | settings
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        resolve_model(str(copy), capability="AnswerScorer")


def test_the_second_tokenizer_of_instructblip_is_part_of_the_model(
    folder: Callable[[str], Path], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folder("instructblip"), tmp_path / "copy"))
    first = resolve_model(str(copy), capability="AnswerScorer")
    assert "qformer_tokenizer/tokenizer.json" in first.card.files
    path = copy / "qformer_tokenizer" / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert resolve_model(str(copy), capability="AnswerScorer").key != first.key
    path.unlink()
    with pytest.raises(WeightsMissingError, match=r"qformer_tokenizer/tokenizer\.json"):
        resolve_model(str(copy), capability="AnswerScorer")


@pytest.mark.parametrize(
    ("alias", "kind"),
    [("clip-flant5-xl", "clip_t5"), ("instructblip-flant5-xl", "instructblip"), ("blip2-flant5-xl", "blip-2")],
)
def test_models_are_found_by_name_with_their_own_set_of_files(
    alias: str, kind: str, folder: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(folder(kind), tmp_path / str(find_card(alias).source))
    options = LoadOptions(cache_dir=str(tmp_path), offline=True)
    found = resolve_model(alias, options=options, capability="AnswerScorer")
    assert found.id == find_card(alias).id
    assert found.card.size_bytes == (folder(kind) / found.details["weights"][0]).stat().st_size
    (tmp_path / str(found.card.source) / "tokenizer.json").unlink()
    with pytest.raises(WeightsMissingError, match=r"tokenizer\.json"):
        resolve_model(alias, options=options, capability="AnswerScorer")


def test_cards_by_their_usual_names() -> None:
    repos = {name: find_card(name).source for name in (
        "clip-flant5-xxl", "clip-flant5-xl", "instructblip-flant5-xl", "instructblip-flant5-xxl", "blip2-flant5-xl",
    )}  # fmt: skip
    assert repos["clip-flant5-xxl"] == "zhiqiulin/clip-flant5-xxl"
    assert repos["instructblip-flant5-xl"] == "Salesforce/instructblip-flan-t5-xl"
    assert repos["blip2-flant5-xl"] == "Salesforce/blip2-flan-t5-xl"
    card = find_card("clip-flant5-xl")
    assert card.layout_verified == "listing"
    assert any(VQASCORE_TEMPLATE in note for note in card.notes)


def test_the_second_tokenizer_is_fetched_with_its_folder(
    folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = FakeHub(folder("instructblip"), monkeypatch)
    options = LoadOptions(cache_dir=str(tmp_path))
    found = resolve_model("instructblip-flant5-xl", options=options, capability="AnswerScorer")
    assert "qformer_tokenizer/tokenizer.json" in hub.downloads
    assert Path(found.location).parent.name == "snapshots"
    assert _answer(load_model(found, device="cpu"), [(0, 0)])["first_token"] == pytest.approx([-5.157883], abs=1e-4)
