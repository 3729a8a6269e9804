"""A folder of videos and OpenS2V's JSON file about them, as its scripts take both."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beholder._errors import Fault, InputError, UserError
from beholder.manifest.locations import open_text
from beholder.manifest.text_files import load_json
from beholder.media.kinds import iter_media_files, natural_key

OFFICIAL_CONTAINER = ".mp4"
"""What the published scripts look for; they pass over videos in other containers."""

_SHOWN = 10


@dataclass(frozen=True)
class VideoEntry:
    """One video, one entry of the JSON file, or both.

    Args:
        stem: the video's name without its extension, which is the entry's key.
        video: the file, or None where the folder has none of that name.
        listed: whether the JSON file has an entry.
        img_paths: references as the entry writes them, in its order.
        labels: their labels, as many; empty where the entry has none.
        prompt: the text, or None.
    """

    stem: str
    video: Path | None
    listed: bool
    img_paths: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    prompt: str | None = None

    @property
    def seen_officially(self) -> bool:
        """Whether the published scripts look at this video: an .mp4 file whose name has no further dot."""
        return self.video is not None and self.video.suffix == OFFICIAL_CONTAINER and "." not in self.stem


def read_video_set(folder: str | os.PathLike[str], json_file: str | os.PathLike[str]) -> tuple[VideoEntry, ...]:
    """All videos of a folder and all entries of the JSON file, joined by stem, in natural order.

    Args:
        folder: the videos; folders inside it are not looked into.
        json_file: `{stem: {"img_paths": [...], "class_label": [...], "prompt": "..."}}`; labels and prompt may be
            missing.

    Raises:
        UserError: no folder, no video in it, no JSON file, or one that is no JSON object.
        InputError: every entry that is not of that form, every stem that two videos share, and, where no stem has
            both a video and an entry, what there is on both sides.
    """
    entries = _read_json(json_file)
    videos: dict[str, list[Path]] = {}
    for path in iter_media_files(folder, kinds=("video",)):
        videos.setdefault(path.stem, []).append(path)
    faults = [
        Fault(f"several videos have this name: {', '.join(path.name for path in paths)}", where=stem)
        for stem, paths in videos.items()
        if len(paths) > 1
    ]
    for stem, entry in entries.items():
        faults += _faults_of(stem, entry)
    if faults:
        raise InputError(os.fspath(json_file), faults)
    if not entries.keys() & videos.keys():
        raise InputError(os.fspath(json_file), [
            Fault(f"no entry has a video in {os.fspath(folder)}: entries {_some(entries)}; videos {_some(videos)}")
        ])  # fmt: skip
    stems = sorted(entries.keys() | videos.keys(), key=natural_key)
    return tuple(_entry(stem, videos.get(stem, [None])[0], entries.get(stem)) for stem in stems)


def _entry(stem: str, video: Path | None, entry: Mapping[str, Any] | None) -> VideoEntry:
    if entry is None:
        return VideoEntry(stem, video, listed=False)
    prompt = entry.get("prompt")
    return VideoEntry(
        stem, video, True, tuple(entry.get("img_paths") or ()), tuple(entry.get("class_label") or ()), prompt
    )


def _read_json(json_file: str | os.PathLike[str]) -> dict[str, Any]:
    name = os.fspath(json_file)
    try:
        with open_text(name) as handle:
            found = load_json(handle.read())
    except ValueError as error:
        raise UserError(f"{name} must be JSON", got=str(error)) from error
    if not isinstance(found, dict):
        raise UserError(f"{name} must hold an object of entries by the stems of videos", got=type(found).__name__)
    return found


def _faults_of(stem: str, entry: Any) -> Iterator[Fault]:
    """What is wrong with the form of one entry."""
    if not isinstance(entry, Mapping):
        yield Fault(f"an entry must be an object, got {type(entry).__name__}", where=stem)
        return
    lists: dict[str, int] = {}
    for name in ("img_paths", "class_label"):
        value = entry.get(name)
        if value is None:
            continue
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            yield Fault(f"{name} must be a list of texts", where=stem)
        else:
            lists[name] = len(value)
    if len(set(lists.values())) > 1:
        sizes = " and ".join(f"{count} {name}" for name, count in lists.items())
        yield Fault(f"there must be a label for each reference, got {sizes}", where=stem)
    if not isinstance(entry.get("prompt"), str | None):
        yield Fault("prompt must be a text", where=stem)


def _some(names: Mapping[str, Any]) -> str:
    """The first names, and how many more."""
    shown = ", ".join(list(names)[:_SHOWN]) or "none"
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
