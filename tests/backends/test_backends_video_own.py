"""UMT and InternVideo2: equal to plain numpy, to the authors' code (golden values), and to their published layouts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import models_video
from tests.backends import numpy_video

from beholder._errors import OptionError, UnknownNameError, WeightsMismatchError, WeightsMissingError
from beholder.backends import internvideo2_network, pool, umt_network
from beholder.backends.base import LoadOptions
from beholder.backends.video_own import PIXELS
from beholder.backends.video_weights import fit_state
from beholder.media.base import Picture

LAYOUTS = Path(__file__).parent.parent / "reference" / "layouts"
TEXTS = ("a cat x", "a dog")
IDS = ([2, 4, 7, 11, 3], [2, 4, 8, 3])

# Tensors of a BERT: 5 of embeddings, 16 a layer, 10 more where a layer looks at the video.
BERT_BASE, BERT_LARGE = 5 + 16 * 12 + 10 * 3, 5 + 16 * 24 + 10 * 5

# Cosines and (no match, match) logits of clips 0 and 1 with both texts, computed once by the authors' own modules
# (OpenGVLab/unmasked_teacher at 4fb4049f, OpenGVLab/InternVideo at 3965eef1) from the same weights and pixels.
GOLDEN = {
    "umt": (
        [[-0.1814481019973755, -0.1969665139913559], [-0.23244628310203552, -0.2424691766500473]],
        [
            [[1.0876504182815552, -1.2187782526016235], [1.417435884475708, -2.2282931804656982]],
            [[1.463944673538208, -0.20299208164215088], [1.139084815979004, -1.3797954320907593]],
        ],
    ),
    "internvideo2": (
        [[-0.3384767174720764, -0.352327436208725], [-0.2905130088329315, -0.3273240923881531]],
        [
            [[-1.7551732063293457, 0.8228816986083984], [-2.317216634750366, -0.05215811729431152]],
            [[-1.2447456121444702, -0.05911850929260254], [-2.3735110759735107, 1.1827318668365479]],
        ],
    ),
}


@dataclass
class Case:
    """A tiny checkpoint, loaded for both capabilities, and its plain twin."""

    engine: str
    file: Path
    sizes: Any
    see: Callable[..., tuple[np.ndarray, np.ndarray]]
    encoder: Any
    matcher: Any

    @property
    def weights(self) -> dict[str, np.ndarray]:
        return {name: models_video.fill(name, shape).astype(np.float64) for name, shape in self.sizes.layout().items()}


@pytest.fixture(scope="module", params=["umt", "internvideo2"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    engine = str(request.param)
    make = {"umt": models_video.make_tiny_umt, "internvideo2": models_video.make_tiny_internvideo2}[engine]
    file = make(tmp_path_factory.mktemp(engine))
    models = [
        pool.load_model(pool.resolve_model(f"{engine}:{file}", capability=capability), device="cpu")
        for capability in ("VideoTextEncoder", "Matcher")
    ]
    sizes = models_video.umt_sizes() if engine == "umt" else models_video.internvideo2_sizes()
    see = numpy_video.umt_see if engine == "umt" else numpy_video.internvideo2_see
    return Case(engine, file, sizes, see, *models)


def frames(seed: int, count: int = 4) -> list[Picture]:
    """Frames by arithmetic, 60 × 40 pixels."""
    t, y, x, c = np.meshgrid(np.arange(count), np.arange(40), np.arange(60), np.arange(3), indexing="ij")
    pixels = (x * 3 + y * 5 * (seed + 1) + t * 37 * (seed + 1) + c * 50 + (x * y * (t + 1)) // 7) % 256
    return [Picture(frame, (60, 40), "RGB") for frame in pixels.astype(np.uint8)]


def clips(model: Any, count: int = 2) -> list[Any]:
    return [model.prepare(frames(seed)) for seed in range(count)]


def cosines(model: Any, visuals: list[Any], texts: tuple[str, ...] = TEXTS) -> np.ndarray:
    videos, words = model.encode_videos(visuals).columns["embedding"], model.encode_texts(texts)["embedding"]
    assert videos.dtype == words.dtype == np.float32
    return unit(videos) @ unit(words).T


def unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


ALL = [(clip, text) for clip in range(2) for text in TEXTS]


def test_numbers_are_those_of_the_authors_modules(case: Case) -> None:
    expected, logits = (np.asarray(item) for item in GOLDEN[case.engine])
    # float32 through a few layers: their sums run in another order.
    np.testing.assert_allclose(cosines(case.encoder, clips(case.encoder)), expected, atol=2e-6)
    found = case.matcher.match(clips(case.matcher), ALL).columns["logit"]
    np.testing.assert_allclose(found, (logits[..., 1] - logits[..., 0]).reshape(-1), atol=2e-5)


def test_numbers_are_those_of_plain_numpy(case: Case) -> None:
    weights = case.weights
    bert = case.sizes.bert
    seen = [
        case.see(np.stack([PIXELS.to_float(frame.pixels) for frame in frames(seed)]), weights, case.sizes.depth)
        for seed in range(2)
    ]
    words = [
        numpy_video.linear(
            numpy_video.bert(ids, weights, bert.layers, bert.fusion_layer, None)[:1], weights, "text_proj"
        )
        for ids in IDS
    ]
    expected = [[float((unit(parts) @ unit(word).T).mean()) for word in words] for _, parts in seen]
    np.testing.assert_allclose(cosines(case.encoder, clips(case.encoder)), expected, atol=2e-6)
    logits = [
        numpy_video.linear(
            numpy_video.bert(ids, weights, bert.layers, bert.fusion_layer, tokens)[0], weights, "itm_head"
        )
        for tokens, _ in seen
        for ids in IDS
    ]
    made = case.matcher.match(clips(case.matcher), ALL)
    np.testing.assert_allclose(made.columns["logit"], [match - none for none, match in logits], atol=2e-5)


def test_a_row_does_not_depend_on_its_neighbours(case: Case) -> None:
    visuals = clips(case.encoder, 5)
    together = case.encoder.encode_videos(visuals).columns["embedding"]
    alone = np.concatenate([case.encoder.encode_videos([one]).columns["embedding"] for one in visuals])
    np.testing.assert_allclose(together, alone, atol=2e-5)
    pairs = [(clip, text) for clip in (4, 0, 2, 0, 1, 3) for text in (*TEXTS, "a red car")]
    logits = case.matcher.match(visuals, pairs).columns["logit"]
    single = [case.matcher.match([visuals[clip]], [(0, text)]).columns["logit"][0] for clip, text in pairs]
    np.testing.assert_allclose(logits, single, atol=2e-5)
    texts = [*TEXTS, "a photo of the red car"]
    batch = case.encoder.encode_texts(texts)["embedding"]
    np.testing.assert_allclose(batch[1:2], case.encoder.encode_texts(texts[1:2])["embedding"], atol=2e-6)


def test_the_order_of_frames_matters(case: Case) -> None:
    forward, back = case.encoder.prepare(frames(0)), case.encoder.prepare(frames(0)[::-1])
    assert np.array_equal(forward[::-1], back)
    first, second = case.encoder.encode_videos([forward, back]).columns["embedding"]
    assert np.abs(first - second).max() > 1e-3
    logits = case.matcher.match([forward, back], [(0, "a cat"), (1, "a cat")]).columns["logit"]
    assert abs(logits[0] - logits[1]) > 1e-4


def test_a_picture_is_a_clip_of_equal_frames(case: Case) -> None:
    one = frames(0)[:1]
    still = case.encoder.prepare(one)
    assert still.shape == (4, 3, 224, 224)
    assert still.dtype == np.uint8
    assert np.array_equal(still, case.encoder.prepare(one * 4))
    moving = case.encoder.encode_videos([case.encoder.prepare(frames(0)), still]).columns["embedding"]
    assert np.abs(moving[0] - moving[1]).max() > 1e-3


def test_more_frames_than_a_clip_has_are_spread_over(case: Case) -> None:
    many = frames(1, 10)
    chosen = case.encoder.prepare([many[at] for at in (0, 3, 6, 9)])
    assert np.array_equal(case.encoder.prepare(many), chosen)


def test_the_head_itc_is_the_similarity(case: Case) -> None:
    visuals = clips(case.matcher)
    made = case.matcher.match(visuals, ALL, head="itc").columns
    np.testing.assert_allclose(made["cosine"], cosines(case.encoder, visuals).reshape(-1), atol=2e-6)
    assert "logit" not in made
    with pytest.raises(OptionError, match="'itm' or 'itc'"):
        case.matcher.match(visuals, ALL, head="vqa")


def test_a_mean_of_cosines_is_a_cosine() -> None:
    import torch

    from beholder.backends.video_own import _lifted_frames

    parts = torch.tensor([[[3.0, 0.0], [0.0, 2.0]], [[5.0, 0.0], [0.5, 0.0]], [[1.0, 0.0], [0.0, 0.0]]])
    lifted = _lifted_frames(parts).numpy()
    # Unit vectors (1, 0) and (0, 1): their mean is (1/2, 1/2), of squared length 1/2. A frame without a direction
    # leaves the clip without one.
    np.testing.assert_allclose(lifted, [[0.5, 0.5, np.sqrt(0.5)], [1, 0, 0], [0, 0, 0]], atol=1e-6)
    text = np.asarray([0.6, 0.8, 0.0])
    assert lifted[0] @ text == pytest.approx((0.6 + 0.8) / 2)


def test_bfloat16_stays_near(case: Case) -> None:
    resolved = pool.resolve_model(f"{case.engine}:{case.file}", capability="Matcher", dtype="bfloat16")
    model = pool.load_model(resolved, device="cpu")
    exact = case.matcher.match(clips(case.matcher), ALL)
    rough = model.match(clips(model), ALL)
    assert rough.columns["logit"].dtype == np.float32
    # Eight bits of mantissa through a few layers, of logits between 1 and 4.
    np.testing.assert_allclose(rough.columns["logit"], exact.columns["logit"], atol=0.2)


def test_long_texts_are_cut_and_flagged(case: Case) -> None:
    length = case.encoder.model.preprocessing["text"]["context_length"]
    long, same = " ".join(["cat"] * 60), " ".join(["cat"] * (length - 2))
    made = case.encoder.encode_texts([long, same, "a cat"])
    assert made["n_tokens"].tolist() == [62, length, 4]
    assert made["truncated"].tolist() == [True, False, False]
    np.testing.assert_allclose(made["embedding"][0], made["embedding"][1], atol=1e-6)
    pairs = case.matcher.match(clips(case.matcher), [(0, "a cat"), (1, long)]).columns
    assert pairs["truncated"].tolist() == [False, True]
    assert pairs["n_tokens"].tolist() == [4, 62]


def test_what_is_told_about_a_model(case: Case) -> None:
    encoder, matcher = case.encoder.model, case.matcher.model
    assert (encoder.capability, matcher.capability) == ("VideoTextEncoder", "Matcher")
    assert encoder.key != matcher.key
    assert encoder.weights_sha256 == matcher.weights_sha256
    assert encoder.preprocessing["frames"] == case.encoder.frames == 4
    assert encoder.id == f"{case.engine}:./{case.file.name}"
    assert encoder.constants["logit_scale"] == pytest.approx(1 / 0.07)
    assert case.encoder.takes_video
    assert str(case.file.parent) not in json.dumps([dict(encoder.preprocessing), dict(encoder.details)])


def test_weights_must_fit_completely(case: Case, tmp_path: Path) -> None:
    import torch

    wrapped = torch.load(case.file, weights_only=True)
    (wrapper,) = (name for name in ("model", "module") if name in wrapped)
    state = wrapped[wrapper]
    (tmp_path / "vocab.txt").write_bytes((case.file.parent / "vocab.txt").read_bytes())
    wrong: dict[str, dict[str, Any]] = {
        "1 missing: itm_head.bias": {key: value for key, value in state.items() if key != "itm_head.bias"},
        "1 unexpected: vision_encoder.gamma": state | {"vision_encoder.gamma": torch.ones(2)},
        r"1 of another shape: vision_proj.bias \(3,\)": state | {"vision_proj.bias": torch.ones(3)},
        "without vision_proj.weight": {key: value for key, value in state.items() if key != "vision_proj.weight"},
    }
    for number, (message, tensors) in enumerate(wrong.items()):
        path = tmp_path / f"{number}.pth"
        torch.save(tensors, path)
        resolved = pool.resolve_model(f"{case.engine}:{path}", capability="Matcher")
        with pytest.raises(WeightsMismatchError, match=message):
            pool.load_model(resolved, device="cpu")


def test_fine_tuned_names_are_read_too(case: Case, tmp_path: Path) -> None:
    import torch

    torch.save(models_video.state_of(case.sizes.layout()), tmp_path / "tuned.pth")
    (tmp_path / "vocab.txt").write_bytes((case.file.parent / "vocab.txt").read_bytes())
    resolved = pool.resolve_model(f"{case.engine}:{tmp_path / 'tuned.pth'}", capability="Matcher")
    model = pool.load_model(resolved, device="cpu")
    expected = case.matcher.match(clips(case.matcher), ALL).columns["logit"]
    assert np.array_equal(model.match(clips(model), ALL).columns["logit"], expected)


def test_a_tokenizer_of_another_model_is_refused(case: Case, tmp_path: Path) -> None:
    (tmp_path / case.file.name).write_bytes(case.file.read_bytes())
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(40))]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    resolved = pool.resolve_model(f"{case.engine}:{tmp_path / case.file.name}", capability="VideoTextEncoder")
    with pytest.raises(WeightsMismatchError, match="token 43 where there are 24 embeddings"):
        pool.load_model(resolved, device="cpu").encode_texts(["w39"])


@pytest.mark.parametrize(
    ("name", "network", "count"),
    [
        ("umt-b16-25m", umt_network, 6 + 13 * 12 + 7 + BERT_BASE),
        ("umt-l16-25m", umt_network, 6 + 13 * 24 + 7 + BERT_LARGE),
        ("internvideo2-1b-stage2", internvideo2_network, 4 + 13 * 40 + 14 + 7 + BERT_LARGE),
    ],
)
def test_published_layouts_load_with_every_name_matched(name: str, network: Any, count: int) -> None:
    import torch

    listed = json.loads((LAYOUTS / f"{name}.json").read_text(encoding="utf-8"))["tensors"]
    with torch.device("meta"):
        state = {key: torch.empty(shape) for key, shape in listed.items()}
        kept, sizes = fit_state(state, network.SIZES.of, rename=network.rename, extras=network.EXTRAS, name=name)
        assert len(kept) == count
        assert {network.rename(key) for key in listed} >= sizes.layout().keys()
        model = network.make(kept, sizes)
        seen = model.see(torch.empty(1, 3, 4, 224, 224))
        hidden = model.read(torch.zeros(1, 8, dtype=torch.long), torch.ones(1, 8, dtype=torch.long))
        assert model.match(hidden, torch.ones(1, 8), seen.tokens).shape == (1, 2)
    parts = 4 if name.startswith("umt") else 1
    tokens = 4 * 14 * 14 if name.startswith("umt") else 4 * 16 * 16 + 1
    assert tuple(seen.projected.shape) == (1, parts, sizes.embed)
    assert tuple(seen.tokens.shape) == (1, tokens, sizes.width)
    assert tuple(model.project_text(hidden).shape) == (1, sizes.embed)


def test_names_and_aliases() -> None:
    for alias, model_id in (
        ("umt-b16-25m-clip", "umt:b16-25m"),
        ("umt-l16-25m-itm", "umt:l16-25m"),
        ("b16_ptk710_f8_res224", "umt:b16-25m"),
        ("l16_ptk710_f8_res224", "umt:l16-25m"),
        ("internvideo2-1b-stage2-itm", "internvideo2:1b-stage2"),
        ("internvl_c_13b_224px", "internvideo2:1b-stage2"),
    ):
        card = pool.find_card(alias)
        assert card is not None
        assert card.id == model_id


@pytest.mark.parametrize("capability", ["VideoTextEncoder", "Matcher"])
@pytest.mark.parametrize("name", ["b16_ptk710_f8_res224", "internvl_c_13b_224px"])
def test_an_alias_of_both_is_looked_for_under_either_capability(name: str, capability: str, tmp_path: Path) -> None:
    options = LoadOptions(cache_dir=str(tmp_path), offline=True)
    with pytest.raises(WeightsMissingError, match=name):
        pool.resolve_model(name, options=options, capability=capability)


def test_a_name_for_the_other_capability_is_refused() -> None:
    with pytest.raises(OptionError, match="The same weights are umt-b16-25m-itm"):
        pool.resolve_model("umt-b16-25m-clip", capability="Matcher")
    with pytest.raises(OptionError, match="The same weights are internvideo2-1b-stage2-clip"):
        pool.resolve_model("internvideo2-1b-stage2-itm", capability="VideoTextEncoder")
    with pytest.raises(UnknownNameError, match="umt:b16-25m"):
        pool.resolve_model("umt:b16-26m", capability="Matcher")


def test_a_folder_of_the_hub_is_enough(case: Case, tmp_path: Path) -> None:
    name, folder = ("umt-b16-25m-clip", "umt_b16_25m") if case.engine == "umt" else (
        "internvideo2-1b-stage2-clip", "InternVideo2-Stage2_1B-224p-f4",
    )  # fmt: skip
    file = "umt_b16_25m.pth" if case.engine == "umt" else "internvideo2_1b_stage2.pth"
    (tmp_path / folder).mkdir()
    (tmp_path / folder / file).write_bytes(case.file.read_bytes())
    (tmp_path / folder / "vocab.txt").write_bytes((case.file.parent / "vocab.txt").read_bytes())
    options = LoadOptions(cache_dir=str(tmp_path), offline=True)
    resolved = pool.resolve_model(name, options=options, capability="VideoTextEncoder")
    assert resolved.card.files == (file,)
    assert np.array_equal(
        cosines(pool.load_model(resolved, device="cpu"), clips(case.encoder)),
        cosines(case.encoder, clips(case.encoder)),
    )
