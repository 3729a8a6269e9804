"""Inception-v3 as FID is defined on it, in the state-dict layout in which the field passes its weights on.

The network of Szegedy et al. 2015 (arXiv 1512.00567) as TensorFlow's model of 2015-12-05 has it, which differs from
torchvision's in three things: averages at borders leave padding out, the last block takes a maximum where the others
average, and there are 1008 classes. Names are those of torchvision (`Mixed_5b.branch5x5_1.conv.weight`).

Imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH = 2048


class Conv(NamedTuple):
    """One convolution: name, channels after it, kernel, stride; `same` padding where the stride is 1."""

    name: str
    after: int
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1
    padded: bool = True


class ConvUnit(nn.Module):
    """Convolution, batch normalisation, ReLU."""

    def __init__(self, before: int, conv: Conv) -> None:
        super().__init__()
        padding = (conv.kernel[0] // 2, conv.kernel[1] // 2) if conv.padded and conv.stride == 1 else (0, 0)
        self.conv = nn.Conv2d(before, conv.after, conv.kernel, conv.stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(conv.after, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)))


Branch = Sequence[Conv]


class Mixed(nn.Module):
    """Branches side by side, their channels one behind the other.

    Args:
        before: channels that come in.
        branches: chains of convolutions.
        pool: the last branch: "average" or "maximum" of 3×3 in front of a convolution, or "shrink", a maximum of
            stride 2 alone.
        pooled: channels of the convolution behind the pool.
        split: branches whose end is two convolutions of the same input, 1×3 and 3×1: the name of the chain → its end.
    """

    def __init__(
        self, before: int, branches: Sequence[Branch], *, pool: str, pooled: int = 0, split: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self._chains: list[tuple[list[str], list[str]]] = []
        self._pool = pool
        for branch in branches:
            width = before
            for conv in branch:
                setattr(self, conv.name, ConvUnit(width, conv))
                width = conv.after
            self._chains.append(([conv.name for conv in branch], []))
        for chain, ends in self._chains:
            stem = chain[0].rpartition("_")[0]
            if stem in split:
                for mark, kernel in (("a", (1, 3)), ("b", (3, 1))):
                    end = f"{stem}_{len(chain) + 1}{mark}"
                    setattr(self, end, ConvUnit(384, Conv(end, 384, kernel)))
                    ends.append(end)
        if pooled:
            self.branch_pool = ConvUnit(before, Conv("branch_pool", pooled))

    def forward(self, x: Tensor) -> Tensor:
        parts = []
        for chain, ends in self._chains:
            y = x
            for name in chain:
                y = getattr(self, name)(y)
            parts += [getattr(self, end)(y) for end in ends] or [y]
        return torch.cat([*parts, self._pooled(x)], dim=1)

    def _pooled(self, x: Tensor) -> Tensor:
        if self._pool == "shrink":
            return F.max_pool2d(x, 3, stride=2)
        if self._pool == "maximum":
            y = F.max_pool2d(x, 3, stride=1, padding=1)
        else:
            y = F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)
        made: Tensor = self.branch_pool(y)
        return made


def _small(before: int, pooled: int) -> Mixed:
    """35×35 places."""
    return Mixed(
        before,
        [
            [Conv("branch1x1", 64)],
            [Conv("branch5x5_1", 48), Conv("branch5x5_2", 64, (5, 5))],
            [Conv("branch3x3dbl_1", 64), Conv("branch3x3dbl_2", 96, (3, 3)), Conv("branch3x3dbl_3", 96, (3, 3))],
        ],
        pool="average", pooled=pooled,
    )  # fmt: skip


def _wide(width: int) -> Mixed:
    """17×17 places; kernels of 7 as 1×7 and 7×1."""
    row, column = (1, 7), (7, 1)
    return Mixed(
        768,
        [
            [Conv("branch1x1", 192)],
            [Conv("branch7x7_1", width), Conv("branch7x7_2", width, row), Conv("branch7x7_3", 192, column)],
            [
                Conv("branch7x7dbl_1", width), Conv("branch7x7dbl_2", width, column),
                Conv("branch7x7dbl_3", width, row), Conv("branch7x7dbl_4", width, column),
                Conv("branch7x7dbl_5", 192, row),
            ],
        ],
        pool="average", pooled=192,
    )  # fmt: skip


def _last(before: int, pool: str) -> Mixed:
    """8×8 places."""
    return Mixed(
        before,
        [
            [Conv("branch1x1", 320)],
            [Conv("branch3x3_1", 384)],
            [Conv("branch3x3dbl_1", 448), Conv("branch3x3dbl_2", 384, (3, 3))],
        ],
        pool=pool, pooled=192, split=("branch3x3", "branch3x3dbl"),
    )  # fmt: skip


class InceptionV3(nn.Module):
    """The whole network up to its 2048 features; `fc` stands in the weights and is not used."""

    def __init__(self) -> None:
        super().__init__()
        three = (3, 3)
        for before, conv in (
            (3, Conv("Conv2d_1a_3x3", 32, three, 2)),
            (32, Conv("Conv2d_2a_3x3", 32, three, 1, padded=False)),
            (32, Conv("Conv2d_2b_3x3", 64, three)),
            (64, Conv("Conv2d_3b_1x1", 80)),
            (80, Conv("Conv2d_4a_3x3", 192, three, 1, padded=False)),
        ):
            setattr(self, conv.name, ConvUnit(before, conv))
        for name, before, pooled in (("Mixed_5b", 192, 32), ("Mixed_5c", 256, 64), ("Mixed_5d", 288, 64)):
            setattr(self, name, _small(before, pooled))
        self.Mixed_6a = Mixed(
            288,
            [
                [Conv("branch3x3", 384, three, 2)],
                [Conv("branch3x3dbl_1", 64), Conv("branch3x3dbl_2", 96, three), Conv("branch3x3dbl_3", 96, three, 2)],
            ],
            pool="shrink",
        )
        for name, width in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
            setattr(self, name, _wide(width))
        self.Mixed_7a = Mixed(
            768,
            [
                [Conv("branch3x3_1", 192), Conv("branch3x3_2", 320, three, 2)],
                [
                    Conv("branch7x7x3_1", 192), Conv("branch7x7x3_2", 192, (1, 7)), Conv("branch7x7x3_3", 192, (7, 1)),
                    Conv("branch7x7x3_4", 192, three, 2),
                ],
            ],
            pool="shrink",
        )  # fmt: skip
        self.Mixed_7b = _last(1280, "average")
        self.Mixed_7c = _last(WIDTH, "maximum")
        self.fc = nn.Linear(WIDTH, 1008)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, 299, 299), pixels as (p − 128) / 128, to (n, 2048)."""
        for name in ("Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3"):
            x = getattr(self, name)(x)
        x = F.max_pool2d(x, 3, stride=2)
        for name in ("Conv2d_3b_1x1", "Conv2d_4a_3x3"):
            x = getattr(self, name)(x)
        x = F.max_pool2d(x, 3, stride=2)
        for name in ("5b", "5c", "5d", "6a", "6b", "6c", "6d", "6e", "7a", "7b", "7c"):
            x = getattr(self, f"Mixed_{name}")(x)
        return x.mean(dim=(2, 3))
