"""Names of API models, what makes two of them different, and what is needed before one is asked."""

from __future__ import annotations

import builtins
import doctest
import importlib
import pkgutil
import subprocess
import sys
from typing import Any

import pytest
from tests.backends.api_helpers import load

import beholder.backends.api
from beholder._errors import MissingExtraError, ModelError, OptionError
from beholder.backends.api.options import ApiOptions
from beholder.backends.api.server import Server
from beholder.backends.base import LoadOptions, ResolvedModel
from beholder.backends.pool import find_card, list_models, load_model, resolve_model


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


def resolve(name: str, *, capability: str = "AnswerScorer", **settings: Any) -> ResolvedModel:
    return resolve_model(name, capability=capability, options=LoadOptions(api=ApiOptions(**settings)))


@pytest.mark.parametrize(
    ("name", "model_id"),
    [
        ("gpt-4o", "api:openai/gpt-4o"),
        ("gemini-2.5-flash", "api:gemini/gemini-2.5-flash"),
        ("api:openai/gpt-4o", "api:openai/gpt-4o"),
        ("api:openai/Qwen/Qwen2.5-VL-7B-Instruct", "api:openai/Qwen/Qwen2.5-VL-7B-Instruct"),
        ("api:openai/llama3.2-vision:11b", "api:openai/llama3.2-vision:11b"),
        ("api:openai/gpt-4o;side=512;image=png", "api:openai/gpt-4o;image=png;side=512"),
        ("api:openai/gpt-4o;side=1024;quality=95;top=20", "api:openai/gpt-4o"),
    ],
)
def test_names(name: str, model_id: str) -> None:
    resolved = resolve(name)
    assert resolved.id == resolved.card.id == model_id
    assert resolved.asked == name
    assert resolve(model_id).key == resolved.key


@pytest.mark.parametrize(
    "name",
    [
        "api:gpt-4o", "api:openai/", "api:azure/gpt-4o", "api:openai/gpt 4o", "api:openai/gpt-4o;side=big",
        "api:openai/gpt-4o;quality=0", "api:openai/gpt-4o;image=webp", "api:openai/gpt-4o;colour=red", "api:",
    ],
)  # fmt: skip
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(OptionError):
        resolve(name)


def test_what_makes_two_models_different() -> None:
    plain = resolve("api:openai/m", base_url="http://localhost:8000/v1")
    same = [
        resolve("api:openai/m", base_url="http://LOCALHOST:8000/v1/"),
        resolve("api:openai/m", base_url="http://me:pw@localhost:8000/v1?token=x", api_key="sk-12345678", max_calls=3),
    ]
    others = [
        resolve("api:openai/n", base_url="http://localhost:8000/v1"),
        resolve("api:openai/m", base_url="http://localhost:8001/v1"),
        resolve("api:openai/m", base_url="https://localhost:8000/v1"),
        resolve("api:openai/m", base_url="http://localhost:8000/v2"),
        resolve("api:gemini/m", base_url="http://localhost:8000/v1"),
        resolve("api:openai/m;side=512", base_url="http://localhost:8000/v1"),
        resolve("api:openai/m;top=5", base_url="http://localhost:8000/v1"),
        resolve("api:openai/m", base_url="http://localhost:8000/v1", capability="Judge"),
        resolve("api:openai/m"),
    ]
    assert {model.key for model in same} == {plain.key}
    assert len({model.key for model in [plain, *others]}) == 1 + len(others)


def test_what_a_result_says_about_the_model() -> None:
    answers = resolve("api:openai/m;image=png;side=0", base_url="http://localhost:8000/v1").preprocessing
    assert answers == {
        "library": "http",
        "server": "localhost:8000",
        "image": {"library": "pillow", "format": "png", "max_side": None},
        "prompt": "one user message: the pictures in order, then the text; no system message",
        "temperature": 0,
        "top_logprobs": 20,
        "max_tokens": 1,
    }
    judged = resolve("gpt-4o", capability="Judge").preprocessing
    assert judged["image"] == {
        "library": "pillow", "format": "jpeg", "max_side": 1024, "interpolation": "lanczos", "quality": 95,
        "subsampling": "4:4:4",
    }  # fmt: skip
    assert judged["server"] == "api.openai.com"


