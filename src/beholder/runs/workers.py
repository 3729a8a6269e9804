"""One run in several processes of this machine, one a GPU or N on its processors: a shard each, then joined."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from beholder._errors import BeholderError, OptionError, UserError
from beholder.backends.devices import choose_device, describe_devices
from beholder.backends.pool import registered
from beholder.manifest.schema import SampleSource
from beholder.runs.atomic import default_store
from beholder.runs.config import RunConfig
from beholder.runs.file_systems import network_kind
from beholder.runs.inputs import default_out
from beholder.runs.make import default_workers, processors
from beholder.runs.merge import merge
from beholder.runs.passes import passes_of
from beholder.runs.plan import AskedMetric, is_registered
from beholder.runs.progress import NoProgress, Progress
from beholder.runs.real import check_sizes, open_real
from beholder.runs.results import Run
from beholder.runs.shards import Shard, part_folder
from beholder.runs.worker_messages import Ear, read_error
from beholder.runs.worker_process import work

_SPAWN = multiprocessing.get_context("spawn")
_LOOK_SECONDS = 0.5
_END_SECONDS = 30.0
"""How long a process may take to end once it is done or told to stop."""


def run_on_all(
    config: RunConfig,
    *,
    metrics: Sequence[AskedMetric] | None = None,
    source: SampleSource | None = None,
    progress: Progress | None = None,
    real: Any = None,
) -> Run:
    """`--device cuda:all`: a process for each GPU that this machine has; `--device cpu:N`: N on its processors.

    Raises:
        DeviceError: there is no GPU.
    """
    return run_on(_devices(config.device), config, metrics=metrics, source=source, progress=progress, real=real)


def _devices(asked: str) -> list[str]:
    kind, _, number = asked.partition(":")
    if kind == "cpu":
        return ["cpu"] * int(number)
    devices = [name for name in describe_devices()[0] if name.startswith("cuda")]
    if not devices:
        choose_device("cuda", dtype="float32")
    return devices


def run_on(
    devices: Sequence[str],
    config: RunConfig,
    *,
    metrics: Sequence[AskedMetric] | None = None,
    source: SampleSource | None = None,
    progress: Progress | None = None,
    real: Any = None,
) -> Run:
    """A process for each of some devices, which may be equal ("cpu", "cpu"); as `session.execute` otherwise.

    Processes are spawned: a script that calls this needs the usual `if __name__ == "__main__":`.

    Raises:
        UserError: what the first process that failed says; the others end first, and what was scored is kept.
    """
    from beholder.runs.session import execute, preflight

    progress = progress or NoProgress()
    config = config.model_copy(update={"device": devices[0]})
    if len(devices) == 1:
        return execute(config, metrics=metrics, source=source, progress=progress, real=real)
    given = source
    config, plan, source = preflight(config, metrics=metrics, source=source)
    check_sizes(open_real(config, plan, real), plan, config, source)
    out = Path(config.out) if config.out else default_out(config, plan)
    settings: dict[str, Any] = {"out": str(out)}
    settings["workers"] = config.workers or max(2, default_workers() // len(devices))
    store = Path(config.store) if config.store else default_store()
    if config.store is None and network_kind(store) is None:
        settings["store"] = str(store)  # one machine, one disk: what one process has made, the others find
    config = config.model_copy(update=settings)
    shards = [Shard(at, len(devices)) for at in range(len(devices))]
    count = source.count()
    passes = max(1, len(passes_of(plan, devices[0]))) if source.replayable else 1
    progress.stage(f"scoring in {len(devices)} processes", None if count is None else passes * count)
    _Workers(config, metrics, given, real, list(zip(shards, devices))).run(progress)
    own = {item.label: item.metric for item in plan.metrics if not is_registered(item.metric)}
    parts = [part_folder(out, shard) for shard in shards]
    return merge(parts, out=out, overwrite=config.overwrite, metrics=own, progress=progress)


class _Workers:
    """The processes of a run."""

    def __init__(
        self,
        config: RunConfig,
        metrics: Sequence[AskedMetric] | None,
        source: SampleSource | None,
        real: Any,
        work: Sequence[tuple[Shard, str]],
    ) -> None:
        try:
            self._payload = pickle.dumps((config, metrics, source, real, registered()))
        except Exception as error:
            raise OptionError(
                "metrics, encoders and data that are objects must be picklable for a run in several processes",
                got=str(error),
                fix="Use a manifest and metrics by name, or one device",
            ) from error
        self._work = {shard.index: (shard, device) for shard, device in work}
        self._processes: dict[int, SpawnProcess] = {}
        self._ears: dict[int, Ear] = {}
        self._begun: set[int] = set()
        self._waiting = set(self._work)
        self._errors: dict[int, BeholderError] = {}

    def run(self, progress: Progress) -> None:
        """Runs all to their ends.

        Raises:
            UserError: one failed.
        """
        try:
            for index in self._work:
                self._start(index)
            while self._waiting:
                self._listen(progress)
        finally:
            self._end()
        for index, error in sorted(self._errors.items()):
            if isinstance(error, UserError):
                raise error
            fix = "What was scored is kept: the same command goes on from here"
            if index not in self._begun:
                fix += '. A script calls beholder under: if __name__ == "__main__":'
            raise UserError(f"the process of {self._name(index)} must end well", got=str(error), fix=fix)

    def _name(self, index: int) -> str:
        return f"shard {index} ({self._work[index][1]})"

    def _start(self, index: int) -> None:
        shard, device = self._work[index]
        threads = max(1, processors() // len(self._work))
        try:
            mine, its = socket.socketpair()
            self._ears[index] = Ear(mine)
            process = _SPAWN.Process(target=work, args=(its, str(shard), device, threads), daemon=True)
            with its:  # closed here, so that this process hears when the worker's end is gone
                process.start()
        except OSError as error:
            raise UserError(
                f"this machine must be able to start {len(self._work)} processes",
                got=f"{error.strerror or error}, at {self._name(index)}",
                fix="Use fewer, or raise the limits on processes and open files (ulimit -u, ulimit -n)",
            ) from error
        self._processes[index] = process

    def _listen(self, progress: Progress) -> None:
        """Waits until a process says something or ends, and hears all that there is to hear."""
        sources: list[Any] = [self._processes[index].sentinel for index in self._waiting]
        sources += [self._ears[index] for index in self._waiting if not self._ears[index].ended]
        wait(sources, timeout=_LOOK_SECONDS)
        for index in sorted(self._waiting):
            # Looked at first: all that a process said before it ended can be heard now.
            over = self._processes[index].exitcode is not None
            for what, value in self._ears[index].messages():
                self._hear(index, what, value, progress)
            if index in self._waiting and (over or self._ears[index].ended):
                self._fail(index, BeholderError(self._how_it_ended(index)), progress)

    def _hear(self, index: int, what: str, value: Any, progress: Progress) -> None:
        if what == "ready":
            self._begun.add(index)
            self._ears[index].answer(self._payload)
        elif what == "advance":
            progress.advance(value)
        elif what == "notice":
            progress.notice(f"shard {index}: {value}")
        elif what == "done":
            self._waiting.discard(index)
        else:
            self._fail(index, read_error(value), progress)

    def _fail(self, index: int, error: BeholderError, progress: Progress) -> None:
        self._waiting.discard(index)
        self._errors[index] = error
        if self._waiting:
            progress.notice(f"{self._name(index)} failed, the others go on: {error}")

    def _how_it_ended(self, index: int) -> str:
        """The end of a process without a word: killed, or out of memory, or never really begun."""
        process = self._processes[index]
        process.join(timeout=_END_SECONDS)  # its socket closes a moment before it is gone
        code = process.exitcode
        if code is None:
            return "it closed its connection, without a message"
        how = f"exit code {code}"
        if code < 0:
            how = f"killed by {_signal_name(-code)}"
        if -code == signal.SIGKILL:
            how += " (by somebody, or by the system for lack of memory)"
        return f"{how}, without a message"

    def _end(self) -> None:
        """Ends all processes: they are given time for their last writes, and none outlives the run."""
        for index in self._waiting & self._processes.keys():
            process = self._processes[index]
            if process.pid is not None and process.is_alive():
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)  # SIGINT is ignored where the run was started so
        for ear in self._ears.values():
            ear.close()
        processes = list(self._processes.values())
        try:
            _join(processes, _END_SECONDS)
        finally:
            # Threads that never end, or code that does not listen: what was scored is on disk.
            for process in processes:
                if process.is_alive():
                    process.kill()
            _join(processes, _END_SECONDS)


def _join(processes: Sequence[SpawnProcess], seconds: float) -> None:
    """Waits for processes to end, so many seconds in all."""
    until = time.monotonic() + seconds
    for process in processes:
        process.join(timeout=max(0.0, until - time.monotonic()))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
