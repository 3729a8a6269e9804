"""ImageReward's network and BLIP-2's original files: published layouts, values from numpy, nothing loaded in part."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends import numpy_blip
from tests.backends.backends_pictures import noise_picture
from tests.models_blip import (
    BERT_WORDS,
    MED_CONFIG,
    make_tiny_blip2,
    make_tiny_lavis,
    make_tiny_reward,
    reward_state,
    write_bert_tokenizer,
)

from beholder._errors import OptionError, WeightsMismatchError, WeightsMissingError
from beholder.backends.base import LoadOptions
from beholder.backends.pool import load_model, resolve_model

LAYOUTS = Path(__file__).parents[1] / "reference" / "layouts"
MEAN, STD = 0.16717362830052426, 1.0333394966054072
TEXTS = {"a photo of a cat": [5, 6, 7, 5, 8], "the red car": [12, 10, 11], "a face.": [5, 13, 14], "": []}
"""Texts and their pieces by hand: places in BERT_WORDS."""

Loader = Callable[[str], Any]


def load(name: str, **options: Any) -> Any:
    return load_model(resolve_model(name, capability="Matcher", **options), device="cpu")


@pytest.fixture(scope="module")
def reward_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_reward(tmp_path_factory.mktemp("reward") / "tiny")


@pytest.fixture(scope="module")
def lavis_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_lavis(tmp_path_factory.mktemp("lavis") / "tiny")


@pytest.fixture(scope="module")
def reward(reward_folder: Path) -> Any:
    return load(f"image_reward:{reward_folder}")


@pytest.fixture(scope="module")
def lavis(lavis_folder: Path) -> Any:
    return load(f"lavis:{lavis_folder}")


def read(path: Path) -> dict[str, np.ndarray]:
    import torch

    state = torch.load(path, weights_only=True)
    return {key: value.numpy() for key, value in state.get("model", state).items()}


def floats(matcher: Any, prepared: np.ndarray) -> np.ndarray:
    return matcher._table.numpy()[np.arange(3)[:, None, None], prepared]


def pieces(text: str) -> list[int]:
    return [2, *TEXTS[text], 3]


# layouts


def layout(name: str) -> dict[str, tuple[int, ...]]:
    tensors = json.loads((LAYOUTS / f"{name}.json").read_text(encoding="utf-8"))["tensors"]
    return {key: tuple(shape) for key, shape in tensors.items()}


def empty(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    import torch

    return {key: torch.empty(shape, device="meta") for key, shape in shapes.items()}


def test_the_reward_network_has_the_published_layout() -> None:
    import torch

    from beholder.backends.reward_network import UNUSED, RewardNetwork, sizes_of

    published = layout("image-reward-v1")
    config = MED_CONFIG | {
        "hidden_size": 768, "intermediate_size": 3072, "max_position_embeddings": 512, "num_attention_heads": 12,
        "num_hidden_layers": 12, "vocab_size": 30524,
    }  # fmt: skip
    with torch.device("meta"):
        network = RewardNetwork(*sizes_of(empty(published), config, name="x"))
    ours = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    extra = {key for key in published if key not in ours}
    assert extra == {*UNUSED, "blip.text_encoder.embeddings.position_ids"}
    assert ours == {key: shape for key, shape in published.items() if key not in extra}
    # A second witness: the published file has 1,786,880,927 bytes, so that many float32 and a few hundred bytes each.
    stored = 4 * sum(math.prod(shape) for shape in published.values()) + 4 * 512  # position ids are int64
    assert 0 < 1_786_880_927 - stored < 400 * len(published)


def test_the_lavis_network_has_the_published_layout() -> None:
    import torch

    from beholder.backends.lavis import _CAPTIONING
    from beholder.backends.qformer import build

    former, tower = layout("blip2-vitL-qformer"), layout("blip2-vitL-clip")
    used = {key: shape for key, shape in former.items() if not _CAPTIONING.match(key)}
    cut = ("transformer.resblocks.23.", "ln_post.", "proj")
    used |= {f"visual_encoder.{key}": shape for key, shape in tower.items() if not key.startswith(cut)}
    with torch.device("meta"):
        network = build(empty(used), name="x")
    ours = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    assert ours == {key: shape for key, shape in used.items() if not key.endswith("position_ids")}


def test_a_state_dict_survives_the_round_trip(reward: Any, reward_folder: Path, lavis: Any, lavis_folder: Path) -> None:
    stored = read(reward_folder / "ImageReward.pt")
    for key, value in reward._network.network.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), stored[key], err_msg=key)
    stored = read(lavis_folder / "blip2_pretrained_vitL.pth")
    stored |= {f"visual_encoder.{key}": value for key, value in read(lavis_folder / "clip_vit_L.pth").items()}
    for key, value in lavis._network.network.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), stored[key], err_msg=key)


# values


def test_the_reward_is_the_papers_in_numpy(reward: Any, reward_folder: Path) -> None:
    weights = read(reward_folder / "ImageReward.pt")
    picture = noise_picture(260, 300, seed=4)
    prepared = reward.prepare([picture])
    made = reward.match([prepared], [(0, text) for text in TEXTS])
    raw = [numpy_blip.reward(weights, floats(reward, prepared), pieces(text)) for text in TEXTS]
    # float32 against float64 through five linear maps: 1e-5 of values of size 10.
    np.testing.assert_allclose(made.columns["logit"], (np.array(raw) - MEAN) / STD, rtol=1e-5, atol=1e-5)
    assert np.ptp(raw) > 0.1
    assert made.columns["n_tokens"].tolist() == [7, 5, 5, 2]


def test_facescore_is_the_same_network_without_standardisation(tmp_path: Path, reward: Any) -> None:
    top = make_tiny_reward(tmp_path / "top", weights="FS_model.pt")
    inside = make_tiny_reward(tmp_path / "inside", weights="FS_model.pt", subfolder="FaceScore_model")
    prepared = reward.prepare([noise_picture(240, 224)])
    expected = reward.match([prepared], [(0, "a face.")]).columns["logit"] * STD + MEAN
    for folder in (top, inside):
        face = load(f"facescore:{folder}")
        np.testing.assert_allclose(face.match([prepared], [(0, "a face.")]).columns["logit"], expected, rtol=1e-6)
        assert face.model.preprocessing["head"] == {"mean": 0.0, "std": 1.0}
        assert face.model.key != reward.model.key


def test_a_head_output_equal_to_the_mean_is_a_reward_of_zero(tmp_path: Path) -> None:
    import torch

    folder = make_tiny_reward(tmp_path / "m")
    state = reward_state()
    state["mlp.layers.7.weight"] *= 0
    for output, expected in ((MEAN, 0.0), (MEAN - 1.3 * STD, -1.3)):
        state["mlp.layers.7.bias"] = torch.tensor([output])
        torch.save(state, folder / "ImageReward.pt")
        matcher = load(f"image_reward:{folder}")
        made = matcher.match([matcher.prepare([noise_picture(224, 224)])], [(0, "a cat")])
        assert made.columns["logit"][0] == pytest.approx(expected, abs=1e-6)


def test_preprocessing_crops_the_middle_of_a_wide_picture(reward: Any) -> None:
    from PIL import Image

    picture = noise_picture(100, 300, seed=2)
    expected = Image.fromarray(picture.pixels).resize((672, 224), Image.Resampling.BICUBIC).crop((224, 0, 448, 224))
    np.testing.assert_array_equal(reward.prepare([picture]), np.asarray(expected).transpose(2, 0, 1))


def test_blip2_from_lavis_is_the_papers_in_numpy(lavis: Any, lavis_folder: Path) -> None:
    former = read(lavis_folder / "blip2_pretrained_vitL.pth")
    tower = read(lavis_folder / "clip_vit_L.pth")
    prepared = lavis.prepare([noise_picture(200, 240, seed=5)])
    image = numpy_blip.norm(former, "ln_vision", numpy_blip.clip_tower(tower, floats(lavis, prepared), 2), 1e-5)
    pairs = [(0, text) for text in TEXTS]
    logits = lavis.match([prepared], pairs).columns["logit"]
    cosines = lavis.match([prepared], pairs, head="itc").columns["cosine"]
    expected_logits, expected_cosines = [], []
    vectors = numpy_blip.linear(former, "vision_proj", numpy_blip.qformer(former, image, None))
    for text in TEXTS:
        states = numpy_blip.qformer(former, image, pieces(text))[:4]
        pair = numpy_blip.linear(former, "itm_head", states).mean(axis=0)
        expected_logits.append(pair[1] - pair[0])
        told = numpy_blip.linear(former, "text_proj", numpy_blip.qformer(former, None, pieces(text))[0])
        angles = vectors @ told / np.linalg.norm(vectors, axis=1) / np.linalg.norm(told)
        expected_cosines.append(angles.max())
    np.testing.assert_allclose(logits, expected_logits, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(cosines, expected_cosines, atol=1e-5)
    assert np.ptp(expected_logits) > 0.1
    assert np.ptp(expected_cosines) > 0.001


def test_the_qformer_is_transformers_qformer(tmp_path: Path) -> None:
    """One Q-Former, in transformers' names and in LAVIS': the same numbers from the same image tokens."""
    import torch
    import transformers
    from safetensors.torch import load_file

    from beholder.backends.qformer import build

    folder = make_tiny_blip2(tmp_path / "stock")
    stock = transformers.Blip2ForImageTextRetrieval.from_pretrained(folder).eval()
    renamed = {_lavis_name(key): value for key, value in load_file(folder / "model.safetensors").items()}
    state = {key: value for key, value in renamed.items() if not key.startswith("vision_model.")}
    state["ln_vision.weight"], state["ln_vision.bias"] = torch.ones(64), torch.zeros(64)
    state |= {f"visual_encoder.{key}": torch.tensor(value) for key, value in read(_tower(tmp_path)).items()}
    state = {key: value for key, value in state.items() if "ln_post" not in key and key != "visual_encoder.proj"}
    network = build(state, name="x").eval()
    network.load_state_dict(state, strict=True)
    generator = torch.Generator().manual_seed(3)
    image = torch.randn((2, 17, 64), generator=generator)
    ids = torch.tensor([[2, 5, 8, 3, 0, 0], [2, 12, 10, 11, 9, 3]])
    mask = ids != 0
    with torch.inference_mode():
        queries = stock.query_tokens.expand(2, -1, -1)
        states = stock.qformer(
            query_embeds=stock.embeddings(input_ids=ids, query_embeds=queries), query_length=4,
            attention_mask=torch.cat([torch.ones(2, 4), mask], dim=1).long(), encoder_hidden_states=image,
        ).last_hidden_state  # fmt: skip
        logits = stock.itm_head(states[:, :4]).mean(dim=1)
        seen = stock.vision_projection(stock.qformer(queries, encoder_hidden_states=image).last_hidden_state)
        told = stock.qformer(stock.embeddings(ids), query_length=0, attention_mask=mask.long()).last_hidden_state
        torch.testing.assert_close(network.match_logits(image, ids, mask), logits, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(network.image_vectors(image), seen, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(
            network.text_vectors(ids, mask), stock.text_projection(told[:, 0]), atol=1e-5, rtol=1e-5
        )


def _tower(tmp_path: Path) -> Path:
    return make_tiny_lavis(tmp_path / "lavis") / "clip_vit_L.pth"


def _lavis_name(key: str) -> str:
    for theirs, ours in (
        ("qformer.layernorm", "Qformer.bert.embeddings.LayerNorm"), ("qformer.", "Qformer.bert."),
        ("attention.attention.", "attention.self."), ("vision_projection", "vision_proj"),
        ("text_projection", "text_proj"),
    ):  # fmt: skip
        key = key.replace(theirs, ours)
    return f"Qformer.bert.{key}" if key.startswith("embeddings.") else key


@pytest.mark.parametrize("name", ["reward", "lavis"])
def test_neighbours_order_and_padding_do_not_matter(name: str, request: pytest.FixtureRequest) -> None:
    matcher = request.getfixturevalue(name)
    seen = [matcher.prepare([noise_picture(230 + 7 * i, 240, seed=i)]) for i in range(9)]
    pairs = [(i, text) for text in TEXTS for i in (8, 0, 3, 5, 1)]
    together = matcher.match(seen, pairs).columns["logit"]
    alone = [matcher.match([seen[i]], [(0, text)]).columns["logit"][0] for i, text in pairs]
    # Sums in another order: 5e-5 on rewards that spread over 20, through a head of five maps without activations.
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=5e-5)


def test_golden_values(reward: Any, lavis: Any) -> None:
    # Made with torch 2.13 and 2.14 (CPU, the same to 1e-6) from the tiny models of seed 0 and the noise picture.
    golden = {"reward": (-11.335936, -11.584756), "lavis": (5.267467, 3.938401)}
    for name, matcher in (("reward", reward), ("lavis", lavis)):
        prepared = matcher.prepare([noise_picture(40, 61, seed=0)])
        made = matcher.match([prepared], [(0, "a photo of a cat"), (0, "the red car")])
        np.testing.assert_allclose(made.columns["logit"], golden[name], atol=1e-4)


# files


def test_a_reward_model_has_one_head(reward: Any) -> None:
    with pytest.raises(OptionError, match="'itm'"):
        reward.match([reward.prepare([noise_picture(224, 224)])], [(0, "a cat")], head="itc")


def test_added_tokens_have_their_ids(reward: Any) -> None:
    ids = reward._tokenizer(["[ENC] cat [DEC]"]).ids[0, :5].tolist()
    assert ids == [2, len(BERT_WORDS) + 1, 8, len(BERT_WORDS), 3]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("missing", "1 missing: blip.text_encoder.encoder.layer.1.crossattention.self.query.weight"),
        ("extra", "1 unexpected: blip.visual_encoder.head.weight"),
        ("shape", "1 of another shape: mlp.layers.4.weight"),
    ],
)
def test_reward_weights_that_do_not_fit_are_an_error(tmp_path: Path, change: str, what: str) -> None:
    import torch

    folder = make_tiny_reward(tmp_path / "m")
    state = reward_state()
    if change == "missing":
        del state["blip.text_encoder.encoder.layer.1.crossattention.self.query.weight"]
    elif change == "extra":
        state["blip.visual_encoder.head.weight"] = torch.zeros(2)
    else:
        state["mlp.layers.4.weight"] = torch.zeros(63, 128)
    torch.save(state, folder / "ImageReward.pt")
    with pytest.raises(WeightsMismatchError, match=what):
        load(f"image_reward:{folder}")


def test_files_of_another_kind_are_an_error(tmp_path: Path) -> None:
    import torch

    folder = make_tiny_reward(tmp_path / "m")
    torch.save({"weight": torch.zeros(2)}, folder / "ImageReward.pt")
    with pytest.raises(WeightsMismatchError, match="BLIP with a reward head"):
        load(f"image_reward:{folder}")
    torch.save({"weight": torch.zeros(2), "code": test_files_of_another_kind_are_an_error}, folder / "ImageReward.pt")
    with pytest.raises(WeightsMismatchError, match="anything else in a pickle is refused"):
        load(f"image_reward:{folder}")
    (folder / "med_config.json").unlink()
    with pytest.raises(WeightsMissingError, match=r"med_config\.json"):
        resolve_model(f"image_reward:{folder}", capability="Matcher")


def test_only_clips_first_23_blocks_are_used(tmp_path: Path) -> None:
    import torch

    folder = make_tiny_lavis(tmp_path / "m", blocks=24)
    whole = load(f"lavis:{folder}")
    tower = torch.load(folder / "clip_vit_L.pth", weights_only=True)
    assert len(whole._network.network.visual_encoder.transformer.resblocks) == 23
    prepared = whole.prepare([noise_picture(224, 224)])
    expected = whole.match([prepared], [(0, "a cat")]).columns["logit"]
    kept = {key: value for key, value in tower.items() if not key.startswith(("transformer.resblocks.23.", "ln_post"))}
    torch.save(kept, folder / "clip_vit_L.pth")
    again = load(f"lavis:{folder}")
    np.testing.assert_array_equal(again.match([prepared], [(0, "a cat")]).columns["logit"], expected)


def test_lavis_weights_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    import torch

    folder = make_tiny_lavis(tmp_path / "m")
    tower = torch.load(folder / "clip_vit_L.pth", weights_only=True)
    for key in ("transformer.resblocks.1.ln_2.bias", "ln_pre.weight"):
        torch.save({k: v for k, v in tower.items() if k != key}, folder / "clip_vit_L.pth")
        with pytest.raises(WeightsMismatchError, match=f"1 missing: visual_encoder.{key}"):
            load(f"lavis:{folder}")
    torch.save({**tower, "logit_scale": torch.zeros(())}, folder / "clip_vit_L.pth")
    with pytest.raises(WeightsMismatchError, match=r"1 unexpected: visual_encoder\.logit_scale"):
        load(f"lavis:{folder}")


def test_the_tokenizer_comes_from_the_usual_places_too(tmp_path: Path, reward_folder: Path) -> None:
    bare = make_tiny_reward(tmp_path / "reward")
    (bare / "vocab.txt").unlink()
    options = LoadOptions(cache_dir=str(tmp_path / "places"), offline=True)
    with pytest.raises(WeightsMissingError, match="bert-base-uncased"):
        resolve_model(f"image_reward:{bare}", capability="Matcher", options=options)
    for place in ("bert-base-uncased", "models--bert-base-uncased/snapshots/abc"):
        folder = tmp_path / "places" / place
        write_bert_tokenizer(folder)
        found = resolve_model(f"image_reward:{bare}", capability="Matcher", options=options)
        assert found.locations["processor"] == str(folder)
        for file in folder.iterdir():
            file.unlink()


def test_published_names_are_found_in_the_cache(tmp_path: Path) -> None:
    places = tmp_path / "places"
    options = LoadOptions(cache_dir=str(places), offline=True)
    make_tiny_reward(places / "models--OPPOer--FaceScore/snapshots/abc", weights="FS_model.pt",
                     subfolder="FaceScore_model")  # fmt: skip
    make_tiny_lavis(places / "blip2_pretrained_vitL")
    for name in ("facescore", "blip2-itm-vitL", "blip2-itc-vitL"):
        matcher = load(name, options=options)
        made = matcher.match([matcher.prepare([noise_picture(224, 224)])], [(0, "a face.")])
        assert np.isfinite(made.columns["logit"]).all()
    # The published file's hash stands on ImageReward's card, so another file under its name is refused.
    make_tiny_reward(places / "ImageReward")
    with pytest.raises(WeightsMismatchError, match="d71dc8d4912bc633"):
        resolve_model("image-reward-v1", capability="Matcher", options=options)


def test_lavis_files_are_fetched_from_their_authors(
    tmp_path: Path, lavis_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beholder.backends import hub

    places, asked = tmp_path / "places", []

    def fetch(url: str, file_name: str, options: LoadOptions, *, name: str, sha256: str | None = None) -> Path:
        asked.append((url, name, options.cache_dir))
        places.mkdir(exist_ok=True)
        return Path(shutil.copy(lavis_folder / file_name, places / file_name))

    monkeypatch.setattr(hub, "fetch_url", fetch)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    write_bert_tokenizer(tmp_path / "places" / "bert-base-uncased")
    base = "https://storage.googleapis.com/sfr-vision-language-research/LAVIS/models/BLIP2/"
    for _ in range(2):  # found flat in the place the second time
        options = LoadOptions(cache_dir=str(places), offline=False)
        found = resolve_model("blip2-itm-vitL", capability="Matcher", options=options)
        assert found.location == str(places)
        assert asked == [
            (base + name, "blip2-itm-vitL", str(places)) for name in ("blip2_pretrained_vitL.pth", "clip_vit_L.pth")
        ]
