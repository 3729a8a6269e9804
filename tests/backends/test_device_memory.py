"""How much memory the device of a run has: what decides which models are loaded together."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from beholder._errors import OptionError
from beholder.backends import devices


def test_without_a_gpu_it_is_the_machines() -> None:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < devices.device_memory("cpu") <= total
    with pytest.raises(OptionError, match="device must be"):
        devices.device_memory("abacus")


def test_a_gpu_tells_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(devices, "choose_device", lambda asked, *, dtype: SimpleNamespace(type="cuda", index=1))
    sizes = [24_000, 80_000]
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda at: SimpleNamespace(total_memory=sizes[at]))
    assert devices.device_memory("cuda:1") == 80_000

    def silent(at: int) -> None:
        raise RuntimeError("no driver")

    monkeypatch.setattr(torch.cuda, "get_device_properties", silent)
    assert devices.device_memory("cuda:1") == devices._machine_memory()
