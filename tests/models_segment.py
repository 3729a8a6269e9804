"""Tiny segmenters, detectors and image encoders with random weights, saved as the published ones are.

    make_tiny_sam3(folder), make_tiny_clipseg(folder)
    make_tiny_pair(folder, "gdino+sam2")      a detector in folder/detector, a mask model in folder/segmenter
    make_tiny_dino(folder), make_tiny_dinov2(folder), make_tiny_dinov3(folder)

Sizes are those of the tables that the projects' own tests use: widths of 8 to 32, one or two layers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.models import write_clip_tokenizer

IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
CLIP_IDS = {"vocab_size": 516, "bos_token_id": 514, "eos_token_id": 515, "pad_token_id": 515}
BERT_WORDS = (
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "a", "dog", "cat", "red", "square", "the", "teddy", "bear",
    "car",
)  # fmt: skip


def make_tiny_sam3(folder: Path, *, seed: int = 0, video: bool = False) -> Path:
    """A `Sam3Model` of 250,802 parameters; `video=True` saves it as the published file is: inside the video model."""
    from transformers import CLIPTextConfig, Sam3Config, Sam3Model, Sam3VisionConfig, Sam3ViTConfig

    backbone = Sam3ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=224, patch_size=14,
        window_size=8, global_attn_indexes=[0, 1], pretrain_image_size=224,
    )  # fmt: skip
    vision = Sam3VisionConfig(backbone_config=backbone, fpn_hidden_size=32, scale_factors=[2.0, 1.0])
    text = CLIPTextConfig(
        **{**TEXT, "intermediate_size": 64}, **CLIP_IDS, max_position_embeddings=32, projection_dim=32
    )
    small = {"hidden_size": 32, "num_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    config = Sam3Config(
        vision_config=vision, text_config=text, geometry_encoder_config=small, detr_encoder_config=small,
        detr_decoder_config={**small, "num_queries": 5},
        mask_decoder_config={"hidden_size": 32, "num_upsampling_stages": 2, "num_attention_heads": 4},
    )  # fmt: skip
    _save(Sam3Model, config, folder, seed)
    if video:
        _as_video(folder)
    write_clip_tokenizer(folder, limit=32)
    _write(folder / "preprocessor_config.json", {"size": {"height": 224, "width": 224}, "resample": 2, **HALF})
    return folder


def _as_video(folder: Path) -> None:
    """The layout of the published SAM 3: the detector's tensors and configuration inside those of the video model."""
    from safetensors.torch import load_file, save_file

    state = {f"detector_model.{key}": value for key, value in load_file(folder / "model.safetensors").items()}
    some = next(iter(state.values()))
    extra = {"tracker_model.memory.weight": some.clone(), "tracker_neck.fpn.weight": some.clone()}
    save_file({**state, **extra}, folder / "model.safetensors", metadata={"format": "pt"})
    inner = json.loads((folder / "config.json").read_text())
    _write(folder / "config.json", {
        "architectures": ["Sam3VideoModel"], "model_type": "sam3_video", "detector_config": inner,
    })  # fmt: skip


def make_tiny_clipseg(folder: Path, *, seed: int = 0) -> Path:
    """A `CLIPSegForImageSegmentation` of 92,959 parameters."""
    from transformers import CLIPSegConfig, CLIPSegForImageSegmentation

    config = CLIPSegConfig(
        text_config={**TEXT, **CLIP_IDS, "max_position_embeddings": 77},
        vision_config={**TEXT, "num_hidden_layers": 4, "image_size": 32, "patch_size": 16},
        projection_dim=32, reduce_dim=8, extract_layers=[0, 1, 2], decoder_intermediate_size=37,
        decoder_num_attention_heads=4,
    )  # fmt: skip
    _save(CLIPSegForImageSegmentation, config, folder, seed)
    write_clip_tokenizer(folder)
    _write(folder / "preprocessor_config.json", {"size": 32, "resample": 2, **IMAGENET})
    return folder


