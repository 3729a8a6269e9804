"""`beholder run --commercial-only`, the same in a TOML file, and what `beholder info` says of licences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import FAKE

Cli = Callable[..., Any]


def test_the_command_line_and_toml(beholder: Cli, data: Path) -> None:
    line = ("run", data, "-m", "clip_score", "--model", FAKE, "-o", "a")
    refused = beholder(*line, "--commercial-only")
    assert refused.exit_code == 2
    assert "licence was not checked" in refused.stderr
    assert FAKE in refused.stderr
    assert not Path("a").exists()
    Path("eval.toml").write_text(
        f'data = "{data.name}"\nmetrics = ["clip_score"]\nmodel = "{FAKE}"\ncommercial_only = true\nout = "b"\n',
        encoding="utf-8",
    )
    refused = beholder("run", "eval.toml")
    assert refused.exit_code == 2
    assert "licence was not checked" in refused.stderr
    planned = beholder(*line, "--commercial-only", "--dry-run")
    assert planned.exit_code == 2
    assert beholder(*line).exit_code == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hpsv2.1", "Wu et al."),  # a metric and a model: the metric's card
        ("hpsv2.1", "hpsv2.1: Apache-2.0; commercial use allowed"),
        ("facescore", "retinaface: MIT (repository biubug6/Pytorch_Retinaface); commercial use not checked"),
        ("facesim_cur(model=insightface)", "insightface: InsightFace's model packs: non-commercial research only"),
        ("clip_score(model=hf:somebody/some-model)", "no card, so its licence was not checked"),
        ("pixels", "arithmetic without weights; commercial use allowed"),
        ("hps:v2.1", "Apache-2.0; commercial use allowed"),
        ("insightface", "non-commercial research only; no commercial use"),
        ("artscore:resnet50", "commercial use not checked"),
        ("laion-aesthetic-v2.5", "AGPL-3.0"),
    ],
)
def test_info_shows_licences(name: str, words: str, beholder: Cli) -> None:
    result = beholder("info", name)
    assert result.exit_code == 0, result.stderr
    assert words in " ".join(result.stdout.split())
