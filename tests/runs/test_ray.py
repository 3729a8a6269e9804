"""Runs on Ray, on one machine: rows equal to a local run and to shards; deaths and bad rows cost what they must."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runs.helpers import write_set
from tests.runs.ray_encoders import DeadlyEncoder, DyingEncoder, TellingEncoder

import beholder
from beholder._errors import MissingExtraError, NoValue, UserError
from beholder.backends.pool import load_model, resolve_model
from beholder.backends.preparing import image_preparer
from beholder.media.base import DecodeOptions
from beholder.media.files import LocalFile
from beholder.media.remote import RemoteFile
from beholder.metrics.base import Joined
from beholder.records import Status
from beholder.runs import item_codec
from beholder.runs.looking import DerivedItem, VideoItem
from beholder.runs.ray import _cluster, _numbers
from beholder.runs.results import open_run_folder
from beholder.runs.several import PairItem

try:
    import ray
except ImportError:
    ray = None  # type: ignore[assignment]

# Ray warns of itself: its own defaults are deprecated.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
needs_ray = pytest.mark.skipif(ray is None, reason="ray is not installed (base environment)")
METRICS = ["clip_score", "clip_i", "pick_score(model=fake, output=probability)"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One Ray for all tests of this module; runs find it and leave it alone."""
    ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


def evaluate(tmp_path: Path, data: Any, name: str, **more: Any) -> beholder.Run:
    settings = {"metrics": METRICS, "model": "fake", "out": str(tmp_path / name), "store": str(tmp_path / f"s-{name}")}
    return beholder.evaluate(str(data) if isinstance(data, Path) else data, **settings | more)


