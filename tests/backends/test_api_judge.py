"""Written replies of API models: what is asked, and what is no reply."""

from __future__ import annotations

from typing import Any

import pytest
from tests.backends.api_helpers import judge, load, picture
from tests.backends.api_server import Answer, ApiServer, chat, gemini

from beholder._errors import OptionError
from beholder.backends.api.models import EMPTY_TRIES


def test_the_reply_is_kept_raw_with_why_it_ended_and_who_wrote_it() -> None:
    with ApiServer(lambda call, number: Answer(chat(None, text=" Score: 4\n", finish="length"))) as server:
        columns = judge(load(capability="Judge", url=server.url), ["Rate it."]).columns
        (call,) = server.calls
    assert {name: column.tolist() for name, column in columns.items()} == {
        "text": [" Score: 4\n"],
        "finish": ["length"],
        "model": ["gpt-4o-2024-08-06"],
    }
    assert call.body["temperature"] == 0
    assert call.body["max_tokens"] == 1024
    assert {"logprobs", "top_logprobs", "seed"} & set(call.body) == set()


def test_settings_are_sent_and_the_pass_is_not() -> None:
    with ApiServer(lambda call, number: Answer(chat(None, text="4"))) as server:
        judged = load(capability="Judge", url=server.url)
        judge(judged, ["Rate it."], temperature=1.0, seed=7, max_tokens=16, run=3)
        judge(judged, ["Rate it."], temperature="server", max_tokens=0)
        first, second = (dict(call.body) for call in server.calls)
    for body in (first, second):
        del body["messages"]
    assert first == {"model": "gpt-4o", "temperature": 1.0, "seed": 7, "max_tokens": 16}
    assert second == {"model": "gpt-4o"}  # a request without any setting, as NaturalScore's


def test_sixteen_frames_come_before_one_text() -> None:
    with ApiServer(lambda call, number: Answer(chat(None, text="4"))) as server:
        judged = load(capability="Judge", url=server.url)
        visual = judged.prepare([picture((at * 10, 0, 0)) for at in range(16)])
        judged.reply([visual], [(0, "Rate the clip.")])
        (message,) = server.calls[0].body["messages"]
    kinds = [part["type"] for part in message["content"]]
    assert kinds == ["image_url"] * 16 + ["text"]
    assert len({part["image_url"]["url"] for part in message["content"][:16]}) == 16


def test_gemini_writes_replies_without_its_thoughts() -> None:
    with ApiServer(lambda call, number: Answer(gemini(None, text="4/5"))) as server:
        columns = judge(load("gemini-2.5-flash", capability="Judge", url=server.url), ["Rate it."], seed=1).columns
        (call,) = server.calls
    assert columns["text"].tolist() == ["4/5"]
    assert call.body["generationConfig"] == {"temperature": 0, "maxOutputTokens": 1024, "seed": 1}


def test_a_reply_in_parts_is_joined() -> None:
    body = chat(None)
    body["choices"][0]["message"]["content"] = [{"type": "text", "text": "4"}, {"type": "text", "text": ".5"}]
    with ApiServer(lambda call, number: Answer(body)) as server:
        assert judge(load(capability="Judge", url=server.url), ["?"]).columns["text"].tolist() == ["4.5"]


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (chat(None, text=""), "unparsable", "empty"),
        (chat(None, text=" \n", finish="length"), "unparsable", "'length'"),
        (chat(None, refusal="No."), "refused", "No."),
        ({"choices": []}, "unparsable", "without a choice"),
    ],
)
def test_what_is_no_reply(body: Any, status: str, word: str) -> None:
    with ApiServer(lambda call, number: Answer(body if call.text == "b" else chat(None, text=call.text))) as server:
        made = judge(load(capability="Judge", url=server.url), ["a", "b", "c"])
    assert list(made.failures) == [1]
    assert made.failures[1].status == status
    assert word in made.failures[1].reason
    assert made.columns["text"].tolist() == ["a", "", "c"]


def test_an_empty_reply_is_asked_for_again() -> None:
    with ApiServer(lambda call, number: Answer(chat(None, text="" if number < 3 else "4"))) as server:
        made = judge(load(capability="Judge", url=server.url), ["Rate it."])
        assert len(server.calls) == 3
    assert made.columns["text"].tolist() == ["4"]
    assert made.failures == {}
    with ApiServer(lambda call, number: Answer(chat(None, text=" \n"))) as server:
        made = judge(load(capability="Judge", url=server.url), ["Rate it."])
        assert len(server.calls) == EMPTY_TRIES
    assert made.failures[0].status == "unparsable"
    with ApiServer(lambda call, number: Answer(chat(None, text="", finish="length"))) as server:
        judge(load(capability="Judge", url=server.url), ["Rate it."])
        assert len(server.calls) == 1, "a longer limit would help, asking again would not"


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1}, {"temperature": "hot"}, {"temperature": True}, {"seed": 1.5}, {"max_tokens": -1},
        {"max_tokens": True}, {"run": 0}, {"run": "1"},
    ],
)  # fmt: skip
def test_settings_out_of_range(wrong: dict[str, Any]) -> None:
    with ApiServer(lambda call, number: Answer(chat(None, text="4"))) as server:
        with pytest.raises(OptionError, match=next(iter(wrong))):
            judge(load(capability="Judge", url=server.url), ["?"], **wrong)
        assert server.calls == []
