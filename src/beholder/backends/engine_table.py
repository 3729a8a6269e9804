"""All engines by name, with what each serves, and those that plug-ins bring."""

from __future__ import annotations

from typing import Any

from beholder._errors import BeholderError, OptionError, UserError
from beholder._registry import Broken, Registry
from beholder.backends.base import Engine
from beholder.backends.names import BUILT_IN

ENGINES: Registry[Any] = Registry("engine", group="beholder.backends")
ENGINES.add("hf", "beholder.backends.hf_clip:HF")
ENGINES.add("demo", "beholder.backends.hf_clip:DEMO")
ENGINES.add("open_clip", "beholder.backends.open_clip:OPEN_CLIP")
ENGINES.add("hps", "beholder.backends.hps:HPS")
ENGINES.add("fake", "beholder.backends.fake:FAKE")
ENGINES.add("gme", "beholder.backends.gme:GME")

SPECIAL: Registry[Any] = Registry("engine for a capability")
"""Engines that serve a capability other than `ImageTextEncoder`, as "Capability/engine"."""

for _capability in ("Matcher", "AnswerScorer", "Judge"):
    SPECIAL.add(f"{_capability}/fake", f"beholder.backends.fake_models:FAKE_{_capability.upper()}")
SPECIAL.add("AnswerScorer/api", "beholder.backends.api.engine:ANSWERS")
SPECIAL.add("Judge/api", "beholder.backends.api.engine:JUDGE")
SPECIAL.add("AnswerScorer/hf", "beholder.backends.vlm:HF_VLMS")
SPECIAL.add("PictureHasher/pixels", "beholder.backends.picture_hash:PIXELS")
SPECIAL.add("ClipMeter/farneback", "beholder.backends.clip_meters:FARNEBACK_ENGINE")
SPECIAL.add("ClipMeter/differences", "beholder.backends.clip_meters:DIFFERENCES_ENGINE")
SPECIAL.add("FrameScorer/sharpness", "beholder.backends.clip_meters:SHARPNESS_ENGINE")
SPECIAL.add("FrameScorer/qalign", "beholder.backends.clip_meters:QALIGN_ENGINE")
SPECIAL.add("ExampleDetector/yolo_world", "beholder.backends.yolo_world:YOLO_WORLD")
SPECIAL.add("ExampleDetector/owlv2", "beholder.backends.owlv2_examples:OWLV2")
SPECIAL.add("FaceAnalyser/retinaface", "beholder.backends.faces.engines:RETINAFACE_ENGINE")
SPECIAL.add("FaceAnalyser/curricularface", "beholder.backends.faces.engines:CURRICULARFACE_ENGINE")
SPECIAL.add("FaceAnalyser/insightface", "beholder.backends.faces.engines:INSIGHTFACE_ENGINE")
SPECIAL.add("FaceAnalyser/dlib", "beholder.backends.faces.engines:DLIB_ENGINE")
SPECIAL.add("EmbeddingHead/aesthetic", "beholder.backends.aesthetic:AESTHETIC")
SPECIAL.add("ImageScorer/artscore", "beholder.backends.artscore:ARTSCORE")
SPECIAL.add("ImageScorer/pyiqa", "beholder.backends.pyiqa:PYIQA")
SPECIAL.add("ReferenceScorer/pyiqa", "beholder.backends.pyiqa:PYIQA")
SPECIAL.add("Matcher/hf", "beholder.backends.hf_blip:HF_BLIP")
SPECIAL.add("Matcher/lavis", "beholder.backends.lavis:LAVIS")
SPECIAL.add("Matcher/image_reward", "beholder.backends.reward:IMAGE_REWARD")
SPECIAL.add("Matcher/facescore", "beholder.backends.reward:FACESCORE")
SPECIAL.add("VideoTextEncoder/hf", "beholder.backends.video_hf:VIDEOPRISM")
SPECIAL.add("Matcher/xclip", "beholder.backends.video_hf:XCLIP")
SPECIAL.add("VideoTextEncoder/umt", "beholder.backends.umt:ENCODER")
SPECIAL.add("Matcher/umt", "beholder.backends.umt:MATCHER")
SPECIAL.add("VideoTextEncoder/internvideo2", "beholder.backends.internvideo2:ENCODER")
SPECIAL.add("Matcher/internvideo2", "beholder.backends.internvideo2:MATCHER")
SPECIAL.add("ImageEncoder/hf", "beholder.backends.hf_dino:HF_DINO")
SPECIAL.add("ImageEncoder/vbench", "beholder.backends.vbench:VBENCH")
SPECIAL.add("ImageEncoder/inception", "beholder.backends.inception:INCEPTION")
for _name in ("masks", "boxes", "color", "fake"):
    SPECIAL.add(f"Segmenter/{_name}", f"beholder.backends.segment.plain:{_name.upper()}")
for _name in (
    "sam3", "clipseg", "gdino+sam", "gdino+sam2", "mm-gdino+sam", "mm-gdino+sam2", "omdet+sam", "owlv2+sam",
):  # fmt: skip
    _attribute = _name.upper().replace("+", "_").replace("-", "_")
    SPECIAL.add(f"Segmenter/{_name}", f"beholder.backends.segment.engines:{_attribute}")


def engine_of(name: str, capability: str = "ImageTextEncoder") -> Engine:
    """An engine by name; a plug-in may give an engine, or something to call for one."""
    special = f"{capability}/{name}"
    if special in SPECIAL:
        value = SPECIAL.get(special)
    elif capability == "ImageTextEncoder" and name not in ENGINES:
        served = sorted(item.partition("/")[0] for item in SPECIAL.names() if item.partition("/")[2] == name)
        raise OptionError(f"an encoder of images and texts is needed; {name} gives {' and '.join(served)}", got=name)
    elif capability != "ImageTextEncoder" and name in (*BUILT_IN, *engine_names()) and not _serves(name, capability):
        raise OptionError(f"a model that serves {capability} is needed", got=f"engine {name!r}, which does not")
    else:
        value = ENGINES.get(name)
    if isinstance(value, type) or not hasattr(value, "resolve"):
        try:
            value = value()
        except Exception as error:
            raise UserError(
                f"the engine {name!r} must start", got=f"{type(error).__name__}: {error}", fix="Mend its package"
            ) from error
    engine: Engine = value
    return engine


def _serves(name: str, capability: str) -> bool:
    """True when a plug-in's engine says that it serves a capability (its `capabilities`)."""
    return name in ENGINES and capability in getattr(ENGINES.get(name), "capabilities", ())


def broken_engines() -> list[Broken]:
    """Plug-ins of engines that do not load, do not start or clash, and why."""
    found = {}
    for name in ENGINES.names():
        try:
            engine_of(name)
        except BeholderError as error:
            found[name] = Broken(name, ENGINES.target(name), getattr(error, "got", None) or str(error))
    # What the registry says of the same plug-in is nearer to its cause.
    return [
        *(item for name, item in found.items() if name not in {b.name for b in ENGINES.broken()}),
        *ENGINES.broken(),
    ]


def engine_names() -> tuple[str, ...]:
    """Names of all engines, whatever they serve."""
    return tuple(dict.fromkeys([*ENGINES.names(), *(name.partition("/")[2] for name in SPECIAL.names())]))
