"""Pixels that several models look at are decoded once, within a number of bytes, and no number changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.media.video_inputs import clip, needs_av
from tests.metrics.test_natural_score import Judge
from tests.metrics.test_nexus_score import RED, Colours, MeanColour
from tests.runs.helpers import counting, write_set
from tests.runs.test_visuals import frames_folder

import beholder
from beholder._errors import MediaError
from beholder.backends.fake import FakeEncoder
from beholder.demo.stand_ins import HEAD, register_stand_ins
from beholder.media import video
from beholder.media.base import DecodeOptions
from beholder.media.files import LocalFile
from beholder.runs import shared_pixels, windows
from beholder.runs.shared_pixels import SharedPixels, Use

METRICS = (
    "gme_score(model=mean-colour)",
    "nexus_score(detector=colours,model=mean-colour)",
    f"laion_aesthetic(model={HEAD},encoder=counting,frames=uniform:5)",
    "temporal_flickering",
    "motion_smoothness(model=sharpness)",
    "natural_score(model=judge)",
    "clip_score(model=other,frames=first)",
)


@pytest.fixture(autouse=True)
def _models() -> None:
    counting()
    counting("other", seed=5)
    Colours()
    MeanColour()
    Judge(["4", "4", "5"])
    register_stand_ins()


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each still file was decoded, a frame of a folder like any other."""
    counts: Counter[str] = Counter()
    plain = LocalFile.decode

    def decode(self: LocalFile, options: DecodeOptions, data: bytes | None = None) -> Any:
        counts[self.name] += 1
        return plain(self, options, data)

    monkeypatch.setattr(LocalFile, "decode", decode)
    return counts


def subject_clip(path: Path, frames: int) -> Path:
    """Frames in which a red square moves over noise."""
    frames_folder(path, frames)
    for at in range(frames):
        pixels = np.array(Image.open(path / f"{at}.png"))
        pixels[2:8, at % 8 : at % 8 + 5] = RED
        pixels[-1, -1] = (90, 0, 0)
        Image.fromarray(pixels).save(path / f"{at}.png")
    return path


def rows_for(tmp_path: Path, counts: tuple[int, ...]) -> list[dict[str, Any]]:
    for at in range(len(counts)):
        Image.new("RGB", (6, 6 + at), RED).save(tmp_path / f"red{at}.png")
    return [
        {"id": f"singleobj_{at}", "output": str(subject_clip(tmp_path / f"clip{at}", count)), "prompt": f"a cup {at}",
         "references": [str(tmp_path / f"red{at}.png")], "seg_prompt": ["Cup"]}
        for at, count in enumerate(counts)
    ]  # fmt: skip


def scored(rows: Any, tmp_path: Path, metrics: Any, name: str, **settings: Any) -> list[dict[str, Any]]:
    run = beholder.evaluate(
        rows, metrics=metrics, out=str(tmp_path / name), store=str(tmp_path / f"{name}-store"), max_failed=1.0,
        **settings,
    )  # fmt: skip
    found: list[dict[str, Any]] = run.scores.to_pylist()
    return found


def one_by_one(rows: Any, tmp_path: Path, metrics: Any = METRICS, **settings: Any) -> list[dict[str, Any]]:
    """The same with a run a metric, each with a store of its own."""
    found: list[dict[str, Any]] = [{} for _ in rows] if isinstance(rows, list) else []
    for at, metric in enumerate(metrics):
        alone = scored(rows, tmp_path, metric, f"alone{at}", **settings)
        found = found or [{} for _ in alone]
        for row, more in zip(found, alone, strict=True):
            row.update(more)
    return found


def test_frames_of_a_video_are_decoded_once_for_seven_metrics(tmp_path: Path, decodes: Counter[str]) -> None:
    rows = rows_for(tmp_path, (40, 3, 1, 33, 7, 20))
    together = scored(rows, tmp_path, METRICS, "together")
    assert set(decodes.values()) == {1}, "each frame of each clip, and each reference"
    assert len(decodes) == 40 + 3 + 1 + 33 + 7 + 20 + 6
    decodes.clear()
    alone = one_by_one(rows, tmp_path)
    assert together == alone, "to the bit, with evidence and statuses"
    assert decodes[str(tmp_path / "clip0" / "0.png")] > 5
    assert [row["temporal_flickering_status"] for row in together][2] == "too_short"
    assert all(row["nexus_score_status"] == "ok" for row in together)


def test_a_source_that_is_read_once_and_a_quick_look_decode_once_too(tmp_path: Path, decodes: Counter[str]) -> None:
    rows = rows_for(tmp_path, (9, 4))
    scored((row for row in rows), tmp_path, METRICS, "stream")
    assert set(decodes.values()) == {1}


