"""RetinaFace with the backbone MobileNet 0.25, in its published layout. Imports torch: load it lazily.

    body.stage{1,2,3}                       depthwise-separable blocks: maps at strides 8, 16 and 32
    fpn.output{1,2,3}, fpn.merge{1,2}       the maps brought to 64 channels and added from coarse to fine
    ssh{1,2,3}                              3×3, 5×5 and 7×7 contexts side by side
    ClassHead, BboxHead, LandmarkHead       per level a 1×1 convolution for two anchors a place

Sources: Deng et al. 2019, RetinaFace, arXiv 1905.00641; the layout of https://github.com/biubug6/Pytorch_Retinaface.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

_SLOPE = 0.1
_CHANNELS = 64
_ANCHORS = 2


def _full(channels_in: int, channels: int, kernel: int = 3, stride: int = 1, *, active: bool = True) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(channels),
    ]
    return nn.Sequential(*layers, nn.LeakyReLU(_SLOPE)) if active else nn.Sequential(*layers)


def _separable(channels_in: int, channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_in, 3, stride, 1, groups=channels_in, bias=False),
        nn.BatchNorm2d(channels_in),
        nn.LeakyReLU(_SLOPE),
        nn.Conv2d(channels_in, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
        nn.LeakyReLU(_SLOPE),
    )


class Body(nn.Module):
    """The backbone: three maps, of 64, 128 and 256 channels."""

    def __init__(self) -> None:
        super().__init__()
        widths = ((8, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1))
        self.stage1 = nn.Sequential(_full(3, 8, stride=2), *(_separable(*width) for width in widths))
        self.stage2 = nn.Sequential(_separable(64, 128, 2), *(_separable(128, 128, 1) for _ in range(5)))
        self.stage3 = nn.Sequential(_separable(128, 256, 2), _separable(256, 256, 1))

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        fine = self.stage1(pixels)
        middle = self.stage2(fine)
        return fine, middle, self.stage3(middle)


class Pyramid(nn.Module):
    """Coarse maps are enlarged (nearest neighbour) and added to finer ones."""

    def __init__(self) -> None:
        super().__init__()
        self.output1 = _full(64, _CHANNELS, 1)
        self.output2 = _full(128, _CHANNELS, 1)
        self.output3 = _full(256, _CHANNELS, 1)
        self.merge1 = _full(_CHANNELS, _CHANNELS)
        self.merge2 = _full(_CHANNELS, _CHANNELS)

    def forward(self, fine: Tensor, middle: Tensor, coarse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        coarse = self.output3(coarse)
        middle = self.output2(middle)
        middle = self.merge2(middle + functional.interpolate(coarse, size=middle.shape[2:], mode="nearest"))
        fine = self.output1(fine)
        fine = self.merge1(fine + functional.interpolate(middle, size=fine.shape[2:], mode="nearest"))
        return fine, middle, coarse


class Context(nn.Module):
    """Three receptive fields side by side; names, and their letter case, are those of the published weights."""

    def __init__(self) -> None:
        super().__init__()
        half, quarter = _CHANNELS // 2, _CHANNELS // 4
        self.conv3X3 = _full(_CHANNELS, half, active=False)
        self.conv5X5_1 = _full(_CHANNELS, quarter)
        self.conv5X5_2 = _full(quarter, quarter, active=False)
        self.conv7X7_2 = _full(quarter, quarter)
        self.conv7x7_3 = _full(quarter, quarter, active=False)

    def forward(self, maps: Tensor) -> Tensor:
        shared = self.conv5X5_1(maps)
        parts = [self.conv3X3(maps), self.conv5X5_2(shared), self.conv7x7_3(self.conv7X7_2(shared))]
        return functional.relu(torch.cat(parts, dim=1))


class Head(nn.Module):
    """A 1×1 convolution whose channels are read per place: (n, c, h, w) to (n, h · w · anchors, values)."""

    def __init__(self, values: int) -> None:
        super().__init__()
        self.values = values
        self.conv1x1 = nn.Conv2d(_CHANNELS, _ANCHORS * values, 1)

    def forward(self, maps: Tensor) -> Tensor:
        flat: Tensor = self.conv1x1(maps).permute(0, 2, 3, 1).reshape(maps.shape[0], -1, self.values)
        return flat


class RetinaFaceNet(nn.Module):
    """(n, 3, H, W), BGR less its mean, to box offsets (n, a, 4), face probabilities (n, a), point offsets (n, a, 10).

    Anchors run over strides, rows, columns and the two sizes, the last fastest.
    """

    def __init__(self) -> None:
        super().__init__()
        self.body = Body()
        self.fpn = Pyramid()
        self.ssh1, self.ssh2, self.ssh3 = Context(), Context(), Context()
        self.ClassHead = nn.ModuleList(Head(2) for _ in range(3))
        self.BboxHead = nn.ModuleList(Head(4) for _ in range(3))
        self.LandmarkHead = nn.ModuleList(Head(10) for _ in range(3))

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        maps = [ssh(level) for ssh, level in zip((self.ssh1, self.ssh2, self.ssh3), self.fpn(*self.body(pixels)))]
        boxes, classes, points = (
            torch.cat([head(level) for head, level in zip(heads, maps)], dim=1)
            for heads in (self.BboxHead, self.ClassHead, self.LandmarkHead)
        )
        return boxes, classes.softmax(dim=-1)[..., 1], points


def build() -> RetinaFaceNet:
    """The network without memory for its weights: they are assigned from the checkpoint."""
    with torch.device("meta"):
        return RetinaFaceNet().eval()
