"""The capabilities `AnswerScorer` and `Judge` on API models.

Requests of a batch are under way together, up to `concurrency`; results stand in the order of the pairs whatever the
order of the answers. Until the server has answered once, requests go one by one: a wrong key costs one call.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np

from beholder._errors import NoValue, OptionError
from beholder.backends.api.budget import Meter
from beholder.backends.api.client import STRIKES, Client, Request
from beholder.backends.api.dialect import Dialect, Wish
from beholder.backends.api.pictures import Encoding
from beholder.backends.api.reply import Reply, answer_columns
from beholder.backends.base import Made, ResolvedModel
from beholder.media.base import Picture
from beholder.records import Status

ANSWER_TOKENS = {"openai": 1, "gemini": 8}
"""Most tokens of an answer: only the first position counts, but Gemini gives an empty reply where one is all it has."""

Sent = tuple[str, ...]
Pairs = Sequence[tuple[int, str]]


class _Asker:
    """What both capabilities share.

    Args:
        model: the resolved model.
        name: the model's name at the server.
        dialect: how the server is talked to.
        encoding: how pictures are sent.
        client: asks the server.
        meter: guesses what a request may cost.
        public: True at the dialect's public service.
        concurrency: requests under way at once.
    """

    takes_video = True
    videos_at_once = True
    """Pairs of several videos may stand in one call, since their requests wait together."""

    def __init__(
        self,
        model: ResolvedModel,
        name: str,
        dialect: Dialect,
        encoding: Encoding,
        client: Client,
        meter: Meter,
        *,
        public: bool,
        concurrency: int,
    ) -> None:
        self.model = model
        self.constants: Mapping[str, float] = {}
        self.batch, self.pair_batch = 2 * concurrency, 4 * concurrency
        self._name, self._dialect, self._encoding, self._public = name, dialect, encoding, public
        self._client, self._meter = client, meter
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="beholder-api")

    def prepare(self, pictures: Sequence[Picture]) -> Sent:
        """The pictures of one visual as base64 files, in order.

        Raises:
            OptionError: no picture at all.
        """
        if not pictures:
            raise OptionError("a visual must have at least one picture", got="none")
        return tuple(self._encoding.encode(picture) for picture in pictures)

    def close(self) -> None:
        """Ends waiting requests and closes connections."""
        self._client.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _ask(self, pictures: Sent, text: str, wish: Wish) -> Reply | NoValue:
        """A reply, or why there is none."""
        body = self._dialect.body(self._name, pictures, text, wish, self._encoding, public=self._public)
        guess = self._meter.guess(text, len(pictures), wish.max_tokens)
        data = json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode("ascii")
        try:
            return self._dialect.read(self._client.ask(Request(data, guess)))
        except NoValue as error:
            return NoValue(error.status, self._client.redact(error.reason))

    def _ask_all(
        self, visuals: Sequence[Sent], pairs: Pairs, ask: Callable[[Sent, str], Reply | NoValue]
    ) -> list[Reply | NoValue]:
        """Replies in the order of the pairs.

        Raises:
            ModelError: no request would be answered; those under way are given up.
        """
        waiting = list(pairs)
        found: list[Reply | NoValue] = []
        while waiting and not self._client.proven:
            number, text = waiting.pop(0)
            found.append(ask(visuals[number], text))
        futures = [self._pool.submit(ask, visuals[number], text) for number, text in waiting]
        try:
            return found + [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()


class ApiAnswerScorer(_Asker):
    """How likely an answer is, from the log probabilities that a server tells of its top tokens."""

    def __init__(self, *args: object, top: int, **settings: object) -> None:
        super().__init__(*args, **settings)  # type: ignore[arg-type]
        self._wish = Wish(ANSWER_TOKENS[self._dialect.name], top=top)
        self._lock = threading.Lock()
        self._silent, self._told = 0, False

    def answer(self, visuals: Sequence[Sent], pairs: Pairs, *, answer: str = "Yes") -> Made:
        """Asks each pair's question.

        Args:
            visuals: what `prepare` gave.
            pairs: (number of the visual, question).
            answer: the answer whose own token is reported as "first_token".

        Returns:
            Log probabilities "first_token", "yes", "no", "rest", (n,) float64, at the first position of the reply:
            see `reply.answer_columns`; and "model", the model's name as the server returned it. No value: `refused`,
            `unparsable` (neither yes, no nor the answer among the told tokens, or no log probabilities), `failed`
            (transport, budget).

        Raises:
            ModelError: no request would be answered.
        """
        made = self._ask_all(visuals, pairs, self._ask_answer)
        columns = {name: np.full(len(pairs), -math.inf) for name in ("first_token", "yes", "no", "rest")}
        names = np.full(len(pairs), "", dtype=object)
        failures: dict[int, NoValue] = {}
        for row, reply in enumerate(made):
            if isinstance(reply, NoValue):
                failures[row] = reply
                continue
            try:
                values = answer_columns(reply.tokens or (), answer)
            except NoValue as error:
                failures[row] = NoValue(error.status, self._client.redact(error.reason))
                continue
            names[row] = self._client.redact.exact(reply.model)
            for name, value in values.items():
                columns[name][row] = value
        return Made({**columns, "model": names}, failures)

    def _ask_answer(self, pictures: Sent, text: str) -> Reply | NoValue:
        if not self._told and self._silent >= STRIKES:
            return NoValue(
                Status.FAILED, f"not asked: none of {self._silent} replies of the server had log probabilities"
            )
        reply = self._ask(pictures, text, self._wish)
        if isinstance(reply, NoValue):
            return reply
        with self._lock:
            self._told = self._told or reply.tokens is not None
            self._silent += reply.tokens is None
        if reply.tokens is None:
            return NoValue(Status.UNPARSABLE, "the server returned no log probabilities (logprobs) with its reply")
        return reply


EMPTY_TRIES = 3
"""How often a judge is asked for a reply that came back empty; OpenS2V's script asks again, too."""

