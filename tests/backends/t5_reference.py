"""The encoder-decoder scorers once more, plainly: one pair at a time, from the tensors in the file.

Nothing of `beholder` is used here: pictures go through Pillow, tokens through the `tokenizers` package, CLIP's tower
and the projector are written out, the other networks are filled by `load_state_dict`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tests.models import CLIP_MEAN, CLIP_STD
from tests.models_t5 import BLIP_TOWER, QFORMER, T5, TOWER
from tokenizers import Tokenizer
from torch.nn import functional

SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, "
    "and polite answers to the user's questions."
)


def clip_t5_logits(folder: Path, pixels: np.ndarray, question: str, answer: str) -> tuple[torch.Tensor, list[int]]:
    """(k, v) logits of a CLIP-FlanT5 at the places of the answer's k tokens, and their ids."""
    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    height, width = pixels.shape[:2]
    side = max(height, width)
    square = Image.new("RGB", (side, side), (122, 116, 104))
    square.paste(Image.fromarray(pixels), ((side - width) // 2, (side - height) // 2))
    seen = _project(_tower(state, _image(square)), state)
    before = state["shared.weight"][tokenizer.encode(f"{SYSTEM} USER: ").ids]
    behind = state["shared.weight"][tokenizer.encode(f"\n{question} ASSISTANT: ").ids]
    wanted = tokenizer.encode(answer).ids
    return _decode(_language(state, prefix=""), torch.cat([before, seen, behind]), wanted), wanted


def blip_logits(
    folder: Path, pixels: np.ndarray, question: str, answer: str, *, instruct: bool
) -> tuple[torch.Tensor, list[int]]:
    """The same for BLIP-2 and InstructBLIP."""
    from safetensors.torch import load_file

    state = load_file(folder / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    states = _vision(state, _image(Image.fromarray(pixels)), instruct=instruct)
    if instruct:
        reader = Tokenizer.from_file(str(folder / "qformer_tokenizer" / "tokenizer.json"))
        queries = _instruct_qformer(state, states, reader.encode(question).ids)
    else:
        queries = _plain_qformer(state, states)
    seen = functional.linear(queries, state["language_projection.weight"], state["language_projection.bias"])
    text = question if instruct else f"Question: {question} Answer:"
    embedded = state["language_model.shared.weight"][tokenizer.encode(text).ids]
    wanted = tokenizer.encode(answer).ids
    return _decode(_language(state, prefix="language_model."), torch.cat([seen, embedded]), wanted), wanted


def plain_columns(logits: torch.Tensor, wanted: list[int]) -> dict[str, float]:
    """Log probabilities by a softmax written out, in float64. The forms of yes and no are those of the tokenizer."""
    masses = torch.exp(logits.double() - logits.double().max(dim=1, keepdim=True).values)
    shares = masses / masses.sum(dim=1, keepdim=True)
    yes, no = [4, 5, 6, 7], [8, 9]
    told = [float(torch.log(shares[place, token])) for place, token in enumerate(wanted)]
    return {
        "first_token": told[0],
        "sequence": sum(told),
        "yes": float(torch.log(shares[0, yes].sum())),
        "no": float(torch.log(shares[0, no].sum())),
    }


def _image(picture: Image.Image) -> torch.Tensor:
    """(1, 3, 30, 30): resized, and its short side cropped, which a square has none of."""
    resized = np.asarray(picture.resize((30, 30), Image.Resampling.BICUBIC), dtype=np.float64) / 255
    values = (resized - np.asarray(CLIP_MEAN)) / np.asarray(CLIP_STD)
    return torch.from_numpy(values.transpose(2, 0, 1)[None].astype(np.float32))


def _tower(state: dict[str, Any], image: torch.Tensor) -> torch.Tensor:
    """(25, width): patch tokens behind the last layer but one, every step by hand."""
    named = {key.removeprefix("vision_tower.vision_tower.vision_model."): value for key, value in state.items()}
    width, heads, layers = (TOWER[name] for name in ("hidden_size", "num_attention_heads", "num_hidden_layers"))
    patches = functional.conv2d(image, named["embeddings.patch_embedding.weight"], stride=6).flatten(2).mT[0]
    hidden = torch.cat([named["embeddings.class_embedding"][None], patches])
    hidden = _norm(hidden + named["embeddings.position_embedding.weight"], named, "pre_layrnorm")
    for layer in range(layers - 1):
        at = f"encoder.layers.{layer}."
        inner = _norm(hidden, named, f"{at}layer_norm1")
        query, key, value = (
            _linear(inner, named, f"{at}self_attn.{name}_proj").view(26, heads, -1).movedim(1, 0) for name in "qkv"
        )
        weights = torch.softmax(query @ key.mT / (width / heads) ** 0.5, dim=-1)
        mixed = (weights @ value).movedim(0, 1).reshape(26, -1)
        hidden = hidden + _linear(mixed, named, f"{at}self_attn.out_proj")
        inner = _linear(_norm(hidden, named, f"{at}layer_norm2"), named, f"{at}mlp.fc1")
        hidden = hidden + _linear(inner * torch.sigmoid(1.702 * inner), named, f"{at}mlp.fc2")
    return hidden[1:]


def _project(tokens: torch.Tensor, state: dict[str, Any]) -> torch.Tensor:
    hidden = _linear(tokens, state, "mm_projector.0")
    hidden = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
    return _linear(hidden, state, "mm_projector.2")


def _linear(values: torch.Tensor, named: dict[str, Any], name: str) -> torch.Tensor:
    return functional.linear(values, named[f"{name}.weight"], named[f"{name}.bias"])


def _norm(values: torch.Tensor, named: dict[str, Any], name: str) -> torch.Tensor:
    return functional.layer_norm(values, values.shape[-1:], named[f"{name}.weight"], named[f"{name}.bias"], 1e-5)


def _language(state: dict[str, Any], *, prefix: str) -> Any:
    """T5, filled by `load_state_dict`; its output layer is its own, whatever the library thinks of tied weights."""
    from transformers import T5Config, T5ForConditionalGeneration

    language = T5ForConditionalGeneration(T5Config(**T5)).eval()
    language.lm_head.weight = torch.nn.Parameter(torch.empty_like(state[f"{prefix}lm_head.weight"]))
    wanted = {}
    for key in language.state_dict():
        stored = "shared.weight" if key.endswith("embed_tokens.weight") else key
        wanted[key] = state[prefix + stored]
    language.load_state_dict(wanted)
    return language


def _decode(language: Any, inputs: torch.Tensor, wanted: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = language(inputs_embeds=inputs[None], labels=torch.tensor([wanted])).logits[0]
    return logits


def _vision(state: dict[str, Any], image: torch.Tensor, *, instruct: bool) -> torch.Tensor:
    from transformers import Blip2VisionConfig, Blip2VisionModel, InstructBlipVisionConfig, InstructBlipVisionModel

    model_class, config = (
        (InstructBlipVisionModel, InstructBlipVisionConfig) if instruct else (Blip2VisionModel, Blip2VisionConfig)
    )
    return _run(model_class(config(**BLIP_TOWER)), state, "vision_model.", pixel_values=image)


def _plain_qformer(state: dict[str, Any], states: torch.Tensor) -> torch.Tensor:
    from transformers import Blip2QFormerConfig, Blip2QFormerModel

    network = Blip2QFormerModel(Blip2QFormerConfig(**QFORMER))
    return _run(network, state, "qformer.", query_embeds=state["query_tokens"], encoder_hidden_states=states)[0]


def _instruct_qformer(state: dict[str, Any], states: torch.Tensor, ids: list[int]) -> torch.Tensor:
    from transformers import InstructBlipQFormerConfig, InstructBlipQFormerModel

    network = InstructBlipQFormerModel(InstructBlipQFormerConfig(**QFORMER))
    hidden = _run(
        network, state, "qformer.", input_ids=torch.tensor([ids]), query_embeds=state["query_tokens"],
        encoder_hidden_states=states,
    )  # fmt: skip
    return hidden[0, : state["query_tokens"].shape[1]]


def _run(network: Any, state: dict[str, Any], prefix: str, **inputs: Any) -> torch.Tensor:
    network.load_state_dict({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
    with torch.no_grad():
        hidden: torch.Tensor = network.eval()(**inputs).last_hidden_state
    return hidden
