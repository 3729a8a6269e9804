"""Engine "api": names, finding and loading of models behind an HTTP interface.

    gpt-4o, gemini-2.5-flash …            known by their short name
    api:openai/MODEL                      any model of an OpenAI-compatible server (OPENAI_BASE_URL, or base_url)
    api:gemini/MODEL                      any model of Gemini's interface
    api:openai/MODEL;side=512;image=png   how pictures are sent (see `pictures.Encoding`), and `top`: tokens told

A resolved model holds neither key nor URL. What a user set stays in this process, under the model's hash, until it
is loaded; another process falls back to the environment.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from beholder._errors import ModelError, OptionError
from beholder._hashing import hash_json
from beholder.backends.api.budget import Meter, Price, price_of
from beholder.backends.api.client import Client, Timing, need_http
from beholder.backends.api.dialect import PROMPT, Dialect
from beholder.backends.api.gemini import Gemini
from beholder.backends.api.models import ANSWER_TOKENS, ApiAnswerScorer, ApiJudge
from beholder.backends.api.openai import OpenAI
from beholder.backends.api.options import ApiOptions, check_key
from beholder.backends.api.pictures import Encoding
from beholder.backends.api.secret import Secret
from beholder.backends.api.server import Server
from beholder.backends.base import LoadOptions, ResolvedModel
from beholder.backends.cards import card_of
from beholder.backends.cards_api import api_card
from beholder.backends.describing import CardEngine
from beholder.backends.names import BUILT_IN, parse_name

DIALECTS: dict[str, Dialect] = {"openai": OpenAI(), "gemini": Gemini()}
TOP = 20
"""Tokens asked for at each position: the most that both public services give."""

_RANGES = {"quality": (1, 100), "side": (0, 65_536), "top": (1, 100)}
_CHOICES = {"image": ("jpeg", "png"), "detail": ("low", "high", "auto"), "resize": ("lanczos", "area")}

_REMEMBERED: dict[str, LoadOptions] = {}


@dataclasses.dataclass(frozen=True)
class ApiName:
    """The name of an API model in its parts.

    Args:
        dialect: "openai" or "gemini".
        model: the model's name at the server.
        encoding: how pictures are sent.
        top: tokens whose log probabilities are asked for.
    """

    dialect: str
    model: str
    encoding: Encoding = dataclasses.field(default_factory=Encoding)
    top: int = TOP

    @classmethod
    def parse(cls, text: str) -> ApiName:
        """Reads what follows `api:`.

        Raises:
            OptionError: an unknown dialect or option, or a value out of range.
        """
        name, *rest = text.split(";")
        dialect, _, model = name.partition("/")
        if dialect not in DIALECTS or not model or not model.isprintable() or " " in model:
            known = " or ".join(f"api:{known}/MODEL" for known in DIALECTS)
            raise OptionError(f"an API model is written {known}", got=repr(f"api:{text}"))
        values: dict[str, Any] = {}
        for part in rest:
            key, _, value = part.partition("=")
            values[key] = _option(key, value)
        top = values.pop("top", TOP)
        return cls(dialect, model, Encoding(**values), top)

    @property
    def options(self) -> str:
        """The options that differ from their defaults, as they are written."""
        plain, mine = ApiName(self.dialect, self.model), {**dataclasses.asdict(self.encoding), "top": self.top}
        default = {**dataclasses.asdict(plain.encoding), "top": plain.top}
        return "".join(f";{key}={mine[key]}" for key in sorted(mine) if mine[key] != default[key])


def _option(key: str, value: str) -> str | int:
    if key in _CHOICES and value in _CHOICES[key]:
        return value
    if key in _RANGES and value.isascii() and value.isdigit() and _RANGES[key][0] <= int(value) <= _RANGES[key][1]:
        return int(value)
    allowed = [f"{name}={'|'.join(choices)}" for name, choices in _CHOICES.items()]
    allowed += [f"{name}={low}…{high}" for name, (low, high) in _RANGES.items()]
    raise OptionError(f"options of an API model are {', '.join(allowed)}", got=repr(f"{key}={value}"))


class ApiEngine(CardEngine):
    """Models behind an HTTP interface, for one capability.

    Args:
        capability: "AnswerScorer" or "Judge".
        timing: where time comes from.
    """

    name = "api"

    def __init__(self, capability: str, timing: Timing | None = None) -> None:
        self.capability, self._timing = capability, timing or Timing()

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        """Describes a model; makes no request and needs no key.

        Raises:
            OptionError: a name or base URL that is none.
        """
        known = parse_name(name, engines=(*BUILT_IN, self.name))
        if known.engine != self.name:
            raise OptionError("an API model is needed", got=repr(name), fix="Write api:openai/MODEL or a known name")
        parsed = ApiName.parse(known.weights)
        server = _server(parsed.dialect, options.api or ApiOptions())
        card = card_of(f"api:{parsed.dialect}/{parsed.model}") or api_card(parsed.dialect, parsed.model)
        card = dataclasses.replace(card, id=card.id + parsed.options)
        resolved = ResolvedModel(
            asked=name,
            id=card.id,
            card=card,
            location="",
            weights_sha256=_hash(parsed, server),
            preprocessing=self._preprocessing(parsed, server),
            dtype="remote",
            details={"name": f"{parsed.dialect}/{parsed.model}{parsed.options}"},
            capability=self.capability,
        )
        _REMEMBERED[resolved.weights_sha256] = options
        return resolved

    def check(self, model: ResolvedModel) -> None:
        """Raises what `load` would raise; makes no request."""
        self._ready(model)

    def load(self, model: ResolvedModel, *, device: str) -> ApiAnswerScorer | ApiJudge:
        """Gets ready to ask; makes no request yet. `device` has no say.

        Raises:
            ModelError: no key for the public service, another server than the one resolved, or offline.
            OptionError: a limit on cost for a model without a price.
            MissingExtraError: httpx or tenacity is not installed.
        """
        parsed, server, settings, price, key = self._ready(model)
        dialect, public = DIALECTS[parsed.dialect], server.url == DIALECTS[parsed.dialect].public
        meter = Meter(settings.budget, price)
        client = Client(parsed.model, dialect, server, key, settings, meter, self._timing)
        shared = (model, parsed.model, dialect, parsed.encoding, client, meter)
        if self.capability == "Judge":
            return ApiJudge(*shared, public=public, concurrency=settings.concurrency)
        return ApiAnswerScorer(*shared, top=parsed.top, public=public, concurrency=settings.concurrency)

    def _ready(self, model: ResolvedModel) -> tuple[ApiName, Server, ApiOptions, Price | None, Secret | None]:
        """Everything that a client is made of."""
        need_http()
        options = _REMEMBERED.get(model.weights_sha256, LoadOptions())
        settings = options.api or ApiOptions()
        parsed = ApiName.parse(str(model.details["name"]))
        dialect, server = DIALECTS[parsed.dialect], _server(parsed.dialect, settings)
        if _hash(parsed, server) != model.weights_sha256:
            raise ModelError(
                f"{model.id} must be asked at the server that it was resolved with",
                got=f"another base URL, at {server.shown}",
                fix=f"Set {dialect.url_variable}, or base_url=, to that of the run",
            )
        if options.offline and not server.is_loopback:
            raise ModelError(f"{model.id} needs the network", got="offline", fix="Drop --offline, or use a local model")
        price = price_of(parsed.model, settings.prices, public=server.url == dialect.public)
        if settings.max_cost is not None and price is None:
            raise OptionError(
                "max_cost needs to know what the model costs", got=f"no price for {parsed.model!r}",
                fix=f"State it per million tokens: [prices.{json.dumps(parsed.model)}] with input and output in a TOML "
                "file of settings, prices={model: {'input': …, 'output': …}} in Python",
            )  # fmt: skip
        return parsed, server, settings, price, _key(model, dialect, server, settings)

    def _preprocessing(self, parsed: ApiName, server: Server) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "library": "http",
            "server": server.shown,
            "image": parsed.encoding.as_json(),
            "prompt": PROMPT,
        }
        if self.capability == "AnswerScorer":
            tokens = ANSWER_TOKENS[parsed.dialect]
            facts |= {"temperature": 0, "top_logprobs": parsed.top, "max_tokens": tokens}
        return facts


ANSWERS = ApiEngine("AnswerScorer")
JUDGE = ApiEngine("Judge")


def _server(dialect: str, settings: ApiOptions) -> Server:
    way = DIALECTS[dialect]
    return Server.parse(settings.url_for(dialect) or os.environ.get(way.url_variable, "").strip() or way.public)


def _hash(parsed: ApiName, server: Server) -> str:
    """What stands for the weights: interface, model and server. Of the URL only this hash goes on."""
    return hash_json({"dialect": parsed.dialect, "model": parsed.model, "server": server.url})


def _key(model: ResolvedModel, dialect: Dialect, server: Server, settings: ApiOptions) -> Secret | None:
    """The key: the one given, else the environment's; a server of one's own may need none."""
    given = settings.key_for(dialect.name)
    if given is not None:
        return given
    for variable in dialect.key_variables:
        text = os.environ.get(variable, "").strip()
        if text:
            return check_key(text)
    if server.url == dialect.public:
        raise ModelError(
            f"{model.id} needs a key", got="none",
            fix=f"Set {' or '.join(dialect.key_variables)}, or give api_key=",
        )  # fmt: skip
    return None
