"""What an answer means that is no reply: which faults pass, which are a row's own, and which end the run."""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

RETRIED = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Status codes after which the same request may succeed."""

ENDING = frozenset({401, 402, 403, 404})
"""Status codes that every request would get: no key, no money, no permission, no such model or address."""

_SHOWN = 240
_REFUSAL_CODES = {"content_filter", "content_policy_violation", "moderation_blocked", "responsibleaipolicyviolation"}
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]+)?)s")


@dataclass(frozen=True)
class Fault:
    """A status code with what the server wrote about it.

    Args:
        kind: "again" (worth another try), "end" (every request would fail), "refused" (by the provider's content
            policy), "row" (this request's own).
        text: one line for people, not redacted yet.
        after: seconds that the server asks to wait, or None.
    """

    kind: Literal["again", "end", "refused", "row"]
    text: str
    after: float | None = None


def read_fault(status: int, headers: Mapping[str, str], body: bytes, *, now: float) -> Fault:
    """Sorts an answer other than 200.

    Args:
        status: the HTTP status code.
        headers: the answer's headers, looked up in lower case.
        body: the answer's body.
        now: the time of day, in seconds since 1970, for dates in Retry-After.
    """
    message, codes, details = _error_of(body)
    text = f"HTTP {status}" + (f": {message}" if message else "")
    if codes & {"insufficient_quota", "billing_hard_limit_reached"}:
        return Fault("end", text)
    if status in RETRIED:
        return Fault("again", text, retry_after(headers, details, now=now))
    if status in ENDING or codes & {"api_key_invalid", "invalid_api_key"}:
        return Fault("end", text)
    if codes & _REFUSAL_CODES:
        return Fault("refused", text)
    # A model without log probabilities says so to every request; the word stands in no other complaint.
    if status in (400, 422) and re.search(r"log_?probs?\b", message, re.IGNORECASE):
        return Fault("end", f"{text} (the model gives no log probabilities here)")
    return Fault("row", text)


def retry_after(headers: Mapping[str, str], details: list[Any], *, now: float) -> float | None:
    """Seconds to wait: Retry-After in seconds or as a date, `retry-after-ms`, or Gemini's RetryInfo; None for none."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) * scale
        except ValueError:
            found = _date(text)
            if found is None:
                continue
            seconds = found - now
        if seconds == seconds and seconds != float("inf"):
            return max(0.0, seconds)
    for item in details:
        delay = item.get("retryDelay") if isinstance(item, Mapping) else None
        match = _SECONDS.fullmatch(delay) if isinstance(delay, str) else None
        if match:
            return float(match[1])
    return None


def _date(text: str) -> float | None:
    try:
        moment: datetime = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def _error_of(body: bytes) -> tuple[str, set[str], list[Any]]:
    """(message, codes in lower case, details) of an error body in any of the usual forms."""
    text = body.decode("utf-8", "replace")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return one_line(text), set(), []
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    error = parsed.get("error", parsed) if isinstance(parsed, Mapping) else parsed
    if not isinstance(error, Mapping):
        return one_line(error if isinstance(error, str) else text), set(), []
    found = error.get("details")
    details = found if isinstance(found, list) else []
    inner = error.get("innererror")
    places = [error, *(item for item in (*details, inner) if isinstance(item, Mapping))]
    codes = {str(place[name]).lower() for place in places for name in ("code", "type", "reason") if place.get(name)}
    message = error.get("message", error.get("detail"))
    return one_line(message if isinstance(message, str) else text), codes, details


def one_line(text: str) -> str:
    """A server's text as one line without control characters; `shorten` cuts it once secrets are out of it."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text[:20_000]).split())


def shorten(text: str) -> str:
    """At most 240 characters."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
