"""Fake models of pairs, public like the fake encoder: for tests of your own code. No torch, no weights.

    fake, fake:seed=3         as Matcher: a logit; as AnswerScorer: an answer's probability; as Judge: a reply "3"

Values are arithmetic on checksums of pixels and text: equal content gives equal values, and nothing is meant by them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beholder._errors import NoValue, OptionError
from beholder._hashing import hash_json
from beholder.backends.base import LoadOptions, Made, ResolvedModel
from beholder.backends.columns import object_column
from beholder.backends.names import parse_name
from beholder.media.base import Picture
from beholder.records import ModelCard, Status

_VERSION = 1
_CAPABILITIES = ("Matcher", "AnswerScorer", "Judge")


class FakeModel:
    """A model of pairs without a network: a `Matcher`, an `AnswerScorer` or a `Judge`.

    Args:
        capability: which of the three.
        name: the name it goes by.
        seed: another seed is another model.
        values: value (a logit, a probability, a reply's text) of given texts, by the exact text.
        refuse_on: texts that contain this string are refused.
        takes_video: True takes all frames of a video together.

    Raises:
        OptionError: another capability.

    >>> FakeModel("Judge", values={"How many stars?": "4"}).reply([b""], [(0, "How many stars?")]).columns["text"][0]
    '4'
    """

    batch = 16
    pair_batch = 64

    def __init__(
        self,
        capability: str = "AnswerScorer",
        name: str = "fake",
        *,
        seed: int = 0,
        values: Mapping[str, Any] | None = None,
        refuse_on: str | None = None,
        takes_video: bool = False,
    ) -> None:
        if capability not in _CAPABILITIES:
            raise OptionError(f"a fake model must be one of: {', '.join(_CAPABILITIES)}", got=repr(capability))
        self.takes_video = takes_video
        self.constants: Mapping[str, float] = {}
        self._seed, self._values, self._refuse = seed, dict(values or {}), refuse_on
        parameters = {"version": _VERSION, "seed": seed, "values": self._values, "refuse_on": refuse_on}
        card = ModelCard(
            id=name, engine="fake", family="fake", arch="fake", weights=name.partition(":")[2], size_bytes=0,
            notes=("For tests of your own code: its values mean nothing.",),
        )  # fmt: skip
        self.model = ResolvedModel(
            name, name, card, "", hash_json(parameters), {"library": "none", "prompt": "{text}"}, "float32",
            capability=capability,
        )  # fmt: skip

    def prepare(self, pictures: Sequence[Picture]) -> Any:
        """A checksum over the pixels of all pictures."""
        sums = [zlib.crc32(picture.pixels.tobytes()) for picture in pictures]
        return np.array([zlib.crc32(np.array(sums, dtype=np.uint32).tobytes())], dtype=np.uint32).tobytes()

    def match(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], head: str = "itm") -> Made:
        """Logits between -4 and 4, or cosines for the head "itc"."""
        values = np.array([self._value(visuals[at], text, lambda share: 8 * share - 4) for at, text in pairs])
        column = {"cosine": values / 4} if head == "itc" else {"logit": values}
        return Made({name: array.astype(np.float32) for name, array in column.items()}, self._refused(pairs))

    def answer(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], *, answer: str = "Yes") -> Made:
        """A probability p of the answer: yes has p, no has 1 - p; the answer is one token."""
        p = np.array([self._value(visuals[at], text, float) for at, text in pairs])
        with np.errstate(divide="ignore"):
            yes, no = np.log(p), np.log1p(-p)
        columns = {"first_token": yes, "sequence": yes, "yes": yes, "no": no, "rest": np.full(len(p), -np.inf)}
        return Made({**columns, "n_answer": np.ones(len(p), dtype=np.int32)}, self._refused(pairs))

    def reply(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], **settings: Any) -> Made:
        """A whole number from 1 to 5 as text; settings (a pass, a temperature) take part in it."""
        salt = "" if not settings else hash_json(settings)
        texts = [
            str(self._value(visuals[at], text, lambda share: math.ceil(5 * share) or 1, salt)) for at, text in pairs
        ]
        return Made({"text": object_column(texts)}, self._refused(pairs))

    def close(self) -> None:
        """Nothing to release: the model can be used again."""

    def _value(self, visual: bytes, text: str, make: Any, salt: str = "") -> Any:
        if text in self._values:
            return self._values[text]
        seed = f"{_VERSION} {self._seed} {salt} ".encode()
        return make(zlib.crc32(seed + visual + text.encode("utf-8", "surrogatepass")) / 2**32)

    def _refused(self, pairs: Sequence[tuple[int, str]]) -> dict[int, NoValue]:
        if self._refuse is None:
            return {}
        reason = f"the fake model refuses texts that contain {self._refuse!r}, as asked"
        return {row: NoValue(Status.REFUSED, reason) for row, (_, text) in enumerate(pairs) if self._refuse in text}


class FakeModelEngine:
    """Makes fake models of one capability by name."""

    name = "fake"

    def __init__(self, capability: str) -> None:
        self._capability = capability

    def cards(self) -> Sequence[ModelCard]:
        """None of its own: the fake encoder's card stands for all."""
        return ()

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        return self._make(name).model

    def load(self, model: ResolvedModel, *, device: str) -> FakeModel:
        return self._make(model.asked)

    def _make(self, name: str) -> FakeModel:
        parsed = parse_name(name)
        options: dict[str, Any] = {}
        for part in parsed.weights.replace(";", ",").split(",") if parsed.weights else ():
            key, _, value = part.strip().partition("=")
            if key == "seed" and value.isdigit():
                options["seed"] = int(value)
            elif key == "refuse" and value:
                options["refuse_on"] = value
            elif key == "video" and value in ("0", "1"):
                options["takes_video"] = value == "1"
            else:
                raise OptionError("a fake model is written fake or fake:seed=0;refuse=…;video=1", got=repr(part))
        return FakeModel(self._capability, parsed.id, **options)


FAKE_MATCHER = FakeModelEngine("Matcher")
FAKE_ANSWERSCORER = FakeModelEngine("AnswerScorer")
FAKE_JUDGE = FakeModelEngine("Judge")
