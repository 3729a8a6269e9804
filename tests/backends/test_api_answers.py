"""Answers of API models: what is asked, in both dialects, and what becomes of the told tokens."""

from __future__ import annotations

import base64
import io
import math
import threading

import numpy as np
import pytest
from PIL import Image
from tests.backends.api_helpers import KEY, ask, load, picture
from tests.backends.api_server import HELLO, SURE, Answer, ApiServer, Call, chat, gemini, logs, openai_error

from beholder._errors import OptionError
from beholder.functional.answers import probability


def one(body: object) -> ApiServer:
    """A server that answers everything with one body."""
    return ApiServer(lambda call, number: Answer(body))


def test_forms_of_yes_and_no_are_pooled_and_the_rest_is_told() -> None:
    with one(chat()) as server:
        made = ask(load(url=server.url), ["Is it red?"])
    assert not made.failures
    found = {name: math.exp(float(made.columns[name][0])) for name in ("first_token", "yes", "no", "rest")}
    told = [math.exp(value) for _, value in SURE]
    assert found["first_token"] == pytest.approx(told[0], rel=1e-12)
    assert found["yes"] == pytest.approx(told[0] + told[1], rel=1e-12)
    assert found["no"] == pytest.approx(told[2] + told[3], rel=1e-12)
    assert found["rest"] == pytest.approx(1 - sum(told), rel=1e-9)
    # golden: the defect that others have, a later form of "yes" replacing an earlier one, would give 0.0067
    assert found["yes"] == pytest.approx(0.9115754, abs=1e-6)
    assert made.columns["model"].tolist() == ["gpt-4o-2024-08-06"]


def test_bounds_follow_from_what_was_told() -> None:
    with one(chat(logs(("Yes", 0.6), ("No", 0.1)))) as server:
        made = ask(load(url=server.url), ["?"])
    answers = probability({name: made.columns[name] for name in ("first_token", "yes", "no", "rest")}, "pooled")
    assert answers.values[0] == pytest.approx(0.6)
    assert (answers.low[0], answers.high[0]) == (pytest.approx(0.6), pytest.approx(0.9))


def test_the_request_of_chat_completions() -> None:
    with one(chat()) as server:
        scorer = load(url=server.url)
        red, blue = picture((200, 30, 30)), picture((10, 10, 220), size=(2048, 512))
        scorer.answer([scorer.prepare([red, blue])], [(0, "Same colour?")])
        (call,) = server.calls
    assert call.path == "/v1/chat/completions"
    assert call.headers["Authorization"] == f"Bearer {KEY}"
    (message,) = call.body.pop("messages")
    assert call.body == {"model": "gpt-4o", "temperature": 0, "max_tokens": 1, "logprobs": True, "top_logprobs": 20}
    assert message["role"] == "user"
    *images, text = message["content"]
    assert text == {"type": "text", "text": "Same colour?"}
    sizes, colours = [], []
    for part in images:
        head, _, data = part["image_url"]["url"].partition(",")
        assert (part["type"], head) == ("image_url", "data:image/jpeg;base64")
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        assert image.format == "JPEG"
        sizes.append(image.size)
        colours.append(np.asarray(image).reshape(-1, 3).mean(axis=0))
    assert sizes == [(24, 16), (1024, 256)]  # the longer side is 1024 at most, small pictures are left alone
    assert np.allclose(colours, [(200, 30, 30), (10, 10, 220)], atol=4)  # in the order of the frames


