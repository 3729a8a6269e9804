"""Video files through whole runs: exact frames, what the record says, broken files, sound alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beholder

av = pytest.importorskip("av", reason="PyAV is not installed (base environment)")


def write_clip(path: Path, count: int, *, size: tuple[int, int] = (96, 64), seed: int = 0) -> Path:
    """An H.264 clip whose frames all differ: a bar that moves over blocks of colour."""
    generator = np.random.default_rng(seed)
    ground = np.kron(generator.integers(0, 256, (size[1] // 16, size[0] // 16, 3)), np.ones((16, 16, 1))).astype(
        np.uint8
    )
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = size[0], size[1], "yuv420p"
        for at in range(count):
            frame = ground.copy()
            frame[:, 4 * at % size[0] : 4 * at % size[0] + 8] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return path


def sequential(path: Path) -> list[np.ndarray]:
    """All frames, decoded one after another."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_f6_the_frames_of_a_run_are_those_of_sequential_decoding(tmp_path: Path, scored: Any) -> None:
    clip = write_clip(tmp_path / "clip.mp4", 17)
    frames = sequential(clip)
    assert len(frames) == 17
    (row,) = scored([{"output": str(clip), "prompt": "a"}], "clip_score(frames=uniform:5)")
    record = json.loads(row["clip_score_evidence"])["frames"]
    assert record["indices"] == [0, 4, 8, 12, 16]
    assert record["frame_count"] == 17
    assert record["codec"] == "h264"
    each = [float(beholder.score("clip_score", images=frames[at], texts="a", model="fake")) for at in record["indices"]]
    assert len(set(each)) == 5
    # Pixels must be equal for the fake encoder to agree: it takes a checksum over them.
    assert row["clip_score"] == pytest.approx(np.mean(each), abs=1e-6)


@pytest.mark.parametrize(("policy", "indices"), [("fps:5", [0, 2, 4, 6]), ("first", [0]), ("all", list(range(7)))])
def test_policies_stand_in_the_record(tmp_path: Path, scored: Any, policy: str, indices: list[int]) -> None:
    clip = write_clip(tmp_path / "clip.mp4", 7)
    (row,) = scored([{"output": str(clip), "prompt": "a"}], f"clip_score(frames={policy})")
    record = json.loads(row["clip_score_evidence"])["frames"]
    assert (record["policy"], record["indices"]) == (policy, indices)


def test_every_metric_of_pictures_takes_videos_and_the_table_holds_both(tmp_path: Path, scored: Any) -> None:
    clip = write_clip(tmp_path / "clip.mp4", 3)
    still = tmp_path / "still.png"
    Image.fromarray(sequential(clip)[0]).save(still)
    rows = [
        {"id": "video", "output": str(clip), "prompt": "a", "references": [str(still)]},
        {"id": "still", "output": str(still), "prompt": "a", "references": [str(still)]},
    ]
    metrics = [
        "clip_score",
        "clip_t",
        "clip_i",
        "pick_score(model=fake)",
        "itm_score(model=fake)",
        "vqa_score(model=fake)",
    ]
    found = scored(rows, metrics)
    for row in found:
        assert all(value == "ok" for name, value in row.items() if name.endswith("_status")), row
    assert found[1]["clip_i"] == pytest.approx(1.0, abs=1e-6)


def test_broken_videos_cost_their_rows(tmp_path: Path, scored: Any) -> None:
    good = write_clip(tmp_path / "good.mp4", 5)
    half = tmp_path / "half.mp4"
    half.write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    (tmp_path / "empty.mp4").write_bytes(b"")
    (tmp_path / "text.mp4").write_text("no video")
    with av.open(str(tmp_path / "sound.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=16_000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.rate = 16_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    (tmp_path / "nothing").mkdir()
    names = ["good.mp4", "half.mp4", "empty.mp4", "text.mp4", "sound.mp4", "none.mp4", "nothing"]
    rows = [{"id": name, "output": str(tmp_path / name), "prompt": "a"} for name in names]
    found = scored(rows, max_failed=1.0)
    statuses = {row["id"]: row["clip_score_status"] for row in found}
    assert statuses == {
        "good.mp4": "ok", "half.mp4": "unreadable", "empty.mp4": "unreadable", "text.mp4": "unreadable",
        "sound.mp4": "unreadable", "none.mp4": "missing", "nothing": "unreadable",
    }  # fmt: skip
    assert all(row["clip_score"] is None for row in found[1:])


def test_a_video_named_like_a_picture_says_what_it_is(tmp_path: Path, scored: Any) -> None:
    clip = write_clip(tmp_path / "clip.mp4", 2)
    named = tmp_path / "clip.png"
    named.write_bytes(clip.read_bytes())
    (row,) = scored([{"output": str(named), "prompt": "a"}], max_failed=1.0)
    assert row["clip_score_status"] == "unreadable"


def test_videos_in_memory_and_behind_urls(tmp_path: Path, scored: Any) -> None:
    clip = write_clip(tmp_path / "clip.mp4", 4)
    rows: list[dict[str, Any]] = [
        {"id": "path", "output": str(clip), "prompt": "a"},
        {"id": "bytes", "output": clip.read_bytes(), "prompt": "a"},
        {"id": "cell", "output": {"bytes": clip.read_bytes(), "path": "clip.mp4"}, "prompt": "a"},
        {"id": "url", "output": f"file://{clip}", "prompt": "a"},
    ]
    values = [row["clip_score"] for row in scored(rows)]
    assert None not in values
    assert len(set(values)) == 1
