"""VideoPrism-CLIP and X-CLIP through transformers' stock classes.

VideoPrism ("hf", `VideoTextEncoder`) embeds videos and texts apart. X-CLIP ("xclip", `Matcher` with the head "itc")
does not: its prompts generator changes every text embedding by the video at hand, so a text has no embedding of its
own and only a pair has a cosine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import ModelError, OptionError
from beholder.backends import hub
from beholder.backends.base import Columns, LoadOptions, Made, ResolvedModel
from beholder.backends.cards import card_of, refuse_planned
from beholder.backends.describing import (
    FolderEngine,
    describe_files,
    plain_card,
)
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.files import Choice, choose_hf, read_json
from beholder.backends.forward import forward_pass
from beholder.backends.hf_config import token_limit
from beholder.backends.hf_text import HFTokenizer
from beholder.backends.names import BUILT_IN, ModelName, parse_name
from beholder.backends.preprocess import Preprocessing, read_preprocessor
from beholder.backends.tensors import on_device, projected, to_numpy
from beholder.backends.torch_io import load_transformers, read_constants
from beholder.backends.video_clips import clip_tensor, prepare_clip
from beholder.media.base import Picture
from beholder.records import ModelCard

_VIDEO_FILES = ("video_preprocessor_config.json", "processor_config.json", "preprocessor_config.json")
_VIDEO_MAE: dict[str, Any] = {"resample": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
_RESIZED: dict[str, Any] = {"do_center_crop": False, "do_normalize": False}
_KINDS = {
    "videoprism": ("hf", "VideoPrismClipModel", 288, 16, 64, _RESIZED),
    "xclip": ("xclip", "XCLIPModel", 224, 8, 77, _VIDEO_MAE),
}
"""Model type → engine, class, and defaults: picture side, frames, tokens, preprocessing."""


class HFVideoEngine(FolderEngine):
    """One model type of transformers, from the hub or from a folder."""

    def __init__(self, kind: str, capability: str) -> None:
        self.name = _KINDS[kind][0]
        self._kind, self._capability = kind, capability

    def choose(self, names: Iterable[str]) -> Choice:
        return choose(names)

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(*BUILT_IN, self.name))
        card = card_of(parsed.id)
        refuse_planned(parsed.asked, card)
        if card is not None and card.family != self._kind:
            raise _wrong_kind(parsed, card.family)
        found = self.find(parsed, options)
        raw = read_json(found.folder / "config.json")
        if raw.get("model_type") != self._kind:
            raise _wrong_kind(parsed, str(raw.get("model_type")))
        return self._describe(parsed, card, found, raw, dtype)

    def load(self, model: ResolvedModel, *, device: str) -> Any:
        return (XCLIPMatcher if self._kind == "xclip" else VideoPrismEncoder)(model, device=device)

    def _describe(
        self, parsed: ModelName, card: ModelCard | None, found: hub.Found, raw: Mapping[str, Any], dtype: str
    ) -> ResolvedModel:
        _, _, side, frames, positions, defaults = _KINDS[self._kind]
        vision, text = raw.get("vision_config") or {}, raw.get("text_config") or {}
        side, frames = int(vision.get("image_size", side)), int(vision.get("num_frames", frames))
        square = {"shortest_edge": side} if self._kind == "xclip" else {"height": side, "width": side}
        config = {"size": square, **defaults, **_pixel_config(found.folder)}
        pixels = read_preprocessor(config, model_type=self._kind, image_size=side)
        if pixels.input_size != (side, side):
            raise ModelError(
                f"{parsed.asked} takes pictures of {side}×{side} pixels (config.json)",
                got=f"{pixels.input_size[0]}×{pixels.input_size[1]} from its preprocessing configuration",
                fix="The two files must belong together",
            )
        positions = int(text.get("max_position_embeddings", positions))
        length = min(positions, token_limit(found.folder) or positions)
        preprocessing = {
            **pixels.as_json(),
            "frames": frames,
            "text": {"context_length": length, "padding": "max_length"},
        }
        card = card or plain_card(parsed, engine=self.name, family=self._kind)
        return describe_files(
            parsed,
            dataclasses.replace(card, input_size=pixels.input_size, context_length=length),
            found,
            capability=self._capability,
            dtype=dtype,
            preprocessing=preprocessing,
            details={"model_type": self._kind},
            constants=read_constants([found.folder / item for item in found.files.weights]),
        )


VIDEOPRISM = HFVideoEngine("videoprism", "VideoTextEncoder")
XCLIP = HFVideoEngine("xclip", "Matcher")


def choose(names: Iterable[str]) -> Choice:
    """A whole model in transformers' layout; the preprocessing may stand in a file of videos."""
    have = set(names)
    video = tuple(name for name in _VIDEO_FILES if name in have)
    whole = choose_hf(have | {"preprocessor_config.json"} if video else have)
    others = tuple(name for name in whole.others if name in have)
    return Choice(whole.weights, tuple(dict.fromkeys((*others, *video))), whole.missing)


def _pixel_config(folder: Path) -> dict[str, Any]:
    """The preprocessing of frames, from whichever file has it; a joint file has it under the processor's name."""
    for name in _VIDEO_FILES:
        if (folder / name).is_file():
            content = read_json(folder / name)
            part = content.get("video_processor") or content.get("image_processor")
            if name != "processor_config.json" or part:
                found = part if isinstance(part, dict) else content
                return {key: value for key, value in found.items() if value is not None}
    return {}


