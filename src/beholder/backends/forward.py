"""What surrounds a forward pass: no gradients, and float32 that is float32 on every device.

Left alone, torch rounds the inputs of float32 convolutions to 10 bits on NVIDIA GPUs since Ampere (TF32), and a program
around us may have allowed the same for products (`torch.set_float32_matmul_precision("high")`) or have begun an
autocast, as a trainer does around its validation. A feature's key names its dtype and no device, so while our networks
run none of that holds. Whoever wants speed asks for another dtype, by name. Nor does a default device of the program's
(`torch.set_default_device`) reach into our networks: they say where a tensor lies, or mean the CPU.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

_AUTOCASTS = ("cpu", "cuda", "mps")
_WHOLE = ("ieee", "none")
"""What torch calls whole float32: by name, or because nothing was asked for."""


@contextmanager
def forward_pass() -> Iterator[None]:
    """While it lasts, this thread makes no gradients, and computes as `plain_arithmetic` says."""
    import torch

    with plain_arithmetic(), torch.inference_mode():
        yield


@contextmanager
def plain_arithmetic() -> Iterator[None]:
    """While it lasts, float32 is computed as float32, and nothing is cast or moved that our networks do not themselves.

    The settings of products are the process's own: other threads see them too. They are put back when the last pass
    that runs at the time has ended.
    """
    import torch

    with ExitStack() as stack:
        _SETTINGS.enter()
        stack.callback(_SETTINGS.leave)
        stack.enter_context(no_default_device())
        for kind in _AUTOCASTS:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


@contextmanager
def no_default_device() -> Iterator[None]:
    """While it lasts, this thread's tensors lie on the CPU where nothing is said of a device."""
    torch: Any = sys.modules.get("torch")
    if torch is None or torch.empty(0).device.type == "cpu":  # old versions do not tell of a `with torch.device(…)`
        yield
        return
    with torch.device("cpu"):
        yield


class _Settings:
    """torch's settings of float32, changed by the first pass that begins and put back by the last one that ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._undo: list[Callable[[], None]] = []

    def enter(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._undo = _compute_whole()
            self._depth += 1

    def leave(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                undo, self._undo = self._undo, []
                for step in undo:
                    step()


_SETTINGS = _Settings()


def _compute_whole() -> list[Callable[[], None]]:
    """Asks torch for whole float32; returns the steps that put back what was before.

    torch 2.9 has a setting for each kind of operation beside the old ones, which cover several. Both are set, since
    torch raises where one asks for the old ones while the two disagree.
    """
    import torch

    fine = [(one, one.fp32_precision) for one in _fine_settings()]
    undo: list[Callable[[], None]] = []
    with suppress(RuntimeError):  # the two disagree already: someone uses the fine ones
        products = torch.get_float32_matmul_precision()
        if products != "highest":
            torch.set_float32_matmul_precision("highest")
            undo.append(lambda: torch.set_float32_matmul_precision(products))
    with suppress(RuntimeError):
        if torch.backends.cudnn.allow_tf32:
            torch.backends.cudnn.allow_tf32 = False
            undo.append(_allow_tf32)
    for one, _ in fine:
        if one.fp32_precision not in _WHOLE:
            one.fp32_precision = "ieee"
    return [*undo, lambda: _put_back(fine)]


def _allow_tf32() -> None:
    import torch

    torch.backends.cudnn.allow_tf32 = True


def _put_back(fine: list[tuple[Any, str]]) -> None:
    for one, before in fine:
        if one.fp32_precision != before:
            one.fp32_precision = before


def _fine_settings() -> list[Any]:
    """torch's settings by kind of operation, on NVIDIA GPUs and on the CPU; none before torch 2.9."""
    from torch import backends

    found = [
        getattr(getattr(backends, library), operation, None)
        for library, operation in (("cudnn", "conv"), ("cuda", "matmul"), ("mkldnn", "conv"), ("mkldnn", "matmul"))
    ]
    return [one for one in found if _has_precision(one)]


def _has_precision(setting: Any) -> bool:
    try:
        return isinstance(setting.fp32_precision, str)
    except (AttributeError, RuntimeError):
        return False
