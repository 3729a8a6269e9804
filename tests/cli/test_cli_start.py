"""Commands that need no model load no model library (`benchmarks/start.py` measures how fast they start)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "transformers", "open_clip", "av", "torchvision")
CODE = """
import json, sys
from beholder.cli.main import main
sys.argv = ["beholder", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    code = end.code
print(json.dumps({"code": code, "modules": sorted(m for m in sys.modules if m in %r)}), file=sys.stderr)
"""


def start(*args: str, heavy: tuple[str, ...] = HEAVY) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE % (heavy,), *args], capture_output=True, text=True, check=True
    )
    found: dict[str, object] = json.loads(done.stderr.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    "args",
    [
        ("--help",), ("--version",), ("run", "--help"), ("list",), ("list", "--models"), ("models",),
        ("info", "clip_score"), ("info", "openai:ViT-L-14"), ("cache",), ("cite", "clip_i"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_model_library_is_loaded(args: tuple[str, ...]) -> None:
    assert start(*args) == {"code": 0, "modules": []}


def test_validate_and_show_load_no_model_library(data: Path) -> None:
    assert start("validate", "samples.jsonl") == {"code": 0, "modules": []}
    assert start("run", "samples.jsonl", "-m", "clip_score", "--model", "fake:dim=16", "-o", "one")["code"] == 0
    assert start("show", "one") == {"code": 0, "modules": []}


def test_help_does_not_load_numpy_pyarrow_or_pydantic() -> None:
    assert start("--help", heavy=("numpy", "pyarrow", "scipy", "PIL"))["modules"] == []
