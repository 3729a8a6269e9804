"""Keys and passwords reach no log, error, repr, run folder or feature store, even when a server echoes them."""

from __future__ import annotations

import base64
import dataclasses
import logging
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest
from tests.backends.api_helpers import KEY, ask, judge, load
from tests.backends.api_metric import SaysYes, write_pictures
from tests.backends.api_server import Answer, ApiServer, Call, chat, gemini, openai_error

import beholder
from beholder._errors import BeholderError, InputError, OptionError
from beholder.backends.api.options import ApiOptions
from beholder.backends.api.secret import Redactor, Secret
from beholder.reporting.make import write_report
from beholder.runs.config import make_config
from beholder.runs.journal import Journal

PASSWORD = "Tr0ub4dor-and-three"
TOKEN = "qUeRy-t0ken-77aa88bb"
FORBIDDEN = (KEY, KEY[3:15], PASSWORD, TOKEN, base64.b64encode(f"me:{PASSWORD}".encode()).decode())


def clean(text: str) -> None:
    for secret in FORBIDDEN:
        assert secret not in text, secret


def hiding(url: str) -> str:
    """The URL of a server, with a password and a token in it."""
    return url.replace("http://", f"http://me:{PASSWORD}@") + f"?api-version=2&token={TOKEN}"


def echo(call: Call) -> str:
    """Everything secret that a request held, as a careless server would repeat it."""
    sent = call.headers.get("Authorization", call.headers.get("x-goog-api-key", ""))
    return f"Incorrect API key provided: {sent} ({sent[-24:-10]}****), asked at {call.path}, {PASSWORD}"


def everything(error: BaseException) -> str:
    """An error as text in every way that people see one, with all that is chained to it."""
    parts = ["".join(traceback.format_exception(error)), str(error), repr(error), repr(error.args)]
    seen: BaseException | None = error.__context__ or error.__cause__
    while seen is not None:
        parts += [str(seen), repr(seen), repr(vars(seen))]
        seen = seen.__context__ or seen.__cause__
    return "\n".join(parts)


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
@pytest.mark.parametrize("name", ["gpt-4o", "gemini-2.0-flash"])
def test_a_key_in_an_error_body(name: str, status: int, logs: pytest.LogCaptureFixture) -> None:
    with ApiServer(lambda call, number: Answer(openai_error(echo(call)), status=status)) as server:
        scorer = load(name, url=hiding(server.url), retries=1)
        try:
            made = ask(scorer, ["?"])
            seen = str(made.failures[0]) + repr(made.failures[0])
        except BeholderError as error:
            seen = everything(error)
        (call, *_) = server.calls
    sent = call.headers.get("Authorization", call.headers.get("x-goog-api-key", ""))
    assert KEY in sent  # it was sent …
    assert TOKEN in call.path
    assert "[redacted]" in seen  # … and repeated …
    clean(seen)  # … and taken out
    assert logs.records
    clean(logs.text)
    clean(repr(scorer.model) + repr(vars(scorer)) + repr(vars(scorer._client)))


@pytest.mark.parametrize(
    "body",
    [
        b"Bearer %s is wrong" % KEY.encode(),
        b'{"error": "%s"}' % KEY.encode(),
        b'{"detail": "key %s"}' % KEY.encode(),
        b'[{"error": {"message": "%s"}}]' % KEY.encode(),
        b'{"error": {"message": {"inner": "%s"}}}' % KEY.encode(),
        b'{"error": {"message": "' + "".join(f"\\u{ord(c):04x}" for c in KEY).encode() + b'"}}',
        b"x" * 230 + KEY.encode(),  # would be cut in the middle of the key
        base64.b64encode(KEY.encode()),
    ],
)
def test_a_key_in_bodies_of_other_forms(body: bytes) -> None:
    for status in (200, 400, 500):
        with ApiServer(lambda call, number, status=status: Answer(body, status=status)) as server:
            failure = ask(load(url=server.url, retries=0), ["?"]).failures[0]
        clean(str(failure))
        assert KEY[:12] not in str(failure)


def test_a_key_in_a_reply_a_refusal_and_a_token(logs: pytest.LogCaptureFixture) -> None:
    said = f"your key is {KEY}!"
    with ApiServer(lambda call, number: Answer(chat(None, text=said, model=KEY, finish=KEY))) as server:
        columns = judge(load(capability="Judge", url=server.url), ["?"]).columns
    assert columns["text"].tolist() == ["your key is [redacted]!"]
    clean(repr(columns))
    for body in (
        chat(refusal=said),
        chat([(KEY[:20], -0.1)]),
        gemini([(KEY[:20], -0.1)]),
        chat(None, text="", finish=KEY),
    ):
        with ApiServer(lambda call, number, body=body: Answer(body)) as server:
            name = "gpt-4o" if "choices" in body else "gemini-2.0-flash"
            clean(str(ask(load(name, url=server.url), ["?"]).failures[0]))
    clean(logs.text)


def test_transport_errors_hold_no_request(logs: pytest.LogCaptureFixture) -> None:
    with ApiServer(lambda call, number: Answer(close="before")) as server:
        url = hiding(server.url)
        clean(str(ask(load(url=url, retries=1), ["?"]).failures[0]))
    try:
        ask(load(url=url, retries=1), ["?"])
        pytest.fail("nobody is there any more")
    except BeholderError as error:
        clean(everything(error))
    clean(logs.text)


