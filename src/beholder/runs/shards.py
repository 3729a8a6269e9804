"""Shards: one run in several processes, each with a contiguous part of the rows.

Shard i of N (counted from 0) of n rows has the rows from ⌊i·n/N⌋ to ⌊(i+1)·n/N⌋, so shards differ by one row at most,
every row is in exactly one, and the parts in their order are the input. A part lies in `parts/i-of-N` of the run folder
with a journal and a feature index of its own: no two processes ever write to one file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from beholder._errors import OptionError, UserError
from beholder._hashing import hash_file
from beholder.manifest.schema import Sample, SampleSource

PARTS = "parts"
"""The folder of a run folder that holds its parts."""


@dataclass(frozen=True)
class Shard:
    """One of `count` shards; `index` counts from 0."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def folder(self) -> str:
        """The name of the part's folder."""
        return f"{self.index}-of-{self.count}"

    def rows(self, total: int) -> tuple[int, int]:
        """First row and the one behind the last, of `total` rows.

        >>> [Shard(i, 3).rows(10) for i in range(3)]
        [(0, 3), (3, 6), (6, 10)]
        """
        return self.index * total // self.count, (self.index + 1) * total // self.count


def parse_shard(text: str, environment: Mapping[str, str] | None = None) -> Shard:
    """A shard as it is written: "0/3" to "2/3"; "auto" as the scheduler says; "auto/3" where it tells no count.

    Raises:
        OptionError: any other text, an index outside, or an environment that no scheduler made.
    """
    found = re.fullmatch(r"(auto|[0-9]+)(?:/([0-9]+))?", text.strip())
    if found is None or (found[1] != "auto" and found[2] is None):
        raise OptionError("a shard must be i/N with i from 0 to N-1, auto, or auto/N", got=repr(text))
    count = None if found[2] is None else int(found[2])
    if found[1] == "auto":
        index, told, who = _of_scheduler(os.environ if environment is None else environment)
        if count is None and told is None:
            raise OptionError(
                f"--shard auto needs to know how many shards there are; {who} does not tell",
                got=f"index {index}",
                fix="Give it: --shard auto/N",
            )
        if count is not None and told is not None and told != count:
            raise OptionError(f"--shard auto/N must name as many shards as {who} started", got=f"{count}, not {told}")
        count = count if told is None else told
    else:
        index = int(found[1])
    if count is None or count < 1 or not 0 <= index < count:
        raise OptionError("a shard must be i/N with i from 0 to N-1", got=f"{index}/{count}", fix="The first is 0/N")
    return Shard(index, count)


_ARRAYS = (
    # (who, index, first, last, step, count); a missing name is "".
    ("Slurm", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP",
     "SLURM_ARRAY_TASK_COUNT"),
    ("Grid Engine", "SGE_TASK_ID", "SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE", ""),
    ("LSF", "LSB_JOBINDEX", "", "LSB_JOBINDEX_END", "LSB_JOBINDEX_STEP", ""),
    ("PBS", "PBS_ARRAY_INDEX", "", "", "", ""),
    ("Torque", "PBS_ARRAYID", "", "", "", ""),
    ("Kubernetes", "JOB_COMPLETION_INDEX", "", "", "", ""),
)  # fmt: skip
_FIRST = {"LSF": 1}
"""The index of the first task, of schedulers that do not tell it; 0 for the others."""


def _of_scheduler(environment: Mapping[str, str]) -> tuple[int, int | None, str]:
    """(index from 0, number of shards or None, name of the scheduler) from the variables of an array job.

    Raises:
        OptionError: there are none, or tasks are left out, so that shards could not be counted.
    """
    for who, name, first_name, last_name, step_name, count_name in _ARRAYS:
        task = _number(environment, name)
        # Grid Engine says "undefined", and LSF 0, to a job that is no array.
        if task is None or (who == "LSF" and task == 0):
            continue
        first = _number(environment, first_name)
        first = _FIRST.get(who, 0) if first is None else first
        last, step = _number(environment, last_name), _number(environment, step_name) or 1
        if last is None:
            return task - first, None, who
        whole = (last - first) // step + 1
        count = _number(environment, count_name)
        if (count is not None and count != whole) or (task - first) % step:
            raise OptionError(
                f"--shard auto needs an array without gaps; {who}'s runs from {first} to {last} in steps of {step}",
                got=f"{count} tasks",
                fix="Name the shard: --shard i/N",
            )
        return (task - first) // step, whole, who
    names = ", ".join(item[1] for item in _ARRAYS)
    raise OptionError("--shard auto needs a scheduler's array job", got=f"none of {names}", fix="Name it: --shard i/N")


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]+", text) else None


class ShardSource:
    """The rows of one shard of a source.

    Args:
        source: the whole input; its `check` was called.
        shard: which part.

    Raises:
        UserError: the source can be read only once, so that no shard could be told from another.
    """

    replayable = True

    def __init__(self, source: SampleSource, shard: Shard) -> None:
        if not source.replayable:
            raise UserError(
                "a sharded run needs an input that can be read again", got=source.name, fix="Write it to a manifest"
            )
        self._source, self.shard = source, shard
        counted = source.count()
        self.total = sum(1 for _ in source) if counted is None else counted
        self.start, self.stop = shard.rows(self.total)

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def notices(self) -> tuple[str, ...]:
        return self._source.notices

    def count(self) -> int:
        return self.stop - self.start

    def check(self) -> None:
        """The whole source was checked."""

    def __iter__(self) -> Iterator[Sample]:
        return islice(iter(self._source), self.start, self.stop)

    def describe(self, data: str | None) -> dict[str, Any]:
        """What the header of a part says of it.

        Args:
            data: the manifest, whose hash tells whether all parts saw the same one; None where there is no file.
        """
        sha = hash_file(data) if data is not None and os.path.isfile(data) else None
        return {
            "index": self.shard.index, "count": self.shard.count, "start": self.start, "stop": self.stop,
            "total": self.total, "input_sha256": sha, "frames": None,
        }  # fmt: skip


def part_folder(out: Path, shard: Shard) -> Path:
    """Where a part lies in a run folder."""
    return out / PARTS / shard.folder
