"""The GPU that is not there: what it must refuse, as a real one does, and what it must let through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.backends.fake_cuda import FakeGpu, fake_cuda, parts_off_gpu  # noqa: E402
from torch.nn import functional  # noqa: E402

from beholder.backends.devices import choose_device  # noqa: E402
from beholder.backends.forward import forward_pass  # noqa: E402

TWO_DEVICES = "Expected all tensors to be on the same device"


@pytest.fixture
def gpu() -> Iterator[FakeGpu]:
    with FakeGpu() as made, forward_pass():
        yield made


def here() -> Any:
    return torch.arange(6.0).reshape(2, 3)


def there(dtype: Any = torch.float32) -> Any:
    return here().to("cuda", dtype)


def test_tensors_know_where_they_are(gpu: FakeGpu) -> None:
    one = there()
    assert (one.device, one.is_cuda, one.is_cpu, one.get_device()) == (torch.device("cuda:0"), True, False, 0)
    assert (here().device, here().is_cuda, one.cpu().device) == (torch.device("cpu"), False, torch.device("cpu"))
    for made in (
        one + 1, one[0], one.half(), one[one > 1], one.new_zeros(2), one.new_tensor([1]), torch.zeros_like(one),
        one.expand(4, 2, 3), torch.arange(3, device=one.device), torch.tensor([1], device="cuda"), here().to(one),
        here().type_as(one), torch.as_tensor(here(), device="cuda:0"), one.to(torch.float64), here().cuda(),
        functional.interpolate(one[None, None], (5, 5)), torch.einsum("ab,cb->ac", one, one),
    ):  # fmt: skip
        assert made.device == torch.device("cuda:0")
    for made in (one.to("cpu"), one.to(here()), one.type_as(here()), one.cpu().half(), torch.zeros(2)):
        assert made.device == torch.device("cpu")
    assert one.tolist() == here().tolist()
    assert float(one.sum()) == 15


@pytest.mark.parametrize(
    "mix",
    [
        lambda: there() + here(),
        lambda: torch.cat([there(), here()]),
        lambda: there() @ here().T,
        lambda: torch.where(here() > 1, there(), 0.0),
        lambda: torch.einsum("ab,cb->ac", there(), here()),
        lambda: functional.embedding(torch.tensor([0]), there()),
        lambda: there().index_select(0, torch.tensor([0])),
        lambda: there().masked_fill(here() > 1, 0.0),
        lambda: functional.scaled_dot_product_attention(there()[None], there()[None], here()[None]),
        lambda: torch.nn.Linear(3, 2)(there()),
    ],
)
def test_tensors_of_two_devices_are_refused(gpu: FakeGpu, mix: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=TWO_DEVICES):
        mix()


def test_what_a_real_gpu_takes_from_the_cpu(gpu: FakeGpu) -> None:
    one = there()
    assert (one + torch.tensor(2.0)).device == one.device
    assert one[torch.tensor([0])].device == one.device
    one[torch.tensor([True, False])] = torch.tensor(7.0)
    one[1].copy_(here()[0])
    assert one.tolist() == [[7, 7, 7], [0, 1, 2]]


@pytest.mark.parametrize("leave", [lambda: there().numpy(), lambda: np.asarray(there())])
def test_numpy_takes_nothing_from_a_gpu(gpu: FakeGpu, leave: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"Use Tensor\.cpu\(\) first"):
        leave()


@pytest.mark.parametrize(
    "compute",
    [
        lambda: functional.layer_norm(there(torch.bfloat16), (3,), torch.ones(3, device="cuda")),
        lambda: there(torch.long) @ there(torch.long).T,
        lambda: functional.interpolate(there(torch.uint8)[None, None], (5, 5), mode="bilinear", antialias=True),
        lambda: torch.empty(3, pin_memory=True),
    ],
)
def test_what_only_a_cpu_does_is_refused(gpu: FakeGpu, compute: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError):
        compute()


def test_convolutions_of_rounded_float32_are_refused() -> None:
    with FakeGpu():
        network = torch.nn.Conv2d(1, 1, 1).to("cuda")
        with pytest.raises(RuntimeError, match="outside of a forward pass"):
            network(there()[None, None])
        with forward_pass():
            network(there()[None, None])


def test_a_buffer_that_was_left_behind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        def __init__(self) -> None:
            self.network = torch.nn.BatchNorm1d(2).to(choose_device("cuda", dtype="float16"))

    with fake_cuda(monkeypatch) as gpu:
        model = Model()
        assert not list(parts_off_gpu(gpu, model))
        model.network.running_mean = torch.zeros(2)
        assert list(parts_off_gpu(gpu, model)) == ["network.running_mean"]
