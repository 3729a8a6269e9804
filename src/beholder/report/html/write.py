"""Writes a report: a folder (`index.html`, `data/`, `thumbs/`) or one file that holds all of it."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from collections.abc import Iterator
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import IO, Any

from beholder._errors import UserError
from beholder.report.html.data import Report
from beholder.report.html.escape import Markup, element, script_json
from beholder.report.html.page import GENERATOR, page
from beholder.report.html.parts import THUMBS_PER_PART, Thumbs, core, details, groups, head, picked_rows
from beholder.report.html.thumbs import ThumbFolder, thumbnails

SCRIPTS = (
    "10_core.js", "15_walk.js", "20_charts.js", "25_tables.js", "30_scatter.js", "40_gallery.js",
    "45_selection.js", "50_detail.js", "52_subjects.js", "54_opens2v.js", "56_attributes.js", "60_main.js",
)  # fmt: skip
_POLICY = (
    "default-src 'none'; img-src 'self' file: data:; media-src 'self' file:; style-src 'unsafe-inline'; "
    "script-src {}; base-uri 'none'"
)
_OWN = {"index.html", "report.js", "data", "thumbs"}


def write_report(report: Report, out: str | os.PathLike[str], *, workers: int | None = None) -> Path:
    """Writes a report.

    Args:
        report: what it shows.
        out: a folder, or a name that ends in .html for one file. A folder's thumbnails are used again.
        workers: threads that make thumbnails.

    Returns:
        The page.

    Raises:
        UserError: a place that cannot be written, or a folder that holds something else.
    """
    path = Path(out)
    try:
        if path.suffix.lower() in (".html", ".htm"):
            path.parent.mkdir(parents=True, exist_ok=True)
            _check_file(path)
            return _write_file(report, path, workers)
        _check_folder(path)
        return _write_folder(report, path, workers)
    except OSError as error:
        raise UserError(
            "a report needs a folder or a file that can be written",
            got=f"{out}: {error.strerror or error}",
            fix="Name another with -o",
        ) from error


def _check_file(path: Path) -> None:
    if path.exists() and not _is_report(path):
        raise UserError("a report takes the place of a report only", got=f"{path}", fix="Name another with -o")


def _check_folder(path: Path) -> None:
    others = sorted({item.name for item in path.iterdir()} - _OWN) if path.is_dir() else []
    index = path / "index.html"
    if others or (index.exists() and not _is_report(index)):
        shown = ", ".join(others[:5]) or "another page"
        raise UserError(f"the folder {path} must be empty or hold a report", got=shown, fix="Name another with -o")


def _is_report(path: Path) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return f'content="{GENERATOR}"' in file.read(4096)


def script() -> str:
    """The application's script."""
    return "".join(_asset(name) + "\n" for name in SCRIPTS)


def _asset(name: str) -> str:
    return (resources.files("beholder.report.html") / "assets" / name).read_text(encoding="utf-8")


def _write_folder(report: Report, path: Path, workers: int | None) -> Path:
    thumbs = Thumbs(report.samples)
    path.mkdir(parents=True, exist_ok=True)
    made = ThumbFolder(path / "thumbs").fill(thumbs.wishes, workers=workers)
    # A page that is being replaced must not read parts of another report.
    (path / "index.html").unlink(missing_ok=True)
    shutil.rmtree(path / "data", ignore_errors=True)
    (path / "data").mkdir()
    for name, value in _parts(report, thumbs, made, path):
        (path / "data" / f"{name}.js").write_text(f'beholderData("{name}",{script_json(value)});\n', encoding="utf-8")
    (path / "report.js").write_text(script(), encoding="utf-8")
    pictures = {
        row: f"thumbs/{key}.jpg" if (key := thumbs.outputs[row]) in made else None for row in picked_rows(report)
    }
    first, last = page(
        report,
        head(report, mode="folder", pictures=pictures),
        policy=_POLICY.format("'self' file:"),
        style=_asset("report.css"),
        scripts=element("script", src="report.js"),
    )
    temporary = path / ".index.tmp"
    temporary.write_text(first + last, encoding="utf-8")
    os.replace(temporary, path / "index.html")
    return path / "index.html"


def _parts(report: Report, thumbs: Thumbs, made: set[str] | None, home: Path) -> Iterator[tuple[str, Any]]:
    yield "core", core(report, thumbs, made)
    yield "groups", groups(report)
    for at, view in enumerate(report.views):
        yield f"view-{at}", view.data
    for at, part in enumerate(details(report, thumbs, made, home)):
        yield f"details-{at}", part


def _write_file(report: Report, path: Path, workers: int | None) -> Path:
    thumbs = Thumbs(report.samples)
    rows = picked_rows(report)
    keys = [key for row in rows if (key := thumbs.outputs[row]) is not None]
    early = dict(zip(keys, thumbnails([thumbs.wishes[key] for key in keys], workers=workers)))
    code = script()
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    first, last = page(
        report,
        head(report, mode="file", pictures={row: _address(early.get(thumbs.outputs[row] or "")) for row in rows}),
        policy=_POLICY.format(f"'sha256-{digest}'"),
        style=_asset("report.css"),
        scripts=Markup(f"<script>{code}</script>"),
    )
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.write(first)
            for name, value in _parts(report, thumbs, None, path.parent):
                _embed(file, name, value)
            _embed_thumbs(file, thumbs, early, workers)
            file.write(last)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _embed(file: IO[str], name: str, value: Any) -> None:
    file.write(f'<script type="application/json" data-part="{name}">{script_json(value)}</script>\n')


def _embed_thumbs(file: IO[str], thumbs: Thumbs, early: dict[str, bytes | None], workers: int | None) -> None:
    left = [key for key in thumbs.wishes if key not in early]
    made = thumbnails([thumbs.wishes[key] for key in left], workers=workers)
    keys = iter(thumbs.wishes)
    part = 0
    while chunk := list(islice(keys, THUMBS_PER_PART)):
        found = {key: early[key] if key in early else next(made) for key in chunk}
        _embed(file, f"thumbs-{part}", {key: _text(data) for key, data in found.items() if data is not None})
        part += 1


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _address(data: bytes | None) -> str | None:
    return None if data is None else f"data:image/jpeg;base64,{_text(data)}"
