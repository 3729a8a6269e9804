"""Gemini's `generateContent`.

Source: the public API reference, https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from beholder._errors import NoValue
from beholder.backends.api.dialect import Wish
from beholder.backends.api.pictures import Encoding
from beholder.backends.api.reply import Reply, count, dig, told_tokens, word
from beholder.backends.api.secret import Secret
from beholder.records import Status

_BLOCKED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT"}
)
"""Finish reasons with which the provider withholds a reply."""


class Gemini:
    """`generateContent` with `responseLogprobs`."""

    name = "gemini"
    key_variables: tuple[str, ...] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    url_variable = "GOOGLE_GEMINI_BASE_URL"
    public = "https://generativelanguage.googleapis.com/v1beta"

    def headers(self, key: Secret | None) -> dict[str, str]:
        return {"x-goog-api-key": key.reveal()} if key is not None else {}

    def path(self, model: str) -> str:
        return f"/models/{quote(model, safe='')}:generateContent"

    def body(
        self, model: str, pictures: Sequence[str], text: str, wish: Wish, encoding: Encoding, *, public: bool
    ) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [
            {"inlineData": {"mimeType": encoding.mime, "data": picture}} for picture in pictures
        ]
        parts.append({"text": text})
        wanted: dict[str, Any] = {}
        if wish.temperature != "server":
            wanted["temperature"] = wish.temperature
        if wish.max_tokens:
            wanted["maxOutputTokens"] = wish.max_tokens
        if wish.seed is not None:
            wanted["seed"] = wish.seed
        if wish.top:
            wanted |= {"responseLogprobs": True, "logprobs": wish.top}
            if model.startswith("gemini-2.5-flash"):
                # Thoughts would use up the few tokens of an answer; these models can do without.
                wanted["thinkingConfig"] = {"thinkingBudget": 0}
        return {"contents": [{"role": "user", "parts": parts}], "generationConfig": wanted}

    def read(self, body: Mapping[str, Any]) -> Reply:
        blocked = word(dig(body, "promptFeedback", "blockReason"))
        if blocked:
            raise NoValue(Status.REFUSED, f"the provider blocked the request: {blocked}")
        candidate = dig(body, "candidates", 0)
        if not isinstance(candidate, Mapping):
            raise NoValue(Status.UNPARSABLE, "the server answered without a candidate")
        finish = word(candidate.get("finishReason"))
        if finish in _BLOCKED:
            raise NoValue(Status.REFUSED, f"the provider withheld the reply: {finish}")
        told = candidate.get("logprobsResult")
        tokens = told_tokens(
            dig(told, "chosenCandidates", 0),
            dig(told, "topCandidates", 0, "candidates"),
            token="token",
            value="logProbability",
        )
        parts = dig(candidate, "content", "parts")
        written = [part for part in parts if not dig(part, "thought")] if isinstance(parts, list) else []
        text = "".join(word(dig(part, "text")) for part in written)
        return Reply(text, finish, word(body.get("modelVersion")), tokens)

    def usage(self, body: Mapping[str, Any]) -> tuple[int, int] | None:
        usage = body.get("usageMetadata")
        if not isinstance(usage, Mapping) or not count(usage.get("promptTokenCount")):
            return None
        written = count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount"))
        return count(usage["promptTokenCount"]), written
