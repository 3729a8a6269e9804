"""Encoders for runs on Ray: they travel to other processes, so what they tell they tell in files."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from beholder.backends.fake import FakeEncoder


class TellingEncoder(FakeEncoder):
    """Leaves a file for each process that it was used in, and one for each batch."""

    image_batch = 8
    text_batch = 8

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__("telling", dim=16, **options)
        self.folder = folder

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{os.getpid()}-{uuid.uuid4().hex}").write_text(str(len(batch)))
        return super().encode_images(batch)


class DyingEncoder(TellingEncoder):
    """Kills its process, once, in its third batch."""

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        made = super().encode_images(batch)
        mark = self.folder / "died"
        if len(list(self.folder.glob("*-*"))) >= 3 and not mark.exists():
            mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return made


class DeadlyEncoder(TellingEncoder):
    """Kills every process that encodes with it."""

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        super().encode_images(batch)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class WaitingEncoder(TellingEncoder):
    """Tells which node it is on. After six batches, nodes that are named wait until the file "go" is there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.named = folder / "named"
        self.go = folder / "go"

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        import ray

        made = super().encode_images(batch)
        if not ray.is_initialized():
            return made
        node = ray.get_runtime_context().get_node_id()
        number = len(list(self.folder.glob("node-*")))
        (self.folder / f"node-{node}-{uuid.uuid4().hex}").touch()
        give_up = time.monotonic() + 100
        while number >= 6 and (self.named / node).exists() and not self.go.exists() and time.monotonic() < give_up:
            time.sleep(0.02)
        return made
