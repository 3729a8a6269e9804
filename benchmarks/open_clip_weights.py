"""The weights of a transformers CLIP under open_clip's names."""

from __future__ import annotations

from typing import Any

_BLOCK = {
    "layer_norm1": "ln_1",
    "layer_norm2": "ln_2",
    "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj",
    "self_attn.out_proj": "attn.out_proj",
}


def open_clip_state(model: Any) -> dict[str, Any]:
    """The state dict that `open_clip.create_model` loads, from a transformers `CLIPModel` of the same size."""
    state = {name: tensor.detach() for name, tensor in model.state_dict().items() if "position_ids" not in name}
    text, vision = "text_model.", "vision_model."
    made = {
        "logit_scale": state["logit_scale"],
        "token_embedding.weight": state[f"{text}embeddings.token_embedding.weight"],
        "positional_embedding": state[f"{text}embeddings.position_embedding.weight"],
        "ln_final.weight": state[f"{text}final_layer_norm.weight"],
        "ln_final.bias": state[f"{text}final_layer_norm.bias"],
        "text_projection": state["text_projection.weight"].T.contiguous(),
        "visual.class_embedding": state[f"{vision}embeddings.class_embedding"],
        "visual.positional_embedding": state[f"{vision}embeddings.position_embedding.weight"],
        "visual.conv1.weight": state[f"{vision}embeddings.patch_embedding.weight"],
        "visual.proj": state["visual_projection.weight"].T.contiguous(),
    }
    for ours, theirs in (("pre_layrnorm", "ln_pre"), ("post_layernorm", "ln_post")):
        for part in ("weight", "bias"):
            made[f"visual.{theirs}.{part}"] = state[f"{vision}{ours}.{part}"]
    for tower, target in ((text, ""), (vision, "visual.")):
        made |= _blocks(state, f"{tower}encoder.layers.", f"{target}transformer.resblocks.")
    return made


def _blocks(state: dict[str, Any], source: str, target: str) -> dict[str, Any]:
    import torch

    made = {}
    count = 1 + max(int(name[len(source) :].split(".")[0]) for name in state if name.startswith(source))
    for at in range(count):
        for part in ("weight", "bias"):
            for ours, theirs in _BLOCK.items():
                made[f"{target}{at}.{theirs}.{part}"] = state[f"{source}{at}.{ours}.{part}"]
            heads = [state[f"{source}{at}.self_attn.{side}_proj.{part}"] for side in "qkv"]
            made[f"{target}{at}.attn.in_proj_{part}"] = torch.cat(heads)
    return made
