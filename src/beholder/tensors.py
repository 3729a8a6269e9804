"""Scores as torch tensors: the only place above the backends that knows torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch


def to_tensor(values: Any) -> torch.Tensor:
    """Values as a float32 tensor on the CPU, of the same shape."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
