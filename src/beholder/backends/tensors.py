"""Between numpy and torch: the last step of preprocessing, and embeddings out of networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def normalise(pixels: Any, table: Any) -> Any:
    """(n, 3, h, w) uint8 to float32 by each channel's table of 256 values: the same bits as computing them."""
    import torch

    result = torch.empty(pixels.shape, dtype=torch.float32, device=pixels.device)
    for channel in range(3):
        values = table[channel].index_select(0, pixels[:, channel].reshape(-1).int())
        result[:, channel] = values.view(pixels.shape[0], *pixels.shape[2:])
    return result


def projected(output: Any) -> Any:
    """The projected embedding from what `get_*_features` returns: the tensor, or the object's `pooler_output`.

    Raises:
        TypeError: anything else, naming its type.
    """
    import torch

    value = output if isinstance(output, torch.Tensor) else getattr(output, "pooler_output", None)
    if not isinstance(value, torch.Tensor) or value.ndim != 2:
        raise TypeError(
            "get_*_features must give an (n, d) tensor or an object with one as pooler_output; "
            f"got {type(output).__name__}"
        )
    return value


def to_torch(array: np.ndarray) -> Any:
    """A numpy array as a torch tensor on the CPU, sharing memory where it can."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(array))


def stacked(rows: Sequence[np.ndarray], device: Any) -> np.ndarray:
    """Rows of one shape as one array; where a CUDA GPU is to read it, in page-locked memory.

    A GPU reads such memory by itself, at the full speed of the bus. Of ordinary memory the driver first makes such a
    copy, in pieces, and the program waits for it.
    """
    if _is_cuda(device):
        import torch

        try:
            first = np.asarray(rows[0])
            # The type alone: torch takes no array that is turned about, as pixels in BGR are.
            dtype = torch.from_numpy(np.empty(0, first.dtype)).dtype
            room = torch.empty((len(rows), *first.shape), dtype=dtype, pin_memory=True).numpy()
        except (RuntimeError, TypeError):
            # Memory that may be locked is limited on some machines, and torch does not know all of numpy's types.
            return np.stack(rows)
        return np.stack(rows, out=room)
    return np.stack(rows)


def on_device(array: np.ndarray, device: Any) -> Any:
    """A numpy array as a torch tensor on a device.

    To a CUDA GPU it is copied without waiting: what is computed from it there stands behind the copy in the same queue,
    and page-locked memory is not used again by torch before the copy is done. torch knows such memory by its first
    byte: of what `stacked` gave, give the whole, never a part that begins further on.
    """
    return to_torch(array).to(device, non_blocking=_is_cuda(device))


def _is_cuda(device: Any) -> bool:
    return str(device).startswith("cuda")


def to_numpy(tensor: Any) -> np.ndarray:
    """A torch tensor as a float32 array."""
    result: np.ndarray = tensor.float().cpu().numpy()
    return result
