"""Requests to one server: tries again, keeps to rate and budget, and tells a row's fault from the end of a run.

Nothing that an exception of the HTTP library holds (requests with their headers) goes on from here: messages are made
new, without secrets, and chains of exceptions are cut.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from beholder._errors import MissingExtraError, ModelError, NoValue
from beholder.backends.api.budget import Meter
from beholder.backends.api.dialect import Dialect
from beholder.backends.api.faults import Fault, one_line, read_fault, shorten
from beholder.backends.api.options import ApiOptions
from beholder.backends.api.pace import Pace
from beholder.backends.api.secret import RedactingFilter, Redactor, Secret
from beholder.backends.api.server import Server
from beholder.records import Status

STRIKES = 3
"""Requests that a server may turn down before it has answered any; then the run ends."""

GIVE_UP = 10
"""Requests in a row that failed after all tries; then no more are made."""

_LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy")


@dataclass(frozen=True)
class Timing:
    """Where time comes from; tests bring their own.

    Args:
        clock: seconds, rising.
        now: seconds since 1970.
        sleep: waits some seconds; None waits so that the end of a run wakes it.
    """

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], object] | None = None


@dataclass(frozen=True)
class Request:
    """One request: its body, and what it may cost."""

    body: bytes
    guess: float


class _Again(Exception):
    """A fault that may pass."""

    def __init__(self, reason: str, *, after: float | None = None, unreachable: bool = False) -> None:
        self.reason, self.after, self.unreachable = reason, after, unreachable
        super().__init__(reason)


class Client:
    """Asks one model at one server. Threads may share it.

    Args:
        model: the model's name at the server.
        dialect: how the server is talked to.
        server: where it is.
        key: the key, or None.
        options: the run's settings.
        meter: counts calls and cost.
        timing: where time comes from.

    `proven` is True once the server has answered with JSON: from then on several requests may be under way.

    Raises:
        MissingExtraError: httpx or tenacity is not installed.
    """

    def __init__(
        self,
        model: str,
        dialect: Dialect,
        server: Server,
        key: Secret | None,
        options: ApiOptions,
        meter: Meter,
        timing: Timing,
    ) -> None:
        self._httpx, self._tenacity = need_http()
        self._model, self._dialect, self._server, self._key = model, dialect, server, key
        self._options, self._meter, self._timing = options, meter, timing
        self.redact = Redactor([*server.secrets, *([key] if key else [])])
        self._stop = threading.Event()
        self._pace = Pace(options.requests_per_minute, clock=timing.clock, sleep=self._sleep)
        self._lock = threading.Lock()
        self._strikes = self._failed = 0
        self._ended: ModelError | None = None
        self.proven = False
        self._filter = RedactingFilter(self.redact)
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self._filter)
        self._http = self._connect()

    def ask(self, request: Request) -> Mapping[str, Any]:
        """An answer's JSON object.

        Raises:
            NoValue: `failed` or `refused`: this request has no answer.
            ModelError: no request would have one (wrong key, no such model, out of reach …).
        """
        self._check_open()
        tries = 0

        def attempt() -> Mapping[str, Any]:
            nonlocal tries
            tries += 1
            return self._once(request)

        library = self._tenacity
        retrying = library.Retrying(
            stop=library.stop_after_attempt(self._options.retries + 1),
            wait=self._wait,
            retry=library.retry_if_exception_type(_Again),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            answer: Mapping[str, Any] = retrying(attempt)
        except _Again as error:
            raise self._lost(error, tries) from None
        with self._lock:
            self.proven, self._failed = True, 0
        return answer

    def close(self) -> None:
        """Ends waiting threads and closes connections."""
        self._stop.set()
        self._http.close()
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._filter)

    # one try

    def _once(self, request: Request) -> Mapping[str, Any]:
        if self._ended is not None:
            raise self._ended
        reserved = self._meter.start(request.guess)
        self._pace.wait()
        response = self._post(request, reserved)
        body: bytes = response.content
        if not 200 <= response.status_code < 300:
            self._meter.lost(reserved, billed=False)
            raise self._fault(read_fault(response.status_code, response.headers, body, now=self._timing.now()))
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            self._meter.lost(reserved, billed=True)
            text = shorten(self.redact(one_line(body.decode("utf-8", "replace"))))
            raise self._strike(NoValue(Status.FAILED, f"{self._server.shown} answered without a JSON object: {text}"))
        if answer.get("error") and not answer.get("choices") and not answer.get("candidates"):
            self._meter.lost(reserved, billed=False)
            code = answer["error"].get("code") if isinstance(answer["error"], dict) else None
            status = code if isinstance(code, int) and 400 <= code < 600 else 400
            raise self._fault(read_fault(status, response.headers, body, now=self._timing.now()))
        self._meter.end(reserved, request.guess, self._dialect.usage(answer))
        return answer

    def _post(self, request: Request, reserved: float) -> Any:
        """Sends a request; a fault on the way is raised outside `except`, so that no exception holds the request."""
        httpx = self._httpx
        try:
            return self._http.post(self._address(), content=request.body, headers=self._headers())
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            fault, billed = self._transport_fault(error)
        self._meter.lost(reserved, billed=billed)
        raise fault

    def _transport_fault(self, error: Exception) -> tuple[Exception, bool]:
        """What an error of the HTTP library means, and whether the request may have reached the server."""
        httpx, limit = self._httpx, f"within {self._options.timeout:g} s"
        if isinstance(error, httpx.ConnectTimeout):
            return _Again(f"no connection {limit}"), False
        if isinstance(error, httpx.PoolTimeout):
            return _Again(f"no free connection {limit}"), False
        if isinstance(error, httpx.TimeoutException):
            return _Again(f"no answer {limit}"), True
        reason = shorten(self.redact(one_line(f"{type(error).__name__}: {error}")))
        if isinstance(error, httpx.ConnectError):
            return _Again(reason, unreachable=True), False
        if isinstance(error, httpx.TransportError):
            return _Again(reason), True
        return NoValue(Status.FAILED, reason), True

    def _address(self) -> str:
        path = self._server.path + self._dialect.path(self._model)
        return path if self._server.query is None else f"{path}?{self._server.query.reveal()}"

    def _headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json", **self._dialect.headers(self._key)}

    # faults

    def _fault(self, fault: Fault) -> Exception:
        text = shorten(self.redact(fault.text))
        if fault.kind == "again":
            return self._later(text, fault.after)
        if fault.kind == "refused":
            return NoValue(Status.REFUSED, f"the provider refused: {text}")
        if fault.kind == "end":
            return self._end(f"{self._server.shown} must take requests for {self._model!r}", text)
        return self._strike(NoValue(Status.FAILED, f"{self._server.shown} turned the request down: {text}"))

    def _later(self, text: str, after: float | None) -> Exception:
        if after is not None and after > self._options.longest_wait:
            wait = f"{after:.0f} s, more than longest_wait={self._options.longest_wait:g}"
            return NoValue(Status.FAILED, f"{text} (the server asks to wait {wait})")
        if after is not None:
            self._pace.hold(after)
        return _Again(text, after=after)

    def _strike(self, error: NoValue) -> Exception:
        """A row's own fault, unless the server has never answered and turns everything down."""
        with self._lock:
            self._strikes += not self.proven
            over = not self.proven and self._strikes >= STRIKES
        if over:
            return self._end(f"{self._server.shown} must answer a request for {self._model!r}", error.reason)
        return error

    def _end(self, must: str, got: str) -> ModelError:
        variables = " or ".join(self._dialect.key_variables)
        error = ModelError(
            must, got=got, fix=f"Check the model's name, the base URL ({self._server.shown}) and the key ({variables})"
        )
        with self._lock:
            self._ended = self._ended or error
        self._stop.set()
        return self._ended

    def _lost(self, error: _Again, tries: int) -> Exception:
        reason = f"{error.reason} (after {tries} {'try' if tries == 1 else 'tries'})"
        if error.unreachable and not self.proven:
            return self._end(f"{self._server.shown} must be reachable", reason)
        with self._lock:
            self._failed += 1
        return NoValue(Status.FAILED, f"{self._server.shown}: {reason}")

    def _check_open(self) -> None:
        if self._ended is not None:
            raise self._ended
        if self._failed >= GIVE_UP:
            raise NoValue(
                Status.FAILED,
                f"not asked: {self._server.shown} failed {self._failed} requests in a row after all tries",
            )

    # time and connections

    def _wait(self, state: Any) -> float:
        """Seconds before the next try: growing and jittered, and at least what the server asked for."""
        base = self._tenacity.wait_exponential_jitter(initial=1.0, max=60.0, jitter=1.0)(state)
        error = state.outcome.exception()
        return max(float(base), getattr(error, "after", None) or 0.0)

    def _sleep(self, seconds: float) -> None:
        if self._timing.sleep is not None:
            self._timing.sleep(seconds)
        elif self._stop.wait(seconds):
            raise self._ended or NoValue(Status.FAILED, "the run ended before this request was made")

    def _connect(self) -> Any:
        httpx, options, server = self._httpx, self._options, self._server
        auth = None
        if server.user is not None and self._key is None:
            auth = httpx.BasicAuth(server.user[0], server.user[1].reveal())
        return httpx.Client(
            base_url=f"{server.scheme}://{server.shown}",
            timeout=options.timeout,
            limits=httpx.Limits(max_connections=options.concurrency, max_keepalive_connections=options.concurrency),
            auth=auth,
            follow_redirects=False,
            trust_env=not server.is_loopback,  # no proxy stands between this machine and itself
            verify=server.scheme == "https",  # reading certificates takes time, and http has none to check
        )


def need_http() -> tuple[Any, Any]:
    """httpx and tenacity.

    Raises:
        MissingExtraError: one of them is not installed.
    """
    for package in ("httpx", "tenacity"):
        try:
            __import__(package)
        except ImportError as error:
            raise MissingExtraError("asking a model over HTTP", package, "api") from error
    import httpx
    import tenacity

    return httpx, tenacity
