"""Devices and dtypes: what "auto" means here, and refusals that say why before torch crashes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from beholder._errors import DeviceError, OptionError

DTYPES = {
    "float32": "float32",
    "fp32": "float32",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float16": "float16",
    "fp16": "float16",
    "half": "float16",
}
LARGE = 4_000_000_000
"""Bytes of weights from which a model counts as large: named before loading, never float32 unless asked."""


def choose_dtype(asked: str, *, size_bytes: int) -> str:
    """The dtype of the forward pass: float32 unless asked, bfloat16 for models of more than 4 GB.

    Raises:
        OptionError: not a dtype that is offered.
    """
    if asked == "auto":
        return "bfloat16" if size_bytes > LARGE else "float32"
    if asked not in DTYPES:
        raise OptionError("dtype must be auto, float32, bfloat16 or float16", got=repr(asked))
    return DTYPES[asked]


def only_float32(asked: str) -> str:
    """float32, for models that have no other dtype; where another was asked for, the run says so (`pool.notices`).

    Raises:
        OptionError: not a dtype that is offered.
    """
    choose_dtype(asked, size_bytes=0)
    return "float32"


def choose_device(asked: str, *, dtype: str) -> Any:
    """The torch device for `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.

    Raises:
        OptionError: not the name of a device.
        DeviceError: a device that this machine does not have, or one that cannot do `dtype`.
    """
    import torch

    kind, _, number = asked.partition(":")
    if kind not in ("auto", "cpu", "cuda", "mps") or (number and (kind != "cuda" or not number.isdigit())):
        several = number == "all" or kind == "cpu"
        fix = "cuda:all and cpu:N are for `beholder run`, which starts a process a GPU, or N" if several else None
        raise OptionError("device must be auto, cpu, cuda, cuda:N or mps", got=repr(asked), fix=fix)
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu"
        if kind == "mps" and dtype == "bfloat16":
            kind = "cpu"
    if kind == "cuda":
        _check_cuda(asked, number)
    if kind == "mps" and not _has_mps():
        raise DeviceError(
            'device "mps" needs an Apple GPU and a torch build that supports it',
            got="none on this machine",
            fix="Use device auto or cpu",
        )
    if kind == "cpu" and dtype == "float16":
        raise DeviceError(
            "float16 needs a GPU: on a CPU it is slow and rounds worse",
            got=f"device {asked!r}",
            fix="Use dtype bfloat16 or float32",
        )
    return torch.device(f"{kind}:{int(number)}" if number else kind)


def require_device(asked: str) -> None:
    """Refuses a device by name that this machine lacks; "auto" and "cpu" are always there, and need no torch.

    Raises:
        DeviceError: as `choose_device`.
    """
    if asked == "mps" or (asked.startswith("cuda") and asked != "cuda:all"):
        choose_device(asked, dtype="float32")


def _check_cuda(asked: str, number: str) -> None:
    import torch

    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        why = "no usable GPU or driver was found" if built else "this torch is a build without CUDA"
        raise DeviceError(
            f"device {asked!r} needs a CUDA GPU",
            got=f"a machine without one ({why})",
            fix="Use device auto or cpu, or install a CUDA build of torch",
        )
    count = torch.cuda.device_count()
    if number and int(number) >= count:
        have = ", ".join(f"cuda:{i}" for i in range(count))
        raise DeviceError("a CUDA device must be one that this machine has", got=f"{asked!r}; there are: {have}")


def _has_mps() -> bool:
    import torch

    return bool(torch.backends.mps.is_available())


def describe_devices() -> tuple[dict[str, str], int]:
    """The GPUs that torch sees, by device name, and the threads it uses on the CPU."""
    import torch

    found = {}
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            facts = torch.cuda.get_device_properties(number)
            found[f"cuda:{number}"] = f"{facts.name}, {facts.total_memory / 1e9:.1f} GB"
    if _has_mps():
        found["mps"] = "Apple GPU"
    return found, torch.get_num_threads()


def release_memory(device: Any) -> None:
    """Gives back what networks that were let go of still hold on a GPU; nothing to do elsewhere."""
    if device.type == "cuda":
        import torch

        torch.cuda.empty_cache()


def limit_threads(count: int) -> None:
    """Lets this process use so many threads for a model on the CPU, where several processes share the machine."""
    import torch

    torch.set_num_threads(max(1, count))


def device_memory(asked: str) -> int:
    """Bytes of memory of the device that a model would run on: the GPU's own, or the machine's. Needs no torch.

    Raises:
        OptionError, DeviceError: as `choose_device`.
    """
    try:
        import torch
    except ImportError:
        return _machine_memory()
    device = choose_device(asked, dtype="float32")
    if device.type != "cuda":
        return _machine_memory()
    try:
        return int(torch.cuda.get_device_properties(device.index or 0).total_memory)
    except (AssertionError, RuntimeError):  # a driver that does not tell; loading says what is wrong with it
        return _machine_memory()


def _machine_memory() -> int:
    """Bytes of the machine's memory, or of what its container may use; 8 GiB where neither can be told."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 8 << 30
    with suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total
