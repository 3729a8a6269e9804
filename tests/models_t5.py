"""Tiny encoder-decoder vision-language models with random weights, saved as the published ones are.

    folder = make_tiny_clip_flant5(tmp_path / "clip-t5", seed=0)
    resolve_model(str(folder), capability="AnswerScorer")

T5 of width 32, two layers each side, four heads; an output layer of its own, as Flan-T5 has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.models import CLIP_MEAN, CLIP_STD, write_word_tokenizer

T5 = {
    "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "vocab_size": 160,
    "feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new", "is_gated_act": True, "layer_norm_epsilon": 1e-6,
    "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "dropout_rate": 0.1,
    "is_encoder_decoder": True, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0,
    "tie_word_embeddings": False,
}  # fmt: skip
TOWER = {
    "hidden_size": 24, "intermediate_size": 29, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 30,
    "patch_size": 6, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5,
}  # fmt: skip
PIECES = ("▁Yes", "▁yes", "Yes", "▁YES", "▁No", "▁no", "▁Does", "▁this", "▁figure", "▁show", "▁a", "▁cat", "▁dog")
BLIP_TOWER = {
    "hidden_size": 24, "intermediate_size": 29, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 30,
    "patch_size": 6,
}  # fmt: skip
QFORMER = {
    "vocab_size": 24, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 21,
    "encoder_hidden_size": 24, "cross_attention_frequency": 1, "max_position_embeddings": 160, "pad_token_id": 0,
}  # fmt: skip


def make_tiny_clip_flant5(folder: Path, *, seed: int = 0, scale: float = 0.15) -> Path:
    """A CLIP-FlanT5 in the published layout: one `.bin` with CLIP's tower inside, pictures of 30 px (25 tokens)."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    torch.save(clip_flant5_state(seed=seed, scale=scale), folder / "pytorch_model.bin")
    _write(folder / "config.json", {
        "architectures": ["CLIPT5ForConditionalGeneration"], "model_type": "clip_t5", **T5,
        "mm_vision_tower": "tiny", "vision_config": TOWER, "mm_hidden_size": TOWER["hidden_size"],
        "mm_projector_type": "mlp2x_gelu", "mm_vision_select_layer": -2, "mm_vision_select_feature": "patch",
        "mm_use_im_start_end": False, "mm_use_im_patch_token": False, "use_mm_proj": True, "image_aspect_ratio": "pad",
    })  # fmt: skip
    write_t5_tokenizer(folder)
    return folder


def clip_flant5_state(*, seed: int, scale: float) -> dict[str, Any]:
    """The tensors of a tiny CLIP-FlanT5 under their published names."""
    import torch
    from transformers import CLIPVisionConfig, CLIPVisionModel, T5Config, T5ForConditionalGeneration

    language = T5ForConditionalGeneration(T5Config(**T5)).state_dict()
    tower = CLIPVisionModel(CLIPVisionConfig(**TOWER)).state_dict()
    state = dict(language)
    for key, value in tower.items():
        # transformers 5 dropped a level of names that the published file has.
        state["vision_tower.vision_tower.vision_model." + key.removeprefix("vision_model.")] = value
    width, inner = T5["d_model"], TOWER["hidden_size"]
    for key, shape in (
        ("0.weight", (width, inner)),
        ("0.bias", (width,)),
        ("2.weight", (width, width)),
        ("2.bias", (width,)),
    ):
        state[f"mm_projector.{key}"] = torch.empty(shape)
    state = _drawn(state, seed=seed, scale=scale)
    for side in ("encoder", "decoder"):
        state[f"{side}.embed_tokens.weight"] = state["shared.weight"]
    return state


