"""Engine "yolo_world": YOLO-World v2-L with the image-prompt adapter, an `ExampleDetector` (see `yolo_world_network`).

    yolo-world-v2-l-image                              the published checkpoint, in OpenS2V's way
    yolo_world:v2-l-image-prompt, …-rgb                the same; pictures as RGB

The checkpoint is looked for where WORLDFOUNDRY_YOLO_WORLD_CKPT says (a file), then in the folder of OpenS2V's weights
(WORLDFOUNDRY_OPENS2V_WEIGHT_DIR), then like other weights. Examples are embedded by openai/clip-vit-base-patch32, or by
the folder of it that WORLDFOUNDRY_YOLO_CLIP_MODEL names.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import WeightsMissingError
from beholder.backends import hub
from beholder.backends.base import LoadOptions, Made, ResolvedModel
from beholder.backends.cards import card_of
from beholder.backends.cards_opens2v import YOLO_CLIP_REPO, YOLO_FILE
from beholder.backends.columns import object_column
from beholder.backends.describing import CardEngine, describe_parts, paths_of, whole_files
from beholder.backends.devices import choose_device, choose_dtype, release_memory
from beholder.backends.faces.find import Need, Part, find_parts
from beholder.backends.files import Choice, choose_weights, list_files, read_json
from beholder.backends.forward import forward_pass
from beholder.backends.letterbox import GRAY, SIDE, Letter, letterbox
from beholder.backends.names import BUILT_IN, ModelName, parse_name
from beholder.backends.preprocess import Preprocessing, read_preprocessor
from beholder.backends.tensors import normalise, on_device, stacked, to_numpy
from beholder.functional.boxes import suppress
from beholder.media.base import Picture
from beholder.records import ModelCard

CKPT_VARIABLE = "WORLDFOUNDRY_YOLO_WORLD_CKPT"
CLIP_VARIABLE = "WORLDFOUNDRY_YOLO_CLIP_MODEL"
OPENS2V_VARIABLE = "WORLDFOUNDRY_OPENS2V_WEIGHT_DIR"

FLOOR = 0.05
"""Boxes of a lower score are not kept: they cannot move those above, and the published 0.001 keeps thousands."""
IOU = 0.7
MOST = 300

EXTRAS = (
    re.compile(r"^backbone\.text_model\."),  # the text tower, which examples take the place of
    re.compile(r"^image_prompt_encoder\.image_encoder\."),  # stock CLIP, read from its own files
    re.compile(r"^image_prompt_encoder\.img_(mean|std)$"),
    re.compile(r"^data_preprocessor\."),
)
"""Names that the published checkpoint holds besides."""

_PART = Part("checkpoint", YOLO_FILE)


def choose_clip(names: Any) -> Choice:
    """The files of CLIP that embed a picture."""
    have = set(names)
    weights = choose_weights(have)
    others = tuple(name for name in ("config.json", "preprocessor_config.json") if name in have)
    missing = [name for name in ("config.json", "preprocessor_config.json") if name not in have]
    return Choice(weights, others, (*([] if weights else ["model.safetensors or pytorch_model.bin"]), *missing))


class YoloWorldEngine(CardEngine):
    """YOLO-World with image prompts, from the hub, a folder or a file."""

    name = "yolo_world"

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(*BUILT_IN, self.name))
        card = self.card(parsed, what="model", fix="Or name a file or folder")
        card = card or dataclasses.replace(self.cards()[0], id=parsed.id, weights=f"./{parsed.weights}", aliases=())
        found, clip = _find_both(parsed, card, options)
        config = read_json(clip.folder / "config.json")
        vision = config.get("vision_config") or {}
        pixels = read_preprocessor(
            read_json(clip.folder / "preprocessor_config.json"), model_type="clip",
            image_size=int(vision.get("image_size", 224)),
        )  # fmt: skip
        preprocessing = {
            "example": pixels.as_json(), "side": SIDE, "gray": GRAY, "resize": "area down, linear up (OpenCV)",
            "order": "RGB" if parsed.id.endswith("-rgb") else "BGR", "floor": FLOOR, "iou": IOU, "most": MOST,
        }  # fmt: skip
        return describe_parts(
            parsed,
            card,
            {"checkpoint": found, **paths_of(clip, "clip")},
            capability="ExampleDetector",
            dtype=choose_dtype(dtype, size_bytes=0),
            preprocessing=preprocessing,
            location=clip.folder,
            details={"weights": list(clip.files.weights)},
            locations={"checkpoint": str(found)},
        )

    def load(self, model: ResolvedModel, *, device: str) -> YoloWorldDetector:
        return YoloWorldDetector(model, device=device)


YOLO_WORLD = YoloWorldEngine()


def _find_both(parsed: ModelName, card: ModelCard, options: LoadOptions) -> tuple[Path, hub.Found]:
    """Checkpoint and CLIP; what is missing of either stands in one message."""
    told: list[WeightsMissingError] = []
    named = parsed.path or (Path(os.environ[CKPT_VARIABLE]).expanduser() if os.environ.get(CKPT_VARIABLE) else None)
    found: dict[str, Path] = {}
    try:
        if named is not None and not named.exists():
            raise WeightsMissingError(
                f"{parsed.asked} needs its checkpoint", got=f"no {named}", fix=f"Set {CKPT_VARIABLE} to {YOLO_FILE}"
            )
        need = Need(parsed.asked, card, (_PART,), variable=OPENS2V_VARIABLE)
        found = find_parts(need, options, named=named)
    except WeightsMissingError as error:
        told.append(error)
    try:
        clip = _find_clip(parsed, options)
    except WeightsMissingError as error:
        told.append(error)
    if told:
        raise WeightsMissingError(
            f"{parsed.asked} needs its checkpoint and the CLIP that embeds examples",
            got="neither" if len(told) == 2 else "one of the two",
            fix=f"{CKPT_VARIABLE} names the file {YOLO_FILE}, {CLIP_VARIABLE} the folder of {YOLO_CLIP_REPO}:\n\n"
            + "\n\n".join(map(str, told)),
        )
    return found["checkpoint"], clip


def _find_clip(parsed: ModelName, options: LoadOptions) -> hub.Found:
    named = os.environ.get(CLIP_VARIABLE, "").strip()
    if not named:
        wanted = hub.Wanted(parsed.asked, YOLO_CLIP_REPO, None, choose_clip, card_of(f"hf:{YOLO_CLIP_REPO}"))
        return hub.find(wanted, options)
    folder = Path(named).expanduser()
    must = f"{CLIP_VARIABLE} must name a folder of {YOLO_CLIP_REPO}"
    if not folder.is_dir():
        raise WeightsMissingError(must, got=f"no folder {folder}")
    return whole_files(folder, choose_clip(list_files(folder)), must=must)


class YoloWorldDetector:
    """YOLO-World prompted by pictures; an `ExampleDetector`."""

    takes_video = False

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        import torch
        from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

        from beholder.backends import yolo_world_network
        from beholder.backends.own_networks import assign_weights
        from beholder.backends.torch_io import fill_network, read_states

        self.model = model
        self.constants: Mapping[str, float] = {}
        self._device = choose_device(device, dtype=model.dtype)
        self.device = str(self._device)
        self.batch = self.pair_batch = 4 if self._device.type == "cpu" else 32
        dtype = getattr(torch, model.dtype)
        state = read_states([Path(model.locations["checkpoint"])])
        network = yolo_world_network.build(yolo_world_network.sizes_of(state))
        self._network: Any = assign_weights(
            network, state, name=model.asked, dtype=dtype, may_be_extra=EXTRAS
        ).to(self._device)  # fmt: skip
        folder = Path(model.location)
        own = {
            key: value
            for key, value in read_states(folder / str(name) for name in model.details["weights"]).items()
            if key.startswith(("vision_model.", "visual_projection."))
        }
        width = int(read_json(folder / "config.json").get("projection_dim", 512))
        config = CLIPVisionConfig.from_pretrained(str(folder), local_files_only=True, projection_dim=width)
        self._clip: Any = fill_network(
            CLIPVisionModelWithProjection, config, own, name=f"the CLIP of {model.asked}", dtype=model.dtype
        ).to(self._device)
        self._pixels = Preprocessing.from_json(model.preprocessing["example"])
        self._table = on_device(self._pixels.table(), self._device)
        self._reversed = model.preprocessing["order"] == "BGR"

    def prepare(self, pictures: Sequence[Picture]) -> Letter:
        """A frame in its square, channels as the network gets them."""
        made = letterbox(pictures[0].pixels)
        return dataclasses.replace(made, pixels=made.pixels[..., ::-1]) if self._reversed else made

    def prepare_example(self, picture: Picture) -> np.ndarray:
        """(width,) float32: the class embedding of an example."""
        pixels = on_device(self._pixels.to_uint8(picture.pixels)[None], self._device)
        with forward_pass():
            seen = self._clip(pixel_values=normalise(pixels, self._table).to(self._clip.dtype)).image_embeds
            return to_numpy(self._network.prompt(seen)[0])

    def detect_examples(self, visuals: Sequence[Letter], pairs: Sequence[tuple[int, np.ndarray]]) -> Made:
        """Boxes over `FLOOR`, suppressed at 0.7, the best 300; see `ExampleDetector`."""
        import torch

        boxes, scores = [], []
        with forward_pass():
            stack = on_device(stacked([visual.pixels for visual in visuals], self._device), self._device)
            dtype = next(self._network.parameters()).dtype
            maps = self._network.look(stack.permute(0, 3, 1, 2).to(dtype) / 255)
            guide = on_device(np.stack([example for _, example in pairs]), self._device).to(dtype)[:, None]
            rows = torch.tensor([at for at, _ in pairs], device=self._device)
            found, places = self._network.find([level[rows] for level in maps], guide)
            found, places = to_numpy(found), to_numpy(places)
        for (at, _), score, place in zip(pairs, found, places, strict=True):
            good = np.flatnonzero(score > FLOOR)
            back = visuals[at].to_picture(place[good])
            kept = suppress(place[good], score[good], iou=IOU)[:MOST]
            boxes.append(back[kept])
            scores.append(score[good][kept])
        size = np.array([visuals[at].size[::-1] for at, _ in pairs], dtype=np.int32)
        return Made({"boxes": object_column(boxes), "scores": object_column(scores), "size": size})

    def close(self) -> None:
        """Releases both networks and, on a GPU, their memory."""
        self._network = self._clip = None
        release_memory(self._device)
