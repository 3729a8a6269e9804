"""What goes wrong between us and a server: tries again, gives up, ends the run; rate, calls and money."""

from __future__ import annotations

import email.utils
import threading
import time as real_time
from typing import Any

import pytest
from tests.backends.api_helpers import FakeTime, ask, load
from tests.backends.api_server import Answer, ApiServer, Call, chat, gemini, gemini_error, openai_error

from beholder._errors import ModelError, OptionError
from beholder.backends.api.budget import Budget, Meter, Price
from beholder.backends.api.faults import read_fault
from beholder.backends.api.options import ApiOptions
from beholder.backends.api.pace import Pace


def failing(first: Answer, times: int = 1) -> Any:
    """Answers that many times with a fault, then well."""
    return lambda call, number: first if number <= times else Answer(chat())


LIMITED = openai_error("Rate limit reached for gpt-4o", code="rate_limit_exceeded", kind="requests")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_faults_that_may_pass_are_tried_again(status: int) -> None:
    time = FakeTime()
    with ApiServer(failing(Answer(openai_error("later"), status=status), 2)) as server:
        made = ask(load(url=server.url, time=time), ["?"])
        assert len(server.calls) == 3
    assert not made.failures
    assert len(time.slept) == 2


def test_back_off_grows_and_has_jitter() -> None:
    waits = []
    for _ in range(6):
        time = FakeTime()
        with ApiServer(lambda call, number: Answer(openai_error("down"), status=503)) as server:
            failure = ask(load(url=server.url, time=time, retries=4), ["?"]).failures[0]
            assert len(server.calls) == 5
        assert failure.status == "failed"
        assert "HTTP 503: down (after 5 tries)" in failure.reason
        waits.append(time.slept)
    for slept in waits:
        assert all(2**n <= seconds <= 2**n + 1 for n, seconds in enumerate(slept))
    assert len({tuple(slept) for slept in waits}) > 1


def test_retry_after_is_honoured_in_seconds_and_as_a_date() -> None:
    time = FakeTime(start=1_700_000_000.0)
    date = email.utils.formatdate(time.at + 90, usegmt=True)
    for header, least in (
        ({"Retry-After": "17"}, 17.0),
        ({"Retry-After": date}, 90.0),
        ({"retry-after-ms": "8500"}, 8.5),
    ):
        time = FakeTime(start=1_700_000_000.0)
        with ApiServer(failing(Answer(LIMITED, status=429, headers=header))) as server:
            assert not ask(load(url=server.url, time=time), ["?"]).failures
        assert time.slept == [pytest.approx(least)]