def make_tiny_gdino(folder: Path, *, seed: int = 0, mm: bool = False) -> Path:
    """A Grounding DINO (or its MM form) with a Swin backbone and a BERT of 15 words."""
    import transformers

    name = "MMGroundingDino" if mm else "GroundingDino"
    backbone = {
        "model_type": "swin", "embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 1, 1], "window_size": 7,
        "out_features": ["stage2", "stage3", "stage4"], "image_size": 64,
    }  # fmt: skip
    config = getattr(transformers, f"{name}Config")(
        backbone_config=backbone,
        text_config={"model_type": "bert", **TEXT, "vocab_size": len(BERT_WORDS), "max_position_embeddings": 64},
        d_model=32, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=37, decoder_ffn_dim=37,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_n_points=2, decoder_n_points=2, num_queries=10,
        num_feature_levels=4, max_text_len=64,
    )  # fmt: skip
    _save(getattr(transformers, f"{name}ForObjectDetection"), config, folder, seed)
    _bert_tokenizer(folder)
    _write(folder / "preprocessor_config.json", {
        "size": {"shortest_edge": 64, "longest_edge": 96}, "resample": 2, "do_pad": True, **IMAGENET,
    })  # fmt: skip
    return folder


def make_tiny_mm_gdino(folder: Path, *, seed: int = 0) -> Path:
    """An MM Grounding DINO."""
    return make_tiny_gdino(folder, seed=seed, mm=True)


def make_tiny_omdet(folder: Path, *, seed: int = 0) -> Path:
    """An OmDet-Turbo with a Swin backbone of transformers."""
    from transformers import OmDetTurboConfig, OmDetTurboForObjectDetection

    backbone = {
        "model_type": "swin", "embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 1, 1], "window_size": 7,
        "out_features": ["stage2", "stage3", "stage4"], "image_size": 64,
    }  # fmt: skip
    config = OmDetTurboConfig(
        text_config={"model_type": "clip_text_model", **TEXT, **CLIP_IDS, "max_position_embeddings": 77,
                     "projection_dim": 32},
        backbone_config=backbone, use_timm_backbone=False, backbone=None, apply_layernorm_after_vision_backbone=False,
        image_size=64, encoder_hidden_dim=16, decoder_hidden_dim=16, vision_features_channels=[16, 16, 16],
        encoder_in_channels=[16, 32, 64], num_queries=20, encoder_layers=1, decoder_num_layers=2,
        encoder_dim_feedforward=32,
        class_embed_dim=32, task_encoder_hidden_dim=32, decoder_dim_feedforward=32, num_projection_layers=1,
        encoder_attention_heads=4, decoder_num_heads=4, text_projection_in_dim=32, text_projection_out_dim=32,
        disable_custom_kernels=True, learn_initial_query=False, class_distance_type="cosine",
    )  # fmt: skip
    _save(OmDetTurboForObjectDetection, config, folder, seed)
    write_clip_tokenizer(folder)
    _write(folder / "preprocessor_config.json", {"size": {"height": 64, "width": 64}, "resample": 2, **IMAGENET})
    return folder


def make_tiny_owlv2(folder: Path, *, seed: int = 0) -> Path:
    """An `Owlv2ForObjectDetection` of 77,148 parameters."""
    from transformers import Owlv2Config, Owlv2ForObjectDetection

    config = Owlv2Config(
        text_config={**TEXT, **CLIP_IDS, "max_position_embeddings": 16},
        vision_config={**TEXT, "image_size": 64, "patch_size": 16}, projection_dim=32,
    )  # fmt: skip
    _save(Owlv2ForObjectDetection, config, folder, seed)
    write_clip_tokenizer(folder, limit=16)
    _write(folder / "preprocessor_config.json", {
        "size": {"height": 64, "width": 64}, "resample": 2, "do_pad": True, **CLIP,
    })  # fmt: skip
    return folder


def make_tiny_sam(folder: Path, *, seed: int = 0) -> Path:
    """A `SamModel` of 35,935 parameters."""
    from transformers import SamConfig, SamModel

    config = SamConfig(
        vision_config={
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "mlp_dim": 37, "output_channels": 16,
            "image_size": 64, "patch_size": 8, "window_size": 4, "global_attn_indexes": [1], "num_pos_feats": 8,
        },
        prompt_encoder_config={"hidden_size": 16, "image_size": 64, "patch_size": 8, "mask_input_channels": 4},
        mask_decoder_config={
            "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_dim": 32,
            "iou_head_hidden_dim": 16,
        },
    )  # fmt: skip
    _save(SamModel, config, folder, seed)
    _write(folder / "preprocessor_config.json", {
        "size": {"longest_edge": 64}, "pad_size": {"height": 64, "width": 64}, "do_pad": True, "resample": 2,
        **IMAGENET,
    })  # fmt: skip
    return folder


