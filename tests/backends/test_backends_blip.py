"""BLIP and BLIP-2 through the "hf" engine: values of the stock classes, one look at each visual, no dependence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.backends_pictures import noise_picture
from tests.models import make_tiny_clip
from tests.models_blip import BERT_WORDS, make_tiny_blip, make_tiny_blip2

from beholder._errors import ModelError, OptionError, WeightsMismatchError, WeightsMissingError
from beholder.backends.base import LoadOptions
from beholder.backends.pool import find_card, load_model, resolve_model

MAKERS: dict[str, Callable[..., Path]] = {"blip": make_tiny_blip, "blip-2": make_tiny_blip2}
STOCK = {"blip": "BlipForImageTextRetrieval", "blip-2": "Blip2ForImageTextRetrieval"}
TEXTS = ["a photo of a cat", "the red car on the wet street", "dog", "cats", "", "猫"]
FAMILIES = sorted(MAKERS)
# float32 sums in another order; values are of size 1 to 5.
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: make(tmp_path_factory.mktemp("blip") / kind) for kind, make in MAKERS.items()}


@pytest.fixture(scope="module")
def matchers(folders: dict[str, Path]) -> dict[str, Any]:
    return {kind: load(folder) for kind, folder in folders.items()}


def load(folder: Path) -> Any:
    return load_model(resolve_model(str(folder), capability="Matcher"), device="cpu")


def visuals(matcher: Any, count: int = 3) -> list[Any]:
    return [matcher.prepare([noise_picture(40 + 9 * i, 61 - 5 * i, seed=i)]) for i in range(count)]


def stock(kind: str, folder: Path, pixels: np.ndarray, text: str, *, head: str) -> np.ndarray:
    """The stock model's own output for one picture and one text, unpadded; its image tokens put in as it asks."""
    import torch
    import transformers

    network = getattr(transformers, STOCK[kind]).from_pretrained(folder).eval()
    pieces = transformers.BertTokenizer.from_pretrained(folder)(text)["input_ids"]
    image = torch.from_numpy(pixels)[None]
    with torch.inference_mode():
        if kind == "blip":
            ids = torch.tensor([pieces])
            return network(
                input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=image, use_itm_head=head == "itm"
            ).itm_score.numpy()
        ids = torch.tensor([[len(BERT_WORDS)] * 4 + pieces])
        return network(
            input_ids=ids,
            attention_mask=torch.ones_like(ids) if head == "itc" else torch.ones(1, len(pieces)),
            pixel_values=image,
            use_image_text_matching_head=head == "itm",
        ).logits_per_image.numpy()


@pytest.mark.parametrize("kind", FAMILIES)
def test_logits_are_the_stock_classes(kind: str, folders: dict[str, Path], matchers: dict[str, Any]) -> None:
    matcher = matchers[kind]
    seen = visuals(matcher)
    pairs = [(i, text) for i in range(3) for text in TEXTS[:4]]
    made = matcher.match(seen, pairs)
    expected, probabilities = [], []
    for i, text in pairs:
        logits = stock(
            kind, folders[kind], matcher._table.numpy()[np.arange(3)[:, None, None], seen[i]], text, head="itm"
        )
        assert logits.shape == (1, 2)
        expected.append(logits[0, 1] - logits[0, 0])
        powers = np.exp(logits[0].astype(np.float64))
        probabilities.append(powers[1] / powers.sum())
    np.testing.assert_allclose(made.columns["logit"], expected, **CLOSE)
    # sigmoid of the difference is the softmax of the two.
    np.testing.assert_allclose(1 / (1 + np.exp(-made.columns["logit"].astype(float))), probabilities, atol=1e-5)
    assert np.ptp(expected) > 0.5
    assert not made.failures
    assert made.columns["n_tokens"].tolist()[:4] == [7, 9, 3, 4]