def test_geminis_retry_delay_is_honoured() -> None:
    body = gemini_error(
        429, "Quota exceeded", details=[{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]
    )
    time = FakeTime()
    with ApiServer(lambda call, number: Answer(body, status=429) if number == 1 else Answer(gemini())) as server:
        assert not ask(load("gemini-2.0-flash", url=server.url, time=time), ["?"]).failures
    assert time.slept == [34.0]


@pytest.mark.parametrize("text", ["soon", "", "-5", "nan", "inf"])
def test_a_retry_after_that_says_nothing_is_looked_past(text: str) -> None:
    found = read_fault(429, {"retry-after": text}, b"{}", now=0.0)
    assert found.kind == "again"
    assert found.after in (None, 0.0)


def test_a_date_in_the_past_asks_for_no_wait() -> None:
    date = email.utils.formatdate(1_000.0, usegmt=True)
    assert read_fault(503, {"retry-after": date}, b"", now=5_000.0).after == 0.0


def test_a_wait_that_is_too_long_fails_the_row_at_once() -> None:
    time = FakeTime()
    with ApiServer(failing(Answer(LIMITED, status=429, headers={"Retry-After": "7200"}))) as server:
        made = ask(load(url=server.url, time=time), ["a", "b"])
        assert len(server.calls) == 2
    assert list(made.failures) == [0]
    assert "asks to wait 7200 s, more than longest_wait=300" in made.failures[0].reason
    assert time.slept == []


def test_a_pause_that_one_request_is_asked_for_holds_the_others_too() -> None:
    now = [0.0]
    slept: list[float] = []
    pace = Pace(None, clock=lambda: now[0], sleep=slept.append)
    pace.wait()
    pace.hold(12.0)
    now[0] = 2.0
    pace.wait()
    assert slept == [10.0]


def test_a_pause_outlives_the_request_that_was_asked_for_it() -> None:
    time = FakeTime()
    with ApiServer(failing(Answer(LIMITED, status=429, headers={"Retry-After": "50"}))) as server:
        made = ask(load(url=server.url, time=time, retries=0), ["a", "b"])
    assert list(made.failures) == [0]
    assert time.slept == [50.0]


def test_a_closed_connection_is_tried_again() -> None:
    for way in ("before", "within"):
        time = FakeTime()
        with ApiServer(failing(Answer(chat(), close=way))) as server:
            assert not ask(load(url=server.url, time=time), ["?"]).failures
            assert len(server.calls) == 2
        assert len(time.slept) == 1


def test_a_slow_server_times_out_and_is_tried_again() -> None:
    time = FakeTime()
    with ApiServer(failing(Answer(chat(), delay=0.3))) as server:
        assert not ask(load(url=server.url, time=time, timeout=0.05), ["?"]).failures
        assert len(server.calls) == 2
    time = FakeTime()
    with ApiServer(lambda call, number: Answer(chat(), delay=0.3)) as server:
        failure = ask(load(url=server.url, time=time, timeout=0.05, retries=1), ["?"]).failures[0]
    assert failure.status == "failed"
    assert "no answer within 0.05 s (after 2 tries)" in failure.reason


def test_nobody_there_is_one_error_that_names_the_server() -> None:
    with ApiServer(lambda call, number: Answer(chat())) as server:
        url = server.url
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:\d+ must be reachable.*OPENAI_API_KEY"):
        ask(load(url=url, retries=2), ["a", "b", "c"])


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_what_every_request_would_get_ends_the_run_after_one_call(status: int) -> None:
    time = FakeTime()
    with ApiServer(lambda call, number: Answer(openai_error("no"), status=status)) as server:
        scorer = load(url=server.url, time=time)
        for _ in range(2):  # the second time without a call
            with pytest.raises(ModelError, match=f"HTTP {status}: no"):
                ask(scorer, [str(i) for i in range(50)])
        assert len(server.calls) == 1
    assert time.slept == []


@pytest.mark.parametrize(
    ("name", "status", "body"),
    [
        ("gpt-4o", 429, openai_error("You exceeded your current quota", code="insufficient_quota")),
        ("gemini-2.0-flash", 400, gemini_error(400, "API key not valid.", details=[{"reason": "API_KEY_INVALID"}])),
        ("gemini-2.5-flash", 400, gemini_error(400, "Logprobs is not enabled for models/gemini-2.5-flash")),
        ("gpt-4o", 400, openai_error("'top_logprobs' is not supported with this model.")),
    ],
)
def test_other_faults_that_every_request_would_get(name: str, status: int, body: object) -> None:
    with ApiServer(lambda call, number: Answer(body, status=status)) as server:
        with pytest.raises(ModelError, match="must take requests"):
            ask(load(name, url=server.url), ["a", "b"])
        assert len(server.calls) == 1


def test_an_end_in_the_middle_stops_the_others() -> None:
    with ApiServer(lambda call, number: Answer(chat()) if number < 5 else Answer({}, status=401)) as server:
        with pytest.raises(ModelError, match="HTTP 401"):
            ask(load(url=server.url, concurrency=2), [str(i) for i in range(100)])
        assert len(server.calls) <= 8


def test_a_bad_request_fails_its_row_only() -> None:
    bad = Answer(openai_error("image too large"), status=400)
    time = FakeTime()
    with ApiServer(lambda call, number: bad if call.text == "b" else Answer(chat())) as server:
        made = ask(load(url=server.url, time=time), ["a", "b", "c"])
        assert len(server.calls) == 3
    assert list(made.failures) == [1]
    assert made.failures[1].status == "failed"
    assert "HTTP 400: image too large" in made.failures[1].reason
    assert time.slept == []


@pytest.mark.parametrize(
    "answer",
    [
        Answer(openai_error("unknown field"), status=400),
        Answer(b"<html>It works!</html>"),
        Answer(b'{"choices": ['),
        Answer([1, 2]),
        Answer(b"", status=302, headers={"Location": "http://127.0.0.1:1/elsewhere"}),
    ],
)
def test_a_server_that_answers_nothing_rightly_ends_the_run_at_the_third(answer: Answer) -> None:
    with ApiServer(lambda call, number: answer) as server:
        scorer = load(url=server.url)
        made = ask(scorer, ["a", "b"])
        assert {failure.status for failure in made.failures.values()} == {"failed"}
        assert len(made.failures) == 2
        with pytest.raises(ModelError, match="must answer a request"):
            ask(scorer, ["c"])
        assert len(server.calls) == 3


def test_invalid_json_now_and_then_fails_its_rows_only() -> None:
    broken = Answer(b'{"choices": [{"mess')
    with ApiServer(lambda call, number: broken if call.text.startswith("x") else Answer(chat())) as server:
        made = ask(load(url=server.url), ["a", "x1", "b", "x2", "x3", "x4"])
        assert len(server.calls) == 6
    assert sorted(made.failures) == [1, 3, 4, 5]
    assert "without a JSON object" in made.failures[1].reason


def test_an_error_under_status_200_is_sorted_by_its_code() -> None:
    busy = Answer({"error": {"message": "upstream overloaded", "code": 503}})
    time = FakeTime()
    with ApiServer(failing(busy)) as server:
        assert not ask(load(url=server.url, time=time), ["?"]).failures
    assert len(time.slept) == 1


def test_a_server_that_went_down_is_not_asked_for_ever() -> None:
    with ApiServer(lambda call, number: Answer(chat()) if number == 1 else Answer({}, status=500)) as server:
        made = ask(load(url=server.url, retries=1, concurrency=1), [str(i) for i in range(40)])
        assert len(server.calls) == 1 + 10 * 2
    assert len(made.failures) == 39
    assert "not asked" in made.failures[39].reason
    assert "10 requests in a row" in made.failures[39].reason


def test_requests_are_spaced_evenly() -> None:
    time = FakeTime()
    with ApiServer(lambda call, number: Answer(chat())) as server:
        ask(load(url=server.url, time=time, requests_per_minute=120, concurrency=1), [str(i) for i in range(7)])
    assert time.at - 1_000.0 == pytest.approx(6 * 0.5)
    assert time.slept == [pytest.approx(0.5)] * 6


def test_the_rate_holds_for_threads_together() -> None:
    turns: list[float] = []
    pace = Pace(600, clock=lambda: 0.0, sleep=turns.append)
    threads = [threading.Thread(target=pace.wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(turns) == pytest.approx([0.1 * n for n in range(1, 20)])


def test_max_calls_counts_tries_too_and_what_is_left_says_so() -> None:
    with ApiServer(failing(Answer({}, status=500), 2)) as server:
        made = ask(load(url=server.url, max_calls=4, concurrency=1), [str(i) for i in range(6)])
        assert len(server.calls) == 4  # three for the first question
    assert sorted(made.failures) == [2, 3, 4, 5]
    for failure in made.failures.values():
        assert failure.status == "failed"  # failed rows are tried anew by a later run
        assert "not asked: the budget max_calls=4 is reached" in failure.reason


def test_max_calls_of_threads_together() -> None:
    with ApiServer(lambda call, number: Answer(chat())) as server:
        made = ask(load(url=server.url, max_calls=10, concurrency=8), [str(i) for i in range(40)])
        assert len(server.calls) == 10
    assert len(made.failures) == 30


def test_max_cost_stops_before_it_is_overrun() -> None:
    price = Price(input=10.0, output=100.0)  # 1,000 input and 10 output tokens cost 0.011
    with ApiServer(lambda call, number: Answer(chat(usage=(1000, 10)))) as server:
        scorer = load(url=server.url, max_cost=0.1, prices={"gpt-4o": price}, concurrency=4)
        made = ask(scorer, [f"question {i}" for i in range(40)])
        calls = len(server.calls)
    assert calls == 9  # the tenth would bring 0.11
    assert len(made.failures) == 31
    assert "max_cost=0.1 is reached: 0.099 spent or under way, 0.011 a request" in made.failures[39].reason


def test_a_dear_picture_is_learnt_from_the_first_answer() -> None:
    """A model that counts 25,000 tokens a picture: later requests reserve what the first one cost."""
    with ApiServer(lambda call, number: Answer(chat(usage=(25_000, 1)))) as server:
        scorer = load(url=server.url, max_cost=0.1, prices={"*": Price(input=1.0)}, concurrency=8)
        ask(scorer, [f"question {i}" for i in range(20)])
        assert len(server.calls) == 4  # 4 · 0.025 = 0.1


def test_money_of_requests_under_way_is_reserved() -> None:
    budget = Budget(None, 1.0)
    meter = Meter(budget, Price(per_call=0.4))
    first, second = meter.start(0.4), meter.start(0.4)
    with pytest.raises(Exception, match="max_cost=1 is reached"):
        meter.start(0.4)
    meter.lost(first, billed=False)
    third = meter.start(0.4)
    meter.end(second, 0.4, (0, 0))
    meter.lost(third, billed=True)
    assert budget.cost == pytest.approx(0.8)
    assert budget.calls == 3


def test_an_answer_without_usage_costs_the_guess() -> None:
    with ApiServer(lambda call, number: Answer(chat(usage=None))) as server:
        options = {"max_cost": 1.0, "prices": {"*": Price(input=1000.0)}}
        made = ask(load(url=server.url, concurrency=1, **options), ["?"] * 3)
        assert len(server.calls) == 0  # a picture alone is guessed at 1,000 tokens, which is the budget
    assert len(made.failures) == 3


def test_a_limit_on_cost_needs_a_price() -> None:
    with pytest.raises(OptionError, match=r"no price for 'gpt-4o'.*\[prices\.\"gpt-4o\"\]"):
        load(url="http://127.0.0.1:9/v1", max_cost=1.0)
    load(max_cost=1.0)  # the public service has a list price


def test_budgets_are_shared_by_the_models_of_a_run() -> None:
    from beholder.backends.api.engine import ApiEngine
    from beholder.backends.base import LoadOptions

    with ApiServer(lambda call, number: Answer(chat())) as server:
        options = LoadOptions(api=ApiOptions(base_url=server.url, api_key="sk-12345678", max_calls=5))
        engine = ApiEngine("AnswerScorer", FakeTime().timing())
        asked = 0
        for name in ("gpt-4o", "gpt-4.1"):
            scorer = engine.load(engine.resolve(name, dtype="auto", options=options), device="cpu")
            made = ask(scorer, ["?"] * 4)
            asked += 4 - len(made.failures)
            scorer.close()
        assert asked == len(server.calls) == 5


def test_closing_wakes_what_waits() -> None:
    """Real waiting: a request that would wait for a minute ends when the model is closed."""
    from beholder.backends.api.client import Timing
    from beholder.backends.api.engine import ApiEngine
    from beholder.backends.base import LoadOptions

    seen = threading.Event()

    def script(call: Call, number: int) -> Answer:
        seen.set()
        return Answer({}, status=429, headers={"Retry-After": "60"})

    with ApiServer(script) as server:
        engine = ApiEngine("AnswerScorer", Timing())
        options = LoadOptions(api=ApiOptions(base_url=server.url, api_key="sk-12345678"))
        scorer = engine.load(engine.resolve("gpt-4o", dtype="auto", options=options), device="cpu")
        made: list[Any] = []
        thread = threading.Thread(target=lambda: made.append(ask(scorer, ["?"])))
        began = real_time.perf_counter()
        thread.start()
        assert seen.wait(5)
        scorer.close()
        thread.join(5)
        assert not thread.is_alive()
    assert real_time.perf_counter() - began < 5
    assert "ended before" in made[0].failures[0].reason


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_calls": -1}, {"max_calls": 1.5}, {"max_cost": -0.1}, {"max_cost": float("nan")}, {"timeout": 0},
        {"requests_per_minute": 0}, {"retries": -1}, {"retries": True}, {"concurrency": 0}, {"longest_wait": -1},
    ],
)  # fmt: skip
def test_settings_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        ApiOptions(**wrong)


@pytest.mark.parametrize("wrong", [-1.0, float("inf"), "free", True])
def test_prices_out_of_range(wrong: Any) -> None:
    with pytest.raises(OptionError, match="the price input"):
        Price(input=wrong)
