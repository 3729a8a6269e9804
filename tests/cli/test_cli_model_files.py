"""`beholder models where` and `verify` for models that are no encoders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.models_scores import make_artscore, make_head, make_tiny_hps

Cli = Callable[..., Any]


@pytest.mark.parametrize("make", [make_artscore, make_head])
def test_models_of_other_kinds_are_found_and_checked(make: Callable[..., Path], beholder: Cli, tmp_path: Path) -> None:
    engine = "artscore" if make is make_artscore else "aesthetic"
    name = f"{engine}:{make(tmp_path / 'weights.pth')}"
    found = beholder("models", "where", name)
    assert found.exit_code == 0, found.stderr
    assert "weights.pth" in found.stdout
    checked = beholder("models", "verify", name)
    assert checked.exit_code == 0, checked.stderr
    assert "load completely" in checked.stderr


def test_hps_files_are_found_and_checked(beholder: Cli, tmp_path: Path) -> None:
    name = f"hps:{make_tiny_hps(tmp_path / 'hps')}"
    for command in ("where", "verify"):
        result = beholder("models", command, name)
        assert result.exit_code == 0, result.stderr


def test_what_is_nowhere_says_where_it_can_be_had(beholder: Cli) -> None:
    missing = beholder("models", "where", "laion-aesthetic-v2")
    assert missing.exit_code == 2
    assert "github.com/christophschuhmann/improved-aesthetic-predictor" in missing.stderr
    assert "retinaface" in beholder("models", "where", "retinaface").stderr
