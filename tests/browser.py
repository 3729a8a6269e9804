"""A real browser for tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_FLAGS = (
    "--no-sandbox",  # root in a container has no user namespaces to build a sandbox of
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium; skips the test where there is none."""
    path = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("Chromium is not installed")
    if find_spec("playwright") is None:
        pytest.skip("Playwright is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=path, args=list(_FLAGS))
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def page_of(opened: Any, address: str, **settings: Any) -> Iterator[Any]:
    """A page; what its console says, its errors and its requests to any server fail the test."""
    context = opened.new_context(**settings)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("request", lambda request: None if _is_local(request.url) else said.append(f"request: {request.url}"))
    page.goto(address)
    try:
        yield page
    finally:
        context.close()
    assert said == []


def until(page: Any, expression: str, *, seconds: float = 20) -> None:
    """Waits for an expression to become true. The page's own policy forbids the waiting that evaluates inside it."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never true: {expression}"
        time.sleep(0.02)


def _is_local(address: str) -> bool:
    return address.startswith(("file:", "data:", "blob:"))
