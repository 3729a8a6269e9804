"""Batches on their way to a device: in page-locked memory and without waiting for a CUDA GPU, plainly elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from beholder.backends import tensors  # noqa: E402
from beholder.backends.tensors import on_device, stacked  # noqa: E402

ROWS = [np.full((3, 4, 5), value, np.uint8) for value in range(7)]


class Locked:
    """Stands for torch's allocator of page-locked memory, which needs a GPU: counts, and gives ordinary memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.shapes: list[tuple[int, ...]] = []
        plain = torch.empty

        def empty(shape: tuple[int, ...], *, dtype: Any, pin_memory: bool = False) -> Any:
            if pin_memory:
                if error is not None:
                    raise error
                self.shapes.append(shape)
            return plain(shape, dtype=dtype)

        monkeypatch.setattr(torch, "empty", empty)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda:0")])
def test_a_gpus_batch_is_stacked_in_page_locked_memory(monkeypatch: pytest.MonkeyPatch, device: Any) -> None:
    locked = Locked(monkeypatch)
    batch = stacked(ROWS, device)
    assert locked.shapes == [(7, 3, 4, 5)]
    assert batch.dtype == np.uint8
    np.testing.assert_array_equal(batch, np.stack(ROWS))


def test_pixels_that_are_turned_about_are_stacked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    locked, turned = Locked(monkeypatch), [row[..., ::-1] for row in ROWS]
    np.testing.assert_array_equal(stacked(turned, "cuda"), np.stack(turned))
    assert locked.shapes == [(7, 3, 4, 5)]


@pytest.mark.parametrize("device", ["cpu", "mps", torch.device("cpu"), None])
def test_other_batches_lie_in_ordinary_memory(monkeypatch: pytest.MonkeyPatch, device: Any) -> None:
    locked = Locked(monkeypatch)
    np.testing.assert_array_equal(stacked(ROWS, device), np.stack(ROWS))
    assert locked.shapes == []


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (ROWS, RuntimeError("CUDA error: out of memory")),
        ([np.array([None, "a"], object)] * 2, None),  # a type that torch does not have
    ],
)
def test_where_none_can_be_locked_ordinary_memory_does(
    monkeypatch: pytest.MonkeyPatch, rows: list[np.ndarray], error: Exception | None
) -> None:
    Locked(monkeypatch, error)
    np.testing.assert_array_equal(stacked(rows, "cuda"), np.stack(rows))


def test_only_a_gpu_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    class Tensor:
        def to(self, device: Any, *, non_blocking: bool) -> Tensor:
            asked.append((str(device), non_blocking))
            return self

    monkeypatch.setattr(tensors, "to_torch", lambda array: Tensor())
    for device in ("cpu", torch.device("cuda:1"), "mps"):
        on_device(ROWS[0], device)
    assert asked == [("cpu", False), ("cuda:1", True), ("mps", False)]


def test_what_arrives_is_what_was_sent() -> None:
    sent = np.stack(ROWS)[:, :, ::2]
    np.testing.assert_array_equal(on_device(sent, "cpu").numpy(), sent)
