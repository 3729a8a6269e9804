"""The commands that make a report, and the runs in it, again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beholder.runs.config import RunConfig
from beholder.runs.results import Run

_OF_BENCH = ("model", "segmenter", "dtype", "seed", "resamples", "level", "max_failed")
_OF_PROTOCOL = ("text", "track", "version", "from_official")
_OPTIONS = ("real", "n", "truncation", "max_pixels", *_OF_BENCH)


def report_commands(
    runs: Sequence[Run],
    baseline: str | None,
    *,
    by: Sequence[str] = (),
    evaluations: Sequence[Path] = (),
    seed: int = 0,
) -> str:
    """One line a command: each run that was made of a named input, then the report.

    The report's place is the word `REPORT`: where a page lies is no part of what it shows, and pages are moved.
    """
    lines = [line for run in runs if (line := run_command(run)) is not None]
    words = ["beholder", "report", *(str(run.path) for run in runs), *map(str, evaluations)]
    words += [*(["--baseline", baseline] if baseline else []), *(word for name in by for word in ("--by", name))]
    words += [*(["--seed", str(seed)] if seed else []), "-o", "REPORT"]
    lines.append(shlex.join(words))
    return "\n".join(lines) + "\n"


def run_command(run: Run) -> str | None:
    """The command of a run; None for data in memory, which no command names."""
    asked: Mapping[str, Any] = run.header["asked"]
    if not (asked.get("data") or asked.get("prompts")):
        return None
    from beholder.protocol_runs import read_options, read_results

    results = read_results(run) if run.finished and asked.get("data") else None
    if results is not None:
        return _bench_command(run, results.protocol, read_options(run))
    words = ["beholder", "run", *([asked["data"]] if asked.get("data") else [])]
    words += [word for name in ("prompts", "outputs") if asked.get(name) for word in (f"--{name}", asked[name])]
    words += [word for text in asked.get("metrics", ()) for word in ("-m", text)]
    words += _changed(asked, _OPTIONS)
    words += [word for column in asked.get("by", ()) for word in ("--by", column)]
    words += [word for column, name in (asked.get("mapping") or {}).items() for word in ("--map", f"{column}={name}")]
    words += ["--first-frame"] if asked.get("first_frame") else []
    words += ["--root", asked["root"]] if asked.get("root") else []
    words += ["--allow-extra"] if asked.get("allow_extra") else []
    return shlex.join([*map(str, words), "-o", str(run.path)])


def _bench_command(run: Run, protocol: str, options: Mapping[str, Any]) -> str:
    """The command of a benchmark's run: the metrics that it had, whether they were the protocol's own or not."""
    asked: Mapping[str, Any] = run.header["asked"]
    words = ["beholder", "bench", protocol, str(asked["data"]), "--only"]
    words += [word for text in asked.get("metrics", ()) for word in ("-m", text)]
    words += [word for name in _OF_PROTOCOL if name in options for word in (_option(name), str(options[name]))]
    words += _changed(asked, _OF_BENCH)
    words += [word for column, name in (asked.get("mapping") or {}).items() for word in ("--map", f"{column}={name}")]
    words += ["--allow-extra"] if asked.get("allow_extra") else []
    return shlex.join([*words, "-o", str(run.path)])


def _changed(asked: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Options whose settings are not the defaults."""
    defaults = {name: field.default for name, field in RunConfig.model_fields.items()}
    chosen = [name for name in names if asked.get(name) is not None and asked[name] != defaults.get(name)]
    return [word for name in chosen for word in (_option(name), str(asked[name]))]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
