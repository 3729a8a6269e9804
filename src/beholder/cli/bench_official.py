"""What `beholder bench opens2v` does with the benchmark's own files: tables of a folder of them, and such a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beholder._errors import OptionError
from beholder._file_names import file_name
from beholder.cli.output import put, put_json, say, stdout_width


def put_official(protocol: Any, form: str, intervals: Mapping[str, Any]) -> None:
    """Prints the tables of the folder that the protocol was given, without a run.

    Args:
        protocol: the protocol.
        form: as `render_results`, or "json".
        intervals: seed, resamples and level as they were given; None for the default.

    Raises:
        OptionError: it was given none.
        InputError: an interval's setting that is none.
    """
    from beholder.runs.config import make_config

    if not protocol.options.get("from_official"):
        raise OptionError(
            "bench needs DATA", got="none", fix="Name the data; opens2v also takes --from-official FOLDER"
        )
    given = {name: value for name, value in intervals.items() if value is not None}
    config = make_config(given, source="the command")
    found = protocol.official_results(seed=config.seed, resamples=config.resamples, level=config.level)
    if form == "json":
        put_json({"protocol": found.to_dict()})
        return
    from beholder.report.protocol import render_results

    put(render_results(found, form, width=stdout_width()))


def write_official(protocol: Any, run: Any, folder: str, *, quiet: bool) -> None:
    """Writes the benchmark's own files of a run; those of several models into a folder each.

    Raises:
        OptionError: the protocol has no files of its own.
    """
    from beholder.protocol_runs import finished_run
    from beholder.runs.store import write_atomic

    finished = finished_run(run)
    methods = list(dict.fromkeys(finished.values_of("method", none="")))
    for method in methods:
        place = Path(folder) if len(methods) == 1 else Path(folder) / file_name(method or "videos")
        place.mkdir(parents=True, exist_ok=True)
        files = protocol.export(finished, method or None)
        for name, data in files.items():
            write_atomic(place / name, data)
        if not quiet:
            say(f"Official files: {place} ({', '.join(files) or 'none: no video has an official value'})")


def check_export(protocol: Any, folder: str | None) -> None:
    """Refuses `--export-official` for protocols without files of their own, before anything is scored.

    Raises:
        OptionError: such a protocol.
    """
    if folder is not None and not hasattr(protocol, "export"):
        raise OptionError(f"the protocol {protocol.info.name} has no files of its own to export", got=folder)
