"""The run folder: its header, its lock, and the check that a folder holds one run only.

run.json         what was asked and resolved, versions, model cards, notices, counts
journal.bin      append-only log of scored chunks (see journal.py)
scores.parquet   one row a sample, in the order of the input; scores.csv the same for other tools
summary.json     aggregates with intervals and counts by status
sets.json        values of metrics of whole sets, where there are such metrics
real.parquet     keys of the real set's features, or real.npz, its mean and covariance (see set_parts.py)
"""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from beholder._errors import RunConflictError, UserError
from beholder.metrics.base import SampleMetric
from beholder.records import SCHEMA_VERSION
from beholder.runs.config import RunConfig
from beholder.runs.plan import Plan, PlannedMetric
from beholder.runs.store import write_atomic

FILES = (
    "run.json",
    "journal.bin",
    "scores.parquet",
    "scores.csv",
    "summary.json",
    "sets.json",
    "real.parquet",
    "real.npz",
)
_PACKAGES = (
    "beholder",
    "torch",
    "transformers",
    "open_clip_torch",
    "numpy",
    "pillow",
    "pyarrow",
    "scipy",
    "safetensors",
)


def versions() -> dict[str, str]:
    """Versions of Python, of the platform and of every installed package that numbers may depend on."""
    found = {"python": platform.python_version(), "platform": f"{sys.platform}-{platform.machine()}"}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def make_header(config: RunConfig, plan: Plan, *, source: str, places: Any = None) -> dict[str, Any]:
    """A new run's header.

    Args:
        config: the settings.
        plan: what is scored.
        source: what messages call the input.
        places: where the input lies (`inputs.input_places`).
    """
    return {
        "schema": SCHEMA_VERSION,
        "status": "running",
        "started": _now(),
        "finished": None,
        "plan_key": plan.key,
        "source": source,
        "input": places,
        "asked": config.model_dump(mode="json"),
        "metrics": [_metric_record(planned) for planned in plan.metrics],
        "models": {key: _model_record(model) for key, model in plan.models.items()},
        "decode": {**asdict(config.decode), "background": list(config.background)},
        "truncation": plan.truncation,
        "versions": versions(),
        "notices": [],
    }


def _metric_record(planned: PlannedMetric) -> dict[str, Any]:
    metric = planned.metric
    return {
        "identity": metric.identity,
        "label": planned.label,
        "options": dict(metric.options),
        "plain_mean": type(metric).finish_aggregate is SampleMetric.finish_aggregate,
        "other_aggregates": list(metric.other_aggregates),
        "settings": metric.describe(),
        "info": {**asdict(metric.info), "unit": metric.unit},
        "slots": {
            item.slot.name: {"feature": item.slot.feature, "model": item.model.id, "model_key": item.model.key}
            for item in planned.slots
        },
    }