def _wrong_kind(parsed: ModelName, kind: str) -> ModelError | OptionError:
    if kind == "xclip":
        return OptionError(
            "a model that embeds videos and texts apart is needed",
            got=f"{parsed.asked}, an X-CLIP: its text embeddings depend on the video",
            fix=f"It scores pairs: xclip:{parsed.path.absolute() if parsed.path else parsed.weights}",
        )
    return ModelError(
        "a video-text model of transformers must be a VideoPrism (hf:) or an X-CLIP (xclip:)",
        got=f"{kind!r} in {parsed.asked}",
        fix="For example hf:google/videoprism-lvt-base-f16r288 or xclip:microsoft/xclip-base-patch32",
    )


class _HFVideoModel:
    """What both have in common: preprocessing, tokenizer, network."""

    takes_video = True

    def __init__(self, model: ResolvedModel, *, device: str) -> None:
        self.model = model
        self.constants: Mapping[str, float] = dict(model.constants)
        self.frames = int(model.preprocessing["frames"])
        self._device = choose_device(device, dtype=model.dtype)
        on_cpu = self._device.type == "cpu"
        self.batch, self.pair_batch, self.text_batch = (2, 64, 64) if on_cpu else (16, 256, 256)
        self._pixels = Preprocessing.from_json(model.preprocessing)
        length = int(model.preprocessing["text"]["context_length"])
        self._tokenizer = HFTokenizer(Path(model.location), length=length)
        name = _KINDS[str(model.details["model_type"])][1]
        self._network: Any = load_transformers(model, name).to(self._device)
        self._table = on_device(self._pixels.table(), self._device)

    def prepare(self, pictures: Sequence[Picture]) -> np.ndarray:
        """(frames, 3, h, w) uint8; see `prepare_clip`."""
        return prepare_clip(pictures, self._pixels, self.frames)

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)

    def _clips(self, visuals: Sequence[Any]) -> Any:
        return clip_tensor(visuals, self._table).to(self._network.dtype)


class VideoPrismEncoder(_HFVideoModel):
    """VideoPrism with its text tower; a `VideoTextEncoder`. Zhao et al. 2024, arXiv 2402.13217."""

    def encode_videos(self, visuals: Sequence[Any]) -> Made:
        """Clips from `prepare` to the column "embedding", (n, d) float32."""
        with forward_pass():
            pooled = self._network.get_video_features(pixel_values_videos=self._clips(visuals)).pooler_output
            return Made({"embedding": to_numpy(pooled.flatten(1))})

    def encode_texts(self, texts: Sequence[str]) -> Columns:
        """Columns "embedding" (n, d), "n_tokens" and "truncated"."""
        tokens = self._tokenizer(texts)
        ids, mask = (on_device(part, self._device) for part in (tokens.ids, tokens.mask))
        with forward_pass():
            embedding = to_numpy(projected(self._network.get_text_features(input_ids=ids, attention_mask=mask)))
        return {"embedding": embedding, "n_tokens": tokens.n_tokens, "truncated": tokens.truncated}


class XCLIPMatcher(_HFVideoModel):
    """X-CLIP; a `Matcher` with the head "itc". Ni et al. 2022, arXiv 2208.02816."""

    def match(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], *, head: str = "itc") -> Made:
        """Cosines of pairs: the stock model's logits_per_video divided by its logit_scale.

        Args:
            visuals: clips from `prepare`; each is looked at once, whatever number of texts it has.
            pairs: (number of the clip, text).
            head: "itc"; there is no other.

        Returns:
            "cosine" (n,) float32, "n_tokens" (n,) int32 and "truncated" (n,) bool.

        Raises:
            OptionError: another head.
        """
        from torch.nn.functional import cosine_similarity

        if head != "itc":
            raise OptionError(f"head of {self.model.asked} must be 'itc' (X-CLIP has no matching head)", got=repr(head))
        texts = list(dict.fromkeys(text for _, text in pairs))
        row = {text: at for at, text in enumerate(texts)}
        tokens = self._tokenizer(texts)
        rows = np.asarray([row[text] for _, text in pairs], dtype=np.int64)
        numbers = np.asarray([number for number, _ in pairs], dtype=np.int64)
        values = np.empty(len(pairs), dtype=np.float32)
        with forward_pass():
            plain = self._texts(tokens.ids)
            for start in range(0, len(visuals), self.batch):
                videos, patches = self._look(visuals[start : start + self.batch])
                for at in range(len(videos)):
                    mine = np.flatnonzero(numbers == start + at)
                    if not len(mine):
                        continue
                    wanted = plain[on_device(rows[mine], self._device)][None]
                    told = wanted + self._network.prompts_generator(wanted, patches[at : at + 1])
                    cosines = cosine_similarity(videos[at][None, None].float(), told.float(), dim=-1)
                    values[mine] = to_numpy(cosines[0])
        return Made({"cosine": values, "n_tokens": tokens.n_tokens[rows], "truncated": tokens.truncated[rows]})

    def _texts(self, ids: np.ndarray) -> Any:
        """(n, t) ids to (n, d), before any video. The tower is causal, so padding behind the end needs no mask."""
        network = self._network
        pooled = network.text_model(input_ids=on_device(ids, self._device)).pooler_output
        return network.text_projection(pooled)

    def _look(self, visuals: Sequence[Any]) -> tuple[Any, Any]:
        """Clips to their embeddings (n, d) and to the patches, averaged over time, that texts look at (n, p, d)."""
        network, clips = self._network, self._clips(visuals)
        seen = network.vision_model(pixel_values=clips.flatten(0, 1))
        frames = network.visual_projection(seen.pooler_output).unflatten(0, clips.shape[:2])
        videos = network.mit(frames).pooler_output
        patches = network.prompts_visual_layernorm(seen.last_hidden_state[:, 1:]) @ network.prompts_visual_projection
        return videos, patches.unflatten(0, clips.shape[:2]).mean(1)
