"""The package itself: what it exports, and how light it is to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import beholder

HEAVY = ("torch", "transformers", "open_clip", "pyarrow", "numpy", "scipy", "pydantic", "typer", "rich", "PIL")


def loaded_after(code: str) -> set[str]:
    """Which heavy packages a fresh interpreter has loaded after some code."""
    script = f"import sys\n{code}\nprint(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()) if done.stdout.strip() else set()


def test_import_loads_nothing_heavy() -> None:
    assert loaded_after("import beholder") == set()


def test_listing_metrics_loads_no_model_library() -> None:
    assert not loaded_after("import beholder; beholder.list_metrics()") & {"torch", "transformers", "open_clip"}


def test_every_name_of_all_is_there_and_sorted() -> None:
    assert list(beholder.__all__) == sorted(beholder.__all__, key=lambda name: (name[0].islower(), name))
    for name in beholder.__all__:
        assert getattr(beholder, name).__name__.rpartition(".")[2] == ("evaluate" if name == "run" else name)


def test_all_is_exactly_what_is_meant_to_be_public() -> None:
    assert set(beholder.__all__) == set(beholder._TARGETS)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        beholder.no_such_thing  # noqa: B018


def test_package_is_typed() -> None:
    assert (Path(beholder.__file__).parent / "py.typed").exists()


def test_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    assert version("beholder") == beholder.__version__
