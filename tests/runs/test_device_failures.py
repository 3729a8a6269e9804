"""What a GPU's failures cost: less memory is asked for again, and a device that is lost ends the run."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from beholder._errors import DeviceError
from beholder.backends.base import Made
from beholder.runs.batching import BatchSize, encode_batch, out_of_memory
from beholder.runs.several import _call_pairs


class OutOfMemoryError(RuntimeError):
    """torch's error, by its name."""


class AcceleratorError(RuntimeError):
    """torch's error of CUDA itself, by its name."""


class Activations:
    """Stands for the tensors of a call."""


class Network:
    """Fails as it is told, and sees whether the tensors of the call that failed are still held at the next one."""

    def __init__(self, *errors: Exception, most: int = 1000) -> None:
        self.errors, self.most = list(errors), most
        self.calls: list[int] = []
        self.held: list[bool] = []
        self._last: weakref.ref[Activations] | None = None

    def __call__(self, batch: Sequence[Any], pairs: Sequence[Any] | None = None) -> Made:
        rows = batch if pairs is None else pairs
        activations = Activations()
        self.held.append(self._last is not None and self._last() is not None)
        self._last = weakref.ref(activations)
        self.calls.append(len(rows))
        if len(rows) > self.most:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        if self.errors:
            raise self.errors.pop(0)
        return Made({"x": np.arange(len(rows), dtype=float)})


def run_batch(network: Network, count: int, size: BatchSize) -> tuple[list[bytes], dict[bytes, Any]]:
    done: list[bytes] = []
    failures: dict[bytes, Any] = {}
    keys = [bytes([at]) for at in range(count)]
    encode_batch(keys, list(range(count)), network, size, lambda k, c: done.extend(k), failures)
    return done, failures


def run_pairs(network: Network, count: int, size: BatchSize) -> tuple[list[bytes], dict[bytes, Any]]:
    done: list[bytes] = []
    failures: dict[bytes, Any] = {}
    pairs = [(0, bytes([at]), "text") for at in range(count)]
    _call_pairs([None], pairs, network, size, lambda k, c: done.extend(k), failures)
    return done, failures


@pytest.mark.parametrize("run", [run_batch, run_pairs])
def test_the_tensors_of_a_call_that_failed_are_gone_when_the_next_one_begins(run: Any) -> None:
    network = Network(most=2)
    done, failures = run(network, 8, BatchSize(8))
    assert (len(done), failures) == (8, {})
    assert network.calls[:3] == [8, 4, 2]
    assert not any(network.held)


@pytest.mark.parametrize("run", [run_batch, run_pairs])
def test_items_are_tried_alone_without_the_tensors_of_their_batch(run: Any) -> None:
    network = Network(ValueError("one of them is bad"), ValueError("this one"))
    done, failures = run(network, 3, BatchSize(3))
    assert (len(done), list(failures)) == (2, [bytes([0])])
    assert not any(network.held)


def test_texts_about_one_picture_are_taken_in_parts_before_it_is_too_large() -> None:
    done, failures = run_pairs(Network(most=3), 16, BatchSize(1))
    assert (len(done), failures) == (16, {})
    with pytest.raises(DeviceError, match="a batch of 1 must fit"):
        run_pairs(Network(most=0), 16, BatchSize(1))
    with pytest.raises(DeviceError, match="a batch of 1 must fit"):
        run_pairs(Network(most=3), 16, BatchSize(1, fixed=True))


@pytest.mark.parametrize(
    "message",
    [
        "CUDA out of memory. Tried to allocate 20.00 MiB",
        "HIP out of memory",
        "MPS backend out of memory (MPS allocated: 18.0 GB)",
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "Failed to allocate memory for requested buffer of size 123456",
    ],
)
def test_libraries_say_in_many_ways_that_memory_is_full(message: str) -> None:
    assert out_of_memory(RuntimeError(message))
    done, failures = run_batch(Network(RuntimeError(message)), 4, BatchSize(4))
    assert (len(done), failures) == (4, {})


@pytest.mark.parametrize("run", [run_batch, run_pairs])
@pytest.mark.parametrize(
    "error",
    [
        AcceleratorError("CUDA error: device-side assert triggered\nCompile with TORCH_USE_CUDA_DSA"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("HIP error: unspecified launch failure"),
    ],
)
def test_a_device_that_is_lost_ends_the_run(run: Any, error: Exception) -> None:
    network = Network(error)
    with pytest.raises(DeviceError, match=r"must go on working.*(CUDA|HIP) error.*goes on where it stopped"):
        run(network, 4, BatchSize(4))
    assert network.calls == [4], "nothing more is tried on it, and no item is called bad"


def test_an_items_own_error_is_none_of_the_device() -> None:
    assert not out_of_memory(ValueError("the file allocates 3 textures"))
    done, failures = run_batch(Network(RuntimeError("CUDA is mentioned")), 1, BatchSize(1))
    assert (done, list(failures)) == ([], [bytes([0])])
