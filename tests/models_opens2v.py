"""Tiny models of OpenS2V with random weights, saved as the published ones are."""

from __future__ import annotations

from pathlib import Path

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
