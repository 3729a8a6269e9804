"""What a user sets about API models: where they are, who asks, and how much it may cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from beholder._errors import OptionError
from beholder.backends.api.budget import Budget, Price
from beholder.backends.api.secret import Secret
from beholder.backends.api.server import Server

V = TypeVar("V")


@dataclass(frozen=True, repr=False)
class ApiOptions:
    """Settings for all API models of a run. One object stands for one run: it counts the calls and their cost.

    None of them moves numbers but `base_url`, whose server is part of a model's identity.

    Args:
        base_url: where an OpenAI-compatible server is ("http://localhost:8000/v1"), or one URL by dialect
            ({"openai": …, "gemini": …}). Default: OPENAI_BASE_URL or GOOGLE_GEMINI_BASE_URL, else the public service.
        api_key: the key, or one by dialect. Default: OPENAI_API_KEY, and GEMINI_API_KEY or GOOGLE_API_KEY.
        max_calls: most HTTP requests, tries again included; None for no limit.
        max_cost: most money in the currency of the prices; None for no limit. Needs a price.
        prices: price by model name; "*" stands for all others. Default: list prices of models known by name
            (`budget.LIST_PRICES`).
        requests_per_minute: requests to one server in a minute, evenly spaced; None for no limit.
        timeout: seconds without an answer after which a request is given up.
        retries: how often a request is tried again.
        concurrency: requests under way at once.
        longest_wait: seconds; a server that asks for a longer pause gets no further try for that request.

    Raises:
        OptionError: a value out of range, or a base URL that is none.
    """

    base_url: str | Mapping[str, str] | None = None
    api_key: str | Secret | Mapping[str, str | Secret] | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    prices: Mapping[str, Price] | None = None
    requests_per_minute: float | None = None
    timeout: float = 120.0
    retries: int = 5
    concurrency: int = 8
    longest_wait: float = 300.0
    budget: Budget = field(init=False, compare=False)

    def __post_init__(self) -> None:
        _whole("max_calls", self.max_calls, least=0)
        _whole("retries", self.retries, least=0)
        _whole("concurrency", self.concurrency, least=1)
        _number("max_cost", self.max_cost, zero=True)
        _number("requests_per_minute", self.requests_per_minute)
        _number("timeout", self.timeout)
        _number("longest_wait", self.longest_wait, zero=True)
        keys: Mapping[str, str | Secret] = _by_dialect(self.api_key)
        hidden = {name: check_key(key) if isinstance(key, str) else key for name, key in keys.items()}
        object.__setattr__(self, "api_key", hidden or None)
        for url in _by_dialect(self.base_url).values():
            Server.parse(url)
        object.__setattr__(self, "budget", Budget(self.max_calls, self.max_cost))

    def key_for(self, dialect: str) -> Secret | None:
        """The key that was given for a dialect ("openai", "gemini"), or None."""
        keys: Mapping[str, str | Secret] = _by_dialect(self.api_key)
        found = keys.get(dialect, keys.get("*"))
        return Secret(found) if isinstance(found, str) else found

    def url_for(self, dialect: str) -> str | None:
        """The base URL that was given for a dialect, or None."""
        urls = _by_dialect(self.base_url)
        return urls.get(dialect, urls.get("*"))

    def __repr__(self) -> str:
        urls = {name: Server.parse(url).shown for name, url in _by_dialect(self.base_url).items()}
        facts = {
            "base_url": urls or None, "api_key": self.api_key, "max_calls": self.max_calls, "max_cost": self.max_cost,
            "prices": self.prices, "requests_per_minute": self.requests_per_minute, "timeout": self.timeout,
            "retries": self.retries, "concurrency": self.concurrency, "longest_wait": self.longest_wait,
        }  # fmt: skip
        return f"ApiOptions({', '.join(f'{name}={value!r}' for name, value in facts.items())})"


def check_key(text: str) -> Secret:
    """A key without the line break that a file gave it.

    Raises:
        OptionError: it is empty, or holds what no HTTP header may hold; the message does not repeat it.
    """
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        found = "an empty one" if not key else "one with spaces, line breaks or letters beyond ASCII (not shown)"
        raise OptionError("an API key must be one word of ASCII letters", got=found)
    return Secret(key)


def _by_dialect(value: V | Mapping[str, V] | None) -> Mapping[str, V]:
    if value is None:
        return {}
    return value if isinstance(value, Mapping) else {"*": value}


def _whole(name: str, value: int | None, *, least: int) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise OptionError(f"{name} must be a whole number of at least {least}", got=repr(value))


def _number(name: str, value: float | None, *, zero: bool = False) -> None:
    if value is None:
        return
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not right or value < 0 or (value == 0 and not zero):
        raise OptionError(f"{name} must be a number {'of at least' if zero else 'above'} 0", got=repr(value))
