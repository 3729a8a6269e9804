"""What every test gets: no network, a cache of its own, and skips that CI does not let pass unnoticed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Tests in the background of a shell inherit that, and so would the processes that they interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

ALLOWED_SKIPS = Path(__file__).with_name("allowed_skips.txt")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh BEHOLDER_CACHE for each test; places that a user's environment may name are forgotten."""
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("BEHOLDER_CACHE", str(cache))
    for name in ("WORLDFOUNDRY_T2V_METRICS_CACHE_DIR", "WORLDFOUNDRY_HFD_ROOT"):
        monkeypatch.delenv(name, raising=False)
    return cache


@pytest.fixture(autouse=True)
def own_models() -> Iterator[None]:
    """Models that a test registers are gone after it."""
    from beholder.backends import pool

    before = dict(pool._REGISTERED)
    yield
    pool._REGISTERED.clear()
    pool._REGISTERED.update(before)


def _allowed_reasons() -> list[str]:
    lines = ALLOWED_SKIPS.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names the skips that are not on the list."""
    for reason in _unexpected_skips(terminalreporter):
        terminalreporter.write_line(f"unexpected skip: {reason}", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skipped test fails the run unless its reason is in allowed_skips.txt."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and exitstatus == 0 and reporter is not None and _unexpected_skips(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _unexpected_skips(reporter: pytest.TerminalReporter) -> list[str]:
    allowed = _allowed_reasons()
    reasons = []
    for report in reporter.stats.get("skipped", []):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(reason in text for reason in allowed):
            reasons.append(f"{report.nodeid}: {text}")
    return reasons
