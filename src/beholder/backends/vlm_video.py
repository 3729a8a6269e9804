"""Frames of a video to a vision-language model's inputs, through Pillow: transformers' own way needs torchvision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import ModelError
from beholder.backends.files import read_json
from beholder.backends.preprocess import read_preprocessor
from beholder.backends.vlm_processor import image_settings

MIN_TOKENS, MAX_TOKENS = 128, 768
"""Tokens that a frame of Qwen-VL takes before frames are merged in pairs: the published bounds (qwen-vl-utils)."""
NOMINAL_RATE = 2.0
"""Frames a second that time stamps in prompts suppose: the rate at which the Qwen-VL models were published."""

_KEYS = ("size", "resample", "do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std")


def video_settings(folder: Path) -> dict[str, Any]:
    """The video part of a folder's preprocessing files, or else its image part."""
    if (folder / "processor_config.json").is_file():
        part = read_json(folder / "processor_config.json").get("video_processor")
        if isinstance(part, dict):
            return part
    if (folder / "video_preprocessor_config.json").is_file():
        return read_json(folder / "video_preprocessor_config.json")
    return image_settings(folder)


class FrameVideo:
    """Frames squashed to one size each: LLaVA-OneVision, InternVL.

    Stands in for a video processor of transformers: called with [(t, h, w, 3) uint8] it gives `pixel_values_videos`,
    (1, t, 3, height, width) float32.
    """

    model_input_names = ("pixel_values_videos",)
    valid_kwargs = None

    def __init__(self, settings: Mapping[str, Any]) -> None:
        chosen = {key: settings[key] for key in _KEYS if settings.get(key) is not None}
        self._pixels = read_preprocessor(chosen, model_type="siglip", image_size=384)

    def __call__(self, videos: Sequence[np.ndarray], **_: Any) -> dict[str, Any]:
        import torch

        frames = np.stack([self._pixels.to_float(frame) for frame in videos[0]])
        return {"pixel_values_videos": torch.from_numpy(frames)[None]}


class PatchVideo:
    """Frames at their own shape, cut into patches two frames deep: the Qwen-VL models.

    Called with [(t, h, w, 3) uint8] it gives `pixel_values_videos`, (patches, 3 · depth · side²) float32, and
    `video_grid_thw`, (1, 3). A last frame without a partner is repeated.
    """

    model_input_names = ("pixel_values_videos", "video_grid_thw")
    valid_kwargs = None

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.patch_size = int(settings.get("patch_size", 14))
        self.merge_size = int(settings.get("merge_size", 2))
        self.temporal_patch_size = int(settings.get("temporal_patch_size", 2))
        chosen = {key: settings[key] for key in _KEYS if key != "size" and settings.get(key) is not None}
        self._settings = chosen

    def __call__(self, videos: Sequence[np.ndarray], **_: Any) -> dict[str, Any]:
        import torch
        from transformers.video_utils import VideoMetadata

        frames = list(videos[0])
        count = len(frames)
        frames += [frames[-1]] * (-count % self.temporal_patch_size)
        height, width = self.target(*frames[0].shape[:2])
        pixels = read_preprocessor(
            {**self._settings, "size": {"height": height, "width": width}}, model_type="siglip", image_size=height
        )
        patches, grid = self.patches(np.stack([pixels.to_float(frame) for frame in frames]))
        facts = VideoMetadata(total_num_frames=count, fps=NOMINAL_RATE, frames_indices=list(range(count)))
        return {
            "pixel_values_videos": torch.from_numpy(patches),
            "video_grid_thw": torch.tensor([grid]),
            "video_metadata": [facts],
        }

    def target(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) of a frame: its shape to whole patches, between `MIN_TOKENS` and `MAX_TOKENS` of them.

        Raises:
            ModelError: a frame more than 200 times as long as it is wide.
        """
        if max(height, width) > 200 * min(height, width):
            raise ModelError("a frame may be 200 times as long as wide at most", got=f"{width}×{height}")
        unit = self.patch_size * self.merge_size
        sides = [max(unit, round(side / unit) * unit) for side in (height, width)]
        area = math.prod(sides)
        low, high = MIN_TOKENS * unit**2, MAX_TOKENS * unit**2
        if area > high:
            scale = math.sqrt(high / (height * width))
            sides = [max(unit, math.floor(side * scale / unit) * unit) for side in (height, width)]
        elif area < low:
            scale = math.sqrt(low / (height * width))
            sides = [math.ceil(side * scale / unit) * unit for side in (height, width)]
        return sides[0], sides[1]

    def patches(self, frames: np.ndarray) -> tuple[np.ndarray, list[int]]:
        """(t, 3, h, w) to rows of patches, neighbours that are merged later side by side, and the grid (t, h, w)."""
        depth, side, merge = self.temporal_patch_size, self.patch_size, self.merge_size
        count, channels, height, width = frames.shape
        grid = [count // depth, height // side, width // side]
        split = frames.reshape(
            grid[0], depth, channels, grid[1] // merge, merge, side, grid[2] // merge, merge, side
        )  # fmt: skip
        rows = split.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(math.prod(grid), channels * depth * side * side)
        return np.ascontiguousarray(rows), grid


def as_video(frames: Sequence[np.ndarray]) -> np.ndarray:
    """Frames as one (t, h, w, 3) array; frames of other sizes than the first are brought to its size.

    Frames of one video have one size; a list of pictures may not.
    """
    from PIL import Image

    height, width = frames[0].shape[:2]
    same = [
        frame
        if frame.shape[:2] == (height, width)
        else np.asarray(Image.fromarray(frame).resize((width, height), Image.Resampling.BICUBIC))
        for frame in frames
    ]
    return np.stack(same)
