"""The demo: three generators of known quality come out in the right order, further apart than their intervals."""

from __future__ import annotations

from pathlib import Path

import pytest

import beholder
from beholder.demo.build import run_demo
from beholder.records import Summary


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> beholder.Run:
    """The demo of seed 0, as `make demo` makes it."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BEHOLDER_CACHE", str(folder / "cache"))
        return run_demo(str(folder / "demo"))


def by_method(run: beholder.Run, label: str) -> dict[str, Summary]:
    rows = [row for row in run.summary if row.label == label and row.headline and set(row.group) == {"method"}]
    return {row.group["method"]: row for row in rows}


def test_the_summary_ranks_the_generators_outside_their_intervals(demo_run: beholder.Run) -> None:
    rows = by_method(demo_run, "clip_score")
    faithful, swapper, noisy = rows["faithful"], rows["swapper"], rows["noisy"]
    assert faithful.low is not None
    assert swapper.low is not None
    assert faithful.low > (swapper.high or 0)
    assert swapper.low > (noisy.high or 0)


def test_a_subjects_likeness_ranks_them_too(demo_run: beholder.Run) -> None:
    # The swapper leaves the subject as it is in most of its scenes, so its interval may meet the faithful one's.
    rows = by_method(demo_run, "clip_i")
    values = [rows[name].value for name in ("faithful", "swapper", "noisy")]
    assert None not in values
    assert values == sorted(values, key=lambda value: -(value or 0))
    assert (rows["swapper"].low or 0) > (rows["noisy"].high or 0)


def test_every_scene_is_scored(demo_run: beholder.Run) -> None:
    assert demo_run.n == 240
    assert demo_run.n_faults == 0
    assert demo_run.exit_code == 0
    assert all(row.n == 80 for row in by_method(demo_run, "clip_score").values())


def test_the_encoder_names_itself(demo_run: beholder.Run) -> None:
    (model,) = demo_run.header["models"].values()
    assert model["id"] == "demo:emoji"
    assert len(model["weights_sha256"]) == 64


def test_the_data_set_is_a_manifest_like_any_other(demo_run: beholder.Run, tmp_path: Path) -> None:
    manifest = demo_run.path.parent / "manifest.jsonl"
    run = beholder.evaluate(
        str(manifest),
        metrics="clip_t",
        model="demo:emoji",
        by="category",
        out=str(tmp_path / "o"),
        store=str(tmp_path / "s"),
    )
    assert run.n == 240
    assert run.scores.column("clip_t").to_pylist() == pytest.approx(
        demo_run.scores.column("clip_score").to_pylist(), abs=1e-6
    )
