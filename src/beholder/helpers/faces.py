"""compute_facescore and compute_facesim_cur, and what they give."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import OptionError
from beholder._identity import OptionValue
from beholder.helpers.calls import as_float, one_medium, printed, scores_of
from beholder.helpers.folders import are_folders, join_folders
from beholder.records import Status
from beholder.score_table import media_list


@dataclass(frozen=True)
class Face:
    """One face of a picture.

    Args:
        score: its score.
        box: x0, y0, x1, y1 in pixels of the decoded picture.
        confidence: the detector's.
        official: the score that the published code gives it, or None where that code loses it (the box touches the
            left or the upper edge).
    """

    score: float
    box: tuple[float, ...]
    confidence: float
    official: float | None


@dataclass(frozen=True)
class FaceScoreResult:
    """What `compute_facescore` gives, whatever the picture was.

    Args:
        value: the aggregate over the faces, or None.
        status: `ok`, `no_face`, `unreadable` …
        reason: plain words for a status other than `ok`.
        aggregate: how the faces' scores became one: "mean", "min", "max" or "largest".
        faces: the faces, by falling confidence.
        metric: printed identity.
    """

    value: float | None
    status: Status
    reason: str | None
    aggregate: str
    faces: tuple[Face, ...]
    metric: str

    @property
    def n_faces(self) -> int:
        """How many faces were scored."""
        return len(self.faces)

    def __float__(self) -> float:
        return as_float(self.value, self.status, self.reason)

    def __str__(self) -> str:
        return printed(self.value, self.status, self.reason)


@dataclass(frozen=True)
class FacePair:
    """One pair of `compute_facesim_cur`.

    Args:
        reference: name of the reference.
        generated: name of the generated picture or video.
        value: the cosine, or None.
        status: `ok`, `no_face`, `unreadable` …
        reason: plain words for a status other than `ok`.
        side: where no face was found: "ref", "gen" or "both"; else None.
    """

    reference: str
    generated: str
    value: float | None
    status: Status
    reason: str | None = None
    side: str | None = None


@dataclass(frozen=True)
class FaceSimResult:
    """What `compute_facesim_cur` gives: the mean over the pairs that have a value, and the pairs.

    Args:
        pairs: one entry a pair, in the order given; of two folders, in natural order of the names.
        metric: printed identity.
        leftovers: files of two folders that had no partner and were left out, as `allow_extra` asks.
    """

    pairs: tuple[FacePair, ...]
    metric: str
    leftovers: tuple[str, ...] = ()

    @property
    def value(self) -> float | None:
        """Mean over the pairs that have a value; None where none has."""
        return _mean([pair.value for pair in self.pairs if pair.value is not None])

    @property
    def mean_all(self) -> float | None:
        """The same with pairs whose generated side alone shows no face as 0; others without a value are left out."""
        missed = [0.0 for pair in self.pairs if pair.status == Status.NO_FACE and pair.side == "gen"]
        return _mean([*missed, *(pair.value for pair in self.pairs if pair.value is not None)])

    @property
    def n(self) -> int:
        """Pairs that have a value."""
        return sum(pair.value is not None for pair in self.pairs)

    @property
    def n_missing(self) -> int:
        """Pairs that have none."""
        return len(self.pairs) - self.n

    def __float__(self) -> float:
        statuses = sorted({str(pair.status) for pair in self.pairs if pair.value is None})
        reasons = "; ".join(dict.fromkeys(pair.reason or "" for pair in self.pairs if pair.value is None))
        return as_float(self.value, ", ".join(statuses), reasons)

    def __str__(self) -> str:
        statuses = sorted({str(pair.status) for pair in self.pairs})
        return printed(self.value, ", ".join(statuses), f"none of {len(self.pairs)} pairs has a value")


def compute_facescore(
    path: Any,
    device: str = "auto",
    *,
    model_name: str | None = None,
    med_config: str | os.PathLike[str] | None = None,
    aggregate: str = "mean",
    threshold: float = 0.9,
    detector: str = "retinaface",
    cache_dir: str | None = None,
    offline: bool | None = None,
) -> FaceScoreResult:
    """FaceScore of a picture's faces.

    Args:
        path: a path; also a PIL picture, bytes or an array of uint8.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        model_name: a checkpoint (`FS_model.pt`, with `med_config.json` beside it or in `med_config`) or its folder, a
            hub repository, or None for the published one.
        med_config: the text encoder's configuration, where it does not lie beside the checkpoint.
        aggregate: how several faces become one value: "mean", "min", "max" or "largest".
        threshold: least confidence of a face.
        detector: face model that finds the faces.
        cache_dir: folder to look for weights in first.
        offline: True never fetches anything.

    Raises:
        UserError: a wrong option, missing weights, a device that this machine does not have. A picture without a face
            or one that cannot be read raises nothing: its status says so.

    Source: arXiv 2406.17100. Differs from the published code: boxes are cut to the picture, one decoded picture serves
    detection and crop, and several faces give one number.
    """
    options: dict[str, OptionValue] = {"aggregate": aggregate, "threshold": threshold, "detector": detector}
    if model_name is not None or med_config is not None:
        options["model"] = _facescore_model(model_name, med_config)
    score = scores_of("facescore", options, [(one_medium(path), ())], device, cache_dir, offline)[0]
    evidence = score.evidence or {}
    faces = tuple(
        Face(item["score"], tuple(item["box"]), item["confidence"], item["official"])
        for item in evidence.get("faces", ())
    )
    return FaceScoreResult(score.value, score.status, score.reason, aggregate, faces, score.metric)


def compute_facesim_cur(
    ref_paths: Any,
    gen_paths: Any,
    device: str = "auto",
    *,
    model: str = "curricularface:ir-101",
    matching: str = "largest",
    clip: bool = False,
    allow_extra: bool = False,
    cache_dir: str | None = None,
    offline: bool | None = None,
) -> FaceSimResult:
    """Cosine of the recognition embeddings of reference i and generated picture i, for every i.

    Args:
        ref_paths: references: paths, PIL pictures or arrays; one or a list. Or one folder, when `gen_paths` is one
            too: files are then joined by their names (below the folder, without extension).
        gen_paths: generated pictures or videos, as many; in a list, a folder is a video's frames. Or one folder.
        device: as in `compute_facescore`.
        model: face model: curricularface, insightface or dlib.
        matching: "largest" compares the largest faces; "best" and "assignment" as in the metric.
        clip: True counts a negative cosine as 0.
        allow_extra: True leaves files of two folders that have no partner out, and lists them in the result.
        cache_dir: folder to look for weights in first.
        offline: True never fetches anything.

    Raises:
        UserError: lists of different length or none, a wrong option, missing weights, a device that is not there.
        InputError: two folders in which files have no partner, or several of one name; all are listed.
    """
    leftovers: tuple[str, ...] = ()
    if are_folders(ref_paths, gen_paths):
        ref_paths, gen_paths, leftovers = join_folders(ref_paths, gen_paths, allow_extra=allow_extra)
    references, generated = media_list(ref_paths), media_list(gen_paths)
    if len(references) != len(generated) or not references:
        raise OptionError(
            "there must be one generated picture for each reference, and at least one",
            got=f"{len(references)} ref_paths and {len(generated)} gen_paths",
        )
    options: dict[str, OptionValue] = {"model": model, "matching": matching, "clip": clip}
    samples = [(made, (real,)) for real, made in zip(references, generated, strict=True)]
    scores = scores_of("facesim_cur", options, samples, device, cache_dir, offline)
    pairs = tuple(
        FacePair(real.name, made.name, score.value, score.status, score.reason, (score.evidence or {}).get("side"))
        for real, made, score in zip(references, generated, scores, strict=True)
    )
    return FaceSimResult(pairs, scores[0].metric, leftovers)


def _facescore_model(model_name: str | None, med_config: str | os.PathLike[str] | None) -> str:
    """The model's name from a checkpoint's path or a hub repository."""
    there = model_name is not None and os.path.exists(os.path.expanduser(model_name))
    if med_config is not None:
        if model_name is None or not there or os.path.isdir(os.path.expanduser(model_name)):
            raise OptionError("med_config belongs to a local checkpoint", got=f"model_name={model_name!r}")
        return f"facescore:{_beside(os.path.abspath(os.path.expanduser(model_name)), os.path.abspath(med_config))}"
    if there:
        return f"facescore:{os.path.abspath(os.path.expanduser(str(model_name)))}"
    is_repository = "/" in str(model_name) and ":" not in str(model_name)
    return f"facescore:{model_name}" if is_repository else str(model_name)


@cache
def _beside(checkpoint: str, med_config: str) -> str:
    """The checkpoint as it would be with that configuration beside it: links in a folder of their own."""
    folder = Path(_links().name) / f"{abs(hash((checkpoint, med_config)))}"
    folder.mkdir()
    for file in Path(checkpoint).parent.iterdir():
        if file.is_file() and file.name != "med_config.json":
            (folder / file.name).symlink_to(file)
    (folder / "med_config.json").symlink_to(med_config)
    return str(folder / Path(checkpoint).name)


@lru_cache(maxsize=1)
def _links() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="beholder-")


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