def test_the_password_of_a_url_is_sent_where_there_is_no_key() -> None:
    with ApiServer(lambda call, number: Answer(chat())) as server:
        scorer = load(url=hiding(server.url), api_key=None)
        ask(scorer, ["?"])
        assert server.calls[0].headers["Authorization"] == "Basic " + FORBIDDEN[4]
        clean(repr(vars(scorer)) + repr(scorer.model))


def test_settings_show_no_secret() -> None:
    options = ApiOptions(api_key={"openai": KEY}, base_url=f"https://me:{PASSWORD}@host/v1?token={TOKEN}")
    clean(f"{options} {options!r} {options.key_for('openai')} {vars(options)['api_key']}")
    assert "host" in repr(options)
    secret = Secret(KEY)
    assert f"{secret} {secret!r} {secret:>12} {[secret]}".count("[redacted]") == 4
    assert pickle.loads(pickle.dumps(options)).budget.calls == 0


@pytest.mark.parametrize("wrong", [f"{KEY} and more", f"{KEY}\u2028x", f"{KEY}\n{KEY}", "schlüssel-" + KEY])
def test_a_key_that_is_none_is_not_repeated(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="one word of ASCII letters") as caught:
        ApiOptions(api_key=wrong)
    clean(everything(caught.value))
    monkeypatch.setenv("OPENAI_API_KEY", wrong)
    with pytest.raises(OptionError, match="one word") as caught:
        load(api_key=None)
    clean(everything(caught.value))


def test_a_key_with_a_line_break_at_its_end_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"  {KEY}\n")
    with ApiServer(lambda call, number: Answer(chat())) as server:
        ask(load(url=server.url, api_key=None), ["?"])
        assert server.calls[0].headers["Authorization"] == f"Bearer {KEY}"


def test_wrong_settings_do_not_repeat_what_may_be_secret() -> None:
    for wrong in ({"api_key": [KEY]}, {"base_url": [f"http://me:{PASSWORD}@x"]}):
        with pytest.raises(InputError) as caught:
            make_config(wrong)
        assert "not shown" in str(caught.value)
        clean(str(caught.value))
    with pytest.raises(OptionError) as caught_url:
        make_config({"base_url": f"me:{PASSWORD}@host"}).api_options()
    clean(everything(caught_url.value))
    config = make_config({"api_key": KEY, "base_url": f"http://me:{PASSWORD}@x?token={TOKEN}"})
    clean(f"{config!r} {config} {config.model_dump_json()} {config.model_dump(mode='json')}")


def test_nothing_of_a_run_holds_a_secret(tmp_path: Path, logs: pytest.LogCaptureFixture, capfd: Any) -> None:
    def script(call: Call, number: int) -> Answer:
        kind = number % 4
        if kind == 0:
            return Answer(openai_error(echo(call)), status=400)
        if kind == 1:
            return Answer(chat(model=f"gpt {KEY}"))
        return Answer(chat(refusal=echo(call))) if kind == 2 else Answer(chat([(KEY, -0.1)]))

    with ApiServer(script) as server:
        found = beholder.evaluate(
            str(write_pictures(tmp_path, 9)), metrics=[SaysYes()], out=str(tmp_path / "out"),
            store=str(tmp_path / "store"), base_url=hiding(server.url), api_key=KEY, concurrency=1,
        )  # fmt: skip
        assert len(server.calls) == 9
        host = server.url.removeprefix("http://").removesuffix("/v1")
    assert len(set(found.scores.column("says_yes_status").to_pylist())) == 4  # ok, failed, refused, unparsable
    clean(repr(found.scores.to_pylist()) + repr(found.header) + logs.text + "".join(capfd.readouterr()))
    write_report(found, out=tmp_path / "page")
    write_report(found, out=tmp_path / "page.html")
    # What lies compressed in a file is searched unpacked.
    with Journal(tmp_path / "out" / "journal.bin", write=False) as journal:
        clean(repr([(dict(frame.header), journal.read(frame).to_pydict()) for frame in journal.frames()]))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"index.html", "page.html", "run.json", "journal.bin", "scores.parquet", "scores.csv"} <= {
        path.name for path in files
    }
    for path in files:
        data = path.read_bytes()
        for secret in FORBIDDEN:
            assert secret.encode() not in data, path
    assert host in (tmp_path / "out" / "run.json").read_text()  # the search would find what is there


def test_what_looks_like_a_key_goes_too() -> None:
    redact = Redactor()
    for text in (
        "sk-proj-abcdEFGH1234", "AIzaSyA1234567890", "Authorization: Bearer abc.def", "https://me:pw@host/v1",
        "/models?key=abc123&x=1", "Basic bWU6cGFzc3dvcmQ=",
    ):  # fmt: skip
        assert "[redacted]" in redact(f"got {text} there")
    for text in ("the task-list of risk-free models", "max tokens: 20", "key signature", "https://host/v1"):
        assert redact(text) == text
    assert Redactor([Secret("abc")]).exact("abcabc") == "abcabc"  # too short to be a secret
    assert Redactor([Secret("0123456789abcdef")])("…456789abcd…") == "…[redacted]…"


def test_options_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ApiOptions().api_key = KEY  # type: ignore[misc]
