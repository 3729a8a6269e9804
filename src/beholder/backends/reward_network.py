"""The network of ImageReward and of FaceScore, in their published state-dict layout. Imports torch.

BLIP's vision transformer and text encoder (see `med.py`), and a head of five linear maps on the text's [CLS] token.
There are no activations between the maps, as published: arXiv 2304.05977, THUDM/ImageReward; FaceScore (arXiv
2406.17100) trains the same network further.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from beholder._errors import WeightsMismatchError
from beholder.backends.med import BertSizes, TextEncoder, VisionTransformer, VitSizes

HEAD = (1024, 128, 64, 16, 1)
"""Widths behind each map of the head."""

_HEAD_PLACES = (0, 2, 4, 6, 7)
UNUSED = ("blip.vision_proj.weight", "blip.vision_proj.bias", "blip.text_proj.weight", "blip.text_proj.bias")
"""Entries of the checkpoints that take no part in the reward: the projections of BLIP's contrastive training."""


class _Blip(nn.Module):
    def __init__(self, vision: VitSizes, text: BertSizes) -> None:
        super().__init__()
        self.visual_encoder = VisionTransformer(vision)
        self.text_encoder = TextEncoder(text)


class _Head(nn.Module):
    """Five linear maps at the places that they have in the checkpoint; dropouts stood between them in training."""

    def __init__(self, width: int) -> None:
        super().__init__()
        places: list[nn.Module] = [nn.Identity() for _ in range(max(_HEAD_PLACES) + 1)]
        for place, before, after in zip(_HEAD_PLACES, (width, *HEAD), HEAD):
            places[place] = nn.Linear(before, after)
        self.layers = nn.Sequential(*places)


class RewardNetwork(nn.Module):
    """Image and text to one unbounded number, before any standardisation."""

    def __init__(self, vision: VitSizes, text: BertSizes) -> None:
        super().__init__()
        self.blip = _Blip(vision, text)
        self.mlp = _Head(text.width)

    def look(self, pixels: Tensor) -> Tensor:
        """(n, 3, 224, 224) to image tokens (n, 197, width)."""
        result: Tensor = self.blip.visual_encoder(pixels)
        return result

    def reward(self, image: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Image tokens, (n, t) ids and (n, t) bool mask to (n,); the head runs in its own dtype."""
        first = self.blip.text_encoder(ids, mask, image)[:, 0]
        result: Tensor = self.mlp.layers(first.to(self.mlp.layers[0].weight.dtype))[:, 0]
        return result


def sizes_of(state: Mapping[str, Any], config: Mapping[str, Any], *, name: str) -> tuple[VitSizes, BertSizes]:
    """The network's sizes: the vision transformer's from its tensors, the text encoder's from `med_config.json`.

    The file's `encoder_width` is not used: the checkpoint's vision transformer decides it, as in the original.

    Raises:
        WeightsMismatchError: tensors from which the sizes cannot be read, or a configuration without its entries.
    """
    prefix = "blip.visual_encoder."
    try:
        patches = state[prefix + "patch_embed.proj.weight"].shape
        vision = VitSizes(
            width=patches[0],
            depth=len({key.split(".")[3] for key in state if key.startswith(prefix + "blocks.")}),
            patch=patches[2],
            tokens=state[prefix + "pos_embed"].shape[1],
        )
        text = BertSizes(
            width=int(config["hidden_size"]),
            depth=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            inner=int(config["intermediate_size"]),
            words=int(config["vocab_size"]),
            positions=int(config["max_position_embeddings"]),
            source=vision.width,
            eps=float(config["layer_norm_eps"]),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise WeightsMismatchError(
            f"the files of {name} must be a BLIP with a reward head and its med_config.json",
            got=f"files without {error}",
            fix="Fetch them again",
        ) from error
    return vision, text
