"""Every engine that runs a torch network, on a tiny model, and one call of everything that it can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import models_blip, models_faces, models_opens2v, models_scores, models_segment, models_sets, models_video
from tests.backends.backends_pictures import noise_picture
from tests.models import TINY_FAMILIES
from tests.models_t5 import TINY_T5_FAMILIES
from tests.models_vlm import TINY_VLMS

from beholder.backends.tensors import stacked

PICTURES = [noise_picture(44, 61, seed=1), noise_picture(60, 31, seed=2)]
CLIPS = [[noise_picture(45, 61, seed=10 * number + at) for at in range(3)] for number in range(2)]
TEXTS = ["a cat", "a red car of the street " + "the dog " * 5, "a dog"]
PAIRS = [(0, TEXTS[0]), (1, TEXTS[1]), (0, TEXTS[2])]
PHRASES = [(0, "a dog"), (1, "a red car")]

Found = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """An engine.

    Args:
        make: makes a tiny model in a folder (and sets what must be set), and gives its name.
        capability: what it is resolved for.
        run: calls all that it can do; columns by name.
    """

    make: Callable[[Path, pytest.MonkeyPatch], str]
    capability: str
    run: Callable[[Any], Found]


# --- one call of everything


def encode(model: Any) -> Found:
    """An encoder of pictures, of texts and of patches, as far as it is one."""
    batch = stacked([model.prepare_image(picture) for picture in PICTURES], model.device)
    found = {"image": model.encode_images(batch)}
    if hasattr(model, "encode_texts"):
        found |= _named("text", model.encode_texts(TEXTS))
    if hasattr(model, "encode_patches") and model.model.details.get("model_type") != "siglip":
        found |= _named("patches", model.encode_patches(batch))
    return found


def match(model: Any, *, heads: tuple[str, ...] = ("itm", "itc"), clips: bool = False) -> Found:
    """A matcher by its heads."""
    visuals = [model.prepare(pictures) for pictures in (CLIPS if clips else [[one] for one in PICTURES])]
    return _join({head: model.match(visuals, PAIRS, head=head).columns for head in heads})


def match_xclip(model: Any) -> Found:
    """X-CLIP, which has one head."""
    return dict(model.match([model.prepare(clip) for clip in CLIPS], PAIRS).columns)


def encode_videos(model: Any) -> Found:
    """An encoder of videos and texts."""
    made = model.encode_videos([model.prepare(clip) for clip in CLIPS])
    return _named("video", made.columns) | _named("text", model.encode_texts(TEXTS))


def answer(model: Any) -> Found:
    """An answer of one token and one of several, about pictures and, where it takes them, videos."""
    shown = {"picture": [model.prepare([picture]) for picture in PICTURES]}
    if model.takes_video:
        shown["video"] = [model.prepare(clip) for clip in CLIPS]
    parts = {}
    for kind, visuals in shown.items():
        for text in ("Yes", "No, it is not"):
            made = model.answer(visuals, PAIRS, answer=text)
            assert not made.failures
            parts[f"{kind} {text}"] = made.columns
    return _join(parts)


def segment(model: Any) -> Found:
    """Masks by phrases; the threshold is low enough for untrained networks to find something."""
    made = model.segment([model.prepare([one]) for one in PICTURES], PHRASES, threshold=0.001, mask_threshold=0.5)
    assert all(len(scores) for scores in made.columns["scores"])
    return dict(made.columns)


def detect(model: Any) -> Found:
    """Boxes by examples."""
    examples = [model.prepare_example(picture) for picture in PICTURES]
    visuals = [model.prepare([picture]) for picture in PICTURES]
    made = model.detect_examples(visuals, [(0, examples[0]), (1, examples[1]), (0, examples[1])])
    assert all(len(scores) for scores in made.columns["scores"])
    return dict(made.columns)


def score(model: Any) -> Found:
    """A score a picture."""
    return dict(model.score_images([model.prepare([picture]) for picture in PICTURES]).columns)


def analyse(model: Any) -> Found:
    """Faces of pictures."""
    return dict(model.analyse([model.prepare([picture]) for picture in PICTURES]).columns)


def _named(name: str, columns: Mapping[str, np.ndarray]) -> Found:
    return {f"{name} {column}": values for column, values in columns.items()}


def _join(parts: Mapping[str, Mapping[str, np.ndarray]]) -> Found:
    return {key: values for name, columns in parts.items() for key, values in _named(name, columns).items()}


# --- the engines


def _case(
    capability: str, run: Callable[[Any], Found], prefix: str, make: Callable[..., Path], **settings: Any
) -> Case:
    return Case(lambda folder, _: f"{prefix}{make(folder / 'model', **settings)}", capability, run)


def _yolo_world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    checkpoint, clip = models_opens2v.make_yolo_world(folder, gain=1.5)
    monkeypatch.setenv("WORLDFOUNDRY_YOLO_WORLD_CKPT", str(checkpoint))
    monkeypatch.setenv("WORLDFOUNDRY_YOLO_CLIP_MODEL", str(clip))
    return "yolo-world-v2-l-image"


def _open_clip(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("open_clip", reason="open_clip is not installed (base environment)")
    from tests.backends.test_backends_open_clip import make_open_clip

    return str(make_open_clip(folder / "model"))


def _pair(name: str) -> Case:
    return _case("Segmenter", segment, f"{name}:", models_segment.make_tiny_pair, name=name, seed=3)


def _itm(model: Any) -> Found:
    return match(model, heads=("itm",))


def _clips(model: Any) -> Found:
    return match(model, clips=True)


CASES: dict[str, Case] = {
    **{name: _case("ImageTextEncoder", encode, "", make) for name, make in TINY_FAMILIES.items()},
    "open_clip": Case(_open_clip, "ImageTextEncoder", encode),
    "hps": _case("ImageTextEncoder", encode, "hps:", models_scores.make_tiny_hps),
    "gme": _case("ImageTextEncoder", encode, "gme:", models_opens2v.make_gme),
    "dino": _case("ImageEncoder", encode, "", models_segment.make_tiny_dino),
    "dinov2": _case("ImageEncoder", encode, "", models_segment.make_tiny_dinov2),
    "dinov3": _case("ImageEncoder", encode, "", models_segment.make_tiny_dinov3),
    "vbench-dino": _case("ImageEncoder", encode, "vbench:", models_segment.make_tiny_dino),
    "vbench-clip": _case("ImageEncoder", encode, "vbench:", TINY_FAMILIES["clip"]),
    "blip": _case("Matcher", match, "", models_blip.make_tiny_blip),
    "blip2": _case("Matcher", match, "", models_blip.make_tiny_blip2),
    "lavis": _case("Matcher", match, "lavis:", models_blip.make_tiny_lavis),
    "image_reward": _case("Matcher", _itm, "image_reward:", models_blip.make_tiny_reward),
    "facescore": _case("Matcher", _itm, "facescore:", models_blip.make_tiny_reward, weights="FS_model.pt"),
    "xclip": _case("Matcher", match_xclip, "xclip:", models_video.make_tiny_xclip),
    "umt": _case("Matcher", _clips, "umt:", models_video.make_tiny_umt),
    "umt-videos": _case("VideoTextEncoder", encode_videos, "umt:", models_video.make_tiny_umt),
    "internvideo2": _case("Matcher", _clips, "internvideo2:", models_video.make_tiny_internvideo2),
    "internvideo2-videos": _case(
        "VideoTextEncoder", encode_videos, "internvideo2:", models_video.make_tiny_internvideo2
    ),
    "videoprism": _case("VideoTextEncoder", encode_videos, "hf:", models_video.make_tiny_videoprism),
    **{f"t5-{name}": _case("AnswerScorer", answer, "", make) for name, make in TINY_T5_FAMILIES.items()},
    **{f"vlm-{name}": _case("AnswerScorer", answer, "", make) for name, make in TINY_VLMS.items()},
    **{name: _pair(name) for name in ("gdino+sam", "mm-gdino+sam2", "omdet+sam", "owlv2+sam")},
    "sam3": _case("Segmenter", segment, "sam3:", models_segment.make_tiny_sam3, seed=1),
    "clipseg": _case("Segmenter", segment, "clipseg:", models_segment.make_tiny_clipseg, seed=1),
    "owlv2": _case("ExampleDetector", detect, "owlv2:", models_segment.make_tiny_owlv2),
    "yolo_world": Case(_yolo_world, "ExampleDetector", detect),
    "artscore": Case(
        lambda folder, _: f"artscore:{models_scores.make_artscore(folder / 'model.pth')}", "ImageScorer", score
    ),
    "inception": Case(
        lambda folder, _: f"inception:{models_sets.make_inception(folder / 'model.pth')}", "ImageEncoder", encode
    ),
    "retinaface": _case("FaceAnalyser", analyse, "retinaface:", models_faces.save_retinaface),
}
