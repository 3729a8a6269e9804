"""LLaVA, LLaVA-NeXT, LLaVA-OneVision, InternVL, Idefics3, SmolVLM and Gemma 3: what sets each apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder.backends.vlm_prefix import PrefixVLM
from beholder.backends.vlm_prompt import Style
from beholder.backends.vlm_video import FrameVideo, as_video, video_settings
from beholder.media.base import Picture

_VICUNA = "USER: {visual}\n{question} ASSISTANT:"


class LlavaVLM(PrefixVLM):
    """LLaVA-1.5. Pictures are padded to a square with the mean colour, as the model was trained and published.

    The sequence of an answer ends in the end token, as in the published VQAScore of LLaVA-1.5 (Lin et al. 2024,
    arXiv 2404.01291): the mean over its tokens is the variant `sequence_mean`.
    """

    MODEL_CLASS = "LlavaForConditionalGeneration"
    PROCESSOR_CLASS = "LlavaProcessor"
    STYLE = Style(plain=_VICUNA, lead=" ", counts_end=True)

    @classmethod
    def describe(cls, config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        return {**super().describe(config, folder), "padded": "to a square, with int(255 · mean)"}

    def _fill_processor(self) -> None:
        fill_llava(self._processor.processor, self._network.config)

    def _pixels(self, pictures: Sequence[Picture], kind: str) -> dict[str, Any]:
        mean = [int(255 * value) for value in self._processor.images.image_mean]
        return {"images": [pad_square(pictures[0].pixels, mean)]}


class LlavaNextVLM(PrefixVLM):
    """LLaVA-1.6 (LLaVA-NeXT): the picture whole and in tiles."""

    MODEL_CLASS = "LlavaNextForConditionalGeneration"
    PROCESSOR_CLASS = "LlavaNextProcessor"
    STYLE = Style(plain=_VICUNA, lead=" ")

    def _fill_processor(self) -> None:
        fill_llava(self._processor.processor, self._network.config)


class _FramesVLM(PrefixVLM):
    """A family that takes the frames of a video squashed to one size each."""

    takes_video = True

    @classmethod
    def describe(cls, config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        return {**super().describe(config, folder), "video_processor": video_settings(folder)}

    def _video_processor(self, folder: Path) -> Any:
        return FrameVideo(video_settings(folder))

    def _pixels(self, pictures: Sequence[Picture], kind: str) -> dict[str, Any]:
        if kind == "image":
            return super()._pixels(pictures, kind)
        return {"videos": [as_video([picture.pixels for picture in pictures])]}


class OneVisionVLM(_FramesVLM):
    """LLaVA-OneVision: one picture in tiles, or a video's frames."""

    MODEL_CLASS = "LlavaOnevisionForConditionalGeneration"
    PROCESSOR_CLASS = "LlavaOnevisionProcessor"


class InternVLM(_FramesVLM):
    """InternVL in transformers' own layout (repositories that end in -hf)."""

    MODEL_CLASS = "InternVLForConditionalGeneration"
    PROCESSOR_CLASS = "InternVLProcessor"


class Idefics3VLM(PrefixVLM):
    """Idefics3."""

    MODEL_CLASS = "Idefics3ForConditionalGeneration"
    PROCESSOR_CLASS = "Idefics3Processor"


class SmolVLM(PrefixVLM):
    """SmolVLM and SmolVLM2, one picture at a time.

    Their still pictures are written into the prompt as those of Idefics3, from which the model comes; its processor
    is used because SmolVLM's own needs one more package for the words of a video's prompt.
    """

    MODEL_CLASS = "SmolVLMForConditionalGeneration"
    PROCESSOR_CLASS = "Idefics3Processor"


class Gemma3VLM(PrefixVLM):
    """Gemma 3. Tokens of the picture look at each other, text looks back only, so the prefix is shared all the same."""

    MODEL_CLASS = "Gemma3ForConditionalGeneration"
    PROCESSOR_CLASS = "Gemma3Processor"


def fill_llava(processor: Any, config: Any) -> None:
    """Sets what old processor files of LLaVA leave out; it follows from the model's configuration."""
    if processor.patch_size is None:
        processor.patch_size = int(config.vision_config.patch_size)
    if processor.vision_feature_select_strategy is None:
        processor.vision_feature_select_strategy = config.vision_feature_select_strategy
        # CLIP's tower has a class token before the patches, SigLIP's has none.
        processor.num_additional_image_tokens = int("clip" in config.vision_config.model_type)


def pad_square(pixels: np.ndarray, colour: Sequence[int]) -> Any:
    """A picture in the middle of the smallest square that holds it, as a Pillow image."""
    from PIL import Image

    height, width = pixels.shape[:2]
    side = max(height, width)
    square = Image.new("RGB", (side, side), (colour[0], colour[1], colour[2]))
    square.paste(Image.fromarray(pixels), ((side - width) // 2, (side - height) // 2))
    return square
