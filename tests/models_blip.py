"""Tiny models of the BLIP family with random weights, saved as the published ones are.

    make_tiny_blip(folder)           transformers' BLIP for retrieval (pictures of 32 px)
    make_tiny_blip2(folder)          transformers' BLIP-2 for retrieval (pictures of 28 px)
    make_tiny_reward(folder)         ImageReward.pt, med_config.json, vocab.txt (pictures of 224 px, as published)
    make_tiny_reward(folder, weights="FS_model.pt")
    make_tiny_lavis(folder)          blip2_pretrained_vitL.pth, clip_vit_L.pth, vocab.txt

Attention heads are 64 wide, as in the published models, since some of their files do not say so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
BERT_WORDS = (
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "photo", "of", "cat", "dog", "red", "car", "the", "face",
    ".", "on", "wet", "street", "##s", "blue",
)  # fmt: skip
WIDTH = 128
MED_CONFIG = {
    "architectures": ["BertModel"], "hidden_act": "gelu", "hidden_size": WIDTH, "intermediate_size": 96,
    "layer_norm_eps": 1e-12, "max_position_embeddings": 40, "model_type": "bert", "num_attention_heads": 2,
    "num_hidden_layers": 2, "pad_token_id": 0, "type_vocab_size": 2, "vocab_size": len(BERT_WORDS) + 2,
    "encoder_width": 768, "add_cross_attention": True,
}  # fmt: skip


def write_bert_tokenizer(folder: Path, *, told: bool = True) -> None:
    """A BERT vocabulary of 20 pieces; `told` also writes the configuration that names its class."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(BERT_WORDS) + "\n", encoding="utf-8")
    if told:
        config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512}
        (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def make_tiny_blip(folder: Path, *, seed: int = 0) -> Path:
    """A `BlipForImageTextRetrieval` with the files of a hub repository."""
    from transformers import BlipConfig, BlipForImageTextRetrieval

    text = {
        "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 96,
        "vocab_size": len(BERT_WORDS), "encoder_hidden_size": 64, "max_position_embeddings": 40,
        "bos_token_id": 2, "sep_token_id": 3, "eos_token_id": 3, "pad_token_id": 0,
    }  # fmt: skip
    vision = {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 96,
        "image_size": 32, "patch_size": 8,
    }  # fmt: skip
    config = BlipConfig(text_config=text, vision_config=vision, image_text_hidden_size=16)
    _save(BlipForImageTextRetrieval, config, folder, seed)
    _write_image_config(folder, 32)
    write_bert_tokenizer(folder)
    return folder


def make_tiny_blip2(folder: Path, *, seed: int = 0, queries: int = 4) -> Path:
    """A `Blip2ForImageTextRetrieval` with the files of a hub repository."""
    from transformers import Blip2Config, Blip2ForImageTextRetrieval

    qformer = {
        "hidden_size": WIDTH, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 96,
        "vocab_size": len(BERT_WORDS), "max_position_embeddings": 40, "use_qformer_text_input": True,
        "cross_attention_frequency": 2,
    }  # fmt: skip
    vision = {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 96,
        "image_size": 28, "patch_size": 7,
    }  # fmt: skip
    config = Blip2Config(
        vision_config=vision, qformer_config=qformer, num_query_tokens=queries, image_text_hidden_size=16,
        text_config={"model_type": "opt", "vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1,
                     "num_attention_heads": 1, "ffn_dim": 16, "word_embed_proj_dim": 16, "bos_token_id": 2,
                     "eos_token_id": 3, "pad_token_id": 0},
        image_token_index=len(BERT_WORDS),
    )  # fmt: skip
    _save(Blip2ForImageTextRetrieval, config, folder, seed)
    _write_image_config(folder, 28)
    write_bert_tokenizer(folder)
    return folder


def make_tiny_reward(folder: Path, *, seed: int = 0, weights: str = "ImageReward.pt", subfolder: str = "") -> Path:
    """ImageReward's files in its layout, narrow and shallow."""
    import torch

    place = folder / subfolder
    place.mkdir(parents=True, exist_ok=True)
    torch.save(reward_state(seed), place / weights)
    (place / "med_config.json").write_text(json.dumps(MED_CONFIG), encoding="utf-8")
    write_bert_tokenizer(folder, told=False)
    return folder


def reward_state(seed: int = 0, *, depth: int = 2) -> dict[str, Any]:
    """A state dict with every entry that the published file has: also those that play no part."""
    import torch

    draw = _Draw(seed)
    vit, text = "blip.visual_encoder", "blip.text_encoder"
    state = {
        f"{vit}.cls_token": draw(1, 1, WIDTH),
        f"{vit}.pos_embed": draw(1, 197, WIDTH),
        **draw.linear(f"{vit}.patch_embed.proj", 16, WIDTH, kernel=(16, 16)),
        **draw.norm(f"{vit}.norm", WIDTH),
        f"{text}.embeddings.position_ids": torch.arange(40)[None],
        f"{text}.embeddings.word_embeddings.weight": draw(MED_CONFIG["vocab_size"], WIDTH),
        f"{text}.embeddings.position_embeddings.weight": draw(40, WIDTH),
        **draw.norm(f"{text}.embeddings.LayerNorm", WIDTH),
        **draw.linear("blip.vision_proj", WIDTH, 16),
        **draw.linear("blip.text_proj", WIDTH, 16),
    }
    for number in range(depth):
        block, layer = f"{vit}.blocks.{number}", f"{text}.encoder.layer.{number}"
        state |= draw.norm(f"{block}.norm1", WIDTH) | draw.norm(f"{block}.norm2", WIDTH)
        state |= draw.linear(f"{block}.attn.qkv", WIDTH, 3 * WIDTH) | draw.linear(f"{block}.attn.proj", WIDTH, WIDTH)
        state |= draw.linear(f"{block}.mlp.fc1", WIDTH, 4 * WIDTH) | draw.linear(f"{block}.mlp.fc2", 4 * WIDTH, WIDTH)
        state |= draw.attention(f"{layer}.attention", WIDTH, WIDTH)
        state |= draw.attention(f"{layer}.crossattention", WIDTH, WIDTH)
        state |= draw.linear(f"{layer}.intermediate.dense", WIDTH, 96) | draw.linear(f"{layer}.output.dense", 96, WIDTH)
        state |= draw.norm(f"{layer}.output.LayerNorm", WIDTH)
    widths = (WIDTH, 1024, 128, 64, 16, 1)
    for place, before, after in zip((0, 2, 4, 6, 7), widths, widths[1:]):
        state |= draw.linear(f"mlp.layers.{place}", before, after)
    return state


def make_tiny_lavis(folder: Path, *, seed: int = 0, blocks: int = 2, queries: int = 4) -> Path:
    """BLIP-2's first stage with CLIP's image tower, in LAVIS' two files."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    former, tower = lavis_states(seed, blocks=blocks, queries=queries)
    torch.save({"model": former, "optimizer": {}, "epoch": 9}, folder / "blip2_pretrained_vitL.pth")
    torch.save(tower, folder / "clip_vit_L.pth")
    write_bert_tokenizer(folder, told=False)
    return folder


def lavis_states(seed: int = 0, *, blocks: int = 2, queries: int = 4) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors of the two files; CLIP's 64 wide, pictures of 224 px in patches of 56."""
    import torch

    draw, bert = _Draw(seed), "Qformer.bert"
    words = len(BERT_WORDS) + 1
    former = {
        f"{bert}.embeddings.position_ids": torch.arange(40)[None],
        f"{bert}.embeddings.word_embeddings.weight": draw(words, WIDTH),
        f"{bert}.embeddings.position_embeddings.weight": draw(40, WIDTH),
        **draw.norm(f"{bert}.embeddings.LayerNorm", WIDTH),
        "query_tokens": draw(1, queries, WIDTH),
        "temp": torch.tensor(0.05),
        **draw.norm("ln_vision", 64),
        **draw.linear("vision_proj", WIDTH, 16), **draw.linear("text_proj", WIDTH, 16),
        **draw.linear("itm_head", WIDTH, 2),
        "Qformer.cls.predictions.bias": draw(words),
        **draw.linear("Qformer.cls.predictions.transform.dense", WIDTH, WIDTH),
    }  # fmt: skip
    for number in range(3):
        layer = f"{bert}.encoder.layer.{number}"
        former |= draw.attention(f"{layer}.attention", WIDTH, WIDTH)
        if number % 2 == 0:
            former |= draw.attention(f"{layer}.crossattention", WIDTH, 64)
        for part in ("", "_query"):
            former |= draw.linear(f"{layer}.intermediate{part}.dense", WIDTH, 96)
            former |= draw.linear(f"{layer}.output{part}.dense", 96, WIDTH)
            former |= draw.norm(f"{layer}.output{part}.LayerNorm", WIDTH)
    tower = {
        "class_embedding": draw(64), "positional_embedding": draw(17, 64), "conv1.weight": draw(64, 3, 56, 56),
        **draw.norm("ln_pre", 64), **draw.norm("ln_post", 64), "proj": draw(64, 32),
    }  # fmt: skip
    for number in range(blocks):
        block = f"transformer.resblocks.{number}"
        tower |= {f"{block}.attn.in_proj_weight": draw(192, 64), f"{block}.attn.in_proj_bias": draw(192)}
        tower |= draw.linear(f"{block}.attn.out_proj", 64, 64)
        tower |= draw.norm(f"{block}.ln_1", 64) | draw.norm(f"{block}.ln_2", 64)
        tower |= draw.linear(f"{block}.mlp.c_fc", 64, 256) | draw.linear(f"{block}.mlp.c_proj", 256, 64)
    return former, tower


class _Draw:
    """Tensors from one seed, wide enough that outputs differ clearly."""

    def __init__(self, seed: int) -> None:
        import torch

        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> Any:
        import torch

        return torch.randn(shape, generator=self._generator) * 0.3

    def linear(self, name: str, before: int, after: int, *, kernel: tuple[int, ...] = ()) -> dict[str, Any]:
        shape, fan = ((after, 3, *kernel), 3 * kernel[0] * kernel[1]) if kernel else ((after, before), before)
        return {f"{name}.weight": self(*shape) * (6 / fan**0.5), f"{name}.bias": self(after)}

    def norm(self, name: str, width: int) -> dict[str, Any]:
        return {f"{name}.weight": 1 + self(width), f"{name}.bias": self(width)}

    def attention(self, name: str, width: int, source: int) -> dict[str, Any]:
        return {
            **self.linear(f"{name}.self.query", width, width), **self.linear(f"{name}.self.key", source, width),
            **self.linear(f"{name}.self.value", source, width), **self.linear(f"{name}.output.dense", width, width),
            **self.norm(f"{name}.output.LayerNorm", width),
        }  # fmt: skip


def _write_image_config(folder: Path, side: int) -> None:
    config = {
        "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": CLIP_MEAN, "image_std": CLIP_STD,
        "image_processor_type": "BlipImageProcessor", "resample": 3, "rescale_factor": 1 / 255,
        "size": {"height": side, "width": side},
    }  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(config), encoding="utf-8")


def _save(model_class: Any, config: Any, folder: Path, seed: int) -> None:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = model_class(config).eval()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_(0.0, 0.2) if parameter.ndim >= 2 else parameter.add_(
                    torch.randn(parameter.shape) * 0.1
                )
    folder.mkdir(parents=True, exist_ok=True)
    network.save_pretrained(folder)
