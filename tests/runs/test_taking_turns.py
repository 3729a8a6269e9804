"""Preparing and encoding take turns where the model needs all processors, and overlap where it does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from beholder.runs.batching import BatchSize
from beholder.runs.make import make_plain


class Watch:
    """Prepares items slowly and encodes them, and notes whether one happened during the other."""

    def __init__(self) -> None:
        self.preparing, self.lock = 0, threading.Lock()
        self.together = 0

    def prepare(self, item: int) -> int:
        with self.lock:
            self.preparing += 1
        time.sleep(0.005)
        with self.lock:
            self.preparing -= 1
        if item == 5:
            raise ValueError("damaged")
        return item

    def encode(self, batch: Sequence[int]) -> Any:
        for _ in range(4):
            self.together += self.preparing
            time.sleep(0.002)
        return {"embedding": np.asarray(batch, np.float32)[:, None]}


@pytest.mark.parametrize("overlap", [True, False])
def test_turns_and_overlap_give_the_same(overlap: bool) -> None:
    watch, found = Watch(), {}
    items = {bytes([at]): at for at in range(26)}

    def done(keys: Sequence[bytes], columns: Any) -> None:
        found.update(zip(keys, columns["embedding"][:, 0].tolist()))

    with ThreadPoolExecutor(4) as pool:
        failures = make_plain(
            items, watch.prepare, watch.encode, pool=pool, size=BatchSize(8), done=done, overlap=overlap
        )
    assert found == {bytes([at]): float(at) for at in range(26) if at != 5}
    assert set(failures) == {bytes([5])}
    assert (watch.together > 0) == overlap
