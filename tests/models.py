"""Tiny models with random weights, saved as the published ones are: builders that any test may use.

    folder = make_tiny_clip(tmp_path / "clip", seed=0)
    resolve_model(str(folder))

Sizes follow one table: towers of width 32, two layers, four heads. Weights come from the seed alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
VISION = {**TEXT, "image_size": 30, "patch_size": 6}
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
WORDS = ("a", "photo", "of", "cat", "dog", "red", "car", "x", "the", "street", "猫", "一", "只")


def make_tiny_clip(folder: Path, *, seed: int = 0, activation: str = "quick_gelu", vocabulary: int = 516) -> Path:
    """A CLIP of 51,669 parameters (pictures of 30 px, texts of 77 tokens) with a byte-level tokenizer."""
    from transformers import CLIPConfig, CLIPModel

    text = {
        **TEXT, "vocab_size": vocabulary, "max_position_embeddings": 77, "hidden_act": activation,
        "bos_token_id": 514, "eos_token_id": 515, "pad_token_id": 515,
    }  # fmt: skip
    config = CLIPConfig(text_config=text, vision_config={**VISION, "hidden_act": activation}, projection_dim=16)
    _save(CLIPModel, config, folder, seed)
    write_clip_tokenizer(folder)
    write_preprocessor(folder)
    return folder


def make_tiny_siglip(folder: Path, *, seed: int = 0, vocabulary: int = 64) -> Path:
    """A SigLIP (pictures of 30 px squashed, texts of 16 tokens) with a word tokenizer that ends in an end token."""
    from transformers import SiglipConfig, SiglipModel

    text = {**TEXT, "vocab_size": vocabulary, "max_position_embeddings": 16, "projection_size": 32}
    text |= {"bos_token_id": None, "eos_token_id": 0, "pad_token_id": 0}
    _save(SiglipModel, SiglipConfig(text_config=text, vision_config=VISION), folder, seed)
    write_word_tokenizer(folder, template="$A </s>", specials=("</s>", "<unk>"), limit=16, pad="</s>")
    _write(folder / "preprocessor_config.json", {
        "image_processor_type": "SiglipImageProcessor", "do_resize": True, "size": {"height": 30, "width": 30},
        "resample": 3, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
    })  # fmt: skip
    return folder


def make_tiny_metaclip2(folder: Path, *, seed: int = 0) -> Path:
    """A MetaCLIP 2: CLIP's towers with a tokenizer of the XLM kind."""
    from transformers import MetaClip2Config, MetaClip2Model

    text = {**TEXT, "vocab_size": 64, "max_position_embeddings": 24}
    text |= {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
    _save(MetaClip2Model, MetaClip2Config(text_config=text, vision_config=VISION, projection_dim=16), folder, seed)
    write_word_tokenizer(
        folder, template="<s> $A </s>", specials=("<s>", "<pad>", "</s>", "<unk>"), limit=24, pad="<pad>"
    )
    write_preprocessor(folder)
    return folder


def make_tiny_altclip(folder: Path, *, seed: int = 0) -> Path:
    """An AltCLIP: a RoBERTa text tower, whose positions begin behind the padding id."""
    from transformers import AltCLIPConfig, AltCLIPModel

    text = {
        **TEXT, "vocab_size": 64, "max_position_embeddings": 26, "project_dim": 16, "pad_token_id": 1,
        "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1,
    }  # fmt: skip
    _save(AltCLIPModel, AltCLIPConfig(text_config=text, vision_config=VISION, projection_dim=16), folder, seed)
    write_word_tokenizer(
        folder, template="<s> $A </s>", specials=("<s>", "<pad>", "</s>", "<unk>"), limit=24, pad="<pad>"
    )
    write_preprocessor(folder)
    return folder


def make_tiny_chinese_clip(folder: Path, *, seed: int = 0) -> Path:
    """A ChineseCLIP: a BERT text tower; pictures are squashed to a square, as its published files ask."""
    from transformers import ChineseCLIPConfig, ChineseCLIPModel

    text = {**TEXT, "vocab_size": 64, "max_position_embeddings": 24, "pad_token_id": 0, "type_vocab_size": 2}
    config = ChineseCLIPConfig(text_config=text, vision_config=VISION, projection_dim=16)
    _save(ChineseCLIPModel, config, folder, seed)
    write_word_tokenizer(
        folder, template="[CLS] $A [SEP]", specials=("[PAD]", "[UNK]", "[CLS]", "[SEP]"), limit=24, pad="[PAD]"
    )
    write_preprocessor(folder, size={"height": 30, "width": 30}, crop=None)
    return folder


TINY_FAMILIES: dict[str, Callable[..., Path]] = {
    "clip": make_tiny_clip,
    "siglip": make_tiny_siglip,
    "metaclip2": make_tiny_metaclip2,
    "altclip": make_tiny_altclip,
    "chinese_clip": make_tiny_chinese_clip,
}


def write_preprocessor(folder: Path, *, size: Any = 30, crop: Any = 30) -> None:
    """CLIP's preprocessing at 30 px, in the form of the published files."""
    settings = {
        "do_resize": True, "size": size, "resample": 3, "do_center_crop": crop is not None, "crop_size": crop,
        "do_normalize": True, "image_mean": list(CLIP_MEAN), "image_std": list(CLIP_STD),
    }  # fmt: skip
    _write(folder / "preprocessor_config.json", {key: value for key, value in settings.items() if value is not None})


def write_clip_tokenizer(folder: Path, *, limit: int = 77) -> None:
    """A CLIP tokenizer of 516 entries: 256 byte units, their word-final forms, two merges, start and end."""
    units = byte_units()
    vocabulary = [*units, *(unit + "</w>" for unit in units), "ca", "cat</w>", "<|startoftext|>", "<|endoftext|>"]
    _write(folder / "vocab.json", {token: index for index, token in enumerate(vocabulary)})
    (folder / "merges.txt").write_text("#version: 0.2\nc a\nca t</w>\n", encoding="utf-8")
    _write(folder / "tokenizer_config.json", {
        "tokenizer_class": "CLIPTokenizer", "model_max_length": limit, "bos_token": "<|startoftext|>",
        "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "unk_token": "<|endoftext|>",
    })  # fmt: skip


def byte_units() -> list[str]:
    """One printable character for each byte: the alphabet of byte-level vocabularies."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    shown = {byte: chr(byte) if byte in plain else chr(next(spare)) for byte in range(256)}
    order = plain + [byte for byte in range(256) if byte not in plain]
    return [shown[byte] for byte in order]


def write_word_tokenizer(folder: Path, *, template: str, specials: tuple[str, ...], limit: int, pad: str) -> None:
    """A tokenizer of whole words with the start and end tokens of `template`."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    unknown = next(token for token in specials if "unk" in token.lower())
    vocabulary = {token: index for index, token in enumerate((*specials, *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(token, vocabulary[token]) for token in specials if token in template]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=ends)
    tokenizer.add_special_tokens(list(specials))
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": limit, "pad_token": pad, "unk_token": unknown,
    })  # fmt: skip


def _save(model_class: Any, config: Any, folder: Path, seed: int) -> None:
    """A model with weights drawn from `seed`, wide enough that embeddings differ clearly; no global RNG is touched."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = model_class(config).eval()
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.ndim >= 2:
                    parameter.normal_(0.0, 0.25)
    folder.mkdir(parents=True, exist_ok=True)
    network.save_pretrained(folder)


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
