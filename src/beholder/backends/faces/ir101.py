"""The recognition network IR-101 in the layout of CurricularFace's published backbone. Imports torch: load it lazily.

    input_layer.{0,1,2}                              convolution, normalisation, PReLU
    body.{0…48}.res_layer.{0…5}, .shortcut_layer     49 blocks: 3, 13, 30 and 3 of them, each stage halving the map
    output_layer.{0,3,4}                             normalisation, projection to 512, normalisation without weights

Sources: Huang et al. 2020, CurricularFace, arXiv 2004.00288; the layout of https://github.com/Tencent/TFace.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

STAGES = ((64, 3), (128, 13), (256, 30), (512, 3))
"""Channels and number of blocks of each stage."""

SIDE = 112
WIDTH = 512


class Block(nn.Module):
    """One basic block: normalise, convolve, normalise, PReLU, convolve with the stride, normalise; then add the input.

    Where channels stay, the shortcut takes every stride-th pixel; else it is a strided 1×1 convolution.
    """

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.res_layer = nn.Sequential(
            nn.BatchNorm2d(channels_in),
            nn.Conv2d(channels_in, channels, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.PReLU(channels),
            nn.Conv2d(channels, channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.shortcut_layer: nn.Module = nn.MaxPool2d(1, stride)
        if channels_in != channels:
            self.shortcut_layer = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, maps: Tensor) -> Tensor:
        added: Tensor = self.res_layer(maps) + self.shortcut_layer(maps)
        return added


class IR(nn.Module):
    """The whole network: (n, 3, side, side) in −1…1 to (n, width), not normalised.

    Args:
        stages: channels and blocks of each stage; the first block of every stage halves the map.
        side: side of the input.
        width: width of the embedding.
    """

    def __init__(self, stages: Sequence[tuple[int, int]] = STAGES, side: int = SIDE, width: int = WIDTH) -> None:
        super().__init__()
        first, last = stages[0][0], stages[-1][0]
        self.input_layer = nn.Sequential(
            nn.Conv2d(3, first, 3, 1, 1, bias=False), nn.BatchNorm2d(first), nn.PReLU(first)
        )
        blocks, before = [], first
        for channels, count in stages:
            for number in range(count):
                blocks.append(Block(before, channels, 2 if number == 0 else 1))
                before = channels
        self.body = nn.Sequential(*blocks)
        map_side = side // 2 ** len(stages)
        self.output_layer = nn.Sequential(
            nn.BatchNorm2d(last),
            nn.Dropout(0.4),
            nn.Flatten(),
            nn.Linear(last * map_side * map_side, width),
            nn.BatchNorm1d(width, affine=False),
        )

    def forward(self, pixels: Tensor) -> Tensor:
        result: Tensor = self.output_layer(self.body(self.input_layer(pixels)))
        return result


def build(stages: Sequence[tuple[int, int]] = STAGES, side: int = SIDE, width: int = WIDTH) -> IR:
    """The network without memory for its weights: they are assigned from the checkpoint."""
    with torch.device("meta"):
        return IR(stages, side, width).eval()
