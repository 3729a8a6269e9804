"""A disk that is really full: a file system of two megabytes in a namespace of its own (no rights are needed)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.runs.helpers import write_set

ROOT = Path(__file__).parents[2]
ROOMS = (0, 8, 40, 80, 120, 160, 200, 260, 400, 1600)
_MOUNT = 'mount -t tmpfs -o size=2m none "$1" && shift && exec "$@"'


def on_small_disk(disk: Path, command: list[str]) -> list[str]:
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _MOUNT, "sh", str(disk), *command]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    disk = tmp_path / "disk"
    disk.mkdir()
    allowed = (
        shutil.which("unshare") and subprocess.run(on_small_disk(disk, ["true"]), capture_output=True).returncode == 0
    )
    if not allowed:
        pytest.skip("a small file system cannot be mounted here")
    return disk


@pytest.mark.slow
def test_a_full_disk_stops_with_a_message_and_loses_nothing(tmp_path: Path, disk: Path) -> None:
    data = write_set(tmp_path, 64)
    script = str(Path(__file__).with_name("full_disk.py"))
    command = [sys.executable, script, str(data), str(disk), str(tmp_path), *map(str, ROOMS)]
    done = subprocess.run(
        on_small_disk(disk, command),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [item["room"] for item in found] == list(ROOMS)
    assert all(item["same"] for item in found)
    refused = [item["told"] for item in found if item["told"] is not None]
    assert len(refused) >= 4
    assert all("No space left" in text or "full" in text for text in refused), refused
    assert found[-1]["told"] is None  # with room enough it runs through: it was the room that was missing
