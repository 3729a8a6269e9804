"""What a message says: what must hold, what was got once, and a way out that works when it is typed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FAKE = "fake:dim=16"
Cli = Callable[..., Any]


@pytest.mark.parametrize("shard", ["3/2", "x"])
def test_a_shard_that_cannot_be_is_told_once(beholder: Cli, data: Path, shard: str) -> None:
    result = beholder("run", data, "-m", "clip_score", "--model", FAKE, "--shard", shard)
    assert result.exit_code == 2
    assert result.stderr.count("; got") == 1


def test_runs_named_twice_are_named(beholder: Cli, data: Path) -> None:
    beholder("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a")
    result = beholder("compare", "a", "a")
    assert result.exit_code == 2
    assert "one folder named twice: a. Name each once." in result.stderr


def test_an_output_that_nobody_reads_is_no_gate_that_failed() -> None:
    """`beholder gate … | head -1` under pipefail: 1 would say that the gate was not met."""
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "beholder", "info", "clip_score"]
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True)
    os.close(writes)
    assert (done.returncode, done.stderr) == (141, "")