@needs_av
def test_a_file_is_opened_and_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder.media import pyav

    opened: Counter[str] = Counter()
    pictures: Counter[tuple[str, int]] = Counter()
    plain_open, plain_take = pyav._Opened.__init__, pyav._FileReader.take

    def counted_open(self: Any, source: Any) -> None:
        opened[source.name] += 1
        plain_open(self, source)

    def counted_take(self: Any) -> Any:
        pictures[self._source.name, self.position] += 1
        return plain_take(self)

    monkeypatch.setattr(pyav._Opened, "__init__", counted_open)
    monkeypatch.setattr(pyav._FileReader, "take", counted_take)
    rows = []
    for at in range(3):
        path = tmp_path / f"{at}.mp4"
        clip(count=40 + at, gop=8, path=path)
        rows.append({"id": f"singleobj_{at}", "output": str(path), "prompt": "a cup"})
    metrics = [metric for metric in METRICS if not metric.startswith("nexus")]
    together = scored(rows, tmp_path, metrics, "together")
    assert set(opened.values()) == {1}
    assert set(pictures.values()) == {1}
    assert len(pictures) == 40 + 41 + 42
    assert together == one_by_one(rows, tmp_path, metrics)


def test_pictures_are_decoded_once_for_several_models(tmp_path: Path, decodes: Counter[str]) -> None:
    metrics = ("clip_score(model=counting)", "clip_i(model=other)", f"laion_aesthetic(model={HEAD},encoder=counting)")
    path = write_set(tmp_path, 23)
    together = scored(str(path), tmp_path, metrics, "together")
    assert set(decodes.values()) == {1}
    assert len(decodes) == 23 + 6
    decodes.clear()
    assert together == one_by_one(str(path), tmp_path, metrics)
    assert sum(decodes.values()) >= 23 + 29 + 23, "a run of one model looks at its first picture before it loads it"


