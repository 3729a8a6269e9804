"""compute_facesim_cur_videos: face similarity of a folder of videos, as OpenS2V's script takes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from beholder._identity import OptionValue
from beholder.helpers.calls import scores_of
from beholder.helpers.video_sets import VideoEntry, read_video_set
from beholder.media.sources import as_medium
from beholder.records import Score, Status

ELIGIBLE = ("singlehuman", "singleface", "faceobj", "humanobj")
"""A video is scored where its stem holds one of these; with several people nobody knows whose face is whose."""

PEOPLE = ("/man/", "/woman/", "/crop_man/", "/crop_woman/")
"""The first reference whose path holds one of these is the person."""

_OFFICIAL_ENGINE, _ARC_MODEL = "curricularface", "insightface"
_COMPANIONS = (
    "n_frames", "n_detected", "n_positive", "detection_rate", "mean_all", "mean_detected", "mean_raw", "side"
)  # fmt: skip


def compute_facesim_cur_videos(
    input_video_folder: str | os.PathLike[str],
    input_image_folder: str | os.PathLike[str],
    input_json_file: str | os.PathLike[str],
    device: str = "auto",
    *,
    model: str = "curricularface:ir-101",
    matching: str = "largest",
    frames: str = "uniform:32",
    arc_score: bool = False,
    cache_dir: str | None = None,
    offline: bool | None = None,
) -> dict[str, dict[str, Any]]:
    """Face similarity of each video to the person of its references, by OpenS2V's rule, and what that rule hides.

    The rule: the largest face of the person's reference (see `PEOPLE`) and of each of 32 frames of a video of one
    person (see `ELIGIBLE`); the mean of the positive cosines, 0.0 where there is none.

    Args:
        input_video_folder: the videos, `STEM.mp4`; other containers are scored and noted.
        input_image_folder: what the paths in the JSON file start from.
        input_json_file: `{stem: {"img_paths": [...]}}`, OpenS2V's evaluation file.
        device: as in `compute_facesim_cur`.
        model: face model; only the default gives OpenS2V's numbers.
        matching: "largest" (official), "best", or "assignment".
        frames: which frames are looked at; "uniform:32" is official.
        arc_score: True adds OpenS2V's other number: InsightFace's embedding, a mean that keeps the zeros.
        cache_dir, offline: as in `compute_facesim_cur`.

    Returns:
        An entry for every video and every stem of the JSON file, JSON-ready, in natural order: `cur_score` (None unless
        `status` is "ok"), `status`, `reason`, `reference`, `notes`; `official` (what the published script writes; a
        face in no frame is its 0.0) and `official_included` (whether it writes anything); of scored videos also
        `n_frames`, `n_detected`, `n_positive`, `detection_rate`, `mean_all`, `mean_detected`, `mean_raw`, and `side`.
        Statuses: `not_applicable` (another kind of stem, no person among the references), `missing` (no video, no
        reference file), `no_reference` (no entry), `no_face`, `unreadable`, …

    Raises:
        UserError: no video, a JSON file with faults (all are told), a wrong option, missing weights, no such device.

    Source: get_facesim.py of https://github.com/PKU-YuanGroup/OpenS2V-Nexus, arXiv 2505.20292.
    """
    entries = read_video_set(input_video_folder, input_json_file)
    found = {entry.stem: _start(entry) for entry in entries}
    scored = [entry for entry in entries if found[entry.stem]["status"] == Status.OK]
    media = [
        (as_medium(entry.video), (as_medium(Path(input_image_folder, str(person_of(entry)))),)) for entry in scored
    ]

    def scores(**options: OptionValue) -> Iterator[tuple[VideoEntry, Score]]:
        options |= {"matching": matching, "frames": frames}
        return zip(scored, scores_of("facesim_cur", options, media, device, cache_dir, offline), strict=True)

    if not scored:
        return found
    official = model.partition(":")[0] == _OFFICIAL_ENGINE and (matching, frames) == ("largest", "uniform:32")
    for entry, score in scores(model=model):
        found[entry.stem] |= _cur(score, official=official and entry.seen_officially)
    if arc_score:
        for entry, score in scores(model=_ARC_MODEL, over_frames="mean_detected"):
            found[entry.stem]["arc_score"] = score.value
    return found


def person_of(entry: VideoEntry) -> str | None:
    """The path of the first reference that is a person, as the JSON file writes it."""
    return next((path for path in entry.img_paths if any(part in path for part in PEOPLE)), None)


def _start(entry: VideoEntry) -> dict[str, Any]:
    """The entry of a video before it is scored; its status is `ok` where it can be."""
    status, reason = _obstacle(entry)
    facts: dict[str, Any] = {
        "cur_score": None, "status": str(status), "reason": reason, "official": None, "official_included": False,
        "reference": person_of(entry),
    }  # fmt: skip
    if entry.video is not None and not entry.seen_officially:
        facts["notes"] = ["the published script takes .mp4 files whose name has no other dot, and passes over this one"]
    return facts


def _obstacle(entry: VideoEntry) -> tuple[Status, str | None]:
    if not any(kind in entry.stem for kind in ELIGIBLE):
        return Status.NOT_APPLICABLE, f"only stems with {', '.join(ELIGIBLE)} show one person whose face is compared"
    if entry.video is None:
        return Status.MISSING, "the folder has no video of this name"
    if not entry.listed:
        return Status.NO_REFERENCE, "the JSON file has no entry for this video"
    if person_of(entry) is None:
        return Status.NOT_APPLICABLE, f"no reference is a person: none of img_paths has {', '.join(PEOPLE)}"
    return Status.OK, None


def _cur(score: Score, *, official: bool) -> dict[str, Any]:
    """What a score adds to its entry."""
    evidence = score.evidence or {}
    # The script writes 0.0 where the reference shows a face and no frame does, and nothing where a file fails.
    written = evidence.get("official") if official else None
    facts = {name: evidence[name] for name in _COMPANIONS if name in evidence}
    return {
        "cur_score": score.value, "status": str(score.status), "reason": score.reason, "official": written,
        "official_included": written is not None, **facts,
    }  # fmt: skip
