"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL: positions in three dimensions, pictures at their own shape, videos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beholder.backends.vlm_prefix import PrefixVLM
from beholder.backends.vlm_video import MAX_TOKENS, MIN_TOKENS, NOMINAL_RATE, PatchVideo, as_video, video_settings
from beholder.media.base import Picture


class QwenVLM(PrefixVLM):
    """A Qwen-VL model.

    A picture or video takes less positions than it has tokens, so text goes on at an offset, which the model computes
    with the prefix. Frames have no time stamps here; where a prompt has them, they suppose two frames a second.
    """

    takes_video = True
    PROCESSOR_CLASS = "Qwen2VLProcessor"
    MODEL_CLASS = "Qwen2VLForConditionalGeneration"

    @classmethod
    def describe(cls, config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        video = {
            "settings": video_settings(folder),
            "tokens_a_frame": [MIN_TOKENS, MAX_TOKENS],
            "frames_a_second": NOMINAL_RATE,
        }
        return {**super().describe(config, folder), "video": video}

    def _video_processor(self, folder: Path) -> Any:
        return PatchVideo(video_settings(folder))

    def _pixels(self, pictures: Sequence[Picture], kind: str) -> dict[str, Any]:
        if kind == "image":
            return super()._pixels(pictures, kind)
        return {"videos": [as_video([picture.pixels for picture in pictures])]}

    def _positions(self, positions: Any) -> Any:
        return (positions + self._network.model.rope_deltas.to(positions.device))[None].expand(3, -1, -1)


class Qwen25VLM(QwenVLM):
    """A Qwen2.5-VL model."""

    PROCESSOR_CLASS = "Qwen2_5_VLProcessor"
    MODEL_CLASS = "Qwen2_5_VLForConditionalGeneration"


class Qwen3VLM(QwenVLM):
    """A Qwen3-VL model."""

    PROCESSOR_CLASS = "Qwen3VLProcessor"
    MODEL_CLASS = "Qwen3VLForConditionalGeneration"


class Qwen3MoeVLM(Qwen3VLM):
    """A Qwen3-VL model with experts."""

    MODEL_CLASS = "Qwen3VLMoeForConditionalGeneration"