def test_the_request_of_generate_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "AIzaTestKey0123456789")
    with one(gemini()) as server:
        made = ask(load("api:gemini/gemini-2.5-flash;image=png", url=server.url,
                        api_key=None), ["Is it red?"])  # fmt: skip
        (call,) = server.calls
    assert call.path == "/v1/models/gemini-2.5-flash:generateContent"
    assert call.headers["x-goog-api-key"] == "AIzaTestKey0123456789"
    assert "Authorization" not in call.headers
    (content,) = call.body["contents"]
    image, text = content["parts"]
    assert text == {"text": "Is it red?"}
    sent = Image.open(io.BytesIO(base64.b64decode(image["inlineData"]["data"])))
    assert (image["inlineData"]["mimeType"], sent.format) == ("image/png", "PNG")
    assert (np.asarray(sent) == (200, 30, 30)).all()
    assert call.body["generationConfig"] == {
        "temperature": 0, "maxOutputTokens": 8, "responseLogprobs": True, "logprobs": 20,
        "thinkingConfig": {"thinkingBudget": 0},
    }  # fmt: skip
    assert math.exp(made.columns["yes"][0]) == pytest.approx(0.9115754, abs=1e-6)
    assert made.columns["model"].tolist() == ["gemini-2.0-flash-001"]


def test_both_dialects_give_the_same_numbers() -> None:
    with one(chat()) as first, one(gemini()) as second:
        ours = ask(load(url=first.url), ["?"]).columns
        theirs = ask(load("gemini-2.0-flash", url=second.url), ["?"]).columns
    for name in ("first_token", "yes", "no", "rest"):
        assert ours[name].tolist() == theirs[name].tolist()


def test_minus_9999_is_not_told() -> None:
    told = [("Yes", -0.5), ("yes", -9999.0), ("No", -9999.0), ("the", -1.5)]
    with one(chat(told)) as server:
        columns = ask(load(url=server.url), ["?"]).columns
    assert columns["yes"][0] == pytest.approx(-0.5)
    assert columns["no"][0] == -math.inf
    assert math.exp(columns["rest"][0]) == pytest.approx(1 - math.exp(-0.5) - math.exp(-1.5))


def test_a_yes_that_is_only_minus_9999_is_unparsable() -> None:
    with one(chat([("The", -0.2), ("Yes", -9999.0)])) as server:
        made = ask(load(url=server.url), ["?"])
    assert made.failures[0].status == "unparsable"
    assert "'The'" in made.failures[0].reason


def test_a_chosen_token_outside_the_top_ones_counts_once() -> None:
    with one(chat(logs(("No", 0.3), ("the", 0.2)), chosen=("Yes", math.log(0.25)))) as server:
        columns = ask(load(url=server.url), ["?"]).columns
    assert math.exp(columns["yes"][0]) == pytest.approx(0.25)
    assert math.exp(columns["rest"][0]) == pytest.approx(0.25)


def test_neither_yes_nor_no_is_unparsable_and_names_what_was_told() -> None:
    with one(chat(HELLO)) as server:
        made = ask(load(url=server.url), ["?"])
    assert made.failures[0].status == "unparsable"
    assert "'Hello', 'Hi'" in made.failures[0].reason


def test_an_answer_of_ones_own_is_read_exactly() -> None:
    with one(chat(logs(("cat", 0.5), ("Cat", 0.2)))) as server:
        scorer = load(url=server.url)
        columns = ask(scorer, ["What is it?"], answer="cat").columns
        assert math.exp(columns["first_token"][0]) == pytest.approx(0.5)
        assert (columns["yes"][0], columns["no"][0]) == (-math.inf, -math.inf)
        assert ask(scorer, ["What is it?"], answer="dog").failures[0].status == "unparsable"


def test_only_no_leaves_yes_to_the_rest() -> None:
    with one(chat(logs(("No", 0.9), ("the", 0.05)))) as server:
        columns = ask(load(url=server.url), ["?"]).columns
    assert columns["yes"][0] == columns["first_token"][0] == -math.inf
    assert math.exp(columns["rest"][0]) == pytest.approx(0.05)


