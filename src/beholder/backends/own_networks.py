"""Weights into networks that are written here in a published layout: complete, or an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from beholder.backends.torch_io import check_keys

COUNTERS = re.compile(r"(^|\.)num_batches_tracked$")
"""Counters of batch normalisation: training reads them, and old versions of torch did not store them."""


def assign_weights(
    network: Any,
    state: Mapping[str, Any],
    *,
    name: str,
    dtype: Any = None,
    may_be_extra: Iterable[re.Pattern[str]] = (),
    may_lack: Iterable[re.Pattern[str]] = (COUNTERS,),
) -> Any:
    """Assigns a checkpoint's tensors to a network (which may have been built without memory), and freezes it.

    Args:
        network: a torch module.
        state: the checkpoint's tensors by name.
        name: what messages call the model.
        dtype: torch dtype for floating-point tensors, or None to keep the checkpoint's.
        may_be_extra: names that the checkpoint may hold and the network does not use.
        may_lack: names of buffers that move no number; they become zeros.

    Returns:
        The network, in eval mode, without gradients.

    Raises:
        WeightsMismatchError: a name is missing, unexpected, or of another shape.
    """
    import torch

    own, extra, lacking = network.state_dict(), tuple(may_be_extra), tuple(may_lack)
    state = {key: value for key, value in state.items() if key in own or not _any(extra, key)}
    absent = [key for key in own if key not in state]
    check_keys(
        name,
        missing=[key for key in absent if not _any(lacking, key)],
        unexpected=set(state) - set(own),
        mismatched=[
            (key, tuple(value.shape), tuple(own[key].shape))
            for key, value in state.items()
            if key in own and value.shape != own[key].shape
        ],
    )
    filled = {key: state[key] if key in state else torch.zeros(own[key].shape, dtype=own[key].dtype) for key in own}
    if dtype is not None:
        filled = {key: value.to(dtype) if value.is_floating_point() else value for key, value in filled.items()}
    network.load_state_dict(filled, strict=True, assign=True)
    return network.eval().requires_grad_(False)


def _any(patterns: Iterable[re.Pattern[str]], key: str) -> bool:
    return any(pattern.search(key) for pattern in patterns)
