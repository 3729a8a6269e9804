"""Backbones and libraries: B1 to B5 of the table in README.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.models import make_tiny_clip

import beholder
from beholder._errors import WeightsMismatchError

ROOT = Path(beholder.__file__).parents[2]


def test_b1_weights_of_openai_in_a_plain_gelu_configuration_are_refused(
    tmp_path: Path, picture: str, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    # A folder that is OpenAI's ViT-L/14 by its name and carries another activation.
    repository = tmp_path / "openai" / "clip-vit-large-patch14"
    make_tiny_clip(repository, activation="gelu")
    monkeypatch.setenv("BEHOLDER_CACHE", str(tmp_path))
    with pytest.raises(WeightsMismatchError, match=r"(?i)quick"):
        beholder.score("clip_score", images=picture, texts="a cat", model="openai:ViT-L-14")
    result = cli("score", picture, "-t", "a cat")
    assert result.exit_code == 2
    assert "quick" in result.stderr.lower()


def test_b2_a_high_frequency_picture_is_prepared_as_pillow_does(tmp_path: Path, tiny_model: Any) -> None:
    """The score of a fine chequerboard equals the one of the picture that Pillow made small beforehand."""
    board = (np.indices((90, 90)).sum(0) % 2 * 255).astype(np.uint8)
    big = Image.fromarray(np.stack([board, np.roll(board, 1, 0), 255 - board // 2], axis=2))
    small = big.resize((30, 30), Image.Resampling.BICUBIC)
    table = beholder.score("clip_score", images=[big, small], texts=["a cat", "a dog"], model=tiny_model())
    np.testing.assert_array_equal(table.matrix[0], table.matrix[1])
    nearest = big.resize((30, 30), Image.Resampling.NEAREST)
    other = beholder.score("clip_score", images=nearest, texts=["a cat", "a dog"], model=tiny_model())
    assert abs(other.matrix[0] - table.matrix[0]).max() > 1e-3


def test_b3_golden_scores_of_projected_embeddings(tmp_path: Path, tiny_model: Any) -> None:
    """The projected output is taken, with the numbers of the stock class's own forward pass."""
    import torch
    from transformers import CLIPModel, CLIPTokenizer

    folder = tiny_model()
    network, tokenizer = CLIPModel.from_pretrained(folder).eval(), CLIPTokenizer.from_pretrained(folder)
    pixels = np.random.default_rng(3).integers(0, 256, (30, 30, 3), dtype=np.uint8)
    mean, std = np.array([0.48145466, 0.4578275, 0.40821073]), np.array([0.26862954, 0.26130258, 0.27577711])
    values = torch.tensor(((pixels / 255 - mean) / std).transpose(2, 0, 1)[None], dtype=torch.float32)
    ids = torch.tensor([tokenizer("a red car", padding="max_length", max_length=77)["input_ids"]])
    with torch.no_grad():
        out = network(input_ids=ids, pixel_values=values)
    expected = float((out.image_embeds @ out.text_embeds.T)[0, 0])
    assert float(beholder.score("clip_score", images=pixels, texts="a red car", model=folder)) == pytest.approx(
        expected, abs=1e-5
    )


def test_b4_a_missing_library_breaks_nothing_else() -> None:
    """Without open_clip, torchvision and av: clip_score works, and the missing one is one clear message."""
    script = """
import sys
for name in ("open_clip", "torchvision", "av", "fsspec.implementations.http"):
    sys.modules[name] = None
import numpy as np, beholder
print(float(beholder.score("clip_score", images=np.zeros((8, 8, 3), np.uint8), texts="a", model="fake")))
print(len(beholder.list_metrics()) >= 4)
try:
    beholder.score("clip_score", images=np.zeros((8, 8, 3), np.uint8), texts="a", model="laion2b_s32b_b82k:ViT-L-14")
except beholder.UserError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    value, listed, message = done.stdout.splitlines()
    assert -1 <= float(value) <= 1
    assert listed == "True"
    assert 'pip install "beholder[openclip]"' in message


def test_b5_no_dependency_is_pinned_to_one_version() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    requirements = re.findall(r'^\s*"([A-Za-z][\w.-]*(?:\[[^\]]*\])?\s*[<>=!~][^"]*)"', text, re.MULTILINE)
    assert len(requirements) > 8
    assert [item for item in requirements if "==" in item] == []
