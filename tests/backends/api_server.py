"""An HTTP server on loopback that answers as OpenAI's chat completions and Gemini do, and misbehaves on demand.

The shapes of the replies are those of the public API references, as their examples are quoted in public clients:
  chat completions   https://platform.openai.com/docs/api-reference/chat/object: choices[].message.{content, refusal},
                     choices[].logprobs.content[].{token, logprob, bytes, top_logprobs[]}, finish_reason, usage; the
                     numbers of the first two tokens of `HELLO` are those of the reference's example with logprobs.
                     The reference names -9999.0 as the log probability of a token outside the top 20.
  generateContent    https://ai.google.dev/api/generate-content: candidates[].{content.parts[].text, finishReason,
                     logprobsResult.{topCandidates[].candidates[], chosenCandidates[]}}, promptFeedback.blockReason,
                     usageMetadata, modelVersion; errors as google.rpc.Status with details (ErrorInfo, RetryInfo).
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Tokens = Sequence[tuple[str, float]]

OPENED: list[Any] = []
"""Models that were loaded; they are closed before the server that they are connected to."""

HELLO: Tokens = (("Hello", -0.31725305), ("Hi", -1.3190403))
SURE: Tokens = (("Yes", -0.1), ("yes", -5.0), ("No", -4.0), (" no", -7.0), ("It", -9.0))


@dataclass
class Call:
    """One request as the server saw it."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """The question or instruction of the request, in either dialect."""
        if "contents" in self.body:
            return str(self.body["contents"][0]["parts"][-1]["text"])
        return str(self.body["messages"][0]["content"][-1]["text"])


@dataclass
class Answer:
    """What the server does with a request.

    Args:
        body: JSON-ready, or bytes sent as they are.
        status: the HTTP status code.
        headers: further headers.
        delay: seconds before the answer.
        close: "before" closes the connection without an answer, "within" in the middle of the body.
        gate: an event that is waited for before the answer.
    """

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    close: str = ""
    gate: threading.Event | None = None


Script = Callable[[Call, int], Answer]


class ApiServer:
    """A server that keeps every request; `script(call, number)` says what it answers (numbers begin at 1)."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.calls: list[Call] = []
        self.lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # head and body in one packet: two would wait for each other on loopback

            def do_POST(self) -> None:
                owner.handle(self)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that went away is none of the tests' matter."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ApiServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        while OPENED:
            OPENED.pop().close()
        self._server.shutdown()
        self._server.server_close()

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers.get("Content-Length", 0))
        body = json.loads(request.rfile.read(length))
        call = Call(request.path, dict(request.headers.items()), body)
        with self.lock:
            self.calls.append(call)
            number = len(self.calls)
        answer = self.script(call, number)
        if answer.gate is not None:
            answer.gate.wait(5)
        time.sleep(answer.delay)
        if answer.close == "before":
            request.close_connection = True
            return
        data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        request.send_response(answer.status)
        for name, value in answer.headers.items():
            request.send_header(name, value)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data[: len(data) // 2] if answer.close == "within" else data)
        request.close_connection = request.close_connection or bool(answer.close)


def chat(
    tokens: Tokens | None = SURE,
    *,
    text: str | None = None,
    finish: str = "stop",
    refusal: str | None = None,
    usage: tuple[int, int] | None = (100, 1),
    chosen: tuple[str, float] | None = None,
    model: str = "gpt-4o-2024-08-06",
) -> dict[str, Any]:
    """A chat completion. `tokens` are the top tokens of the first position; None leaves `logprobs` null."""
    logprobs = None
    if tokens is not None:
        name, value = chosen or tokens[0]
        top = [{"token": token, "logprob": logprob, "bytes": list(token.encode())} for token, logprob in tokens]
        first = {"token": name, "logprob": value, "bytes": list(name.encode()), "top_logprobs": top}
        logprobs = {"content": [first], "refusal": None}
    content = text if text is not None else ((chosen or tokens[0])[0] if tokens else "Yes")
    body: dict[str, Any] = {
        "id": "chatcmpl-123",
        "object": "chat.completion",
        "created": 1702685778,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None if refusal else content, "refusal": refusal},
                "logprobs": logprobs,
                "finish_reason": finish,
            }
        ],
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return body


def gemini(
    tokens: Tokens | None = SURE,
    *,
    text: str = "Yes",
    finish: str = "STOP",
    usage: tuple[int, int, int] = (258, 1, 0),
) -> dict[str, Any]:
    """An answer of generateContent; `usage` counts prompt, reply and thoughts."""
    candidate: dict[str, Any] = {
        "content": {"parts": [{"text": "hmm", "thought": True}, {"text": text}], "role": "model"},
        "finishReason": finish,
        "index": 0,
    }
    if tokens is not None:
        records = [{"token": token, "tokenId": at, "logProbability": value} for at, (token, value) in enumerate(tokens)]
        candidate["logprobsResult"] = {"topCandidates": [{"candidates": records}], "chosenCandidates": [records[0]]}
        candidate["avgLogprobs"] = tokens[0][1]
    prompt, reply, thoughts = usage
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": prompt, "candidatesTokenCount": reply, "thoughtsTokenCount": thoughts,
            "totalTokenCount": prompt + reply + thoughts,
        },
        "modelVersion": "gemini-2.0-flash-001",
    }  # fmt: skip


def openai_error(message: str, *, code: str | None = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    """An error body of OpenAI's dialect."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def gemini_error(code: int, message: str, *, details: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """An error body of Gemini's: google.rpc.Status."""
    return {"error": {"code": code, "message": message, "status": "INVALID_ARGUMENT", "details": list(details)}}


def logs(*probabilities: tuple[str, float]) -> list[tuple[str, float]]:
    """Tokens with probabilities as tokens with log probabilities."""
    return [(token, math.log(value)) for token, value in probabilities]