@needs_ray
@pytest.mark.slow
def test_local_ray_and_three_shards_are_equal_row_by_row(
    tmp_path: Path, cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beholder.runs.ray.FEW_FILES", 1)
    data = write_set(tmp_path, 100, r7={"prompt": ""}, r40={"output": "img/none.png"})
    (tmp_path / "img" / "55.png").write_bytes(b"no picture")  # 1 in 100 is corrupt
    local = evaluate(tmp_path, data, "local")
    spread = evaluate(tmp_path, data, "ray", engine="ray")
    for index in range(3):
        evaluate(tmp_path, data, "shards", shard=f"{index}/3")
    joined = beholder.merge(tmp_path / "shards")
    assert spread.scores.equals(local.scores)
    assert joined.scores.equals(local.scores)
    assert spread.summary == local.summary == joined.summary
    bad = [row["id"] for row in local.scores.to_pylist() if row["clip_i_status"] != "ok"]
    assert len(bad) == 2  # the corrupt row and the missing one
    assert not (tmp_path / "ray" / "ray").exists()
    # The models ran on the cluster: this process loaded none.
    assert all(model["ran"]["device"] is None for model in spread.header["models"].values())


@needs_ray
def test_a_program_s_handler_of_sigterm_outlives_the_start_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*args: Any, **settings: Any) -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))  # as ray.init does

    def own(*args: Any) -> None: ...

    monkeypatch.setattr(ray, "init", start)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    before = signal.signal(signal.SIGTERM, own)
    try:
        with _cluster(None):
            assert signal.getsignal(signal.SIGTERM) is own
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with _cluster(None):  # a program without one is left to Ray, which then ends what it started
            assert callable(signal.getsignal(signal.SIGTERM))
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@needs_ray
@pytest.mark.slow
def test_work_and_files_to_hash_are_shared_out_in_pieces(
    tmp_path: Path, cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "files.parquet"
    pq.write_table(pa.table({"path": [f"/none/{at}" for at in range(40)]}), path, row_group_size=8)
    assert _numbers(ray, path).materialize().num_blocks() == 5  # so many actors or tasks can work at once
    monkeypatch.setattr("beholder.runs.ray.MOST_BLOCKS", 3)
    fewer = _numbers(ray, path).materialize()
    assert fewer.num_blocks() == 3
    assert [row["group"] for row in fewer.take_all()] == [0, 1, 2, 3, 4]


@needs_ray
@pytest.mark.slow
def test_an_actor_that_is_killed_loses_and_doubles_nothing(tmp_path: Path, cluster: None) -> None:
    data = write_set(tmp_path, 60)
    beholder.register_encoder("telling", TellingEncoder(tmp_path / "quiet"))
    local = evaluate(tmp_path, data, "local", metrics=["clip_score", "clip_i"], model="telling")
    beholder.register_encoder("telling", DyingEncoder(tmp_path / "told"))
    spread = evaluate(tmp_path, data, "ray", metrics=["clip_score", "clip_i"], model="telling", engine="ray")
    assert (tmp_path / "told" / "died").exists()
    assert len({path.name.partition("-")[0] for path in (tmp_path / "told").glob("*-*")}) >= 2
    assert spread.scores.equals(local.scores)
    assert len(set(spread.scores.column("id").to_pylist())) == 60


@needs_ray
@pytest.mark.slow
def test_items_that_kill_every_process_stop_the_run(
    tmp_path: Path, cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    beholder.register_encoder("deadly", DeadlyEncoder(tmp_path / "told"))
    with pytest.raises(UserError, match="died 3 times"):
        evaluate(tmp_path, write_set(tmp_path, 4), "ray", metrics="clip_i", model="deadly", engine="ray")
    assert len(list((tmp_path / "told").iterdir())) == 3


@needs_ray
@pytest.mark.slow
def test_a_cluster_that_runs_already_is_used_by_its_address(tmp_path: Path, cluster: None) -> None:
    data = write_set(tmp_path, 24)
    local = evaluate(tmp_path, data, "local", metrics="clip_score")
    words = ["run", str(data), "-m", "clip_score", "--model", "fake", "--store", str(tmp_path / "s")]
    words += ["--engine", "ray", "--ray-address", ray.get_runtime_context().gcs_address, "-o", str(tmp_path / "there")]
    # Another process: it starts no Ray of its own, and its model is loaded by the cluster's actors.
    done = subprocess.run([sys.executable, "-m", "beholder", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    spread = open_run_folder(tmp_path / "there")
    assert spread.scores.equals(local.scores)
    assert all(model["ran"]["device"] is None for model in spread.header["models"].values())


@needs_ray
@pytest.mark.slow
def test_a_second_run_asks_ray_for_what_is_new_only(tmp_path: Path, cluster: None) -> None:
    beholder.register_encoder("telling", TellingEncoder(tmp_path / "first"))
    settings: dict[str, Any] = {"metrics": "clip_i", "model": "telling", "engine": "ray", "store": str(tmp_path / "s")}
    evaluate(tmp_path, write_set(tmp_path, 24), "a", **settings)
    beholder.register_encoder("telling", TellingEncoder(tmp_path / "second"))
    longer = evaluate(tmp_path, write_set(tmp_path, 30), "b", **settings)
    assert longer.n == 30
    # Six new pictures are one batch of eight.
    assert [path.read_text() for path in (tmp_path / "second").iterdir()] == ["8"]
    beholder.register_encoder("telling", TellingEncoder(tmp_path / "third"))
    again = evaluate(tmp_path, write_set(tmp_path, 30), "b", **settings)
    assert again.scores.equals(longer.scores)
    assert not (tmp_path / "third").exists()


@needs_ray
@pytest.mark.slow
def test_pictures_in_memory_are_left_to_this_process(tmp_path: Path, cluster: None) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    rows = [{"id": str(at), "output": picture, "prompt": f"thing {at}"} for at, picture in enumerate(pixels)]
    local = evaluate(tmp_path, rows, "local", metrics="clip_score")
    spread = evaluate(tmp_path, rows, "ray", metrics="clip_score", engine="ray")
    assert spread.scores.equals(local.scores)


@needs_ray
@pytest.mark.slow
def test_what_a_model_says_of_all_its_work_stops_the_run(tmp_path: Path, cluster: None) -> None:
    with pytest.raises(UserError, match="CUDA GPU"):
        evaluate(tmp_path, write_set(tmp_path, 4), "ray", engine="ray", device="cuda", model="demo:emoji",
                 metrics="clip_score")  # fmt: skip


@needs_ray
def test_an_address_without_a_cluster_is_told(tmp_path: Path) -> None:
    if ray.is_initialized():
        ray.shutdown()
    with pytest.raises(UserError, match="cluster must be reachable"):
        evaluate(tmp_path, write_set(tmp_path, 4), "ray", engine="ray", ray_address="auto")


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"beholder\[ray\]"):
        evaluate(tmp_path, write_set(tmp_path, 4), "ray", engine="ray")


def test_items_are_read_as_they_were_written(tmp_path: Path) -> None:
    from beholder.metrics.base import Derived

    picture = LocalFile(str(tmp_path / "a.png"), "a.png", (0.0, 1.0))
    items = [
        "a text with ünïcode \ud800",
        picture,
        Joined((picture, picture)),
        PairItem(b"\x00\xff", VideoItem(picture, "uniform:8"), "a question"),
        DerivedItem(Derived(picture, "faces", picture, item_codec.read_source, (("size", 3),)), (b"k", picture, "s")),
    ]
    for item in items:
        assert item_codec.read_item(item_codec.write_item(item)) == item


def test_pixels_secrets_and_foreign_code_are_not_written() -> None:
    from beholder.metrics.base import Derived

    picture = LocalFile("/a.png", "a.png")
    for item in (
        np.zeros((2, 2, 3), np.uint8),
        RemoteFile("s3://bucket/a.png?token=1", "s3://bucket/a.png"),
        DerivedItem(Derived(picture, "faces", picture, write_set), (b"k", picture, "s")),
        object(),
    ):
        with pytest.raises(item_codec.NotWritten):
            item_codec.write_item(item)


@pytest.mark.parametrize("text", ['{"function": "os:system"}', '{"record": "subprocess:Popen", "fields": {}}',
                                  '{"record": "beholder.runs.item_codec:os.stat_result", "fields": {}}'])  # fmt: skip
def test_a_file_of_work_runs_no_code(text: str) -> None:
    with pytest.raises(ValueError, match=r"not beholder's own|is no record"):
        item_codec.read_item(text)


def test_sources_travel_with_their_texts_and_shapes() -> None:
    found = {"boxes": np.arange(8.0).reshape(2, 4), "//frames": '{"a": 1}', "count": np.int64(3)}
    back = item_codec.read_source(item_codec.write_source(found))
    assert back["boxes"].tolist() == found["boxes"].tolist()
    assert back["//frames"] == '{"a": 1}'
    assert back["count"] == 3
    lost = item_codec.read_source(item_codec.write_source(NoValue(Status.NO_FACE, "none seen")))
    assert (lost.status, lost.reason) == (Status.NO_FACE, "none seen")


@pytest.mark.parametrize("name", ["demo:emoji", "fake"])
def test_pictures_are_prepared_alike_without_the_model(tmp_path: Path, name: str) -> None:
    write_set(tmp_path, 1)
    picture = LocalFile(str(tmp_path / "img" / "0.png"), "0.png").decode(DecodeOptions())
    model = resolve_model(name)
    prepare = image_preparer(model, {})
    assert prepare is not None
    loaded = load_model(model, device="cpu")
    assert np.array_equal(prepare(picture), loaded.prepare_image(picture))
    loaded.close()
