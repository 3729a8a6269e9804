"""Forward passes: float32 stays float32 whatever torch was told, and what torch was told is put back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from beholder.backends import forward, pool  # noqa: E402
from beholder.backends.forward import forward_pass, plain_arithmetic  # noqa: E402

FINE = forward._fine_settings()


def settings() -> list[Any]:
    """All that torch is told of float32."""
    return [
        torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32,
        *(one.fp32_precision for one in FINE),
    ]  # fmt: skip


def whole() -> bool:
    """Whether float32 is computed as float32, asked in every way that torch knows."""
    found = settings()
    return found[:3] == ["highest", False, False] and set(found[3:]) <= {"ieee", "none"}


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    yield
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = True
    for one in FINE:
        one.fp32_precision = "none"
    torch.backends.cudnn.allow_tf32 = True


def test_convolutions_and_products_are_whole_in_a_pass_and_as_before_behind_it() -> None:
    before = settings()
    assert torch.backends.cudnn.allow_tf32, "torch's own default, which rounds convolutions on GPUs since Ampere"
    with forward_pass():
        assert whole()
        assert torch.is_inference_mode_enabled()
    assert settings() == before
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_products_that_a_program_allowed_to_be_rounded_are_whole_too(precision: str) -> None:
    torch.set_float32_matmul_precision(precision)
    before = settings()
    with plain_arithmetic():
        assert whole()
        torch.manual_seed(0)
        one, other = torch.randn(2, 64, 64)
        rounded = one @ other
    assert settings() == before
    torch.set_float32_matmul_precision("highest")
    assert torch.equal(rounded, one @ other)


def test_settings_by_operation_are_put_back_where_the_old_ones_cannot_be_asked() -> None:
    for one in FINE[1:]:  # none before torch 2.9
        one.fp32_precision = "tf32"
        FINE[0].fp32_precision = "ieee"  # now torch raises where it is asked for `allow_tf32`
        with pytest.raises(RuntimeError):
            settings()
        before = [other.fp32_precision for other in FINE]
        with plain_arithmetic():
            assert {other.fp32_precision for other in FINE} <= {"ieee", "none"}
        assert [other.fp32_precision for other in FINE] == before


def test_the_last_pass_that_ends_puts_the_settings_back() -> None:
    before = settings()
    first, second = plain_arithmetic(), plain_arithmetic()
    first.__enter__()
    thread = threading.Thread(target=second.__enter__)
    thread.start()
    thread.join()
    first.__exit__(None, None, None)
    assert whole()
    second.__exit__(None, None, None)
    assert settings() == before


def test_an_error_in_a_pass_puts_them_back() -> None:
    before = settings()
    with pytest.raises(ValueError, match="in the network"), forward_pass():
        raise ValueError("in the network")
    assert settings() == before


def test_an_autocast_around_us_ends_at_our_door() -> None:
    values = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (values @ values).dtype == torch.bfloat16
        with forward_pass():
            assert (values @ values).dtype == torch.float32
        assert (values @ values).dtype == torch.bfloat16


def test_a_programs_default_device_does_not_reach_into_a_pass() -> None:
    with torch.device("meta"):
        assert torch.zeros(1).device.type == "meta"
        with forward_pass():
            assert torch.zeros(1).device.type == "cpu"
        assert torch.zeros(1).device.type == "meta"


def test_nor_into_loading(tiny: Callable[[str], Path]) -> None:
    resolved = pool.resolve_model(str(tiny("clip")))
    wanted = pool.load_model(resolved, device="cpu").encode_texts(["a cat"])["embedding"]
    with torch.device("meta"):
        found = pool.load_model(resolved, device="cpu").encode_texts(["a cat"])["embedding"]
    np.testing.assert_array_equal(found, wanted)


def test_a_plug_ins_engine_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plugin:
        def load(self, resolved: Any, *, device: str) -> str:
            return str(torch.zeros(1).device)

    monkeypatch.setattr(pool, "parse_name_here", lambda name: SimpleNamespace(engine="mine"))
    monkeypatch.setattr(pool, "engine_of", lambda name, capability: Plugin())
    with torch.device("meta"):
        assert pool.load_model(SimpleNamespace(asked="mine:x", capability="ImageScorer")) == "meta"
