"""`beholder demo`: a data set whose right answer is known, drawn and scored on this machine."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from beholder._errors import UserError
from beholder.runs.config import make_config
from beholder.runs.plan import make_plan
from beholder.runs.progress import NoProgress, Progress
from beholder.runs.results import Run
from beholder.runs.session import execute
from beholder.scenes import demo_set, write_demo_set

METRICS = ("clip_score", "clip_i")
"""What the demo data set is scored with."""

_OWN = {"images", "masks", "references", "reference_masks", "manifest.jsonl", "run"}
"""What a demo's folder holds; all of it may be drawn anew."""


def run_demo(out: str, *, seed: int = 0, model: str = "demo:emoji", progress: Progress | None = None) -> Run:
    """Draws the demo data set into `out` and scores it into `out/run`.

    Three "generators" of known quality draw scenes of emoji for the same prompts: `faithful` draws what was asked;
    `swapper` swaps an object, a colour or places in a third of its scenes; `noisy` is blurred and noisy and often
    leaves the object out. A metric that works ranks them in this order.

    Args:
        out: folder for the data set (`manifest.jsonl`, pictures, references, masks) and the run.
        seed: seed of the scenes.
        model: encoder; the embedded one by default.
        progress: who is told.

    Returns:
        The finished run.

    Raises:
        UserError: a folder that cannot be written, or that holds something else.
    """
    progress = progress or NoProgress()
    make_plan(make_config({"metrics": METRICS, "model": model}))  # a model that is not there is told of at once
    folder = Path(out)
    claim_folder(folder, _OWN)
    items = demo_set(seed)
    progress.stage("drawing scenes", len(items))
    manifest = write_demo_set(items, folder, progress=lambda _: progress.advance(1))
    config = make_config(
        {"data": str(manifest), "metrics": METRICS, "model": model, "out": str(folder / "run"), "by": ("method",)}
    )
    return execute(config, progress=progress)


def claim_folder(folder: Path, own: Collection[str]) -> None:
    """Makes sure that a demo can be written there and takes the place of nothing else.

    Args:
        folder: the folder; made if need be.
        own: names of what the demo itself puts there.

    Raises:
        UserError: it cannot be written, or holds something else.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = sorted({path.name for path in folder.iterdir()} - set(own))
    except OSError as error:
        raise UserError(
            f"the demo's folder {folder} must be a folder that can be written",
            got=error.strerror or str(error),
            fix="Name another with -o",
        ) from error
    if others:
        shown = ", ".join(others[:5]) + (" …" if len(others) > 5 else "")
        raise UserError(
            f"the demo's folder {folder} must be empty or hold a demo", got=shown, fix="Name another with -o"
        )
