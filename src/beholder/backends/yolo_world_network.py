"""YOLO-World's network with image prompts, in the layout of its published state dict.

Cheng et al. 2024, YOLO-World, arXiv 2401.17270; layout after AILab-CVC/YOLO-World (yolo_world/models) and mmyolo's
YOLOv8: a CSP-Darknet, a path-aggregating neck whose blocks are weighted by the class embedding, and for each of three
scales a head of class embeddings, normalised in batches, and of boxes as distributions over distances.

This module imports torch; it is loaded when a model is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

STRIDES = (8, 16, 32)
EPS = 1e-3


@dataclass(frozen=True)
class Sizes:
    """Widths of a YOLO-World; the defaults are those of v2-L.

    Args:
        stem: channels after the stem.
        stages: (channels, bottlenecks) of the four stages.
        neck_blocks: bottlenecks in the neck's blocks.
        guide: width of class embeddings.
        heads: attention heads of the three scales.
        bins: distances that a side of a box is a distribution over.
        classes: classes of the training (moves the head's width only where it is large).
    """

    stem: int = 64
    stages: tuple[tuple[int, int], ...] = ((128, 3), (256, 6), (512, 6), (512, 3))
    neck_blocks: int = 3
    guide: int = 512
    heads: tuple[int, int, int] = (4, 8, 8)
    bins: int = 16
    classes: int = 80

    @property
    def channels(self) -> tuple[int, int, int]:
        """Channels of the three scales."""
        one, two, three = (width for width, _ in self.stages[1:])
        return one, two, three


class Conv(nn.Module):
    """Convolution, batch normalisation, SiLU."""

    def __init__(self, have: int, want: int, side: int = 1, stride: int = 1, *, active: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(have, want, side, stride, side // 2, bias=False)
        self.bn = nn.BatchNorm2d(want, eps=EPS)
        self._active = active

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn(self.conv(x))
        return functional.silu(x) if self._active else x


class Bottleneck(nn.Module):
    """Two convolutions of 3×3, and the input added where that is asked for."""

    def __init__(self, width: int, *, add: bool) -> None:
        super().__init__()
        self.conv1, self.conv2 = Conv(width, width, 3), Conv(width, width, 3)
        self._add = add

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv2(self.conv1(x))
        return x + y if self._add else y


class Csp(nn.Module):
    """A cross-stage partial block; with `guide` one more branch is weighted by the class embedding."""

    def __init__(
        self, have: int, want: int, blocks: int, *, add: bool, guide: int | None = None, heads: int = 1
    ) -> None:
        super().__init__()
        self._half = want // 2
        parts = 2 + blocks + (guide is not None)
        self.main_conv = Conv(have, 2 * self._half)
        self.final_conv = Conv(parts * self._half, want)
        self.blocks = nn.ModuleList(Bottleneck(self._half, add=add) for _ in range(blocks))
        self.attn_block = MaxSigmoid(self._half, guide, heads) if guide is not None else None

    def forward(self, x: Tensor, guide: Tensor | None = None) -> Tensor:
        parts = list(self.main_conv(x).split(self._half, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        if self.attn_block is not None:
            parts.append(self.attn_block(parts[-1], guide))
        result: Tensor = self.final_conv(torch.cat(parts, 1))
        return result


class MaxSigmoid(nn.Module):
    """Weighs a map, head by head, with the sigmoid of its best match among the class embeddings."""

    def __init__(self, width: int, guide: int, heads: int) -> None:
        super().__init__()
        self.guide_fc = nn.Linear(guide, width)
        self.bias = nn.Parameter(torch.zeros(heads))
        self.project_conv = Conv(width, width, 3, active=False)
        self._heads = heads

    def forward(self, x: Tensor, guide: Tensor) -> Tensor:
        batch, width, height, wide = x.shape
        each = width // self._heads
        keys = self.guide_fc(guide).reshape(batch, -1, self._heads, each)
        maps = x.reshape(batch, self._heads, each, height, wide)
        weight = torch.einsum("bmchw,bnmc->bmhwn", maps, keys).amax(-1) / each**0.5
        weight = (weight + self.bias[None, :, None, None]).sigmoid()
        projected = self.project_conv(x).reshape(batch, self._heads, -1, height, wide)
        result: Tensor = (projected * weight[:, :, None]).reshape(batch, -1, height, wide)
        return result


class Pool(nn.Module):
    """Three poolings of 5×5, one behind the other, side by side with their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = Conv(width, width // 2), Conv(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.conv1(x)]
        for _ in range(3):
            parts.append(functional.max_pool2d(parts[-1], 5, 1, 2))
        result: Tensor = self.conv2(torch.cat(parts, 1))
        return result


class Darknet(nn.Module):
    """The backbone: maps at strides 8, 16 and 32."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.stem = Conv(3, sizes.stem, 3, 2)
        have = sizes.stem
        for at, (want, blocks) in enumerate(sizes.stages, start=1):
            parts: list[nn.Module] = [Conv(have, want, 3, 2), Csp(want, want, blocks, add=True)]
            if at == len(sizes.stages):
                parts.append(Pool(want))
            self.add_module(f"stage{at}", nn.Sequential(*parts))
            have = want

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.stem(x)
        maps = []
        for at in range(1, 5):
            x = getattr(self, f"stage{at}")(x)
            maps.append(x)
        return maps[1:]


class Neck(nn.Module):
    """Down and up again through the scales."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        a, b, c = sizes.channels

        def block(have: int, want: int, heads: int) -> Csp:
            return Csp(have, want, sizes.neck_blocks, add=False, guide=sizes.guide, heads=heads)

        one, two, three = sizes.heads
        self.top_down_layers = nn.ModuleList([block(b + c, b, two), block(a + b, a, one)])
        self.downsample_layers = nn.ModuleList([Conv(a, a, 3, 2), Conv(b, b, 3, 2)])
        self.bottom_up_layers = nn.ModuleList([block(a + b, b, two), block(b + c, c, three)])

    def forward(self, maps: list[Tensor], guide: Tensor) -> list[Tensor]:
        low, middle, high = maps
        grown = functional.interpolate(high, scale_factor=2.0, mode="nearest")
        inner = self.top_down_layers[0](torch.cat([grown, middle], 1), guide)
        grown = functional.interpolate(inner, scale_factor=2.0, mode="nearest")
        first = self.top_down_layers[1](torch.cat([grown, low], 1), guide)
        second = self.bottom_up_layers[0](torch.cat([self.downsample_layers[0](first), inner], 1), guide)
        third = self.bottom_up_layers[1](torch.cat([self.downsample_layers[1](second), high], 1), guide)
        return [first, second, third]


class Contrast(nn.Module):
    """Products of normalised places with the class embedding, scaled and shifted."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(width, eps=EPS)
        self.bias = nn.Parameter(torch.zeros([]))
        self.logit_scale = nn.Parameter(-torch.ones([]))

    def forward(self, x: Tensor, guide: Tensor) -> Tensor:
        unit = functional.normalize(guide, dim=-1, p=2)
        return torch.einsum("bchw,bkc->bkhw", self.norm(x), unit) * self.logit_scale.exp() + self.bias


class Head(nn.Module):
    """Logits of the classes and distances of the boxes' sides, at every place of every scale."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        boxes = max(16, sizes.channels[0] // 4, 4 * sizes.bins)
        classes = max(sizes.channels[0], sizes.classes)
        self._bins = sizes.bins
        self.cls_preds = nn.ModuleList(_three(have, classes, sizes.guide) for have in sizes.channels)
        self.reg_preds = nn.ModuleList(_three(have, boxes, 4 * sizes.bins) for have in sizes.channels)
        self.cls_contrasts = nn.ModuleList(Contrast(sizes.guide) for _ in sizes.channels)

    def forward(self, maps: list[Tensor], guide: Tensor) -> tuple[Tensor, Tensor]:
        """(b, places, classes) logits and (b, places, 4) boxes x0 y0 x1 y1 in pixels of the input."""
        logits, boxes = [], []
        for at, (x, stride) in enumerate(zip(maps, STRIDES, strict=True)):
            found = self.cls_contrasts[at](self.cls_preds[at](x), guide)
            logits.append(found.flatten(2).transpose(1, 2))
            boxes.append(self._boxes(self.reg_preds[at](x), stride))
        return torch.cat(logits, 1), torch.cat(boxes, 1)

    def _boxes(self, x: Tensor, stride: int) -> Tensor:
        batch, _, height, width = x.shape
        shares = x.reshape(batch, 4, self._bins, height * width).softmax(2)
        steps = torch.arange(self._bins, dtype=x.dtype, device=x.device)
        reach = torch.einsum("bkns,n->bsk", shares, steps) * stride
        rows, columns = torch.meshgrid(
            torch.arange(height, device=x.device), torch.arange(width, device=x.device), indexing="ij"
        )
        centre = (torch.stack([columns, rows], -1).reshape(-1, 2).to(x.dtype) + 0.5) * stride
        return torch.cat([centre - reach[..., :2], centre + reach[..., 2:]], -1)


def _three(have: int, inside: int, want: int) -> nn.Sequential:
    return nn.Sequential(Conv(have, inside, 3), Conv(inside, inside, 3), nn.Conv2d(inside, want, 1))


class YoloWorld(nn.Module):
    """The whole network. Names of its parts are those of the published state dict."""

    def __init__(self, sizes: Sizes | None = None) -> None:
        super().__init__()
        sizes = sizes or Sizes()
        self.backbone = nn.ModuleDict({"image_model": Darknet(sizes)})
        self.neck = Neck(sizes)
        self.bbox_head = nn.ModuleDict({"head_module": Head(sizes)})
        width = sizes.guide
        projector = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.image_prompt_encoder = nn.ModuleDict({"projector": projector})

    def look(self, pixels: Tensor) -> list[Tensor]:
        """(b, 3, h, w) in 0..1, sides multiples of 32, to the backbone's maps, which no prompt moves."""
        maps: list[Tensor] = self.backbone["image_model"](pixels)
        return maps

    def prompt(self, embeddings: Tensor) -> Tensor:
        """(n, width) CLIP embeddings of examples to class embeddings of length 1: the projector alone, no residual."""
        unit = functional.normalize(embeddings, dim=-1, p=2)
        return functional.normalize(self.image_prompt_encoder["projector"](unit), dim=-1, p=2)

    def find(self, maps: list[Tensor], guide: Tensor) -> tuple[Tensor, Tensor]:
        """Maps of b pictures and a class embedding for each, (b, 1, width), to (b, places) scores and their boxes."""
        logits, boxes = self.bbox_head["head_module"](self.neck(maps, guide), guide)
        return logits[..., 0].sigmoid(), boxes


def build(sizes: Sizes | None = None) -> YoloWorld:
    """The network without memory for its weights."""
    with torch.device("meta"):
        return YoloWorld(sizes)


def sizes_of(state: Mapping[str, Any]) -> Sizes:
    """Widths that a checkpoint's tensors tell; those of v2-L where a tensor is not there (loading names it then)."""
    default, stem = Sizes(), state.get("backbone.image_model.stem.conv.weight")
    if stem is None:
        return default

    def count(prefix: str) -> int:
        found = {key[len(prefix) :].partition(".")[0] for key in state if key.startswith(prefix)}
        return len(found)

    stages = []
    for at, (width, blocks) in enumerate(default.stages, start=1):
        first = state.get(f"backbone.image_model.stage{at}.0.conv.weight")
        counted = count(f"backbone.image_model.stage{at}.1.blocks.")
        stages.append((width if first is None else int(first.shape[0]), counted or blocks))
    biases = [state.get(f"neck.{name}.attn_block.bias") for name in _HEADED]
    heads = [default.heads[at] if bias is None else len(bias) for at, bias in enumerate(biases)]
    places = state.get("bbox_head.head_module.reg_preds.0.2.bias")
    guide = state.get("image_prompt_encoder.projector.0.weight")
    inside = state.get("bbox_head.head_module.cls_preds.0.0.conv.weight")
    return Sizes(
        stem=int(stem.shape[0]),
        stages=tuple(stages),
        neck_blocks=count("neck.top_down_layers.0.blocks.") or default.neck_blocks,
        guide=default.guide if guide is None else int(guide.shape[1]),
        heads=(heads[0], heads[1], heads[2]),
        bins=default.bins if places is None else len(places) // 4,
        classes=default.classes if inside is None else int(inside.shape[0]),
    )


_HEADED = ("top_down_layers.1", "bottom_up_layers.0", "bottom_up_layers.1")
"""The neck's block of each scale."""