def test_over_the_budget_frames_are_decoded_again_and_nothing_else_changes(
    tmp_path: Path, decodes: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_for(tmp_path, (40, 12, 30, 8, 9, 10, 11))
    whole = scored(rows, tmp_path, METRICS, "whole")
    decodes.clear()
    frame = 12 * 16 * 3
    seen: list[int] = []
    plain = SharedPixels.forget

    def forget(self: SharedPixels) -> None:
        seen.append(self.peak)
        plain(self)

    monkeypatch.setattr(SharedPixels, "forget", forget)
    for name, most in (("some", 20 * frame), ("none", 0)):
        monkeypatch.setattr(shared_pixels, "SHARED_BYTES", most)
        seen.clear()
        assert scored(rows, tmp_path, METRICS, name) == whole
        assert max(seen) <= most
        assert max(decodes.values()) > 1
        decodes.clear()


def test_windows_follow_what_the_last_one_took() -> None:
    pixels = SharedPixels(DecodeOptions(), most=100)
    pixels.peak, pixels.refused = 40, 0
    assert windows._next_size(4, pixels, video=True) == 10
    pixels.refused = 160
    assert windows._next_size(4, pixels, video=True) == 2
    pixels.peak = pixels.refused = 0
    assert windows._next_size(4, pixels, video=True) == 16
    pixels.peak = 50
    assert windows._next_size(256, pixels, video=False) == 512
    pixels.peak = 99
    assert windows._next_size(256, pixels, video=False) == 256
    pixels.peak = 1000
    assert windows._next_size(4, pixels, video=True) == 1, "a window has one at least"


def test_windows_hold_every_item_once(tmp_path: Path) -> None:
    media = [LocalFile(str(tmp_path / f"{at}.png"), str(at)) for at in range(700)]
    todo = {
        "one": {f"{at}".encode(): medium for at, medium in enumerate(media)},
        "other": {f"{at}".encode(): medium for at, medium in enumerate(media) if at % 2},
        "texts": {b"a": "a text"},
    }
    assert windows.shared(todo)
    assert not windows.shared({"one": todo["one"], "texts": todo["texts"]})
    parts = list(windows.windows(todo, SharedPixels(DecodeOptions())))
    assert [list(part) for part in parts] == [["texts"], ["one", "other"], ["one", "other"]]
    for space, items in todo.items():
        assert {key: item for part in parts for key, item in part.get(space, {}).items()} == items
        assert sum(len(part.get(space, {})) for part in parts) == len(items)


@pytest.mark.parametrize("first", ["clip_score(model=other,frames=uniform:2)", "temporal_flickering"])
def test_a_frame_that_does_not_decode_costs_those_who_look_at_it(tmp_path: Path, first: str) -> None:
    rows = rows_for(tmp_path, (9, 9))
    (tmp_path / "clip0" / "4.png").write_bytes(b"no picture")
    metrics = {"clip_score(model=other,frames=uniform:2)", "temporal_flickering"}
    bad, good = scored(rows, tmp_path, [first, *sorted(metrics - {first})], "run")
    assert (bad["clip_score_status"], bad["temporal_flickering_status"]) == ("ok", "unreadable")
    assert (good["clip_score_status"], good["temporal_flickering_status"]) == ("ok", "ok")


def test_looks_share_one_pass_and_let_go(tmp_path: Path, decodes: Counter[str]) -> None:
    medium = LocalFile(str(subject_clip(tmp_path / "clip", 10)), "clip")
    pixels = SharedPixels(DecodeOptions())
    pixels.expect([Use(medium, "first"), Use(medium, "uniform:4"), Use(medium, "all")])
    found = {}
    for policy in ("first", "uniform:4", "all"):
        with pixels.video(medium, policy) as view:
            record = video.choose_frames(view, policy)
            found[policy] = [picture.pixels for picture in view.frames(record.indices)]
    assert set(decodes.values()) == {1}
    assert [len(frames) for frames in found.values()] == [1, 4, 10]
    for at, frame in enumerate(found["all"]):
        np.testing.assert_array_equal(frame, np.asarray(Image.open(tmp_path / "clip" / f"{at}.png")))
    for at, frame in zip((0, 3, 6, 9), found["uniform:4"], strict=True):
        np.testing.assert_array_equal(frame, found["all"][at])
    assert pixels.peak == 10 * 12 * 16 * 3
    assert pixels._held == 0
    with pixels.video(medium, "all") as view:  # nobody said so: decoded again
        assert sum(1 for _ in view.frames([3, 3, 1])) == 3
    assert pixels._held == 0


def test_a_look_that_ends_early_leaves_nothing_behind(tmp_path: Path) -> None:
    medium = LocalFile(str(subject_clip(tmp_path / "clip", 10)), "clip")
    pixels = SharedPixels(DecodeOptions())
    pixels.expect([Use(medium, "all"), Use(medium, "uniform:4")])
    with pixels.video(medium, "all") as view:
        next(iter(view.frames(video.choose_frames(view, "all").indices)))
    assert pixels._held == 12 * 16 * 3, "frame 0, which the other look wants; nothing is set aside any longer"
    with pixels.video(medium, "uniform:4") as view:
        assert sum(1 for _ in view.frames([0, 3, 6, 9])) == 4
    assert pixels._held == 0


def test_big_models_do_not_stand_in_memory_together(tmp_path: Path) -> None:
    from dataclasses import replace

    from beholder.runs.config import make_config
    from beholder.runs.passes import passes
    from beholder.runs.plan import make_plan

    config = make_config({"metrics": list(METRICS)})
    plan = make_plan(config)
    sizes = {"counting": 30, "other": 4, "mean-colour": 6, "colours": 5}
    models = {
        key: replace(model, location="w", card=replace(model.card, size_bytes=sizes[model.id]))
        if model.id in sizes else model
        for key, model in plan.models.items()
    }  # fmt: skip
    plan = replace(plan, models=models)

    def grouped(memory: int) -> list[set[str]]:
        return [{model.id for model in group if model.id in sizes} for group in passes(plan, lambda: memory)]

    assert grouped(100) == [{"counting", "other", "mean-colour", "colours"}]
    small = grouped(30)
    assert {"counting"} in small, "larger than half of the memory: alone"
    assert sum(len(group) for group in small) == 4
    assert all(len(group) == 1 or sum(sizes[name] for name in group) <= 15 for group in small)
    assert len(grouped(1)) == 4
    everything = [model.key for group in passes(plan, lambda: 1) for model in group]
    assert sorted(everything) == sorted(models)


def test_an_unknown_model_size_is_that_of_its_files(tmp_path: Path) -> None:
    from dataclasses import replace

    from beholder.runs.passes import weight_bytes

    (tmp_path / "w.bin").write_bytes(b"x" * 70)
    model = FakeEncoder("fake", dim=4).model
    assert weight_bytes(model) == 0
    unknown = replace(model, location=str(tmp_path), card=replace(model.card, size_bytes=None))
    assert weight_bytes(unknown) == 70
    assert weight_bytes(replace(unknown, location=str(tmp_path / "gone"))) == float("inf")
    assert weight_bytes(replace(unknown, location=str(tmp_path / "w.bin"))) == 70


def test_a_probe_decodes_for_those_who_come_and_counts_for_none(tmp_path: Path, decodes: Counter[str]) -> None:
    medium = LocalFile(str(subject_clip(tmp_path / "clip", 6)), "clip")
    still = LocalFile(str(tmp_path / "clip" / "0.png"), "still")
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    pixels = SharedPixels(DecodeOptions())
    pixels.expect([Use(medium, "uniform:3"), Use(medium, "first"), Use(still)])
    for _ in range(2):
        pixels.probe(medium, "uniform:3")
        pixels.probe(still)
    assert set(decodes.values()) == {1}
    assert pixels._held == (3 + 1) * 12 * 16 * 3
    with pixels.video(medium, "uniform:3") as view:
        assert sum(1 for _ in view.frames(video.choose_frames(view, "uniform:3").indices)) == 3
    with pixels.video(medium, "first") as view:
        assert sum(1 for _ in view.frames([0])) == 1
    pixels.picture(still)
    assert set(decodes.values()) == {1}
    assert pixels._held == 0
    pixels.probe(medium, "all")  # announced by nobody: one frame, and nothing is kept
    assert pixels._held == 0
    with pytest.raises(MediaError):
        pixels.probe(LocalFile(str(broken), "broken"))