@pytest.mark.parametrize("value", [0.5, float("nan"), "high", True])
def test_a_log_probability_that_is_none_is_unparsable(value: object) -> None:
    body = chat()
    body["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1]["logprob"] = value
    with one(body) as server:
        failure = ask(load(url=server.url), ["?"]).failures[0]
    assert (failure.status, "log probability of" in failure.reason) == ("unparsable", True)


@pytest.mark.parametrize("body", [chat(None), gemini(None)])
def test_missing_log_probabilities_are_unparsable_and_then_no_more_is_asked(body: dict[str, object]) -> None:
    name = "gpt-4o" if "choices" in body else "gemini-2.0-flash"
    with one(body) as server:
        made = ask(load(name, url=server.url, concurrency=1), ["a", "b", "c", "d", "e"])
        assert len(server.calls) == 3
    assert [made.failures[row].status for row in range(5)] == ["unparsable"] * 3 + ["failed"] * 2
    assert "returned no log probabilities" in made.failures[0].reason
    assert "not asked" in made.failures[4].reason


@pytest.mark.parametrize(
    ("name", "body", "word"),
    [
        ("gpt-4o", chat(refusal="I can't help with that."), "I can't help with that."),
        ("gpt-4o", chat(finish="content_filter"), "content filter"),
        ("gemini-2.0-flash", gemini(finish="SAFETY"), "SAFETY"),
        ("gemini-2.0-flash", gemini(finish="PROHIBITED_CONTENT"), "PROHIBITED_CONTENT"),
        ("gemini-2.0-flash", {"promptFeedback": {"blockReason": "OTHER"}}, "OTHER"),
    ],
)
def test_refusals_have_their_own_status(name: str, body: object, word: str) -> None:
    with one(body) as server:
        failure = ask(load(name, url=server.url), ["?"]).failures[0]
    assert failure.status == "refused"
    assert word in failure.reason


def test_a_request_turned_down_by_the_content_policy_is_refused() -> None:
    bad = Answer(openai_error("Your input was flagged.", code="content_policy_violation"), status=400)
    with ApiServer(lambda call, number: bad if call.text == "bad" else Answer(chat())) as server:
        made = ask(load(url=server.url), ["good", "bad", "good"])
    assert list(made.failures) == [1]
    assert made.failures[1].status == "refused"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("gpt-4o", {"choices": []}),
        ("gpt-4o", {"id": "chatcmpl-1"}),
        ("gpt-4o", {"choices": "none"}),
        ("gemini-2.0-flash", {"candidates": []}),
    ],
)
def test_an_answer_without_a_choice_is_unparsable(name: str, body: object) -> None:
    with one(body) as server:
        failure = ask(load(name, url=server.url), ["?"]).failures[0]
    assert (failure.status, "without a c" in failure.reason) == ("unparsable", True)


def test_results_stand_in_the_order_of_the_pairs_whatever_comes_first() -> None:
    values = {f"q{i}": 0.1 + 0.05 * i for i in range(9)}
    last = threading.Event()

    def script(call: Call, number: int) -> Answer:
        if call.text == "q8":
            last.set()
        # All but the first (asked alone) and the last wait for the last one's request.
        held = None if call.text in ("q0", "q8") else last
        return Answer(chat(logs(("Yes", values[call.text]), ("No", 0.02))), gate=held)

    with ApiServer(script) as server:
        made = ask(load(url=server.url, concurrency=8), list(values))
        asked = [call.text for call in server.calls]
    assert asked[0] == "q0"
    assert asked.index("q8") < 9
    assert np.exp(made.columns["yes"]) == pytest.approx(list(values.values()))


def test_no_more_than_concurrency_requests_are_under_way() -> None:
    lock, under_way, most = threading.Lock(), [0], [0]

    def script(call: Call, number: int) -> Answer:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        gate = threading.Event()
        threading.Timer(0.02, lambda: (leave(), gate.set())).start()
        return Answer(chat(), gate=gate)

    def leave() -> None:
        with lock:
            under_way[0] -= 1

    with ApiServer(script) as server:
        ask(load(url=server.url, concurrency=3), [str(i) for i in range(12)])
    assert 2 <= most[0] <= 3


def test_a_visual_needs_a_picture_and_nothing_to_ask_is_nothing() -> None:
    with one(chat()) as server:
        scorer = load(url=server.url)
        assert scorer.takes_video is True
        with pytest.raises(OptionError, match="at least one picture"):
            scorer.prepare([])
        made = scorer.answer([scorer.prepare([picture()])], [])
        assert made.columns["yes"].shape == (0,)
        assert server.calls == []
