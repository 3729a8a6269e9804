"""OpenAI's chat completions, which vLLM, SGLang, llama.cpp and many others speak too.

Source: the public API reference, https://platform.openai.com/docs/api-reference/chat (POST /chat/completions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beholder._errors import NoValue
from beholder.backends.api.dialect import Wish
from beholder.backends.api.faults import one_line, shorten
from beholder.backends.api.pictures import Encoding
from beholder.backends.api.reply import Reply, count, dig, told_tokens, word
from beholder.backends.api.secret import Secret
from beholder.records import Status


class OpenAI:
    """Chat completions with `logprobs` and `top_logprobs`."""

    name = "openai"
    key_variables: tuple[str, ...] = ("OPENAI_API_KEY",)
    url_variable = "OPENAI_BASE_URL"
    public = "https://api.openai.com/v1"

    def headers(self, key: Secret | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {key.reveal()}"} if key is not None else {}

    def path(self, model: str) -> str:
        return "/chat/completions"

    def body(
        self, model: str, pictures: Sequence[str], text: str, wish: Wish, encoding: Encoding, *, public: bool
    ) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        for picture in pictures:
            image = {"url": f"data:{encoding.mime};base64,{picture}"}
            if encoding.detail:
                image["detail"] = encoding.detail
            parts.append({"type": "image_url", "image_url": image})
        parts.append({"type": "text", "text": text})
        body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": parts}]}
        if wish.temperature != "server":
            body["temperature"] = wish.temperature
        if wish.max_tokens:
            # OpenAI has renamed the field; other servers may know the old name only.
            body["max_completion_tokens" if public else "max_tokens"] = wish.max_tokens
        if wish.seed is not None:
            body["seed"] = wish.seed
        if wish.top:
            body |= {"logprobs": True, "top_logprobs": wish.top}
        return body

    def read(self, body: Mapping[str, Any]) -> Reply:
        choice = dig(body, "choices", 0)
        if not isinstance(choice, Mapping):
            raise NoValue(Status.UNPARSABLE, "the server answered without a choice")
        refusal, finish = word(dig(choice, "message", "refusal")), word(choice.get("finish_reason"))
        if refusal:
            raise NoValue(Status.REFUSED, f"the model refused: {shorten(one_line(refusal))}")
        if finish == "content_filter":
            raise NoValue(Status.REFUSED, "the provider's content filter withheld the reply")
        first = dig(choice, "logprobs", "content", 0)
        tokens = told_tokens(first, dig(first, "top_logprobs"), token="token", value="logprob")
        return Reply(_text(dig(choice, "message", "content")), finish, word(body.get("model")), tokens)

    def usage(self, body: Mapping[str, Any]) -> tuple[int, int] | None:
        usage = body.get("usage")
        if not isinstance(usage, Mapping) or not count(usage.get("prompt_tokens")):
            return None
        return count(usage["prompt_tokens"]), count(usage.get("completion_tokens"))


def _text(content: Any) -> str:
    """A message's text: a string, or a list of parts."""
    if isinstance(content, list):
        return "".join(word(dig(part, "text")) for part in content)
    return word(content)
