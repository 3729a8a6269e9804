"""Tiny vision-language models with random weights, saved as the published ones are: one builder a family.

    folder = TINY_VLMS["llava"](tmp_path / "llava")
    resolve_model(str(folder), capability="AnswerScorer")

All share a byte-level tokenizer in which "Yes", "yes", "No", "no" and their forms behind a space are single tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.models import byte_units

TEXT = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 40, "max_position_embeddings": 4096, "vocab_size": 320, "tie_word_embeddings": False,
}  # fmt: skip
VISION = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40, "image_size": 24,
    "patch_size": 6,
}  # fmt: skip
_MERGES = ("Y e", "Ye s", "y e", "ye s", "N o", "n o", "Ġ Yes", "Ġ yes", "Ġ No", "Ġ no", "t h", "th e", "Ġ the")
_MEAN = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.3, 0.25, 0.2]}

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}IMAGE{% elif c['type'] == 'video' %}VIDEO"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A chat template of the common form; IMAGE and VIDEO are replaced by a family's placeholders."""
COLON = (
    "{% for m in messages %}{{ m['role'] | upper }}: {% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>\n{% else %}{{ c['text'] }}{% endif %}"
    "{% endfor %}{% endif %} {% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
"""A template in LLaVA's form: the answer follows a colon and a space."""


def write_tokenizer(folder: Path, specials: Sequence[str], *, template: str | None, **named: str) -> dict[str, int]:
    """Tokenizer files; gives the ids of the special tokens. `named` are attributes such as image_token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    units = byte_units()
    merges = [(left, right) for left, right in (merge.split(" ") for merge in _MERGES)]
    words = [*units, *(left + right for left, right in merges)]
    tokenizer = Tokenizer(models.BPE({word: at for at, word in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    everything = ["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>", *specials]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in everything])
    start = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", start)])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>",
        "model_max_length": 4096, **({"extra_special_tokens": named} if named else {}),
    }  # fmt: skip
    write(folder / "tokenizer_config.json", settings)
    if template is not None:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return {token: tokenizer.token_to_id(token) for token in everything}


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def save(class_name: str, config: Any, folder: Path, seed: int, *, shards: str | None = None) -> Path:
    """A network of random weights. They are spread wider than at the start of a training, so that numbers differ."""
    import torch
    import transformers

    torch.manual_seed(seed)
    network = getattr(transformers, class_name)(config)
    with torch.no_grad():
        for name, tensor in sorted(network.named_parameters()):
            if tensor.ndim > 1:
                tensor.normal_(0, 0.15)
            elif "norm" not in name:
                tensor.normal_(0, 0.05)
    network.save_pretrained(folder, **({"max_shard_size": shards} if shards else {}))
    return folder


def make_llava(folder: Path, *, seed: int = 0, shards: str | None = None) -> Path:
    """LLaVA-1.5: a CLIP tower, a Llama."""
    from transformers import LlavaConfig

    ids = write_tokenizer(folder, ["<image>"], template=COLON)
    config = LlavaConfig(
        vision_config={**VISION, "model_type": "clip_vision_model", "num_hidden_layers": 3},
        text_config={**TEXT, "model_type": "llama"}, image_token_index=ids["<image>"],
    )  # fmt: skip
    write(folder / "preprocessor_config.json", {
        "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 24},
        "crop_size": {"height": 24, "width": 24}, "resample": 3, **_MEAN,
    })  # fmt: skip
    write(folder / "processor_config.json", {"processor_class": "LlavaProcessor", "image_token": "<image>"})
    return save("LlavaForConditionalGeneration", config, folder, seed, shards=shards)


def make_llava_next(folder: Path, *, seed: int = 0) -> Path:
    """LLaVA-1.6: the picture whole and in tiles of 24 px."""
    from transformers import LlavaNextConfig

    ids = write_tokenizer(folder, ["<image>"], template=COLON)
    grid = [[24, 48], [48, 24], [48, 48]]
    config = LlavaNextConfig(
        vision_config={**VISION, "model_type": "clip_vision_model", "num_hidden_layers": 3},
        text_config={**TEXT, "model_type": "mistral"}, image_token_index=ids["<image>"], image_grid_pinpoints=grid,
    )  # fmt: skip
    write(folder / "preprocessor_config.json", {
        "image_processor_type": "LlavaNextImageProcessor", "size": {"shortest_edge": 24},
        "crop_size": {"height": 24, "width": 24}, "image_grid_pinpoints": grid, "resample": 3, **_MEAN,
    })  # fmt: skip
    write(folder / "processor_config.json", {"processor_class": "LlavaNextProcessor", "patch_size": 6,
        "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1})  # fmt: skip
    return save("LlavaNextForConditionalGeneration", config, folder, seed)


def make_onevision(folder: Path, *, seed: int = 0) -> Path:
    """LLaVA-OneVision: a SigLIP tower, a Qwen2, pictures in tiles, videos."""
    from transformers import LlavaOnevisionConfig

    template = CHAT.replace("IMAGE", "<image>").replace("VIDEO", "<video>")
    ids = write_tokenizer(folder, ["<image>", "<video>"], template=template)
    grid = [[24, 48], [48, 24], [48, 48]]
    config = LlavaOnevisionConfig(
        vision_config={**VISION, "model_type": "siglip_vision_model"}, text_config={**TEXT, "model_type": "qwen2"},
        image_token_index=ids["<image>"], video_token_index=ids["<video>"], image_grid_pinpoints=grid,
    )  # fmt: skip
    write(folder / "preprocessor_config.json", {
        "image_processor_type": "LlavaOnevisionImageProcessor", "size": {"height": 24, "width": 24},
        "image_grid_pinpoints": grid, "resample": 3, **_MEAN,
    })  # fmt: skip
    write(folder / "processor_config.json", {"processor_class": "LlavaOnevisionProcessor", "num_image_tokens": 16,
        "vision_feature_select_strategy": "full"})  # fmt: skip
    return save("LlavaOnevisionForConditionalGeneration", config, folder, seed)


def make_internvl(folder: Path, *, seed: int = 0) -> Path:
    """InternVL in transformers' layout: 4 tokens a tile of 24 px."""
    from transformers import InternVLConfig

    named = {
        "start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }  # fmt: skip
    template = CHAT.replace("IMAGE", "<IMG_CONTEXT>\n").replace("VIDEO", "<video>\n")
    ids = write_tokenizer(folder, list(named.values()), template=template, **named)
    vision = {**VISION, "image_size": [24, 24], "patch_size": [6, 6], "use_qk_norm": False}
    config = InternVLConfig(
        vision_config=vision, text_config={**TEXT, "model_type": "qwen2"},
        image_token_id=ids["<IMG_CONTEXT>"], image_seq_length=4,
    )  # fmt: skip
    write(folder / "preprocessor_config.json", {
        "image_processor_type": "GotOcr2ImageProcessor", "size": {"height": 24, "width": 24}, "crop_to_patches": False,
        "min_patches": 1, "max_patches": 4, "resample": 3, **_MEAN,
    })  # fmt: skip
    write(folder / "processor_config.json", {"processor_class": "InternVLProcessor", "image_seq_length": 4})
    return save("InternVLForConditionalGeneration", config, folder, seed)


def _make_idefics(folder: Path, seed: int, name: str) -> Path:
    import transformers

    marks = ["<fake_token_around_image>", "<image>", "<global-img>", "<end_of_utterance>"]
    marks += [f"<row_{row}_col_{column}>" for row in (1, 2, 3, 4) for column in (1, 2, 3, 4)]
    ids = write_tokenizer(folder, marks, template=COLON.replace("<image>\n", "<image>"))
    config = getattr(transformers, f"{name}Config")(
        vision_config=VISION, text_config={**TEXT, "model_type": "llama", "pad_token_id": ids["<pad>"]},
        image_token_id=ids["<image>"], scale_factor=2, pad_token_id=ids["<pad>"],
    )  # fmt: skip
    write(folder / "preprocessor_config.json", {
        "image_processor_type": f"{name}ImageProcessor", "size": {"longest_edge": 48},
        "max_image_size": {"longest_edge": 24}, "do_image_splitting": True, "resample": 1, **_MEAN,
    })  # fmt: skip
    write(folder / "processor_config.json", {"processor_class": f"{name}Processor", "image_seq_len": 4})
    return save(f"{name}ForConditionalGeneration", config, folder, seed)


def make_idefics3(folder: Path, *, seed: int = 0) -> Path:
    """Idefics3: tiles of 24 px with rows and columns named in the prompt."""
    return _make_idefics(folder, seed, "Idefics3")


def make_smolvlm(folder: Path, *, seed: int = 0) -> Path:
    """SmolVLM, which is built like Idefics3."""
    return _make_idefics(folder, seed, "SmolVLM")


def make_gemma3(folder: Path, *, seed: int = 0) -> Path:
    """Gemma 3: one layer with a window of 512 places, one without; 4 tokens a picture."""
    from transformers import Gemma3Config

    named = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    template = "{{ bos_token }}" + CHAT.replace("IMAGE", "<start_of_image>")
    ids = write_tokenizer(folder, list(named.values()), template=template, **named)
    text = {**TEXT, "head_dim": 8, "sliding_window": 24, "layer_types": ["sliding_attention", "full_attention"]}
    config = Gemma3Config(
        text_config=text, vision_config={**VISION, "model_type": "siglip_vision_model"}, mm_tokens_per_image=4,
        boi_token_index=ids["<start_of_image>"], eoi_token_index=ids["<end_of_image>"],
        image_token_index=ids["<image_soft_token>"],
    )  # fmt: skip
    write(folder / "preprocessor_config.json", {
        "image_processor_type": "Gemma3ImageProcessor", "size": {"height": 24, "width": 24}, "resample": 2, **_MEAN,
    })  # fmt: skip
    write(folder / "processor_config.json", {"processor_class": "Gemma3Processor", "image_seq_length": 4})
    return save("Gemma3ForConditionalGeneration", config, folder, seed)


def make_paligemma(folder: Path, *, seed: int = 0) -> Path:
    """PaliGemma: 16 tokens a picture, no chat template."""
    from transformers import PaliGemmaConfig

    ids = write_tokenizer(folder, ["<image>"], template=None)
    config = PaliGemmaConfig(
        text_config={**TEXT, "model_type": "gemma", "head_dim": 8, "vocab_size": 1600},
        vision_config={**VISION, "model_type": "siglip_vision_model", "projection_dim": 32}, projection_dim=32,
        image_token_index=ids["<image>"], hidden_size=32,
    )  # fmt: skip
    write(folder / "preprocessor_config.json", {
        "image_processor_type": "SiglipImageProcessor", "size": {"height": 24, "width": 24}, "resample": 3,
        "image_seq_length": 16, **_MEAN,
    })  # fmt: skip
    return save("PaliGemmaForConditionalGeneration", config, folder, seed)


def _write_qwen(folder: Path, patch: int) -> dict[str, int]:
    marks = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    template = CHAT.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    template = template.replace("VIDEO", "<|vision_start|><|video_pad|><|vision_end|>")
    write(folder / "preprocessor_config.json", {
        "image_processor_type": "Qwen2VLImageProcessor", "patch_size": patch, "merge_size": 2, "resample": 3,
        "temporal_patch_size": 2, "size": {"shortest_edge": 256, "longest_edge": 1600}, **_MEAN,
    })  # fmt: skip
    return write_tokenizer(folder, marks, template=template)


def _qwen_ids(ids: dict[str, int]) -> dict[str, int]:
    return {
        "image_token_id": ids["<|image_pad|>"], "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"], "vision_end_token_id": ids["<|vision_end|>"],
    }  # fmt: skip


def make_qwen2_vl(folder: Path, *, seed: int = 0) -> Path:
    """Qwen2-VL: patches of 4 px, merged two by two."""
    from transformers import Qwen2VLConfig

    folder.mkdir(parents=True)
    ids = _write_qwen(folder, 4)
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "mlp_ratio": 2, "patch_size": 4}
    config = Qwen2VLConfig(text_config={**TEXT, "rope_parameters": rope}, vision_config=vision, **_qwen_ids(ids))
    return save("Qwen2VLForConditionalGeneration", config, folder, seed)


