"""`beholder cache`: what the feature store holds, and making it smaller."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.cli import options
from beholder.cli.output import put, put_json, say, stdout_width

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(add_completion=False)

Store = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Feature store. Default: below BEHOLDER_CACHE or the user's cache folder."),
]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


@app.callback(invoke_without_command=True)
def cache(context: typer.Context) -> None:
    """Look at the store of computed features; prune it.

    Without a subcommand: info.

    Example: beholder cache prune --max-size 10GB --unused-for 30d --dry-run
    """
    if context.invoked_subcommand is None:
        _show_info(None, as_json=False)


@app.command()
def info(store: Store = None, as_json: options.AsJson = False) -> None:
    """Show what the feature store holds.

    Example: beholder cache info
    """
    _show_info(store, as_json=as_json)


@app.command()
def prune(
    store: Store = None,
    max_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Remove what was unused longest until the rest is no larger, like 10GB."),
    ] = None,
    unused_for: Annotated[
        str | None, typer.Option(metavar="TIME", help="Remove what was unused for so long, like 30d, 12h or 2w.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Remove features that were not used for long.

    They are computed again when they are needed.

    Example: beholder cache prune --max-size 10GB --unused-for 30d
    """
    from beholder._errors import OptionError
    from beholder.backends.hub import format_size
    from beholder.runs.store import FeatureStore

    if max_size is None and unused_for is None:
        raise OptionError("prune needs a bound", got="none", fix="Give --max-size, --unused-for or both")
    limit = None if max_size is None else parse_size(max_size)
    age = None if unused_for is None else parse_age(unused_for)
    folder = _folder(store)
    removed, freed = 0, 0
    if (folder / "index.sqlite").exists():
        opened = FeatureStore(folder)
        try:
            removed, freed = opened.prune(max_bytes=limit, unused_for=age, dry_run=dry_run)
        finally:
            opened.close()
    if as_json:
        put_json({"folder": str(folder), "shards": removed, "bytes": freed, "dry_run": dry_run})
    else:
        verb = "Would remove" if dry_run else "Removed"
        put(f"{verb} {removed} shards, {format_size(freed)}, of {folder}\n")


def parse_size(text: str) -> int:
    """A number of bytes: "10GB", "500 MB", "2GiB", "123".

    >>> parse_size("1.5GB")
    1500000000
    """
    from beholder._errors import OptionError

    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", text.strip())
    unit = found.group(2).upper() if found else ""
    if found is None or unit not in _UNITS:
        raise OptionError("a size must be a number with KB, MB, GB, TB, KiB, MiB or GiB", got=repr(text))
    return int(float(found.group(1)) * _UNITS[unit])


def parse_age(text: str) -> float:
    """A time in seconds: "30d", "12h", "2w", "90min".

    >>> parse_age("2d")
    172800.0
    """
    from beholder._errors import OptionError

    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(s|min|h|d|w)", text.strip())
    if found is None:
        raise OptionError("a time must be a number with s, min, h, d or w", got=repr(text))
    return float(found.group(1)) * _SECONDS[found.group(2)]


def _folder(store: str | None) -> Path:
    from beholder.runs.store import default_store

    return Path(store).expanduser() if store else default_store()


def _show_info(store: str | None, *, as_json: bool) -> None:
    from beholder.runs.store import FeatureStore

    folder = _folder(store)
    rows: list[dict[str, Any]] = []
    if (folder / "index.sqlite").exists():
        opened = FeatureStore(folder)
        try:
            rows = opened.info()
        finally:
            opened.close()
    total = sum(row["bytes"] for row in rows)
    if as_json:
        put_json({"folder": str(folder), "bytes": total, "spaces": rows})
    else:
        _put_rows(folder, rows, total)


def _put_rows(folder: Path, rows: Sequence[dict[str, Any]], total: int) -> None:
    from beholder.backends.hub import format_size
    from beholder.report.render import to_text
    from beholder.report.tables import Column, Table

    if not rows:
        say(f"The feature store {folder} is empty.")
        return
    columns = [Column("model"), Column("feature"), Column("dtype"), Column("features", True), Column("size", True)]
    cells = [
        (
            str(row.get("model", "")),
            str(row.get("feature", "")),
            str(row.get("dtype", "")),
            str(row["features"]),
            format_size(row["bytes"]),
            time.strftime("%Y-%m-%d", time.localtime(row["used"])) if row["used"] else "",
        )
        for row in rows
    ]
    note = f"{folder}: {format_size(total)}. Make it smaller with: beholder cache prune."
    put(to_text(Table((*columns, Column("last used")), tuple(cells), (note,)), width=stdout_width()))
