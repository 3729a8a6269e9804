"""Cards of models behind an HTTP interface. What is not public knowledge (size, licence of weights) stays None."""

from __future__ import annotations

from collections.abc import Sequence

from beholder.records import ModelCard

ARCHES = {"openai": "chat-completions", "gemini": "generate-content"}
"""Dialect → what stands for an architecture: the interface, which is all that is known."""

_SENT = "Pictures and texts are sent to the server; its terms of use hold, and each request may cost money."
_DRIFT = "What stands behind the name may change: the name that the server returned is stored with every reply."
_NO_LOGPROBS = (
    "The public Gemini API has been reported to refuse log probabilities for the 2.5 models (python-genai issue 1921): "
    "then it serves as a judge only."
)

_OPENAI = (
    "gpt-4o", "gpt-4o-2024-08-06", "gpt-4o-2024-11-20", "gpt-4o-mini", "gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano",
)  # fmt: skip
_GEMINI = ("gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-2.0-flash")


def cards() -> Sequence[ModelCard]:
    """Cards of the models that are known by their short name; every other is written `api:dialect/model`."""
    made = [api_card("openai", name, alias=name) for name in _OPENAI]
    for name in _GEMINI:
        made.append(api_card("gemini", name, alias=name, notes=(_NO_LOGPROBS,) if "2.5" in name else ()))
    return made


def api_card(
    dialect: str, model: str, *, alias: str | None = None, options: str = "", notes: tuple[str, ...] = ()
) -> ModelCard:
    """The card of a model at a server.

    Args:
        dialect: "openai" or "gemini".
        model: the model's name at the server.
        alias: a short name for it.
        options: the options of its name, as printed (";side=512").
        notes: what there is to say beside the usual.
    """
    return ModelCard(
        capabilities=("AnswerScorer", "Judge"),
        id=f"api:{dialect}/{model}{options}",
        engine="api",
        family=dialect,
        arch=ARCHES[dialect],
        weights=model,
        aliases=(alias,) if alias else (),
        notes=(_SENT, _DRIFT, *notes),
    )
