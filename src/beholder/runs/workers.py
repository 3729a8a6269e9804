"""One run in several processes of this machine, one a GPU or N on its processors: a shard each, then joined."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beholder._errors import BeholderError, OptionError, UserError
from beholder.backends.devices import choose_device, describe_devices, limit_threads
from beholder.backends.pool import registered, registered_all
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
from beholder.runs.real import REAL_STAGE, check_sizes, open_real
from beholder.runs.results import Run
from beholder.runs.shards import Shard, part_folder

_LOOK_SECONDS = 0.5


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
        context = multiprocessing.get_context("spawn")
        try:
            payload = pickle.dumps((config, metrics, source, real, registered()))
        except Exception as error:
            raise OptionError(
                "metrics, encoders and data that are objects must be picklable for a run in several processes",
                got=str(error),
                fix="Use a manifest and metrics by name, or one device",
            ) from error
        self._told: Any = context.Queue()
        threads = max(1, processors() // len(work))
        self._processes = {
            shard.index: context.Process(
                target=_work, args=(payload, str(shard), device, threads, self._told), daemon=True
            )
            for shard, device in work
        }
        self._devices = {shard.index: device for shard, device in work}
        self._waiting = set(self._processes)
        self._errors: dict[int, BaseException] = {}

    def run(self, progress: Progress) -> None:
        """Runs all to their ends.

        Raises:
            UserError: one failed.
        """
        for process in self._processes.values():
            process.start()
        try:
            while self._waiting:
                try:
                    index, what, value = self._told.get(timeout=_LOOK_SECONDS)
                    self._hear(index, what, value, progress)
                except queue.Empty:
                    self._look()
        finally:
            for process in self._processes.values():
                process.join(timeout=None if not self._waiting else 30)
                if process.is_alive():
                    process.terminate()
        for index, error in sorted(self._errors.items()):
            if isinstance(error, UserError):
                raise error
            raise UserError(
                f"the process of shard {index} ({self._devices[index]}) must end well",
                got=str(error),
                fix="What was scored is kept: the same command goes on from here",
            )

    def _hear(self, index: int, what: str, value: Any, progress: Progress) -> None:
        if what == "advance":
            progress.advance(value)
        elif what == "notice":
            progress.notice(f"shard {index}: {value}")
        else:
            self._waiting.discard(index)
            if what == "error":
                self._errors[index] = value

    def _look(self) -> None:
        """Finds processes that ended without a word: killed, or out of memory."""
        for index in list(self._waiting):
            process = self._processes[index]
            if process.exitcode is not None and self._told.empty():
                self._waiting.discard(index)
                self._errors[index] = BeholderError(f"exit code {process.exitcode}, without a message")


class _Teller:
    """Progress that is told to the parent process; pictures of a real set are not among the samples it counts."""

    def __init__(self, index: int, told: Any) -> None:
        self._index, self._told = index, told
        self._counts = True

    def stage(self, text: str, total: int | None) -> None:
        self._counts = not text.startswith(REAL_STAGE)

    def advance(self, samples: int) -> None:
        if self._counts:
            self._told.put((self._index, "advance", samples))

    def notice(self, text: str) -> None:
        self._told.put((self._index, "notice", text))


def _work(payload: bytes, shard: str, device: str, threads: int, told: Any) -> None:
    """One process: its shard on its device."""
    from beholder.runs.session import execute

    threading.Thread(target=_end_with_parent, daemon=True).start()
    limit_threads(threads)
    config, metrics, source, real, models = pickle.loads(payload)  # what the parent process just made
    registered_all(models)
    config = config.model_copy(update={"shard": shard, "device": device})
    index = int(shard.partition("/")[0])
    try:
        execute(config, metrics=metrics, source=source, progress=_Teller(index, told), real=real)
        told.put((index, "done", None))
    except UserError as error:
        told.put((index, "error", error))
    except KeyboardInterrupt:
        told.put((index, "error", BeholderError("interrupted")))
    except Exception as error:
        told.put((index, "error", BeholderError(f"{type(error).__name__}: {error}")))


def _end_with_parent() -> None:
    """A killed parent must not leave processes that hold the folders' locks."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
