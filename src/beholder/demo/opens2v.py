"""`beholder demo --protocol opens2v`: short videos of moving scenes with references, scored with small stand-ins.

Three models of known quality animate the same subjects: `steady` moves the subject that was asked for, `flicker` shows
it in every fourth frame and lets it jump, `swapped` moves another subject. OpenS2V's NexusScore, which divides by the
number of frames with the subject, puts `flicker` before `steady`; the corrected companion does not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from beholder.demo.build import claim_folder
from beholder.demo.stand_ins import DETECTOR, FACES, HEAD, JUDGE, register_stand_ins
from beholder.media.clip_writer import write_clip
from beholder.protocol_runs import ProtocolRun, make_protocol, protocol_metrics, run_protocol
from beholder.runs.config import make_config
from beholder.runs.plan import make_plan
from beholder.runs.progress import NoProgress, Progress
from beholder.scenes import Background, Scene, SceneObject, render_array

METHODS = ("steady", "flicker", "swapped")
MARK = "[stand-ins] "
"""What stands before every line of the output: none of the models is OpenS2V's."""

FRAMES, SIDE = 16, 128
_OWN = {"eval.json", "Images", "videos", "run", "official"}


@dataclass(frozen=True)
class Subject:
    """A subject of the drawn set.

    Args:
        stem: name of its videos.
        thing: what is drawn.
        label: its class in the manifest.
        folder: where its reference lies.
        color: background colour of its videos.
        other: what `swapped` draws instead.
        beside: a second subject with a reference of its own, or None.
    """

    stem: str
    thing: str
    label: str
    folder: str
    color: str
    other: str
    beside: str | None = None


SUBJECTS = (
    Subject("singleobj_1", "ladybug", "Ladybug", "thing/insects", "white", "tulip"),
    Subject("singleobj_2", "frog", "Frog", "thing/animals", "white", "banana"),
    Subject("singleobj_3", "watermelon", "Watermelon", "thing/food", "gray", "crab"),
    Subject("singleface_1", "monkey", "Man", "singleface/man", "white", "frog"),
    Subject("singleface_2", "fox", "Woman", "singleface/woman", "gray", "panda"),
    Subject("faceobj_1", "lion", "Man", "singleface/man", "white", "whale", beside="ladybug"),
)
"""Animals stand for people: their labels and folders are those that the benchmark's rules look at."""


NO_OPENCV = (
    "Amplitude is not scored, so there is no total: motion_amplitude needs the package 'opencv-python-headless'. "
    'Install it with: pip install "beholder[motion]"'
)


def demo_metrics(model: str = "demo:emoji") -> tuple[str, ...]:
    """What the videos are scored with: every model that is not arithmetic is a stand-in.

    Without OpenCV there is no motion amplitude, and so no total.
    """
    import importlib.util

    motion = ("motion_amplitude",) if importlib.util.find_spec("cv2") is not None else ()
    return (
        f"laion_aesthetic(model={HEAD},encoder={model},frames=uniform:32)",
        *motion,
        "motion_smoothness(model=sharpness)",
        f"facesim_cur(model={FACES},references=opens2v)",
        f"gme_score(model={model})",
        f"nexus_score(detector={DETECTOR},model={model},label=0.0)",
        f"natural_score(model={JUDGE},frames=uniform:16)",
    )


def run_opens2v_demo(
    out: str,
    *,
    seed: int = 0,
    model: str = "demo:emoji",
    subjects: Sequence[Subject] = SUBJECTS,
    progress: Progress | None = None,
) -> ProtocolRun:
    """Draws the videos, references and manifest into `out`, and scores them by the protocol `opens2v` into `out/run`.

    Args:
        out: folder for `eval.json` (the published shape), `Images/`, `videos/MODEL/STEM.mp4` (without PyAV:
            animations, `.webp`), and the run.
        seed: seed of paths and backgrounds.
        model: embedder in GME's place; the embedded one by default.
        subjects: what is drawn.
        progress: who is told.

    Raises:
        UserError: a folder that cannot be written, or that holds something else.
    """
    progress = progress or NoProgress()
    register_stand_ins()
    protocol = make_protocol("opens2v")
    metrics, _ = protocol_metrics(protocol, demo_metrics(model), only=True)
    make_plan(make_config({"metrics": metrics}))  # a model that is not there is told of at once
    folder = Path(out)
    claim_folder(folder, _OWN)
    if "motion_amplitude" not in metrics:
        progress.notice(NO_OPENCV)
    progress.stage("drawing videos", len(subjects) * len(METHODS))
    write_videos(folder, subjects, seed, progress)
    config = make_config({"data": str(folder / "eval.json"), "metrics": metrics, "out": str(folder / "run")})
    return run_protocol(protocol, str(folder / "eval.json"), config, progress=progress)


def write_videos(folder: Path, subjects: Sequence[Subject], seed: int, progress: Progress) -> None:
    """References, manifest and videos."""
    manifest: dict[str, Any] = {}
    for number, subject in enumerate(subjects):
        path = f"Images/{subject.folder}/{number + 1}.png"
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(_frame(subject.thing, 0.5, 0.5, "white", size=0.8)).save(place)
        labels, paths = [subject.label], [path]
        if subject.beside is not None:
            other = f"Images/thing/beside/{number + 1}.png"
            (folder / other).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(_frame(subject.beside, 0.5, 0.5, "white", size=0.8)).save(folder / other)
            paths.append(other)
            labels.append(subject.beside.capitalize())
        manifest[subject.stem] = {
            "img_paths": paths, "prompt": f"a {subject.thing} before a {subject.color} background",
            "synthesis_flag": "True", "class_label": labels,
        }  # fmt: skip
        for method in METHODS:
            frames = draw_video(subject, method, np.random.default_rng([seed, number]))
            write_clip(folder / "videos" / method / subject.stem, frames)
            progress.advance(1)
    (folder / "eval.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def draw_video(subject: Subject, method: str, rng: np.random.Generator) -> list[np.ndarray]:
    """The frames of one video, (SIDE, SIDE, 3) uint8 each.

    Args:
        subject: what is asked for.
        method: one of `METHODS`.
        rng: where the path comes from.
    """
    start, end = rng.uniform(0.3, 0.7, 2), rng.uniform(0.3, 0.7, 2)
    frames = []
    for at in range(FRAMES):
        x, y = start + (end - start) * at / (FRAMES - 1)
        thing: str | None = subject.other if method == "swapped" else subject.thing
        if method == "flicker":
            x, y = rng.uniform(0.25, 0.75, 2)
            thing = thing if at % 4 == 0 else None
        beside = None if method == "swapped" else subject.beside
        frames.append(_frame(thing, float(x), float(y), subject.color, beside=beside))
    return frames


def _frame(
    thing: str | None, x: float, y: float, color: str, *, size: float = 0.4, beside: str | None = None
) -> np.ndarray:
    objects = [] if thing is None else [SceneObject(thing, x, y, size)]
    if beside is not None:
        objects.append(SceneObject(beside, 0.85, 0.85, 0.25))
    return render_array(Scene(tuple(objects), Background(color)), SIDE)
