"""Tiny models of OpenS2V with random weights, saved as the published ones are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.models_faces import random_state
from tests.models_vlm import TEXT, save, write, write_tokenizer


def make_gme(folder: Path, *, seed: int = 0) -> Path:
    """A GME: Qwen2-VL with patches of 14 px, merged two by two, whose tokenizer knows the form's last token."""
    from transformers import Qwen2VLConfig

    marks = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<|endoftext|>"]
    ids = write_tokenizer(folder, marks, template=None)
    write(folder / "preprocessor_config.json", {
        "image_processor_type": "Qwen2VLImageProcessor", "patch_size": 14, "merge_size": 2, "resample": 3,
        "temporal_patch_size": 2, "min_pixels": 3136, "max_pixels": 12845056,
        "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
    })  # fmt: skip
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}
    vision = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "mlp_ratio": 2, "patch_size": 14}
    config = Qwen2VLConfig(
        text_config={**TEXT, "rope_parameters": rope}, vision_config=vision,
        image_token_id=ids["<|image_pad|>"], video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"], vision_end_token_id=ids["<|vision_end|>"],
    )  # fmt: skip
    return save("Qwen2VLForConditionalGeneration", config, folder, seed)


def yolo_sizes() -> Any:
    """Widths of a tiny YOLO-World."""
    from beholder.backends.yolo_world_network import Sizes

    stages = ((8, 1), (16, 2), (16, 1), (24, 1))
    return Sizes(stem=4, stages=stages, neck_blocks=1, guide=12, heads=(2, 2, 3), bins=4, classes=20)


def yolo_state(shapes: dict[str, tuple[int, ...]], *, seed: int = 0, gain: float = 1.0) -> dict[str, Any]:
    """Random weights of these shapes; single numbers stay without axes."""
    return {key: value.reshape(shapes[key]) for key, value in random_state(shapes, seed=seed, gain=gain).items()}


def make_yolo_world(folder: Path, *, seed: int = 0, gain: float = 1.0) -> tuple[Path, Path]:
    """A tiny YOLO-World's checkpoint under its published name, with the extras that it holds, and a tiny CLIP."""
    import torch

    from beholder.backends.yolo_world_network import YoloWorld

    sizes = yolo_sizes()
    shapes = {key: tuple(value.shape) for key, value in YoloWorld(sizes).state_dict().items()}
    state = yolo_state(shapes, seed=seed, gain=gain)
    for at in range(3):  # few boxes over the threshold
        state[f"bbox_head.head_module.cls_contrasts.{at}.bias"] = torch.tensor(-3.6)
    extras = {
        "backbone.text_model.model.text_projection.weight": torch.zeros(2, 2),
        "image_prompt_encoder.image_encoder.visual_projection.weight": torch.zeros(2, 2),
        "image_prompt_encoder.img_mean": torch.zeros(1, 3, 1, 1),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "yolo_world_v2_l_image_prompt_adapter-719a7afb.pth"
    torch.save({"meta": {"epoch": 1}, "state_dict": {**state, **extras}}, path)
    return path, make_tiny_clip(folder / "clip", width=sizes.guide)


def make_tiny_clip(folder: Path, *, width: int, seed: int = 0) -> Path:
    """A CLIP whose embeddings have a given width."""
    from transformers import CLIPConfig

    part = {"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = CLIPConfig(
        vision_config={**part, "image_size": 32, "patch_size": 16}, text_config={**part, "vocab_size": 40},
        projection_dim=width,
    )  # fmt: skip
    folder.mkdir(parents=True)
    write(folder / "preprocessor_config.json", {
        "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 32}, "resample": 3,
        "crop_size": {"height": 32, "width": 32}, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.3, 0.25, 0.2],
    })  # fmt: skip
    return save("CLIPModel", config, folder, seed)