_CUT = ("length", "MAX_TOKENS")


class ApiJudge(_Asker):
    """Written replies."""

    def reply(
        self,
        visuals: Sequence[Sent],
        pairs: Pairs,
        *,
        temperature: float | Literal["server"] = 0.0,
        seed: int | None = None,
        max_tokens: int = 1024,
        run: int = 1,
    ) -> Made:
        """Asks for a written reply to each pair's instruction.

        Args:
            visuals: what `prepare` gave.
            pairs: (number of the visual, instruction).
            temperature: 0 (default) for the likeliest reply, up to 2; "server" leaves it to the server.
            seed: seed of the sampling, where the server takes one; None sends none.
            max_tokens: most tokens of the reply, thoughts included; 0 leaves the limit to the server.
            run: number of the pass, 1 and up. It is not sent: it keeps the replies of several passes apart in the
                feature store.

        Returns:
            Object columns "text" (the raw reply), "finish" (why it ended, in the server's word: "length" or
            "MAX_TOKENS" is a reply that was cut) and "model" (the name that the server returned). No value:
            `refused`, `unparsable` (an empty reply, three times over), `failed` (transport, budget).

        Raises:
            OptionError: a setting out of range.
            ModelError: no request would be answered.
        """
        if isinstance(run, bool) or not isinstance(run, int) or run < 1:
            raise OptionError("run must be a whole number of at least 1", got=repr(run))
        wish = Wish(max_tokens, temperature, seed)
        made = self._ask_all(visuals, pairs, lambda pictures, text: self._ask_reply(pictures, text, wish))
        columns = {name: np.full(len(pairs), "", dtype=object) for name in ("text", "finish", "model")}
        failures: dict[int, NoValue] = {}
        for row, reply in enumerate(made):
            if isinstance(reply, NoValue):
                failures[row] = reply
            elif not reply.text.strip():
                cut = f" (it ended with {reply.finish!r})" if reply.finish else ""
                failures[row] = NoValue(Status.UNPARSABLE, self._client.redact(f"the reply is empty{cut}"))
            else:
                for name in columns:
                    columns[name][row] = self._client.redact.exact(getattr(reply, name))
        return Made(columns, failures)

    def _ask_reply(self, pictures: Sent, text: str, wish: Wish) -> Reply | NoValue:
        """A reply; an empty one is asked for again, but not one that was cut before its first word."""
        reply = self._ask(pictures, text, wish)
        for _ in range(EMPTY_TRIES - 1):
            if isinstance(reply, NoValue) or reply.text.strip() or reply.finish in _CUT:
                break
            again = self._ask(pictures, text, wish)
            if isinstance(again, NoValue):
                break  # the budget, for one: the reply was empty
            reply = again
        return reply