def make_tiny_sam2(folder: Path, *, seed: int = 0) -> Path:
    """A `Sam2Model` of 253,707 parameters."""
    from transformers import Sam2Config, Sam2Model

    backbone = {
        "model_type": "sam2_hiera_det_model", "hidden_size": 12, "num_attention_heads": 1, "image_size": [128, 128],
        "blocks_per_stage": [1, 2, 3, 1], "embed_dim_per_stage": [12, 24, 48, 96],
        "num_attention_heads_per_stage": [1, 2, 4, 8], "window_size_per_stage": [8, 4, 4, 2],
        "global_attention_blocks": [4], "window_positional_embedding_background_size": [7, 7],
    }  # fmt: skip
    config = Sam2Config(
        vision_config={
            "backbone_config": backbone, "backbone_channel_list": [96, 48, 24, 12],
            "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]], "fpn_hidden_size": 32,
        },
        prompt_encoder_config={"hidden_size": 32, "image_size": 128, "patch_size": 16, "mask_input_channels": 8},
        mask_decoder_config={
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_dim": 64,
            "iou_head_hidden_dim": 32,
        },
    )  # fmt: skip
    _save(Sam2Model, config, folder, seed)
    _write(folder / "preprocessor_config.json", {"size": {"height": 128, "width": 128}, "resample": 2, **IMAGENET})
    return folder


DETECTORS: dict[str, Callable[..., Path]] = {
    "gdino": make_tiny_gdino, "mm-gdino": make_tiny_mm_gdino, "omdet": make_tiny_omdet, "owlv2": make_tiny_owlv2,
}  # fmt: skip
MASKERS: dict[str, Callable[..., Path]] = {"sam": make_tiny_sam, "sam2": make_tiny_sam2}


def make_tiny_pair(folder: Path, name: str, *, seed: int = 0) -> Path:
    """A detector and a mask model side by side, as a folder of a segmenter that needs both holds them."""
    detector, _, masker = name.partition("+")
    DETECTORS[detector](folder / "detector", seed=seed)
    MASKERS[masker](folder / "segmenter", seed=seed)
    return folder


# encoders of pictures


def make_tiny_dino(folder: Path, *, seed: int = 0) -> Path:
    """A DINO: `ViTModel` without its pooler, pictures of 32 px; its files ask for another resize than was published."""
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(**TEXT, image_size=32, patch_size=8, qkv_bias=True)
    _save(lambda made: ViTModel(made, add_pooling_layer=False), config, folder, seed)
    _write(folder / "preprocessor_config.json", {"size": 32, "resample": 2, "do_resize": True, **IMAGENET})
    return folder


def make_tiny_dinov2(folder: Path, *, seed: int = 0) -> Path:
    """A DINOv2: positions of 70 px pictures, pictures of 42 px."""
    from transformers import Dinov2Config, Dinov2Model

    config = Dinov2Config(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=70, patch_size=14)
    _save(Dinov2Model, config, folder, seed)
    _write(folder / "preprocessor_config.json", {
        "size": {"shortest_edge": 48}, "crop_size": {"height": 42, "width": 42}, "do_center_crop": True, "resample": 3,
        **IMAGENET,
    })  # fmt: skip
    return folder


def make_tiny_dinov3(folder: Path, *, seed: int = 0) -> Path:
    """A DINOv3 ViT with register tokens, pictures squashed to 32 px."""
    from transformers import DINOv3ViTConfig, DINOv3ViTModel

    config = DINOv3ViTConfig(**TEXT, image_size=32, patch_size=8, num_register_tokens=4)
    _save(DINOv3ViTModel, config, folder, seed)
    _write(folder / "preprocessor_config.json", {"size": {"height": 32, "width": 32}, "resample": 2, **IMAGENET})
    return folder


ENCODERS: dict[str, Callable[..., Path]] = {
    "vit": make_tiny_dino, "dinov2": make_tiny_dinov2, "dinov3_vit": make_tiny_dinov3,
}  # fmt: skip


def _bert_tokenizer(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(BERT_WORDS) + "\n", encoding="utf-8")
    _write(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True})


def _save(model_class: Any, config: Any, folder: Path, seed: int) -> None:
    """A model with weights drawn from `seed`; no global generator is touched."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = model_class(config).eval()
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.ndim >= 2:
                    parameter.normal_(0.0, 0.2)
    folder.mkdir(parents=True, exist_ok=True)
    network.save_pretrained(folder)


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
