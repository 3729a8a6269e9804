"""Batches of one fixed shape through a model, and what its failures cost: one item, never its neighbours."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beholder._errors import BeholderError, DeviceError, ModelError, NoValue
from beholder.backends.base import Columns, Made
from beholder.records import Status

Failures = dict[bytes, tuple[Status, str]]
Done = Callable[[list[bytes], Columns], None]
Encode = Callable[[Sequence[Any]], Any]


@dataclass
class BatchSize:
    """How many items go into a batch.

    Args:
        size: items in a batch.
        fixed: True when the user asked for this size; else it is halved when the device has no memory for it.
        first: the size before it was halved.
    """

    size: int
    fixed: bool = False
    first: int = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.size

    def halve(self, error: Exception, *, parts: bool = False) -> None:
        """Half the size from here on.

        Args:
            error: what the device said.
            parts: whether one item can be taken in parts (the texts about one picture).

        Raises:
            DeviceError: the size was asked for, or is 1 already and an item has no parts.
        """
        if self.fixed or (self.size == 1 and not parts):
            raise DeviceError(
                f"a batch of {self.size} must fit into the device's memory",
                got=type(error).__name__,
                fix="Try a smaller --batch-size" if self.fixed and self.size > 1 else "Use a smaller model or dtype",
            ) from error
        self.size = max(1, self.size // 2)


def encode_batch(
    keys: Sequence[bytes], batch: Sequence[Any], encode: Encode, size: BatchSize, done: Done, failures: Failures
) -> None:
    """Encodes items in one batch; when that fails, each alone, so that a bad one costs only itself.

    Nothing is tried again while an error is handled: until then it holds all tensors of the call that failed.
    """
    while batch:
        part = batch[: size.size]
        alone = False
        try:
            _finish(list(keys[: len(part)]), _padded(part, encode, size.size), done, failures)
        except BeholderError:
            raise
        except Exception as error:
            if out_of_memory(error):
                size.halve(error)
                continue
            check_device(error)
            alone = len(part) > 1
            if not alone:
                failures[keys[0]] = model_raised(error)
        if alone:
            for key, payload in zip(keys[: len(part)], part, strict=True):
                encode_batch([key], [payload], encode, size, done, failures)
        keys, batch = keys[len(part) :], batch[len(part) :]


def _finish(keys: list[bytes], made: Made, done: Done, failures: Failures) -> None:
    if not made.failures:
        done(keys, made.columns)
        return
    for row, error in made.failures.items():
        failures[keys[row]] = (Status(error.status), error.reason)
    good = [row for row in range(len(keys)) if row not in made.failures]
    if good:
        done([keys[row] for row in good], {name: array[good] for name, array in made.columns.items()})


def _padded(batch: Sequence[Any], encode: Encode, size: int) -> Made:
    count = len(batch)
    made = checked(encode([*batch, *[batch[-1]] * (size - count)]), size)
    if count == size:
        return made
    columns = {name: array[:count] for name, array in made.columns.items()}
    return Made(columns, {row: error for row, error in made.failures.items() if row < count})


def checked(made: Any, rows: int) -> Made:
    """What a model gave, as arrays of numbers with a row an item.

    Raises:
        ModelError: the model does not keep its contract, so no row can be trusted.
    """
    failures = made.failures if isinstance(made, Made) else {}
    columns = made.columns if isinstance(made, Made) else made
    if not isinstance(columns, Mapping) or (not isinstance(made, Made) and "embedding" not in columns):
        found = f"columns {', '.join(map(repr, columns))}" if isinstance(columns, Mapping) else type(columns).__name__
        raise ModelError("an encoder must give a mapping with a column 'embedding' for texts", got=found)
    arrays = {name: _as_array(name, value) for name, value in columns.items()}
    for name, array in arrays.items():
        if array.ndim == 0 or len(array) != rows:
            raise ModelError(f"an encoder must give one row of {name!r} for each of {rows} items", got=_shape(array))
    embedding = arrays.get("embedding")
    if embedding is not None and embedding.dtype != object and (embedding.ndim != 2 or not embedding.shape[1]):
        raise ModelError("embeddings must be a matrix (n, d) with d of at least 1", got=_shape(embedding))
    wrong = [row for row, error in failures.items() if not 0 <= row < rows or not isinstance(error, NoValue)]
    if wrong:
        raise ModelError(f"failures must be a NoValue by row, from 0 to {rows - 1}", got=f"row {wrong[0]}")
    return Made(arrays, failures)


def model_raised(error: Exception) -> tuple[Status, str]:
    """The verdict on an item on which the model raised."""
    return Status.FAILED, f"the model raised {type(error).__name__}: {error}"


_NO_MEMORY = re.compile(r"out of memory|STATUS_ALLOC_FAILED|failed to allocate memory for requested buffer", re.I)
"""What torch, NVIDIA's libraries (cuBLAS, cuDNN) and onnxruntime say."""

_LOST = re.compile(r"\b(CUDA|HIP) error:")


def out_of_memory(error: Exception) -> bool:
    """True when a device had no memory left."""
    return type(error).__name__ == "OutOfMemoryError" or _NO_MEMORY.search(str(error)) is not None


def check_device(error: Exception) -> None:
    """Ends the run where it is the device that failed and not the item: behind such an error every call fails.

    Raises:
        DeviceError: an error of CUDA or HIP themselves.
    """
    if type(error).__name__ != "AcceleratorError" and _LOST.search(str(error)) is None:
        return
    raise DeviceError(
        "the device must go on working during a run",
        got=(str(error).strip().splitlines() or [type(error).__name__])[0],
        fix="Start it again: it goes on where it stopped. If it stops at the same place, --device cpu tells which item "
        "is at fault",
    ) from error


def _as_array(name: str, value: Any) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"an encoder's column {name!r} must be an array", got=str(error)) from error
    if array.dtype.kind not in "fiub" and not _is_ragged(array):
        raise ModelError(f"an encoder's column {name!r} must hold real numbers", got=f"dtype {array.dtype}")
    return array


def _is_ragged(array: np.ndarray) -> bool:
    """True for a column of arrays or texts, one a row."""
    return array.dtype == object and array.ndim == 1 and all(isinstance(row, (np.ndarray, str)) for row in array)


def _shape(array: np.ndarray) -> str:
    return f"shape {array.shape}"
