"""ResNet-50 and ResNet-101 in torchvision's state-dict layout, written here so that the base install has them.

    conv1, bn1                      7×7, stride 2; then ReLU and a 3×3 maximum of stride 2
    layer1 … layer4                 bottleneck blocks: conv1 1×1, conv2 3×3 (which has the block's stride), conv3 1×1
    layerN.0.downsample.0, .1       1×1 convolution and batch normalisation beside the first block of a stage
    fc                              on the mean over all places

Imports torch. Source of the design: He et al. 2015, arXiv 1512.03385, with the stride on the 3×3 convolution.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

_EXPANSION = 4


class Bottleneck(nn.Module):
    """One block."""

    def __init__(self, before: int, width: int, *, stride: int) -> None:
        super().__init__()
        after = width * _EXPANSION
        self.conv1 = nn.Conv2d(before, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, after, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU()
        self.downsample: nn.Module | None = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride=stride, bias=False),
                                            nn.BatchNorm2d(after))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        beside = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        result: Tensor = self.relu(y + beside)
        return result


class ResNet(nn.Module):
    """The whole network.

    Args:
        depths: blocks of the four stages: (3, 4, 6, 3) is ResNet-50, (3, 4, 23, 3) is ResNet-101.
        fc: what stands behind the mean over all places.
        width: channels of the first convolution, 64 in the published ones.
    """

    def __init__(self, depths: Sequence[int], fc: nn.Module, *, width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        before = width
        for stage, depth in enumerate(depths):
            inner = width * 2**stage
            blocks = []
            for at in range(depth):
                blocks.append(Bottleneck(before, inner, stride=2 if at == 0 and stage else 1))
                before = inner * _EXPANSION
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = fc

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) of any size to what `fc` makes of (n, 8 · width · 4)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        result: Tensor = self.fc(x.mean(dim=(2, 3)))
        return result
