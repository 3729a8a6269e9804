"""Three metrics, each with a model and frames of its own, over videos: one decoding for all, beside one for each.

The encoders cost next to nothing, so the rows are about decoding. Needs PyAV, which also makes the clips.
"""

from __future__ import annotations

from pathlib import Path

import beholder
from beholder.backends.fake import FakeEncoder
from benchmarks.table import Row, at_most, seconds
from benchmarks.video import write_clip

CLIPS, SIZE, FRAMES = 8, (1280, 720), 81
POLICIES = ("uniform:32", "stride:16", "fps:8")
ROUNDS = 3


class _Corner(FakeEncoder):
    """A fake encoder that looks at a corner only, so that decoding is what takes the time."""

    image_batch = 32

    def prepare_image(self, picture):  # type: ignore[no-untyped-def]
        from dataclasses import replace

        return super().prepare_image(replace(picture, pixels=picture.pixels[:16, :16], size=(16, 16)))


def measure(folder: Path) -> list[Row]:
    """A run of three metrics against three runs of one, and against the sum of three bare decodings of every clip."""
    rows = []
    for at in range(CLIPS):
        path = write_clip(folder / f"{at}.mp4", width=SIZE[0], height=SIZE[1], count=FRAMES + at)
        rows.append({"id": str(at), "output": str(path), "prompt": f"clip {at}"})
    metrics = []
    for number, policy in enumerate(POLICIES):
        beholder.register_encoder(f"corner-{number}", _Corner(f"corner-{number}", dim=16, seed=number))
        metrics.append(f"clip_score(model=corner-{number}, frames={policy}, as=m{number})")
    together, apart, bare = [], [], []
    for turn in range(ROUNDS):
        together.append(seconds(lambda turn=turn: _run(rows, metrics, folder / f"together{turn}")))
        apart.append(
            seconds(
                lambda turn=turn: [
                    _run(rows, [metric], folder / f"apart{turn}-{at}") for at, metric in enumerate(metrics)
                ]
            )
        )
        bare.append(seconds(lambda: _decode(rows)))
    what = f"three metrics on {CLIPS} clips of {SIZE[0]} × {SIZE[1]}, each with its own model and frames"
    return [
        at_most(f"{what}, against three runs of one metric", min(together), min(apart), 0.7),
        at_most(f"{what}, against three bare decodings", min(together), 3 * min(bare), 1.0),
    ]


def _run(rows: list[dict[str, str]], metrics: list[str], out: Path) -> None:
    beholder.evaluate(rows, metrics=metrics, out=str(out), store=str(out) + "-store", max_failed=1.0)


def _decode(rows: list[dict[str, str]]) -> None:
    import av

    for row in rows:
        with av.open(row["output"]) as container:
            for frame in container.decode(video=0):
                frame.to_ndarray(format="rgb24")