def make_tiny_blip2_t5(folder: Path, *, seed: int = 0) -> Path:
    """A BLIP-2 with T5: 4 queries, pictures of 30 px squashed."""
    from transformers import Blip2Config, Blip2ForConditionalGeneration

    config = Blip2Config(vision_config=BLIP_TOWER, qformer_config=QFORMER, text_config={"model_type": "t5", **T5},
                         num_query_tokens=4, image_token_index=159)  # fmt: skip
    _save(Blip2ForConditionalGeneration, config, folder, seed=seed)
    write_t5_tokenizer(folder)
    write_blip_preprocessor(folder)
    return folder


def make_tiny_instructblip_t5(folder: Path, *, seed: int = 0) -> Path:
    """An InstructBLIP with T5: as BLIP-2, and a second tokenizer (BERT's kind) for the Q-Former."""
    from transformers import InstructBlipConfig, InstructBlipForConditionalGeneration

    text = {"model_type": "t5", **T5}
    config = InstructBlipConfig(vision_config=BLIP_TOWER, qformer_config=QFORMER, text_config=text,
                                num_query_tokens=4, image_token_index=159)  # fmt: skip
    _save(InstructBlipForConditionalGeneration, config, folder, seed=seed)
    write_t5_tokenizer(folder)
    write_blip_preprocessor(folder)
    (folder / "qformer_tokenizer").mkdir(exist_ok=True)
    write_word_tokenizer(
        folder / "qformer_tokenizer", template="[CLS] $A [SEP]", specials=("[PAD]", "[UNK]", "[CLS]", "[SEP]"),
        limit=512, pad="[PAD]",
    )  # fmt: skip
    return folder


TINY_T5_FAMILIES: dict[str, Callable[..., Path]] = {
    "clip_t5": make_tiny_clip_flant5,
    "blip-2": make_tiny_blip2_t5,
    "instructblip": make_tiny_instructblip_t5,
}


def write_t5_tokenizer(folder: Path) -> None:
    """A unigram tokenizer with T5's marks and end token: whole words above, single letters for the rest."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    letters = [chr(code) for code in range(33, 127)]
    entries = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -4.0)]
    entries += [(piece, -2.0) for piece in PIECES] + [(letter, -6.0) for letter in letters]
    tokenizer = Tokenizer(models.Unigram(entries, unk_id=2, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, "pad_token": "<pad>",
        "eos_token": "</s>", "unk_token": "<unk>",
    })  # fmt: skip


def write_blip_preprocessor(folder: Path) -> None:
    """BLIP's preprocessing at 30 px, in the form of the published files."""
    _write(folder / "preprocessor_config.json", {
        "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True,
        "image_mean": list(CLIP_MEAN), "image_std": list(CLIP_STD), "image_processor_type": "BlipImageProcessor",
        "processor_class": "Blip2Processor", "resample": 3, "rescale_factor": 1 / 255,
        "size": {"height": 30, "width": 30},
    })  # fmt: skip


def _save(model_class: Any, config: Any, folder: Path, *, seed: int) -> None:
    """Weights as published: the output layer is stored beside the embeddings, and the file says that they differ."""
    from safetensors.torch import save_file

    network = model_class(config)
    state = _drawn(dict(network.state_dict()), seed=seed, scale=0.15)
    for side in ("encoder", "decoder"):
        state.pop(f"language_model.{side}.embed_tokens.weight")
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    written = json.loads(network.config.to_json_string())
    written["text_config"]["tie_word_embeddings"] = False
    written["text_config"].pop("scale_decoder_outputs", None)
    _write(folder / "config.json", written)


def _drawn(state: dict[str, Any], *, seed: int, scale: float) -> dict[str, Any]:
    """Tensors of the same shapes, drawn from `seed` alone; norms near 1. No global RNG is touched."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    drawn = {}
    for key in sorted(state):
        noise = torch.randn(state[key].shape, generator=generator) * (scale if state[key].ndim >= 2 else 0.1)
        norm = state[key].ndim == 1 and key.endswith("weight")
        drawn[key] = (noise + 1.0 if norm else noise).contiguous()
    return drawn


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
