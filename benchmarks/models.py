"""A CLIP of ViT-B/32's size with random weights, loaded once and registered, so that no run pays for loading it."""

from __future__ import annotations

from pathlib import Path

from tests.models import write_clip_tokenizer, write_preprocessor

import beholder
from beholder.backends.base import ImageTextEncoder
from beholder.backends.pool import load_model, resolve_model

NAME = "vit-b-32-sized"


def register_b32(folder: Path) -> ImageTextEncoder:
    """The loaded encoder, registered as `NAME`."""
    encoder = load_model(resolve_model(str(write_clip(folder, 32))), device="cpu")
    beholder.register_encoder(NAME, encoder)
    return encoder


def write_clip(folder: Path, patch: int) -> Path:
    """A folder with a CLIP of ViT-B's size with patches of `patch` pixels, random weights, and what belongs to it."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    folder.mkdir(parents=True)
    text = {"vocab_size": 49408, "bos_token_id": 514, "eos_token_id": 515, "pad_token_id": 515}
    torch.manual_seed(0)
    CLIPModel(CLIPConfig(text_config=text, vision_config={"patch_size": patch})).save_pretrained(folder)
    write_clip_tokenizer(folder)
    write_preprocessor(folder, size=224, crop=224)
    return folder
