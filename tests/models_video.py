"""Tiny video-text models with weights made by arithmetic, saved as the published ones are.

    file = make_tiny_umt(tmp_path)
    resolve_model(f"umt:{file}", capability="VideoTextEncoder")

Weights of UMT and InternVideo2 come from a tensor's name alone, so that golden values hold on every machine. X-CLIP
and VideoPrism are made with transformers' own classes, from a seed.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from tests.models import WORDS, _save, _write, write_clip_tokenizer

BERT = {"width": 128, "inner": 96, "layers": 4, "fusion_layer": 2, "vocabulary": 24, "positions": 40, "types": 2}
PATCH = 56


def fill(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor by its name: normal numbers, around 1 for norms and scales, small for biases."""
    values = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    if name == "temp":
        return np.float32(0.07)
    if name.endswith((".gamma", "ls1.gamma")) or ("norm" in name.lower() and name.endswith("weight")):
        return (1 + 0.1 * values).astype(np.float32)
    if "embed" in name and "proj" not in name:
        return (0.5 * values).astype(np.float32)
    return (values * (0.1 if len(shape) < 2 else 1.5 / np.sqrt(np.prod(shape[1:])))).astype(np.float32)


def state_of(layout: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """A state dict of that layout, filled by name."""
    import torch

    return {name: torch.from_numpy(np.array(fill(name, tuple(shape)))) for name, shape in layout.items()}


def umt_sizes() -> Any:
    """Sizes of a UMT with 2 blocks of width 128 over 4 × 4 patches a frame."""
    from beholder.backends.bert_fusion import BertSizes
    from beholder.backends.umt_network import UMTSizes

    return UMTSizes(128, 192, 2, (1, PATCH, PATCH), 32, BertSizes(**BERT, visual_width=128))


def internvideo2_sizes() -> Any:
    """Sizes of an InternVideo2 with 2 blocks of width 176 over 4 × 4 patches of 4 frames."""
    from beholder.backends.bert_fusion import BertSizes
    from beholder.backends.internvideo2_network import InternVideo2Sizes

    return InternVideo2Sizes(176, 96, 2, (1, PATCH, PATCH), 4 * 16 + 1, 48, 32, BertSizes(**BERT, visual_width=176))


def published_name(name: str) -> str:
    """The name that a pretrained checkpoint has for a tensor."""
    return f"text_encoder.bert.{name.removeprefix('text_encoder.')}" if name.startswith("text_encoder.") else name


def make_tiny_umt(folder: Path) -> Path:
    """A UMT checkpoint as published: wrapped, with teacher, decoders and the head for masked words."""
    extras = {
        "clip_teacher.class_embedding": (8,),
        "vision_encoder.clip_decoder.0.head.weight": (8, 128),
        "text_encoder.cls.predictions.bias": (24,),
        "text_encoder.embeddings.position_ids": (1, 40),
    }
    return _save_checkpoint(folder / "umt_tiny.pth", umt_sizes().layout() | extras, "model")


def make_tiny_internvideo2(folder: Path) -> Path:
    """An InternVideo2 stage 2 checkpoint as published: wrapped, with what belongs to its training."""
    extras = {
        "vision_encoder.clip_decoder.0.head.weight": (8, 176),
        "vision_encoder.final_clip_decoder.norm.bias": (8,),
        "vision_encoder.clip_pos_embed": (1, 65, 176),
        "vision_encoder.clip_img_pos_embed": (1, 17, 176),
        "vision_encoder.img_pos_embed": (1, 17, 176),
        "text_encoder.cls.predictions.bias": (24,),
    }
    return _save_checkpoint(folder / "internvideo2_tiny.pt", internvideo2_sizes().layout() | extras, "module")


def _save_checkpoint(path: Path, layout: dict[str, tuple[int, ...]], wrapper: str) -> Path:
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    state = {published_name(name): tensor for name, tensor in state_of(layout).items()}
    torch.save({wrapper: state, "epoch": 9}, path)
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS)
    (path.parent / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    return path


def make_tiny_xclip(folder: Path, *, seed: int = 0) -> Path:
    """An X-CLIP (clips of 4 frames of 32 px, texts of 77 tokens)."""
    from transformers import XCLIPConfig, XCLIPModel

    towers = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
    text = {**towers, "vocab_size": 516, "max_position_embeddings": 77}
    text |= {"bos_token_id": 514, "eos_token_id": 515, "pad_token_id": 515}
    vision = {
        **towers, "image_size": 32, "patch_size": 8, "num_frames": 4, "mit_hidden_size": 16,
        "mit_intermediate_size": 24, "mit_num_attention_heads": 2,
    }  # fmt: skip
    config = XCLIPConfig(
        text_config=text, vision_config=vision, projection_dim=16, prompt_num_attention_heads=2, prompt_alpha=0.5
    )
    _save(XCLIPModel, config, folder, seed)
    write_clip_tokenizer(folder)
    _write(folder / "preprocessor_config.json", {
        "feature_extractor_type": "VideoMAEFeatureExtractor", "do_resize": True, "size": {"shortest_edge": 32},
        "resample": 2, "do_center_crop": True, "crop_size": {"height": 32, "width": 32}, "do_normalize": True,
        "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
    })  # fmt: skip
    return folder


def make_tiny_videoprism(folder: Path, *, seed: int = 0) -> Path:
    """A VideoPrism with a text tower (clips of 4 frames of 36 px, texts of 16 tokens)."""
    from transformers import VideoPrismClipModel, VideoPrismConfig, VideoPrismTokenizer

    towers = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 40}
    vision = {**towers, "image_size": 36, "num_frames": 4, "tubelet_size": [1, 12, 12], "num_spatial_layers": 2}
    vision |= {"num_temporal_layers": 1, "num_auxiliary_layers": 1}
    text = {**towers, "vocab_size": 24, "num_hidden_layers": 2, "max_position_embeddings": 16}
    _save(VideoPrismClipModel, VideoPrismConfig(text_config=text, vision_config=vision), folder, seed)
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -9.0), *((f"▁{word}", -2.0) for word in WORDS)]
    VideoPrismTokenizer(vocab=pieces, extra_ids=0, model_max_length=16).save_pretrained(folder)
    _write(folder / "video_preprocessor_config.json", {
        "video_processor_type": "LlavaOnevisionVideoProcessor", "do_resize": True, "size": {"height": 36, "width": 36},
        "resample": 3, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": False, "do_center_crop": None,
    })  # fmt: skip
    return folder
