"""From a run's settings to its samples and to the name of its folder."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path

from beholder._errors import OptionError, UnknownNameError, UserError
from beholder._hashing import hash_json
from beholder.manifest.columns import canonical_name
from beholder.manifest.schema import COLUMNS, SampleSource
from beholder.runs.config import RunConfig
from beholder.runs.plan import Plan


def config_source(config: RunConfig) -> SampleSource:
    """The samples that a config names.

    Raises:
        UserError: it names none.
        InputError: faults of the input's form.
    """
    from beholder.manifest import open_source

    if config.data is None and config.prompts is None:
        raise UserError(
            "a run needs samples",
            got="no input",
            fix="Name a manifest or folder, or give --prompts FILE with --outputs TEMPLATE",
        )
    return open_source(
        config.data,
        prompts=config.prompts,
        outputs=config.outputs,
        mapping=config.mapping or None,
        allow_extra=config.allow_extra,
        root=config.root,
    )


def check_columns(names: Sequence[str], source: SampleSource) -> None:
    """Makes sure that every column to group by has a value somewhere, before anything is computed.

    Reading stops as soon as all were seen. A source that can be read only once is not looked into.

    Raises:
        UnknownNameError: a column that no row has.
    """
    if not names or not source.replayable:
        return
    missing, seen = set(names), set[str]()
    for sample in source:
        seen.update(name for name in COLUMNS if name not in seen and sample.column(name) not in (None, ()))
        seen.update(sample.extras)
        missing -= seen
        if not missing:
            return
    known = sorted(seen - {"output", "references", "masks", "reference_masks"})
    raise UnknownNameError("column", sorted(missing)[0], known, fix="Columns: " + ", ".join(known))


def check_not_scores(names: Sequence[str], labels: Sequence[str]) -> None:
    """Refuses to group by a metric's values: every value would be a group of its own."""
    for name in names:
        if name in labels:
            raise OptionError(
                "a column to group by must not hold a metric's values",
                got=repr(name),
                fix="An input column of such a name can be grouped by under another label of the metric (as=LABEL)",
            )


def group_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Columns to group by under their canonical names (`model` is read as `method`)."""
    return tuple(canonical_name(name) or name for name in names)


def input_places(config: RunConfig, out: Path) -> dict[str, list[str]] | None:
    """Where the input lies, as seen from the root and from the run folder; None for data in memory."""
    names = [name for name in (config.data, config.prompts, config.outputs) if name]
    if not names:
        return None
    return places_from([name if "://" in name else os.path.abspath(os.path.expanduser(name)) for name in names], out)


def places_from(absolute: Sequence[str], out: Path) -> dict[str, list[str]]:
    """The places of an input from its absolute paths, for the run folder `out`."""
    relative = [name if "://" in name else os.path.relpath(name, os.path.abspath(out)) for name in absolute]
    return {"absolute": list(absolute), "from_run": relative}


def default_out(config: RunConfig, plan: Plan) -> Path:
    """`runs/<input>-<letters of a hash of plan and input>`: the same command finds its own folder again.

    Data in memory has no name, so its folder is a new one when the last one holds a finished run.
    """
    places = input_places(config, Path())
    name = config.data or config.prompts or "run"
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name.rstrip("/")).stem).strip("-.") or "run"
    first = Path("runs") / f"{stem}-{hash_json([plan.key, places and places['absolute']])[:8]}"
    if places is not None:
        return first
    folders = itertools.chain([first], (first.with_name(f"{first.name}-{number}") for number in itertools.count(2)))
    return next(folder for folder in folders if not (folder / "scores.parquet").exists())
