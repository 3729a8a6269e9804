"""`beholder demo --protocol knowcusbench`: a data set on which a whole-picture metric is fooled, and its control."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from beholder.demo.build import claim_folder
from beholder.protocol_runs import ProtocolRun, make_protocol, protocol_metrics, run_protocol
from beholder.runs.config import make_config
from beholder.runs.plan import make_plan
from beholder.runs.progress import NoProgress, Progress
from beholder.scenes import subject_set, write_subject_set

METRICS = ("clip_i", "clip_i_seg(segmenter=masks)", "clip_t", "background_share(segmenter=masks)")
"""What the data set is scored with. Pick Score is left out: its checkpoint is not in the package."""

CONTROL = "control"
_OWN = {"references", "generated", "masks", "reference_masks", "manifest.json", "run", CONTROL}


@dataclass(frozen=True)
class SubjectDemo:
    """Both runs.

    Args:
        flattering: the data set in which copied surroundings flatter.
        control: the same with plain backgrounds.
    """

    flattering: ProtocolRun
    control: ProtocolRun


def run_subject_demo(
    out: str,
    *,
    seed: int = 0,
    model: str = "demo:emoji",
    concepts: int = 16,
    seeds: int = 3,
    progress: Progress | None = None,
) -> SubjectDemo:
    """Draws the data set and its control, and scores both by the protocol `knowcusbench`.

    The methods are of known quality: `faithful` draws the subject as asked, `wavering` another thing in half of its
    outputs, `copycat` always another thing, in the references' surroundings. Where surroundings can be copied, CLIP-I
    puts `copycat` first and CLIP-I-Seg last; before plain backgrounds both put it last.

    Args:
        out: folder for `manifest.json`, pictures and masks, and the run; the control lies in `control/`.
        seed: seed of the scenes.
        model: encoder; the embedded one by default.
        concepts: how many subjects.
        seeds: outputs of each prompt.
        progress: who is told.

    Raises:
        UserError: a folder that cannot be written, or that holds something else.
    """
    progress = progress or NoProgress()
    protocol = make_protocol("knowcusbench")
    metrics, _ = protocol_metrics(protocol, METRICS, only=True)
    make_plan(make_config({"metrics": metrics, "model": model}))  # a model that is not there is told of at once
    folder = Path(out)
    claim_folder(folder, _OWN)
    runs = []
    for part, neutral in ((folder, False), (folder / CONTROL, True)):
        drawn = subject_set(seed, concepts=concepts, seeds=seeds, neutral=neutral)
        progress.stage("drawing scenes", len(drawn.items))
        manifest = write_subject_set(drawn, part, progress=lambda _: progress.advance(1))
        config = make_config(
            {"data": str(manifest), "metrics": metrics, "model": model, "out": str(part / "run"), "by": ("method",)}
        )
        runs.append(run_protocol(protocol, str(manifest), config, progress=progress))
    return SubjectDemo(*runs)
