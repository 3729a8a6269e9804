"""Calls and money: what a run may spend, and what it has spent.

A request reserves what it may cost before it is sent and settles what it did cost afterwards, so that requests under
way together do not overrun the limit. What a picture costs differs between models by more than ten, so the guess is
corrected by the largest ratio of cost to guess seen so far; the first request of a model goes alone.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from beholder._errors import NoValue, OptionError
from beholder.records import Status

PICTURE_TOKENS = 1_000
"""First guess of what a picture counts, in tokens."""

LIST_PRICES_DATE = "June 2026"


@dataclass(frozen=True)
class Price:
    """What a model costs, in whatever currency `max_cost` is.

    Args:
        input: a million input tokens.
        output: a million output tokens.
        per_call: each request beside its tokens.

    Raises:
        OptionError: a price that is no number of at least 0.

    >>> Price(input=2.5, output=10.0).of(1000, 100)
    0.0035
    """

    input: float = 0.0
    output: float = 0.0
    per_call: float = 0.0

    def __post_init__(self) -> None:
        for name in ("input", "output", "per_call"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
                raise OptionError(f"the price {name} must be a number of at least 0", got=repr(value))

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """The cost of one request."""
        return (tokens_in * self.input + tokens_out * self.output) / 1e6 + self.per_call


LIST_PRICES: Mapping[str, Price] = {
    "gpt-4o": Price(2.50, 10.00),
    "gpt-4o-2024-08-06": Price(2.50, 10.00),
    "gpt-4o-2024-11-20": Price(2.50, 10.00),
    "gpt-4o-mini": Price(0.15, 0.60),
    "gpt-4.1": Price(2.00, 8.00),
    "gpt-4.1-mini": Price(0.40, 1.60),
    "gpt-4.1-nano": Price(0.10, 0.40),
    "gemini-2.5-pro": Price(1.25, 10.00),
    "gemini-2.5-flash": Price(0.30, 2.50),
    "gemini-2.5-flash-lite": Price(0.10, 0.40),
    "gemini-2.0-flash": Price(0.10, 0.40),
}
"""Public list prices in US dollars, as read in June 2026 (gemini-2.5-pro: for prompts of up to 200,000 tokens). They
change: state your own with `prices`."""


def price_of(model: str, prices: Mapping[str, Price] | None, *, public: bool) -> Price | None:
    """The price that was stated for a model, else its list price at the public service, else None."""
    if prices is not None:
        stated = prices.get(model, prices.get("*"))
        if stated is not None:
            return stated
    return LIST_PRICES.get(model) if public else None


class Budget:
    """What a run may spend and has spent; shared by all its API models and threads."""

    def __init__(self, max_calls: int | None, max_cost: float | None) -> None:
        self.max_calls, self.max_cost = max_calls, max_cost
        self._lock = threading.Lock()
        self._reserved = 0.0
        self.calls = 0
        self.cost = 0.0

    def reserve(self, amount: float) -> None:
        """Counts a request that is about to be sent.

        Raises:
            NoValue: `failed`: the budget does not allow it. A later run asks again, since `failed` rows are tried anew.
        """
        with self._lock:
            if self.max_calls is not None and self.calls >= self.max_calls:
                raise _spent(f"max_calls={self.max_calls} is reached")
            expected = self.cost + self._reserved + amount
            # A relative slack: sums of equal amounts must not fail by their last bit.
            if self.max_cost is not None and expected > self.max_cost * (1 + 1e-12):
                taken = f"{expected - amount:.4g} spent or under way, {amount:.2g} a request"
                raise _spent(f"max_cost={self.max_cost:g} is reached: {taken}")
            self.calls += 1
            self._reserved += amount

    def settle(self, reserved: float, cost: float) -> None:
        """Replaces what a request had reserved by what it cost."""
        with self._lock:
            self._reserved = max(0.0, self._reserved - reserved)
            self.cost += cost

    def __getstate__(self) -> dict[str, object]:
        """Another process starts counting from 0."""
        return {"max_calls": self.max_calls, "max_cost": self.max_cost}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _spent(why: str) -> NoValue:
    return NoValue(
        Status.FAILED, f"not asked: the budget {why}; the same run with a larger one asks for the missing rows only"
    )


class Meter:
    """One model's view of a run's budget: turns tokens into money.

    Args:
        budget: the run's.
        price: the model's, or None where cost does not matter.
    """

    def __init__(self, budget: Budget, price: Price | None) -> None:
        self.budget, self.price = budget, price or Price()
        self._lock = threading.Lock()
        self._ratio = 1.0

    def guess(self, text: str, pictures: int, most_out: int) -> float:
        """What a request may cost, before anything is known: 3 bytes a token, and all the output that is allowed."""
        tokens = math.ceil(len(text.encode("utf-8", "surrogatepass")) / 3) + pictures * PICTURE_TOKENS
        return self.price.of(tokens, most_out)

    def start(self, guess: float) -> float:
        """Reserves money for a request; gives what was reserved.

        Raises:
            NoValue: `failed`: the budget is spent.
        """
        with self._lock:
            amount = guess * self._ratio
        self.budget.reserve(amount)
        return amount

    def end(self, reserved: float, guess: float, usage: tuple[int, int] | None) -> None:
        """Settles a request that was answered: by its tokens, or by the guess where the server does not tell them."""
        cost = guess if usage is None else self.price.of(*usage)
        if guess > 0:
            with self._lock:
                self._ratio = max(self._ratio, cost / guess)
        self.budget.settle(reserved, cost)

    def lost(self, reserved: float, *, billed: bool) -> None:
        """Settles a request without an answer; one that timed out may be billed all the same."""
        self.budget.settle(reserved, reserved if billed else 0.0)
