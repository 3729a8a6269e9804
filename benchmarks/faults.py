"""Faults: a run is killed a hundred times and more, and disturbed in every other way that we could think of.

`python -m benchmarks.faults` does the long form and writes docs/reliability.md's figures to stdout; the tests do a
short one. Each case ends identical to the undisturbed run, or stops with a message; the cases say which.

Children are forked from a process that has imported everything, so an attempt costs milliseconds and not seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import beholder
import beholder.runs.session
from beholder.backends.fake import FakeEncoder
from beholder.runs import engine, journal, store
from beholder.runs.progress import NoProgress

METRICS = ["clip_score", "clip_i", "pick_score(model=fake, output=probability)"]
NAME = "slow"


class SlowEncoder(FakeEncoder):
    """A fake encoder whose batches take a while, so that there is something to interrupt."""

    image_batch = 8
    text_batch = 8

    def __init__(self, seconds: float = 0.002, seed: int = 0) -> None:
        super().__init__(NAME, dim=16, seed=seed)
        self._seconds = seconds

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        time.sleep(self._seconds)
        return super().encode_images(batch)


def write_data(folder: Path, count: int) -> Path:
    """A manifest of `count` pictures with prompts, references and two methods."""
    (folder / "img").mkdir(parents=True)
    generator = np.random.default_rng(0)
    for name in (*(f"ref{at}" for at in range(4)), *(str(at) for at in range(count))):
        Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)).save(folder / "img" / f"{name}.png")
    rows = [
        {
            "id": str(at), "output": f"img/{at}.png", "prompt": f"a photo of thing {at % 7}",
            "references": [f"img/ref{at % 4}.png"], "concept": f"c{at % 4}", "method": "ab"[at % 2],
        }
        for at in range(count)
    ]  # fmt: skip
    path = folder / "samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def evaluate(data: Path, out: Path, kept: Path, **more: Any) -> beholder.Run:
    """The run that is disturbed: small chunks, and everything flushed at once."""
    engine.CHUNK, store.FLUSH_SECONDS, journal._SYNC_SECONDS = 16, 0.0, 0.0
    settings: dict[str, Any] = {"metrics": METRICS, "model": NAME, "out": str(out), "store": str(kept)}
    return beholder.evaluate(str(data), **settings | more)


def child(work: Callable[[], object]) -> int:
    """Runs something in a forked process: its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


@dataclass
class Killed:
    """What became of a run that was killed again and again.

    Args:
        kills: processes that were alive when they were killed.
        where: how far the run was at each kill, counted.
        identical: True when it ended like the undisturbed run.
    """

    kills: int = 0
    where: Counter[str] = field(default_factory=Counter)
    identical: bool = False


def kill_often(folder: Path, kills: int, *, rows: int, seed: int = 0) -> Killed:
    """One run that is killed `kills` times at random moments of it, then left to end."""
    data, result, chance = write_data(folder, rows), Killed(), random.Random(seed)
    beholder.register_encoder(NAME, SlowEncoder())
    began = time.perf_counter()
    pid = child(lambda: evaluate(data, folder / "quiet", folder / "quiet-store"))
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("the undisturbed run failed")
    longest = time.perf_counter() - began
    target = folder / "killed"
    while result.kills < kills:
        pid = child(lambda: evaluate(data, target, folder / "killed-store"))
        time.sleep(chance.uniform(0.0, longest))
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status):
            result.kills += 1
            result.where[_how_far(target)] += 1
        elif status:
            raise RuntimeError("an attempt failed by itself")
        else:
            # It ended first. Half of the tables and all features stay; the rest must be done and killed again.
            result.where["ended"] += 1
            _set_back(target, folder / "killed-store", chance)
    pid = child(lambda: evaluate(data, target, folder / "killed-store"))
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("the last attempt failed")
    result.identical = same(folder / "quiet", target)
    return result


def _how_far(target: Path) -> str:
    if not (target / "run.json").exists():
        return "before the folder"
    if (target / "scores.parquet").exists():
        return "with tables"
    return "while scoring" if (target / "journal.bin").stat().st_size else "before the first chunk"


def _set_back(target: Path, kept: Path, chance: random.Random) -> None:
    """Takes a finished run apart in the middle, as an old backup would: what is left must be used or made again."""
    for name in ("scores.parquet", "scores.csv", "summary.json"):
        (target / name).unlink(missing_ok=True)
    log = target / "journal.bin"
    with open(log, "r+b") as handle:
        handle.truncate(chance.randrange(0, log.stat().st_size))
    for shard in list((kept / "shards").glob("*/*.safetensors")):
        if chance.random() < 0.8:
            shard.unlink()


def same(one: Path, other: Path) -> bool:
    """True for two runs of equal rows, tables and aggregates, without anything left over."""
    a, b = beholder.open_run_folder(one), beholder.open_run_folder(other)
    left = [path.name for path in other.iterdir() if path.suffix == ".tmp"]
    return (
        a.finished
        and b.finished
        and not left
        and a.scores.equals(b.scores)
        and a.summary == b.summary
        and (one / "scores.csv").read_bytes() == (other / "scores.csv").read_bytes()
    )


class KilledAtEnd(NoProgress):
    """Tells through a pipe when the tables are begun."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def stage(self, text: str, total: int | None) -> None:
        if text == "writing tables":
            os.write(self._pipe, b"t")


def kill_at_the_end(folder: Path, kills: int, *, rows: int, seed: int = 0, longest: float = 0.06) -> Killed:
    """Kills while tables, summary and header are written."""
    data, result, chance = write_data(folder, rows), Killed(), random.Random(seed)
    beholder.register_encoder(NAME, SlowEncoder(0.0))
    quiet = child(lambda: evaluate(data, folder / "quiet", folder / "store"))
    os.waitpid(quiet, 0)
    target = folder / "killed"
    while result.kills < kills:
        read, write = os.pipe()
        pid = child(lambda: evaluate(data, target, folder / "store", progress=KilledAtEnd(write)))  # noqa: B023
        os.close(write)
        os.read(read, 1)
        os.close(read)
        time.sleep(chance.uniform(0.0, longest))
        os.kill(pid, signal.SIGKILL)
        if os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
            result.kills += 1
            header = json.loads((target / "run.json").read_text())
            result.where[f"{header['status']}, summary {(target / 'summary.json').exists()}"] += 1
            opened = beholder.open_run_folder(target)  # a killed run can be looked at, and shows no wrong number
            if opened.finished and opened.scores.equals(beholder.open_run_folder(folder / "quiet").scores) is False:
                raise RuntimeError("a table that was cut")
    pid = child(lambda: evaluate(data, target, folder / "store"))
    os.waitpid(pid, 0)
    result.identical = same(folder / "quiet", target)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1500)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        found = kill_often(Path(folder) / "often", asked.kills, rows=asked.rows)
        _tell("kills at random moments", found, time.perf_counter() - began)
        began = time.perf_counter()
        found = kill_at_the_end(Path(folder) / "end", max(20, asked.kills // 4), rows=asked.rows // 4)
        _tell("kills while the tables are written", found, time.perf_counter() - began)


def _tell(what: str, found: Killed, seconds: float) -> None:
    where = ", ".join(f"{count} {name}" for name, count in found.where.most_common())
    verdict = "identical" if found.identical else "DIFFERENT"
    sys.stdout.write(f"{what}: {found.kills} in {seconds:.0f} s ({where}); the end: {verdict}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