def test_the_base_url_comes_from_the_option_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://localhost:2/v1")
    server = "server"
    assert resolve("gpt-4o").preprocessing[server] == "localhost:1"
    assert resolve("gemini-2.5-pro").preprocessing[server] == "localhost:2"
    assert resolve("gpt-4o", base_url="http://localhost:3").preprocessing[server] == "localhost:3"
    only = {"gemini": "http://localhost:4"}
    assert resolve("gpt-4o", base_url=only).preprocessing[server] == "localhost:1"
    assert resolve("gemini-2.5-pro", base_url=only).preprocessing[server] == "localhost:4"


def test_cards_are_listed_and_found() -> None:
    cards = {card.id: card for card in list_models()}
    assert len(cards) == len(list_models())
    assert cards["api:openai/gpt-4.1"].aliases == ("gpt-4.1",)
    card = find_card("gemini-2.5-flash")
    assert card is not None
    assert any("log probabilities" in note for note in card.notes)
    assert find_card("api:openai/anything") is None


def test_resolving_needs_no_key_and_loading_does() -> None:
    for name, variable in (("gpt-4o", "OPENAI_API_KEY"), ("gemini-2.5-flash", "GEMINI_API_KEY or GOOGLE_API_KEY")):
        resolved = resolve(name, capability="Judge")
        with pytest.raises(ModelError, match=f"needs a key.*Set {variable}"):
            load_model(resolved)


def test_a_server_of_ones_own_needs_no_key() -> None:
    load_model(resolve("api:openai/m", base_url="http://localhost:8000/v1")).close()


def test_an_api_model_is_no_encoder_and_an_encoder_no_api_model() -> None:
    with pytest.raises(OptionError, match="api gives AnswerScorer and Judge"):
        resolve_model("gpt-4o")


def test_offline_asks_this_machine_only() -> None:
    with pytest.raises(ModelError, match="needs the network"):
        load(offline=True)
    load(url="http://127.0.0.1:9/v1", offline=True).close()


def test_another_server_than_the_one_resolved_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In another process the settings are gone, and the environment may name another server."""
    from beholder.backends.api import engine

    resolved = resolve("api:openai/m", base_url="http://localhost:8000/v1")
    monkeypatch.setattr(engine, "_REMEMBERED", {})
    monkeypatch.setenv("OPENAI_API_KEY", "sk-12345678")
    with pytest.raises(ModelError, match=r"at the server that it was resolved with.*Set OPENAI_BASE_URL"):
        load_model(resolved)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    load_model(resolved).close()


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "tenacity":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r'pip install "beholder\[api\]"'):
        load(url="http://127.0.0.1:9/v1")


def test_finding_a_model_imports_no_http_library() -> None:
    code = (
        "import sys; from beholder.backends.pool import resolve_model; resolve_model('gpt-4o', capability='Judge'); "
        "print([name for name in ('httpx', 'tenacity', 'torch', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host/v1", "http://", "http://host:port/v1", "", "https:///v1"]
)
def test_base_urls_that_are_none(url: str) -> None:
    with pytest.raises(OptionError, match="must begin with http"):
        ApiOptions(base_url=url)


def test_parts_of_a_base_url() -> None:
    server = Server.parse("HTTPS://User:p%40ss@[::1]:8443/api/v1/?api-version=2")
    assert (server.url, server.shown) == ("https://[::1]:8443/api/v1", "[::1]:8443")
    assert server.is_loopback
    assert server.user is not None
    assert (server.user[0], server.user[1].reveal()) == ("User", "p@ss")
    assert Server.parse("http://example.com:80/v1").url == "http://example.com/v1"
    assert not Server.parse("http://localhost.example.com/").is_loopback


@pytest.mark.parametrize("name", sorted(item.name for item in pkgutil.iter_modules(beholder.backends.api.__path__)))
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"beholder.backends.api.{name}")).failed == 0
