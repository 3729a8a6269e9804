"""Runs on a Ray cluster of several nodes (all on this machine): nodes that come or go change no number."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.runs.helpers import write_set
from tests.runs.ray_encoders import TellingEncoder, WaitingEncoder

import beholder

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
try:
    from ray.cluster_utils import Cluster
except ImportError:
    Cluster = None  # type: ignore[assignment, misc]

pytestmark = [
    pytest.mark.skipif(Cluster is None, reason="ray is not installed (base environment)"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
NODE = {"num_cpus": 1, "object_store_memory": 100_000_000}


@pytest.fixture
def cluster() -> Iterator[Any]:
    # A dead node is noticed within a second or two, not after the default twenty.
    quick = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
    head = {**NODE, "include_dashboard": False, "_system_config": quick}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    made.shutdown()


def until(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.05)


@pytest.mark.slow
def test_nodes_that_join_are_used_and_one_that_is_killed_loses_nothing(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beholder.runs.ray.ROWS", 8)
    data, told = write_set(tmp_path, 120), tmp_path / "told"
    settings: dict[str, Any] = {"metrics": ["clip_score", "clip_i"], "model": "telling"}
    beholder.register_encoder("telling", TellingEncoder(tmp_path / "quiet"))
    local = beholder.evaluate(str(data), **settings, out=str(tmp_path / "local"), store=str(tmp_path / "s1"))
    (told / "named").mkdir(parents=True)
    second = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    for node in (cluster.head_node, second):
        (told / "named" / node.node_id).touch()
    beholder.register_encoder("telling", WaitingEncoder(told))
    settings |= {"out": str(tmp_path / "ray"), "store": str(tmp_path / "s2"), "engine": "ray"}

    def seen() -> set[str]:
        return {path.name.split("-")[1] for path in told.glob("node-*")}

    with ThreadPoolExecutor(1) as pool:  # nodes can be started by the main thread only
        run = pool.submit(beholder.evaluate, str(data), **settings, ray_address=cluster.address)
        try:
            until(lambda: bool(seen()) or run.done())
            late = cluster.add_node(**NODE)
            until(lambda: {late.node_id, second.node_id} <= seen() or run.done())
            cluster.remove_node(second, allow_graceful=False)
        finally:
            (told / "go").touch()
        spread = run.result()
    assert {second.node_id, late.node_id} <= seen()
    assert spread.scores.equals(local.scores)
    assert spread.summary == local.summary
    assert len(set(spread.scores.column("id").to_pylist())) == 120
    # The models ran on the cluster: this process loaded none.
    assert all(model["ran"]["device"] is None for model in spread.header["models"].values())
