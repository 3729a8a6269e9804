"""One run after another on a small file system of its own, with ever more room: run as a child by test_full_disk.py.

`python full_disk.py MANIFEST DISK ELSEWHERE KB…` prints one JSON line a room: what the run told, and whether
the run that went on once the disk had room again equals the undisturbed one.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import beholder
from beholder._errors import BeholderError
from beholder.runs import engine, store


def evaluate(data: str, place: Path, name: str) -> beholder.Run:
    return beholder.evaluate(
        data,
        metrics=["clip_score", "clip_i"],
        model="fake:dim=64",
        out=str(place / name),
        store=str(place / f"s-{name}"),
    )


def fill(disk: Path, room: int) -> Path:
    """A file that leaves so many bytes of a disk."""
    ballast = disk / "ballast"
    found = os.statvfs(disk)
    with open(ballast, "wb") as handle:
        handle.write(bytes(max(0, found.f_bavail * found.f_frsize - room)))
    return ballast


def main() -> None:
    data, disk, elsewhere = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    engine.CHUNK = 16  # type: ignore[attr-defined]
    store.FLUSH_SECONDS = 0.0  # type: ignore[attr-defined]
    quiet = evaluate(data, elsewhere, "quiet")
    for room in map(int, sys.argv[4:]):
        name = f"run{room}"
        ballast = fill(disk, room * 1024)
        told = None
        try:
            evaluate(data, disk, name)
        except BeholderError as error:
            told = f"{type(error).__name__}: {error}"
        except OSError as error:
            told = str(error)
        ballast.unlink()
        again = evaluate(data, disk, name)
        same = again.scores.equals(quiet.scores) and again.summary == quiet.summary
        print(json.dumps({"room": room, "told": told, "same": same}), flush=True)  # noqa: T201
        for left in [*disk.glob("**/*")][::-1]:
            left.rmdir() if left.is_dir() else left.unlink()


if __name__ == "__main__":
    main()
