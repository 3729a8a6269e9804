"""The examples in the docstrings of the pure rooms are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import beholder.functional
import beholder.metrics
import beholder.stats

MODULES = sorted(
    f"{package.__name__}.{module.name}"
    for package in (beholder.functional, beholder.metrics, beholder.stats)
    for module in pkgutil.iter_modules(package.__path__)
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_maths_has_examples() -> None:
    finder = doctest.DocTestFinder()
    for name in ("similarity", "clip", "preference"):
        module = importlib.import_module(f"beholder.functional.{name}")
        with_examples = {test.name.rpartition(".")[2] for test in finder.find(module) if test.examples}
        public = {
            n for n in beholder.functional.__all__ if getattr(beholder.functional, n).__module__ == module.__name__
        }
        assert {n for n in public if n[0].islower()} <= with_examples
