"""What a dialect must know: how to ask, and how to read an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from beholder._errors import OptionError
from beholder.backends.api.pictures import Encoding
from beholder.backends.api.reply import Reply
from beholder.backends.api.secret import Secret

PROMPT = "one user message: the pictures in order, then the text; no system message"


@dataclass(frozen=True)
class Wish:
    """How a reply is wanted.

    Args:
        max_tokens: most tokens of the reply; 0 leaves the limit to the server.
        temperature: 0 for the likeliest reply; "server" leaves it to the server.
        seed: seed of the sampling, or None.
        top: tokens whose log probabilities are wanted at each position; 0 for none.

    Raises:
        OptionError: a value out of range.
    """

    max_tokens: int
    temperature: float | Literal["server"] = 0.0
    seed: int | None = None
    top: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.max_tokens, bool) or not isinstance(self.max_tokens, int) or self.max_tokens < 0:
            raise OptionError("max_tokens must be a whole number of at least 0", got=repr(self.max_tokens))
        heat = self.temperature
        if heat != "server" and (isinstance(heat, (bool, str)) or not 0 <= heat <= 2):
            raise OptionError("temperature must be a number from 0 to 2, or 'server'", got=repr(heat))
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int)):
            raise OptionError("seed must be a whole number", got=repr(self.seed))


class Dialect(Protocol):
    """One way of talking to a server.

    `name` stands in model names (`api:name/model`). `key_variables` and `url_variable` are the environment variables
    for the key and the base URL, `public` is the base URL of the public service.
    """

    name: str
    key_variables: tuple[str, ...]
    url_variable: str
    public: str

    def headers(self, key: Secret | None) -> dict[str, str]: ...

    def path(self, model: str) -> str:
        """Where a model is asked, after the base URL."""
        ...

    def body(
        self, model: str, pictures: Sequence[str], text: str, wish: Wish, encoding: Encoding, *, public: bool
    ) -> dict[str, Any]:
        """A request: pictures in base64, a text, and how the reply is wanted."""
        ...

    def read(self, body: Mapping[str, Any]) -> Reply:
        """A reply out of an answer.

        Raises:
            NoValue: `refused`, or `unparsable` for an answer without a reply.
        """
        ...

    def usage(self, body: Mapping[str, Any]) -> tuple[int, int] | None:
        """(input, output) tokens that an answer says it cost, or None."""
        ...