def make_qwen25_vl(folder: Path, *, seed: int = 0) -> Path:
    """Qwen2.5-VL: windows of 16 px in the first layer of the tower, the second sees everything."""
    from transformers import Qwen2_5_VLConfig

    folder.mkdir(parents=True)
    ids = _write_qwen(folder, 4)
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}
    vision = {
        "depth": 2, "hidden_size": 32, "intermediate_size": 40, "num_heads": 4, "patch_size": 4, "window_size": 16,
        "out_hidden_size": 32, "fullatt_block_indexes": [1], "tokens_per_second": 2,
    }  # fmt: skip
    config = Qwen2_5_VLConfig(text_config={**TEXT, "rope_parameters": rope}, vision_config=vision, **_qwen_ids(ids))
    return save("Qwen2_5_VLForConditionalGeneration", config, folder, seed)


def make_qwen3_vl(folder: Path, *, seed: int = 0) -> Path:
    """Qwen3-VL: features of the tower's first layer are added inside the language model."""
    from transformers import Qwen3VLConfig

    folder.mkdir(parents=True)
    ids = _write_qwen(folder, 4)
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0, "mrope_interleaved": True}
    vision = {
        "depth": 2, "hidden_size": 32, "intermediate_size": 40, "num_heads": 4, "patch_size": 4,
        "out_hidden_size": 32, "deepstack_visual_indexes": [0], "num_position_embeddings": 64,
    }  # fmt: skip
    text = {**TEXT, "rope_parameters": rope, "head_dim": 8}
    config = Qwen3VLConfig(text_config=text, vision_config=vision, **_qwen_ids(ids))
    return save("Qwen3VLForConditionalGeneration", config, folder, seed)