@pytest.mark.parametrize("kind", FAMILIES)
def test_cosines_are_the_stock_classes(kind: str, folders: dict[str, Path], matchers: dict[str, Any]) -> None:
    matcher = matchers[kind]
    seen = visuals(matcher)
    pairs = [(i, text) for i in range(3) for text in TEXTS[:3]]
    made = matcher.match(seen, pairs, head="itc")
    assert set(made.columns) == {"cosine", "n_tokens", "truncated"}
    table = matcher._table.numpy()
    expected = [
        float(stock(kind, folders[kind], table[np.arange(3)[:, None, None], seen[i]], text, head="itc")[0, 0])
        for i, text in pairs
    ]
    np.testing.assert_allclose(made.columns["cosine"], expected, atol=1e-5)
    assert np.ptp(expected) > 0.05


@pytest.mark.parametrize("head", ["itm", "itc"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_neighbours_order_and_padding_do_not_matter(kind: str, head: str, matchers: dict[str, Any]) -> None:
    matcher = matchers[kind]
    seen = visuals(matcher, 10)
    generator = np.random.default_rng(1)
    pairs = [(int(i), TEXTS[int(j)]) for i, j in zip(generator.integers(0, 10, 37), generator.integers(0, 6, 37))]
    name = "logit" if head == "itm" else "cosine"
    together = matcher.match(seen, pairs, head=head).columns[name]
    alone = [matcher.match([seen[i]], [(0, text)], head=head).columns[name][0] for i, text in pairs]
    np.testing.assert_allclose(together, alone, **CLOSE)
    backwards = matcher.match(seen[::-1], [(9 - i, text) for i, text in pairs[::-1]], head=head).columns[name]
    np.testing.assert_allclose(backwards[::-1], together, **CLOSE)


@pytest.mark.parametrize("head", ["itm", "itc"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_each_visual_is_looked_at_once(
    kind: str, head: str, matchers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher, looked = matchers[kind], []
    seen = visuals(matcher, 4)
    look = type(matcher._network).look
    monkeypatch.setattr(type(matcher._network), "look", lambda self, x: looked.append(len(x)) or look(self, x))
    matcher.match(seen, [(i, text) for text in TEXTS for i in (0, 2)] * 3, head=head)
    assert sum(looked) == 2  # the visuals without a text are not looked at


@pytest.mark.parametrize("kind", FAMILIES)
def test_long_texts_keep_their_end_and_are_flagged(kind: str, matchers: dict[str, Any]) -> None:
    matcher = matchers[kind]
    seen = visuals(matcher, 1)
    words = ["cat"] * 33
    made = matcher.match(seen, [(0, " ".join(words)), (0, " ".join(words + ["dog"] * 60))])
    assert made.columns["n_tokens"].tolist() == [35, 95]
    assert made.columns["truncated"].tolist() == [False, True]
    assert made.columns["logit"][0] == pytest.approx(made.columns["logit"][1], abs=1e-5)


@pytest.mark.parametrize("kind", FAMILIES)
def test_no_pairs_and_wrong_heads(kind: str, matchers: dict[str, Any]) -> None:
    matcher = matchers[kind]
    for head, name in (("itm", "logit"), ("itc", "cosine")):
        assert matcher.match(visuals(matcher, 1), [], head=head).columns[name].shape == (0,)
    with pytest.raises(OptionError, match="'itm' or 'itc'"):
        matcher.match(visuals(matcher, 1), [(0, "a cat")], head="vqa")
    with pytest.raises(ModelError, match="one picture"):
        matcher.prepare([noise_picture(9, 9), noise_picture(9, 9)])


def test_a_vector_without_direction_is_a_failure(folders: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(folders["blip-2"], tmp_path / "flat"))
    state = load_file(folder / "model.safetensors")
    for name in ("text_projection.weight", "text_projection.bias"):
        state[name] = state[name] * 0
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    matcher = load(folder)
    made = matcher.match(visuals(matcher, 1), [(0, "a cat"), (0, "dog")], head="itc")
    assert {row: error.status for row, error in made.failures.items()} == {
        0: "degenerate_embedding", 1: "degenerate_embedding"
    }  # fmt: skip


def test_a_token_without_an_embedding_fails_its_row_only(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["blip-2"], tmp_path / "image-token"))
    (folder / "added_tokens.json").write_text(json.dumps({"<image>": len(BERT_WORDS)}), encoding="utf-8")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["added_tokens_decoder"] = {
        str(len(BERT_WORDS)): {"content": "<image>", "special": True, "lstrip": False, "rstrip": False,
                               "normalized": False, "single_word": False}
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    matcher = load(folder)
    seen = visuals(matcher, 1)
    made = matcher.match(seen, [(0, "an <image> of a cat"), (0, "a cat")])
    assert list(made.failures) == [0]
    assert made.failures[0].status == "failed"
    assert made.columns["logit"][1] == pytest.approx(matcher.match(seen, [(0, "a cat")]).columns["logit"][0], abs=1e-5)


@pytest.mark.parametrize("kind", FAMILIES)
def test_weights_that_do_not_fit_are_an_error(kind: str, folders: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = Path(shutil.copytree(folders[kind], tmp_path / "broken")) / "model.safetensors"
    whole = load_file(path)
    lost = {key: value for key, value in whole.items() if key != "itm_head.weight"}
    for state, what in (
        (lost, "1 missing: itm_head.weight"),
        ({**whole, "x.y": whole["itm_head.bias"].clone()}, "1 unexpected"),
    ):
        save_file(state, path, metadata={"format": "pt"})
        with pytest.raises(WeightsMismatchError, match=what):
            load(path.parent)


def test_other_models_are_refused(tmp_path: Path, folders: dict[str, Path]) -> None:
    clip = make_tiny_clip(tmp_path / "clip")
    with pytest.raises(ModelError, match="BLIP or BLIP-2 for image-text retrieval"):
        resolve_model(str(clip), capability="Matcher")
    captioner = Path(shutil.copytree(folders["blip"], tmp_path / "captioner"))
    config = json.loads((captioner / "config.json").read_text()) | {"architectures": ["BlipForConditionalGeneration"]}
    (captioner / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="BlipForConditionalGeneration"):
        resolve_model(str(captioner), capability="Matcher")
    other = Path(shutil.copytree(folders["blip"], tmp_path / "other"))
    size = json.loads((other / "preprocessor_config.json").read_text()) | {"size": {"height": 16, "width": 16}}
    (other / "preprocessor_config.json").write_text(json.dumps(size))
    with pytest.raises(ModelError, match="32×32"):
        resolve_model(str(other), capability="Matcher")


def test_names_and_what_a_missing_model_says(tmp_path: Path) -> None:
    names = {
        "blip-itm-base": "hf:Salesforce/blip-itm-base-coco", "blip-itm-large": "hf:Salesforce/blip-itm-large-coco",
        "blip2-itm": "hf:Salesforce/blip2-itm-vit-g", "blip2-itc": "hf:Salesforce/blip2-itm-vit-g",
        "blip2-itm-coco": "hf:Salesforce/blip2-itm-vit-g-coco", "blip2-itc-coco": "hf:Salesforce/blip2-itm-vit-g-coco",
        "blip2-itm-vitL": "lavis:blip2_pretrained_vitL", "blip2-itc-vitL": "lavis:blip2_pretrained_vitL",
        "image-reward-v1": "image_reward:THUDM/ImageReward", "facescore": "facescore:AIGCer-OPPO/FaceScore",
    }  # fmt: skip
    for name, expected in names.items():
        card = find_card(name)
        assert card is not None
        assert card.id == expected
        assert card.licence
        assert card.paper
        assert card.planned is None
        with pytest.raises(WeightsMissingError) as caught:
            resolve_model(name, capability="Matcher", options=LoadOptions(cache_dir=str(tmp_path), offline=True))
        assert name in str(caught.value)
        assert str(tmp_path) in str(caught.value)


# Made with torch 2.13 and 2.14 (CPU, the same to 1e-6) from the tiny models and the noise picture of seed 0.
GOLDEN = {
    ("blip", "itm"): (1.316851, 2.449215), ("blip", "itc"): (-0.125657, -0.11687),
    ("blip-2", "itm"): (-3.847766, -4.342119), ("blip-2", "itc"): (0.167909, 0.179679),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "head"), sorted(GOLDEN))
def test_golden_values(kind: str, head: str, matchers: dict[str, Any]) -> None:
    matcher = matchers[kind]
    made = matcher.match(visuals(matcher, 1), [(0, "a photo of a cat"), (0, "the red car")], head=head)
    np.testing.assert_allclose(made.columns["logit" if head == "itm" else "cosine"], GOLDEN[kind, head], atol=1e-4)
