"""Tiny models, made once a session, and pictures."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.backends_pictures import noise_picture
from tests.models import TINY_FAMILIES

from beholder.backends.base import ImageTextEncoder
from beholder.backends.pool import load_model, resolve_model
from beholder.media.base import Picture


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a tiny model of a family; made at the first request, never written to."""
    made: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in made:
            made[family] = TINY_FAMILIES[family](tmp_path_factory.mktemp("models") / family)
        return made[family]

    return folder


@pytest.fixture
def tiny_copy(tiny: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a tiny model that a test may damage."""

    def copy(family: str) -> Path:
        return Path(shutil.copytree(tiny(family), tmp_path / f"copy-{family}"))

    return copy


@pytest.fixture(scope="session")
def encoders(tiny: Callable[[str], Path]) -> Callable[[str], ImageTextEncoder]:
    """A loaded tiny model of a family, on the CPU."""
    loaded: dict[str, ImageTextEncoder] = {}

    def encoder(family: str) -> ImageTextEncoder:
        if family not in loaded:
            loaded[family] = load_model(resolve_model(str(tiny(family))), device="cpu")
        return loaded[family]

    return encoder


@pytest.fixture
def pictures() -> list[Picture]:
    """16 pictures of several sizes."""
    return [noise_picture(40 + 7 * (i % 5), 90 - 6 * (i % 7), seed=i) for i in range(16)]