def make_qwen3_vl_moe(folder: Path, *, seed: int = 0) -> Path:
    """Qwen3-VL with four experts, of which two serve a token."""
    from transformers import Qwen3VLMoeConfig

    folder.mkdir(parents=True)
    ids = _write_qwen(folder, 4)
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0, "mrope_interleaved": True}
    vision = {
        "depth": 2, "hidden_size": 32, "intermediate_size": 40, "num_heads": 4, "patch_size": 4,
        "out_hidden_size": 32, "deepstack_visual_indexes": [0], "num_position_embeddings": 64,
    }  # fmt: skip
    text = {
        **TEXT, "rope_parameters": rope, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
    }  # fmt: skip
    config = Qwen3VLMoeConfig(text_config=text, vision_config=vision, **_qwen_ids(ids))
    return save("Qwen3VLMoeForConditionalGeneration", config, folder, seed)


def make_mllama(folder: Path, *, seed: int = 0) -> Path:
    """Llama 3.2 Vision: three layers of text, the second of them looks at the picture; up to four tiles of 24 px."""
    from transformers import MllamaConfig

    template = "{{ bos_token }}" + CHAT.replace("IMAGE", "<|image|>")
    ids = write_tokenizer(folder, ["<|image|>", "<|python_tag|>"], template=template)
    ratios = [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]
    vision = {
        "hidden_size": 32, "num_hidden_layers": 2, "num_global_layers": 1, "attention_heads": 4, "image_size": 24,
        "patch_size": 6, "intermediate_size": 40, "intermediate_layers_indices": [0, 1], "vision_output_dim": 96,
        "max_num_tiles": 4, "supported_aspect_ratios": ratios,
    }  # fmt: skip
    text = {
        **TEXT, "num_hidden_layers": 3, "cross_attention_layers": [1], "pad_token_id": ids["<pad>"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }  # fmt: skip
    config = MllamaConfig(text_config=text, vision_config=vision, image_token_index=ids["<|image|>"])
    write(folder / "preprocessor_config.json", {
        "image_processor_type": "MllamaImageProcessor", "size": {"height": 24, "width": 24}, "max_image_tiles": 4,
        "resample": 2, **_MEAN,
    })  # fmt: skip
    return save("MllamaForConditionalGeneration", config, folder, seed)


def make_aya(folder: Path, *, seed: int = 0) -> Path:
    """Aya Vision: a family without code of its own here, for the generic adapter."""
    from transformers import AyaVisionConfig

    marks = {"image": "<image>", "patch": "<|IMG_PATCH|>", "start": "<|START_OF_IMG|>", "end": "<|END_OF_IMG|>"}
    marks |= {"line": "<|IMG_LINE_BREAK|>", "tile": "TILE", "global": "TILE_GLOBAL"}
    ids = write_tokenizer(folder, list(marks.values()), template=CHAT.replace("IMAGE", "<image>"))
    config = AyaVisionConfig(
        text_config={**TEXT, "model_type": "llama"}, vision_config={**VISION, "model_type": "siglip_vision_model"},
        image_token_index=ids["<|IMG_PATCH|>"], downsample_factor=2, adapter_layer_norm_eps=1e-6,
        alignment_intermediate_size=40,
    )  # fmt: skip
    write(folder / "preprocessor_config.json", {
        "image_processor_type": "GotOcr2ImageProcessor", "size": {"height": 24, "width": 24}, "crop_to_patches": True,
        "min_patches": 1, "max_patches": 4, "resample": 3, **_MEAN,
    })  # fmt: skip
    write(folder / "processor_config.json", {"processor_class": "AyaVisionProcessor", "patch_size": 12, "img_size": 24})
    return save("AyaVisionForConditionalGeneration", config, folder, seed)


TINY_VLMS: dict[str, Callable[..., Path]] = {
    "llava": make_llava,
    "llava_next": make_llava_next,
    "onevision": make_onevision,
    "internvl": make_internvl,
    "idefics3": make_idefics3,
    "smolvlm": make_smolvlm,
    "gemma3": make_gemma3,
    "paligemma": make_paligemma,
    "qwen2_vl": make_qwen2_vl,
    "qwen25_vl": make_qwen25_vl,
    "qwen3_vl": make_qwen3_vl,
    "qwen3_vl_moe": make_qwen3_vl_moe,
    "mllama": make_mllama,
    "generic": make_aya,
}
