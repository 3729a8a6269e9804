"""A run folder's `run.json` as it is read back, and what to name instead of a folder that is no run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from beholder._errors import UserError

_HEADER = {"asked", "metrics", "notices", "schema", "status"}
_FILE = "run.json"
_SHOWN = 3


def read_run_json(path: Path) -> dict[str, Any]:
    """The header of a run folder.

    Raises:
        UserError: the folder is none, or no run's, or its header cannot be read.
    """
    try:
        header = json.loads((path / _FILE).read_text(encoding="utf-8"))
        if not isinstance(header, dict) or not header.keys() >= _HEADER:
            raise ValueError(f"run.json lacks what a run's header holds: {', '.join(sorted(_HEADER))}")
    except (OSError, ValueError) as error:
        raise UserError(
            "a run is a folder with a run.json that can be read", got=_told(path, error), fix=run_instead(path)
        ) from error
    return header


def run_instead(path: Path) -> str:
    """What to name where a folder was named that is no run: the runs in it, or how it becomes one."""
    try:
        runs = sorted(item.parent for item in path.glob(f"*/{_FILE}"))
    except OSError:  # a folder that may not be looked into
        runs = []
    if len(runs) == 1:
        return f"Name the run in it: {runs[0]}"
    if runs:
        more = f" and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else ""
        return f"Name one of the runs in it: {', '.join(map(str, runs[:_SHOWN]))}{more}"
    if (path / "parts").is_dir():
        return f"Its shards are not joined yet: beholder merge {path}"
    return "Name a folder that `beholder run` made"


def _told(path: Path, error: Exception) -> str:
    if not path.exists():
        return f"{path}, which is not there"
    if not path.is_dir():
        return f"{path}, which is a file"
    if isinstance(error, FileNotFoundError):
        return f"{path}, which holds none"
    return f"{path} ({error})"