def _model_record(model: Any) -> dict[str, Any]:
    return {
        "asked": model.asked,
        "id": model.id,
        "weights_sha256": model.weights_sha256,
        "preprocessing": dict(model.preprocessing),
        "dtype": model.dtype,
        "card": asdict(model.card),
    }


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class RunFolder:
    """A run folder that this process writes to.

    Args:
        path: the folder; made when it is missing.
        header: the header of the run that is to go on in it.
        overwrite: True removes what a run of another identity left there.

    Raises:
        RunConflictError: the folder holds another run, or another process is writing to it.
        UserError: no folder can be written there.
    """

    def __init__(self, path: Path, header: dict[str, Any], *, overwrite: bool = False) -> None:
        self.path, self.header = path, header
        self._lock: int | None = None
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(path / ".lock")
            self._settle(overwrite)
        except OSError as error:
            self.release()
            raise UserError(
                f"the run folder {path} must be a folder that can be written",
                got=error.strerror or str(error),
                fix="Name another with -o",
            ) from error
        except BaseException:
            self.release()
            raise

    def _settle(self, overwrite: bool) -> None:
        for left in self.path.glob(".*.tmp"):  # of a process that was killed while it wrote
            left.unlink(missing_ok=True)
        old = read_header(self.path)
        if old is not None and old.get("plan_key") != self.header["plan_key"]:
            if not overwrite:
                raise RunConflictError(
                    f"the folder {self.path} must be empty or hold this same run",
                    got="a run that differs in " + ", ".join(differences(old, self.header)),
                    fix="Name another folder with -o, or replace that run with --overwrite",
                )
            for name in FILES:
                (self.path / name).unlink(missing_ok=True)
        elif old is not None:
            if not overwrite:
                self._check_input(old.get("input"))
            self.header["started"] = old["started"]
        elif (self.path / "journal.bin").exists():
            # A journal without a header belongs to no run that is known.
            (self.path / "journal.bin").unlink()
        self.write_header()

    def _check_input(self, old: Mapping[str, Any] | None) -> None:
        """Refuses to put one input's scores in the place of another's. A folder that was moved with both is known."""
        new = self.header["input"]
        if old is None or new is None or any(old.get(view) == new[view] for view in new):
            return
        raise RunConflictError(
            f"the folder {self.path} must be empty or hold this same run",
            got=f"the scores of another input, {' with '.join(old['absolute'])}",
            fix="Name another folder with -o, or replace that run with --overwrite",
        )

    def write_header(self) -> None:
        text = json.dumps(self.header, indent=1, ensure_ascii=False, allow_nan=False, default=str)
        write_atomic(self.path / "run.json", text.encode())

    def finish(self, status: str) -> None:
        """Marks the run as finished or interrupted."""
        self.header["status"], self.header["finished"] = status, _now()
        self.write_header()

    def release(self) -> None:
        """Gives the folder free for other processes."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def check_whole(out: Path, plan: Plan, *, overwrite: bool) -> None:
    """Refuses a part of one run beside the results of another.

    Raises:
        RunConflictError: `out` holds the results of a run of another identity.
    """
    there = read_header(out)
    if there is not None and there.get("plan_key") != plan.key and not overwrite:
        raise RunConflictError(
            f"the folder {out} must be empty or hold this same run",
            got="the results of another one",
            fix="Name another folder with -o, or replace that run with --overwrite",
        )


def read_header(path: Path) -> dict[str, Any] | None:
    """The header of a run folder, or None when there is none that can be read."""
    try:
        header = json.loads((path / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return header if isinstance(header, dict) else None


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """What tells two runs' identities apart, in words."""
    found = []
    ours = {item["label"]: item for item in one.get("metrics", [])}
    theirs = {item["label"]: item for item in other.get("metrics", [])}
    if list(ours) != list(theirs):
        found.append(f"metrics ({', '.join(ours)} against {', '.join(theirs)})")
    for label in ours.keys() & theirs.keys():
        if ours[label]["identity"] != theirs[label]["identity"]:
            found.append(f"{label} ({ours[label]['identity']} against {theirs[label]['identity']})")
    models = [sorted(m["id"] for m in run.get("models", {}).values()) for run in (one, other)]
    if models[0] != models[1]:
        found.append(f"models ({', '.join(models[0])} against {', '.join(models[1])})")
    elif set(one.get("models", {})) != set(other.get("models", {})):
        found.append("weights, dtype or preprocessing of the models")
    settings = [{**run.get("decode", {}), "truncation": run.get("truncation")} for run in (one, other)]
    for name, value in settings[0].items():
        if value != settings[1].get(name):
            found.append(f"{name} ({value} against {settings[1].get(name)})")
    return found or ["the definition of a metric (another version of beholder made it)"]


def _lock(path: Path) -> int | None:
    """An exclusive lock that dies with the process; None where the system has no such locks."""
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):  # a file system without locks
            return handle
        os.close(handle)
        raise RunConflictError(
            f"only one process at a time may write to {path.parent}",
            got="another that is running",
            fix="Wait for it, or name another folder with -o",
        ) from error
    return handle
