"""compute_gme_score, compute_nexus_score, compute_natural_score: a folder of videos and OpenS2V's JSON file to a dict.

Embeddings and replies go into the feature store, so a call that was interrupted goes on, and asks nothing twice.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beholder._errors import OptionError, WeightsMissingError
from beholder._identity import MetricSpec, OptionValue
from beholder.helpers.video_sets import OFFICIAL_CONTAINER, VideoEntry, read_video_set
from beholder.metrics.base import SampleMetric, make_metric
from beholder.metrics.natural import DEFAULT_MODEL as JUDGE
from beholder.metrics.natural_prompt import OWN
from beholder.metrics.nexus import DETECTOR, EMBEDDER
from beholder.records import Score, Status
from beholder.runs.plan import score_names

PathLike = str | os.PathLike[str]

_NEXUS = (
    "mean_similarity", "coverage", "coverage_kept", "nexus_corrected", "n_boxes", "n_kept", "f_obj", "n_frames",
    "n_without_area", "thresholds", "references",
)  # fmt: skip
_GME = ("n_frames", "n_degenerate", "min", "std", "per_frame", "truncated", "n_tokens")
_NATURAL = ("runs", "n_runs", "std", "replies", "statuses", "reasons", "model")


def compute_gme_score(
    input_video_folder: PathLike,
    input_image_folder: PathLike | None = None,
    input_json_file: PathLike | None = None,
    device: str = "auto",
    *,
    model: str = EMBEDDER,
    frames: str = "uniform:32",
    dot: str = "fp16",
    dtype: str = "auto",
    store: PathLike | None = None,
    cache_dir: str | None = None,
    offline: bool | None = None,
) -> dict[str, dict[str, Any]]:
    """How well each video fits its prompt: OpenS2V's GmeScore.

    Args:
        input_video_folder: the videos, `STEM.mp4`; other containers are scored and noted.
        input_image_folder: accepted, and not used: GmeScore sees no references.
        input_json_file: `{stem: {"prompt": "…"}}`, OpenS2V's evaluation file.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        model: embedder; only the default gives OpenS2V's numbers. WORLDFOUNDRY_GME_MODEL_PATH names its folder.
        frames: which frames are looked at; "uniform:32" is official.
        dot: "fp16" (official) or "fp32".
        dtype: "auto" (float16 for the 7B model, which needs a GPU), "float32", "bfloat16", "float16".
        store: feature store; below BEHOLDER_CACHE or the user's cache folder when None.
        cache_dir: folder to look for weights in first.
        offline: True never fetches anything.

    Returns:
        An entry for every entry of the JSON file and every video, JSON-ready, in natural order of the stems:
        `gme_score` (None unless `status` is "ok"; a raw cosine, may be negative), `status`, `reason`, `official` and
        `official_included` (what OpenS2V's script writes), and of scored videos `n_frames`, `min`, `std`, `per_frame`.
        Statuses: `empty_prompt` (no prompt, no entry), `missing` (no video), `unreadable`, `degenerate_embedding` …

    Raises:
        UserError: no folder, no video, a JSON file of another form; a wrong option, missing weights, a device that is
            not there.
    """
    if input_json_file is None:
        raise OptionError("input_json_file must name the JSON file with the prompts", got="None")
    metric = make_metric(MetricSpec("gme_score", {"model": model, "frames": frames, "dot": dot}))
    return _score(
        metric, "gme_score", read_video_set(input_video_folder, input_json_file), None, _GME,
        unlisted=(Status.EMPTY_PROMPT, "the JSON file has no entry for this video"), device=device,
        settings={"dtype": dtype, "store": store, "cache_dir": cache_dir, "offline": offline},
    )  # fmt: skip


def compute_nexus_score(
    input_video_folder: PathLike,
    input_image_folder: PathLike,
    input_json_file: PathLike,
    device: str = "auto",
    *,
    detector: str = DETECTOR,
    model: str = EMBEDDER,
    variant: str = "official",
    frames: str = "uniform:32",
    dot: str = "fp16",
    dtype: str = "auto",
    store: PathLike | None = None,
    cache_dir: str | None = None,
    offline: bool | None = None,
) -> dict[str, dict[str, Any]]:
    """Whether the references' subjects are in each video and look like them: OpenS2V's NexusScore.

    Args:
        input_video_folder: the videos, `STEM.mp4`; other containers are scored and noted.
        input_image_folder: what the paths in the JSON file start from.
        input_json_file: `{stem: {"img_paths": […], "class_label": […]}}`, OpenS2V's evaluation file.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        detector: finds what looks like a reference; only the default is OpenS2V's. WORLDFOUNDRY_YOLO_WORLD_CKPT names
            its file, WORLDFOUNDRY_YOLO_CLIP_MODEL the folder of its CLIP.
        model: embedder; only the default is OpenS2V's. WORLDFOUNDRY_GME_MODEL_PATH names its folder.
        variant: "official", "mean_similarity", "coverage" or "corrected": which value stands under `nexus_score`.
        frames: which frames are looked at; "uniform:32" is official.
        dot: "fp16" (official) or "fp32".
        dtype: as in `compute_gme_score`; so are the others.

    Returns:
        An entry for every entry of the JSON file and every video, JSON-ready: `nexus_score` (None unless `status` is
        "ok"), `status`, `reason`; `official` (0.0 where boxes were found and none counts) and `official_included`
        (False for such zeros, which OpenS2V leaves out of its mean); and `mean_similarity`, `coverage`,
        `nexus_corrected`, numbers of boxes and frames, thresholds, and a breakdown by reference.
        Statuses: `not_applicable` (no reference that is looked for), `no_detection`, `all_filtered`, `missing`,
        `no_reference` (no entry), `unreadable` …

    Raises:
        UserError: as in `compute_gme_score`; all weights that are missing stand in one message.
    """
    options: dict[str, OptionValue] = {
        "detector": detector, "model": model, "variant": variant, "frames": frames, "dot": dot,
    }  # fmt: skip
    entries = read_video_set(input_video_folder, input_json_file)
    return _score(
        make_metric(MetricSpec("nexus_score", options)), "nexus_score", entries, input_image_folder, _NEXUS,
        unlisted=(Status.NO_REFERENCE, "the JSON file has no entry for this video"), device=device,
        settings={"dtype": dtype, "store": store, "cache_dir": cache_dir, "offline": offline},
    )  # fmt: skip


def compute_natural_score(
    input_video_folder: PathLike,
    input_json_file: PathLike,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    model: str = JUDGE,
    runs: int = 3,
    frames: str = "stride:16",
    prompt: str = OWN,
    temperature: str = "server",
    seed: int = -1,
    concurrency: int = 8,
    max_calls: int | None = None,
    max_cost: float | None = None,
    requests_per_minute: float | None = None,
    store: PathLike | None = None,
) -> dict[str, dict[str, Any]]:
    """How real each video looks to a judge: OpenS2V's NaturalScore.

    Args:
        input_video_folder: the videos, `STEM.mp4`; other containers are scored and noted.
        input_json_file: OpenS2V's evaluation file; it only says which videos to expect.
        api_key: key of the judge's server; OPENAI_API_KEY when None. Written nowhere.
        base_url: the server; OPENAI_BASE_URL or the public one when None.
        model: the judge.
        runs: independent passes; 3 is official.
        frames: "stride:16" (official) or "uniform:16".
        prompt: name of our prompt, or a text file.
        temperature: "server" (official), or a number as text.
        seed: seed of the first pass; -1 sends none (official).
        concurrency: requests under way at once.
        max_calls: most requests; videos that were not asked about are `failed`.
        max_cost: most money.
        requests_per_minute: requests in a minute.
        store: feature store, where replies are kept; below BEHOLDER_CACHE or the user's cache folder when None.

    Returns:
        An entry for every entry of the JSON file and every video, JSON-ready: `natural_score` (mean of the passes that
        have a mark, 1 to 5; None unless `status` is "ok"), `status`, `reason`, `runs` (the marks, None for a pass
        without one), `n_runs`, `std`, `replies` (raw), `statuses`, `model` (as the server returned it).
        Statuses: `refused`, `unparsable`, `failed`, `missing`, `unreadable` …

    Raises:
        UserError: no key: before any frame is decoded; and as in `compute_gme_score`.
    """
    options: dict[str, OptionValue] = {
        "model": model, "runs": runs, "frames": frames, "prompt": prompt, "temperature": temperature, "seed": seed,
    }  # fmt: skip
    settings = {
        "api_key": api_key, "base_url": base_url, "concurrency": concurrency, "max_calls": max_calls,
        "max_cost": max_cost, "requests_per_minute": requests_per_minute, "store": store,
    }  # fmt: skip
    _check_judge(model, api_key, base_url)
    entries = read_video_set(input_video_folder, input_json_file)
    metric = make_metric(MetricSpec("natural_score", options))
    return _score(metric, "natural_score", entries, None, _NATURAL, unlisted=None, device="auto", settings=settings)


def _score(
    metric: SampleMetric,
    name: str,
    entries: Sequence[VideoEntry],
    references: PathLike | None,
    kept: Sequence[str],
    *,
    unlisted: tuple[Status, str] | None,
    device: str,
    settings: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """The entries of all videos; those that cannot be scored have their status already."""
    from beholder.api import evaluate
    from beholder.backends.devices import choose_device

    choose_device(device, dtype=str(settings.get("dtype", "auto")))
    _check_weights(metric, settings)
    found = {entry.stem: _start(name, entry, unlisted) for entry in entries}
    rows = [_row(entry, references) for entry in entries if found[entry.stem]["status"] == Status.OK]
    if not rows:
        return found
    with tempfile.TemporaryDirectory(prefix="beholder-") as folder:
        given = {key: value for key, value in settings.items() if value is not None}
        store = given.pop("store", None)
        run = evaluate(
            rows, metrics=metric, out=str(Path(folder) / "run"), device=device, max_failed=1.0,
            store=None if store is None else os.fspath(store), **given,
        )  # fmt: skip
        (label,) = run.labels
        by_id = {row["id"]: _score_of(row, label, metric) for row in run.scores.to_pylist()}
    for entry in entries:
        if entry.stem in by_id:
            found[entry.stem] |= _told(by_id[entry.stem], name, kept, entry)
    return found


def _start(name: str, entry: VideoEntry, unlisted: tuple[Status, str] | None) -> dict[str, Any]:
    status, reason = Status.OK, None
    if entry.video is None:
        status, reason = Status.MISSING, "the folder has no video of this name"
    elif not entry.listed and unlisted is not None:
        status, reason = unlisted
    facts: dict[str, Any] = {
        name: None, "status": str(status), "reason": reason, "official": None, "official_included": False,
    }  # fmt: skip
    notes = []
    if entry.video is not None and entry.video.suffix != OFFICIAL_CONTAINER:
        notes.append("OpenS2V's script takes .mp4 files only, and passes over this one")
    if not entry.listed and unlisted is None:
        notes.append("the JSON file has no entry for this video")
    return {**facts, "notes": notes} if notes else facts


def _row(entry: VideoEntry, references: PathLike | None) -> dict[str, Any]:
    row: dict[str, Any] = {"id": entry.stem, "stem": entry.stem, "output": str(entry.video)}
    if entry.prompt is not None:
        row["prompt"] = entry.prompt
    if references is not None:
        row["references"] = [str(Path(references) / path) for path in entry.img_paths]
        row["class_label"] = list(entry.labels)
    return row


def _score_of(row: Mapping[str, Any], label: str, metric: SampleMetric) -> Score:
    value, status, reason, evidence, _ = (row.get(name) for name in score_names(label))
    return Score(row["id"], metric.identity, value, Status(status), reason, json.loads(evidence) if evidence else None)


def _told(score: Score, name: str, kept: Sequence[str], entry: VideoEntry) -> dict[str, Any]:
    evidence = score.evidence or {}
    official = evidence.get("official", score.value)
    seen = entry.video is not None and entry.video.suffix == OFFICIAL_CONTAINER
    return {
        name: score.value, "status": str(score.status), "reason": score.reason,
        "official": official if seen else None,
        "official_included": bool(seen and official is not None and evidence.get("official_included", True)),
        **{key: evidence[key] for key in kept if key in evidence},
    }  # fmt: skip


def _check_weights(metric: SampleMetric, settings: Mapping[str, Any]) -> None:
    """All weights that are missing, in one message, before anything is read."""
    from beholder.backends.base import LoadOptions
    from beholder.backends.kinds import kind_of
    from beholder.backends.pool import resolve_model

    options = LoadOptions(settings.get("cache_dir"), settings.get("offline"))
    asked = dict.fromkeys((slot.model, kind_of(slot.feature).capability) for slot in metric.slots)
    told: list[str] = []
    for model, capability in asked:
        if capability == "Judge":
            continue
        try:
            resolve_model(model, capability=capability, options=options)
        except WeightsMissingError as error:
            told += [str(error)] if str(error) not in told else []
    if len(told) > 1:
        raise WeightsMissingError(f"{metric.info.name} needs all of its models", got="\n".join(told))
    if told:
        raise WeightsMissingError(told[0])


def _check_judge(model: str, api_key: str | None, base_url: str | None) -> None:
    """A judge that cannot be asked is told of at once."""
    from beholder.backends.api.options import ApiOptions
    from beholder.backends.base import LoadOptions
    from beholder.backends.pool import load_model, resolve_model

    options = LoadOptions(api=ApiOptions(api_key=api_key, base_url=base_url))
    load_model(resolve_model(model, capability="Judge", options=options)).close()
