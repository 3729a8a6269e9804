"""Runs with API models from end to end: replies are kept, what was not asked is asked later, money is limited."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.backends.api_metric import SaysYes, write_pictures
from tests.backends.api_server import Answer, ApiServer, Call, chat, logs, openai_error

import beholder
from beholder._errors import ModelError, OptionError


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-run-0123456789")


def script(call: Call, number: int) -> Answer:
    """P(yes) by the number of the thing that is asked for."""
    at = int(call.text.split("thing ")[1].split('"')[0])
    return Answer(chat(logs(("Yes", 0.1 + 0.05 * at), ("No", 0.05))))


def run(tmp_path: Path, server: ApiServer, count: int = 8, **settings: Any) -> beholder.Run:
    return beholder.evaluate(
        str(write_pictures(tmp_path, count)),
        metrics=[SaysYes()],
        out=str(tmp_path / "out"),
        store=str(tmp_path / "store"),
        base_url=server.url,
        **settings,
    )


def test_replies_are_kept(tmp_path: Path) -> None:
    with ApiServer(script) as server:
        first = run(tmp_path, server)
        assert first.scores.column("says_yes").to_pylist() == pytest.approx([0.1 + 0.05 * at for at in range(8)])
        evidence = json.loads(first.scores.column("says_yes_evidence").to_pylist()[3])
        assert evidence == {"model": "gpt-4o-2024-08-06", "rest": pytest.approx(0.7)}
        assert len(server.calls) == 8
        again = beholder.evaluate(
            str(tmp_path / "samples.jsonl"), metrics=[SaysYes()], out=str(tmp_path / "other"),
            store=str(tmp_path / "store"), base_url=server.url,
        )  # fmt: skip
        assert len(server.calls) == 8  # a new run folder, no new call
    assert again.scores.column("says_yes").to_pylist() == first.scores.column("says_yes").to_pylist()


def test_replies_are_on_disk_before_the_next_ones_are_asked_for(tmp_path: Path) -> None:
    there: list[int] = []

    def watch(call: Call, number: int) -> Answer:
        there.append(len(list((tmp_path / "store").rglob("*.safetensors"))))
        return script(call, number)

    with ApiServer(watch) as server:
        run(tmp_path, server, count=13, concurrency=1)
    # Two are asked about together: a process that is killed loses the replies of one such batch at most.
    assert there == [at // 2 for at in range(13)]


def test_a_budget_stops_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    with ApiServer(script) as server:
        first = run(tmp_path, server, max_calls=3)
        statuses = first.scores.column("says_yes_status").to_pylist()
        assert sorted(statuses) == ["failed"] * 5 + ["ok"] * 3
        assert first.exit_code == 3
        reasons = [text for text in first.scores.column("says_yes_reason").to_pylist() if text]
        assert all("not asked: the budget max_calls=3 is reached" in text for text in reasons)
        second = run(tmp_path, server, max_calls=5)
        assert len(server.calls) == 8
        assert len({call.text for call in server.calls}) == 8  # nothing was asked twice
    assert second.scores.column("says_yes_status").to_pylist() == ["ok"] * 8
    assert second.exit_code == 0


def test_max_cost_in_a_run(tmp_path: Path) -> None:
    with ApiServer(script) as server:
        prices = {"m": {"input": 1000.0, "per_call": 0.5}}  # 100 tokens and a call: 0.6; guessed at 1.5
        found = run(tmp_path, server, max_cost=3.0, prices=prices, concurrency=1)
        asked = len(server.calls)
        assert asked == found.scores.column("says_yes_status").to_pylist().count("ok")
        assert 0.6 * asked <= 3.0
        assert asked >= 3
        with pytest.raises(OptionError, match="no price for 'm'"):
            run(tmp_path, server, max_cost=3.0)
        with pytest.raises(OptionError, match="got inputs"):
            run(tmp_path, server, max_cost=3.0, prices={"m": {"inputs": 1.0}})


def test_failures_of_the_transport_are_not_kept(tmp_path: Path) -> None:
    down = [True]

    def flaky(call: Call, number: int) -> Answer:
        broken = down[0] and ("thing 2" in call.text or "thing 5" in call.text)
        return Answer(openai_error("bad moment"), status=400) if broken else script(call, number)

    with ApiServer(flaky) as server:
        first = run(tmp_path, server)
        assert [at for at, text in enumerate(first.scores.column("says_yes_status").to_pylist()) if text != "ok"] == [
            2,
            5,
        ]
        down[0] = False
        second = run(tmp_path, server)
        assert len(server.calls) == 10
    assert second.scores.column("says_yes_status").to_pylist() == ["ok"] * 8


def test_a_wrong_key_is_one_error_and_one_call(tmp_path: Path) -> None:
    with ApiServer(lambda call, number: Answer(openai_error("Incorrect API key"), status=401)) as server:
        with pytest.raises(ModelError, match=r"HTTP 401: Incorrect API key.*OPENAI_API_KEY"):
            run(tmp_path, server)
        assert len(server.calls) == 1


def test_vqa_score_with_an_api_model_has_bounds(tmp_path: Path) -> None:
    with ApiServer(script) as server:
        found = beholder.evaluate(
            str(write_pictures(tmp_path, 3)), metrics=["vqa_score(model=api:openai/m)"], out=str(tmp_path / "out"),
            store=str(tmp_path / "store"), base_url=server.url,
        )  # fmt: skip
        texts = {call.text for call in server.calls}
    assert texts == {f'Does this image show "thing {at}"?' for at in range(3)}
    assert found.scores.column("vqa_score").to_pylist() == pytest.approx([0.1, 0.15, 0.2])
    evidence = json.loads(found.scores.column("vqa_score_evidence").to_pylist()[2])
    assert evidence["bounds"] == pytest.approx([0.2, 0.95])


def test_the_frames_of_a_video_are_one_request(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (16, 16), (at * 40, 0, 0)) for at in range(6)]
    frames[0].save(tmp_path / "clip.gif", save_all=True, append_images=frames[1:], duration=100)
    data = tmp_path / "clips.jsonl"
    data.write_text('{"output": "clip.gif", "prompt": "thing 4"}\n', encoding="utf-8")
    with ApiServer(script) as server:
        found = beholder.evaluate(
            str(data), metrics=["vqa_score(model=api:openai/m, frames=uniform:4)"], out=str(tmp_path / "out"),
            store=str(tmp_path / "store"), base_url=server.url,
        )  # fmt: skip
        (call,) = server.calls
    parts = call.body["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["image_url"] * 4 + ["text"]
    assert found.scores.column("vqa_score").to_pylist() == pytest.approx([0.3])


def test_a_dry_run_asks_nothing(tmp_path: Path) -> None:
    from beholder.runs.config import make_config
    from beholder.runs.dry_run import dry_run

    with ApiServer(script) as server:
        asked = {"data": str(write_pictures(tmp_path, 2)), "metrics": ["vqa_score(model=api:openai/m)"]}
        found = dry_run(make_config({**asked, "base_url": server.url, "store": str(tmp_path / "store")}))
        assert server.calls == []
    assert "model api:openai/m: asked over HTTP, where each request may cost money" in found.lines()
    assert [(item.needed, item.stored) for item in found.work] == [(2, 0)]


def test_the_command_line_takes_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder.cli.settings import gather

    data = str(write_pictures(tmp_path, 1))
    given = {
        "data": data, "metrics": ["clip_score"], "base_url": "http://localhost:8000/v1", "max_calls": "7",
        "max_cost": "2.5", "requests_per_minute": "30", "concurrency": "2",
    }  # fmt: skip
    options = gather(given).config.api_options()
    assert (options.max_calls, options.max_cost, options.requests_per_minute, options.concurrency) == (7, 2.5, 30.0, 2)
    assert options.url_for("openai") == "http://localhost:8000/v1"
    config = tmp_path / "eval.toml"
    config.write_text('data = "samples.jsonl"\nmetrics = ["clip_score"]\n[prices.m]\ninput = 2.5\noutput = 10.0\n')
    prices = gather({"data": str(config)}).config.api_options().prices
    assert prices is not None
    assert prices["m"].of(1000, 100) == pytest.approx(0.0035)


def test_requests_for_several_videos_are_under_way_together(tmp_path: Path) -> None:
    rows = []
    for at in range(9):
        frames = [Image.new("RGB", (16, 16), (at * 20, k * 40, 0)) for k in range(3)]
        frames[0].save(tmp_path / f"{at}.gif", save_all=True, append_images=frames[1:], duration=100)
        rows.append({"id": f"{at}", "output": str(tmp_path / f"{at}.gif")})
    lock, waiting, most = threading.Lock(), 0, 0

    def judged(call: Call, number: int) -> Answer:
        nonlocal waiting, most
        with lock:
            waiting += 1
            most = max(most, waiting)
        time.sleep(0.2)
        with lock:
            waiting -= 1
        return Answer(chat(text="4"))

    with ApiServer(judged) as server:
        found = beholder.evaluate(
            rows, metrics=["natural_score(model=api:openai/m,runs=1)"], out=str(tmp_path / "out"),
            store=str(tmp_path / "store"), base_url=server.url, concurrency=4,
        )  # fmt: skip
        assert len(server.calls) == 9
    assert most == 4, "as many as may be, and not one video after another"
    assert found.scores.column("natural_score").to_pylist() == [4.0] * 9
