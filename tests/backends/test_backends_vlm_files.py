"""Vision-language models before they are loaded: files, refusals, prompts; and videos."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.backends.test_backends_vlm import picture
from tests.models import make_tiny_clip
from tests.models_vlm import TINY_VLMS, make_llava

from beholder._errors import ModelError, WeightsMismatchError, WeightsMissingError
from beholder.backends.pool import find_card, load_model, resolve_model
from beholder.backends.vlm_video import FrameVideo, PatchVideo, as_video


def resolve(folder: Path) -> Any:
    return resolve_model(str(folder), capability="AnswerScorer")


@pytest.fixture
def llava(tmp_path: Path) -> Path:
    return make_llava(tmp_path / "llava")


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")


def test_what_a_resolved_model_tells(llava: Path) -> None:
    model = resolve(llava)
    assert model.capability == "AnswerScorer"
    assert model.id == "hf:./llava"
    assert model.card.family == "llava"
    assert model.dtype == "float32"
    prompt = model.preprocessing["prompt"]
    assert "ASSISTANT:" in prompt["chat_template"]
    assert prompt["end_token_counts"] is True
    assert model.preprocessing["library"] == "pillow"
    assert model.preprocessing["padded"]
    json.dumps(model.preprocessing)  # the run header keeps it
    assert "chat_template.jinja" in model.card.files


def test_the_chat_template_is_part_of_the_models_key(llava: Path) -> None:
    before = resolve(llava)
    (llava / "chat_template.jinja").write_text("{{ messages[0]['content'][1]['text'] }}", encoding="utf-8")
    after = resolve(llava)
    assert before.weights_sha256 != after.weights_sha256
    assert before.key != after.key


def test_missing_shards_are_named(tmp_path: Path) -> None:
    folder = make_llava(tmp_path / "llava", shards="50KB")
    shards = sorted(path.name for path in folder.glob("model-*.safetensors"))
    assert len(shards) > 2
    load_model(resolve(folder), device="cpu").close()
    (folder / shards[1]).unlink()
    with pytest.raises(WeightsMissingError) as error:
        resolve(folder)
    assert shards[1] in str(error.value)
    assert shards[0] not in str(error.value)


def test_a_text_model_is_refused_as_one(tmp_path: Path, llava: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    shutil.copy(llava / "model.safetensors", text)
    config = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 320}
    (text / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match="text-only model") as error:
        resolve(text)
    assert "Qwen2ForCausalLM" in str(error.value)
    assert "vision-language model" in str(error.value)


def test_an_encoder_is_refused_as_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="an encoder of images and texts") as error:
        resolve(make_tiny_clip(tmp_path / "clip"))
    assert "CLIPModel" in str(error.value)


@pytest.mark.parametrize(
    ("changes", "converted"),
    [
        ({"architectures": ["LlavaLlamaForCausalLM"]}, "llava-hf/llava-1.5-7b-hf"),
        ({"model_type": "internvl_chat"}, "OpenGVLab/InternVL3-8B-hf"),
    ],
)
def test_original_layouts_are_told_from_converted_ones(changes: dict[str, Any], converted: str, llava: Path) -> None:
    edit(llava / "config.json", **changes)
    with pytest.raises(ModelError, match="original layout") as error:
        resolve(llava)
    assert converted in str(error.value)


@pytest.mark.parametrize("family", ["llava", "onevision", "gemma3", "qwen2_vl"])
def test_weights_under_older_and_newer_names_are_the_same_model(family: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForImageTextToText

    folder = TINY_VLMS[family](tmp_path / family)
    older = load_file(folder / "model.safetensors")
    newer = {
        key: value.clone() for key, value in AutoModelForImageTextToText.from_pretrained(folder).state_dict().items()
    }
    oldest = {
        re.sub(r"^vision_tower\.(?!vision_model)", "vision_tower.vision_model.", key): value.clone()
        for key, value in older.items()
    }
    assert set(older) != set(newer)
    found = []
    for state in (older, newer, oldest):
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        model = load_model(resolve(folder), device="cpu")
        found.append(float(model.answer([model.prepare([picture(1)])], [(0, "A cat?")]).columns["yes"][0]))
    assert found[0] == pytest.approx(found[1], abs=1e-6)
    assert found[0] == pytest.approx(found[2], abs=1e-6)


@pytest.mark.parametrize("family", ["llava", "qwen3_vl", "mllama", "paligemma"])
def test_bfloat16_is_near_float32(family: str, tmp_path: Path) -> None:
    folder = TINY_VLMS[family](tmp_path / family)
    found = []
    for dtype in ("float32", "bfloat16"):
        model = load_model(resolve_model(str(folder), dtype=dtype, capability="AnswerScorer"), device="cpu")
        columns = model.answer([model.prepare([picture(1)])], [(0, "A cat?"), (0, "Is it a long dog?")]).columns
        assert columns["yes"].dtype == np.float64
        found.append(columns["yes"])
    np.testing.assert_allclose(found[0], found[1], atol=0.25)
    assert (found[0] != found[1]).all()


def test_gemmas_tags_that_are_no_markup_may_be_asked_about(tmp_path: Path) -> None:
    folder = TINY_VLMS["gemma3"](tmp_path / "gemma3")
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tag = {**content["added_tokens"][-1], "id": 300, "content": "<b>", "special": False}
    content["added_tokens"].append(tag)
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    model = load_model(resolve(folder), device="cpu")
    visual = model.prepare([picture(1)])
    made = model.answer([visual], [(0, "Is <b>this</b> a cat?"), (0, "Is <end_of_image> a cat?")])
    assert list(made.failures) == [1]


def test_a_class_that_gives_no_text_is_refused_when_loaded(llava: Path) -> None:
    edit(llava / "config.json", model_type="dinov2", architectures=["Dinov2Model"])
    with pytest.raises(ModelError, match="image-text-to-text") as error:
        load_model(resolve(llava), device="cpu")
    assert "Dinov2Model" in str(error.value)


def test_weights_of_another_shape_are_an_error(llava: Path) -> None:
    config = json.loads((llava / "config.json").read_text(encoding="utf-8"))
    config["text_config"]["intermediate_size"] = 44
    (llava / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(WeightsMismatchError, match="shape"):
        load_model(resolve(llava), device="cpu")


def test_an_unknown_family_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    folder = TINY_VLMS["generic"](tmp_path / "aya")
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ModelError, match="must have a chat template"):
        resolve(folder)


def test_llava_without_a_chat_template_takes_the_published_prompt(llava: Path) -> None:
    (llava / "chat_template.jinja").unlink()
    model = load_model(resolve(llava), device="cpu")
    visual = model.prepare([picture(1)])
    assert visual.probe.startswith("USER: <image><image>")
    assert visual.probe.endswith(" ASSISTANT:")
    tokenizer = model._processor.tokenizer
    assert tokenizer.convert_ids_to_tokens(model._find_targets(visual, "Yes").answer) == ["ĠYes", "</s>"]


@pytest.mark.parametrize(
    ("family", "tokens"), [("llava_next", ["ĠYes"]), ("qwen2_vl", ["Yes"]), ("gemma3", ["Yes"]), ("paligemma", ["Yes"])]
)
def test_an_answer_begins_as_the_template_goes_on(family: str, tokens: list[str], tmp_path: Path) -> None:
    model = load_model(resolve(TINY_VLMS[family](tmp_path / family)), device="cpu")
    found = model._find_targets(model.prepare([picture(1)]), "Yes").answer
    assert model._processor.tokenizer.convert_ids_to_tokens(found) == tokens


def test_a_templates_date_is_fixed(llava: Path) -> None:
    template = "{{ date_string | default(strftime_now('%s')) }} {% for c in messages[0]['content'] %}"
    template += "{% if c['type'] == 'image' %}<image>{% else %}{{ c['text'] }}{% endif %}{% endfor %}"
    (llava / "chat_template.jinja").write_text(template, encoding="utf-8")
    model = load_model(resolve(llava), device="cpu")
    assert model.prepare([picture(1)]).probe.startswith("26 Jul 2024 ")


def test_llava_pads_pictures_to_a_square_of_the_mean_colour(llava: Path) -> None:
    model = load_model(resolve(llava), device="cpu")
    wide = picture(1, width=72, height=24)
    found = model.prepare([wide]).inputs["pixel_values"][0].numpy()
    square = np.empty((72, 72, 3), dtype=np.uint8)
    square[:] = [127, 102, 76]  # int(255 · (0.5, 0.4, 0.3))
    square[24:48] = wide.pixels
    small = np.asarray(Image.fromarray(square).resize((24, 24), Image.Resampling.BICUBIC), dtype=np.float64)
    expected = (small / 255 - [0.5, 0.4, 0.3]) / [0.3, 0.25, 0.2]
    np.testing.assert_allclose(found, expected.transpose(2, 0, 1), atol=1e-6)


def test_models_are_known_by_their_short_names() -> None:
    for name, repo in (
        ("llava-v1.5-7b", "llava-hf/llava-1.5-7b-hf"),
        ("qwen2.5-vl-7b", "Qwen/Qwen2.5-VL-7B-Instruct"),
        ("paligemma2-3b-mix-448", "google/paligemma2-3b-mix-448"),
    ):
        card = find_card(name)
        assert card is not None
        assert card.id == f"hf:{repo}"
        assert card.licence


# --- videos

VIDEO = ("onevision", "internvl", "qwen2_vl", "qwen25_vl", "qwen3_vl")


def test_patches_of_equal_frames_are_those_of_the_picture(tmp_path: Path) -> None:
    from transformers import Qwen2VLImageProcessorPil

    settings = {"patch_size": 4, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.3, 0.25, 0.2], "resample": 3}
    frame = picture(5, width=90, height=70).pixels
    video = PatchVideo(settings)([np.stack([frame, frame])])
    unit = 8 * 8
    size = {"shortest_edge": 128 * unit, "longest_edge": 768 * unit}
    still = Qwen2VLImageProcessorPil(**settings, size=size)(Image.fromarray(frame), return_tensors="pt")
    assert video["video_grid_thw"].tolist() == still["image_grid_thw"].tolist()
    np.testing.assert_allclose(video["pixel_values_videos"], still["pixel_values"], atol=1e-5)


def test_patches_in_their_order_written_out() -> None:
    frames = np.random.default_rng(0).normal(size=(4, 3, 16, 24)).astype(np.float32)
    rows, grid = PatchVideo({"patch_size": 4}).patches(frames)
    assert grid == [2, 4, 6]
    expected = []
    for time in (0, 2):
        for down in (0, 8):
            for right in (0, 8, 16):
                for y, x in ((0, 0), (0, 4), (4, 0), (4, 4)):
                    part = frames[time : time + 2, :, down + y : down + y + 4, right + x : right + x + 4]
                    expected.append(part.transpose(1, 0, 2, 3).ravel())
    np.testing.assert_array_equal(rows, np.stack(expected))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((392, 392), (392, 392)),  # 196 tokens: as it is
        ((100, 100), (336, 336)),  # below 128 tokens of 28²: up
        ((2000, 1000), (1092, 532)),  # above 768 tokens: down
        ((28, 2800), (56, 3192)),
    ],
)
def test_frames_keep_their_shape_between_the_bounds(shape: tuple[int, int], expected: tuple[int, int]) -> None:
    assert PatchVideo({}).target(*shape) == expected


def test_a_frame_beyond_all_proportion_is_refused() -> None:
    with pytest.raises(ModelError, match="200 times"):
        PatchVideo({}).target(10, 2010)


def test_frames_are_squashed_and_normalised() -> None:
    settings = {"size": {"height": 24, "width": 24}, "resample": 3, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    frames = [picture(seed).pixels for seed in (1, 2)]
    found = FrameVideo(settings)([np.stack(frames)])["pixel_values_videos"].numpy()
    small = [np.asarray(Image.fromarray(frame).resize((24, 24), Image.Resampling.BICUBIC)) for frame in frames]
    expected = np.stack([(item / 255 - 0.5) / 0.5 for item in small]).transpose(0, 3, 1, 2)[None]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_frames_of_other_sizes_take_the_first_ones() -> None:
    first, second = picture(1).pixels, picture(2, width=30, height=30).pixels
    found = as_video([first, second])
    assert found.shape == (2, 40, 60, 3)
    np.testing.assert_array_equal(found[0], first)


def _frames_text(family: str, model: Any, visual: Any, question: str) -> str:
    start, end = "<s><|im_start|>user\n", f"{question}<|im_end|>\n<|im_start|>assistant\n"
    if family == "onevision":
        return start + "<video>" * (3 * 4 + 1) + end  # 2 × 2 tokens a frame, one for the line's end
    if family == "internvl":
        frame = "<img>" + "<IMG_CONTEXT>" * 4 + "</img>"
        return start + "\n".join(f"Frame{at}: {frame}" for at in (1, 2, 3)) + "\n" + end
    count = int(visual.inputs["video_grid_thw"][0, 1:].prod()) // 4
    opened, closed, pixel = "<|vision_start|>", "<|vision_end|>", "<|video_pad|>"
    if family != "qwen3_vl":
        return start + opened + pixel * (2 * count) + closed + end
    # Frames 0 and 1 at 0 and 0.5 s, then the third and its copy at 1 s.
    parts = "".join(f"<{time} seconds>{opened}{pixel * count}{closed}" for time in ("0.2", "1.0"))
    return start + opened + parts + closed + end


@pytest.mark.parametrize("family", VIDEO)
def test_videos_equal_plain_passes(family: str, tmp_path: Path) -> None:
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModelForImageTextToText

    folder = TINY_VLMS[family](tmp_path / family)
    model = load_model(resolve(folder), device="cpu")
    assert model.takes_video
    visual = model.prepare([picture(seed) for seed in (1, 2, 3)])
    questions = ("A cat?", "Is the dog running along the fence?")
    made = model.answer([visual], [(0, question) for question in questions])
    network = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for row, question in enumerate(questions):
        text = _frames_text(family, model, visual, question)
        ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False).ids])
        more = {}
        if family.startswith("qwen"):
            more["mm_token_type_ids"] = (ids == tokenizer.token_to_id("<|video_pad|>")).long() * 2
        with torch.no_grad():
            logits = network(input_ids=ids, **visual.inputs, **more, use_cache=False).logits[0, -1].double()
        expected = torch.log_softmax(logits, 0)[tokenizer.token_to_id("Yes")]
        assert made.columns["first_token"][row] == pytest.approx(float(expected), abs=1e-5)
    other = model.answer([model.prepare([picture(seed) for seed in (3, 2, 1)])], [(0, questions[0])])
    assert abs(other.columns["first_token"][0] - made.columns["first_token"][0]) > 1e-3  # the order of frames counts


def test_a_model_of_pictures_refuses_a_video(llava: Path) -> None:
    model = load_model(resolve(llava), device="cpu")
    assert not model.takes_video
    with pytest.raises(ModelError, match="one picture at a time"):
        model.prepare([picture(1), picture(2)])


def test_pictures_are_prepared_by_many_threads_alike(llava: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    model = load_model(resolve(llava), device="cpu")
    shown = [picture(seed) for seed in range(8)]
    prepare: Callable[[Any], Any] = lambda item: model.prepare([item])  # noqa: E731
    with ThreadPoolExecutor(4) as pool:
        many = list(pool.map(prepare, shown))
    for item, found in zip(shown, many, strict=True):
        alone = model.prepare([item])
        assert alone.ids == found.ids
        np.testing.assert_array_equal(alone.inputs["pixel_values"], found.inputs["pixel_values"])
