"""The public calls: one shape of answer whatever the input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import beholder
from beholder._errors import OptionError, UserError

VECTORS = {"a cat": [1.0, 0.0], "a dog": [0.0, 1.0], "both": [1.0, 1.0], "not a cat": [-1.0, 0.0]}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Two pictures that the encoder sees as exactly a cat and exactly a dog."""
    paths = {}
    for name, color in (("cat", (200, 10, 10)), ("dog", (10, 10, 200))):
        paths[name] = str(tmp_path / f"{name}.png")
        Image.new("RGB", (8, 8), color).save(paths[name])
    encoder = beholder.FakeEncoder(
        "pets", dim=2, texts=VECTORS, images={paths["cat"]: [2.0, 0.0], paths["dog"]: [0.0, 0.5]}, logit_scale=10.0
    )
    beholder.register_encoder("pets", encoder)
    return paths


def test_every_image_meets_every_text(files: dict[str, str]) -> None:
    table = beholder.score(
        "clip_score", images=[files["cat"], files["dog"]], texts=["a cat", "a dog", "both"], model="pets"
    )
    half = np.sqrt(0.5)
    np.testing.assert_allclose(table.matrix, [[1, 0, half], [0, 1, half]], atol=1e-7)
    assert table.texts == ("a cat", "a dog", "both")
    assert table.metric == "clip_score(model=pets)"


def test_the_shape_never_changes(files: dict[str, str]) -> None:
    one = beholder.score("clip_score", images=files["cat"], texts="both", model="pets")
    assert one.matrix.shape == (1, 1)
    assert float(one) == pytest.approx(np.sqrt(0.5), abs=1e-7)
    pairs = beholder.score(
        "clip_score", images=[files["cat"], files["dog"]], texts=["a cat", "a dog"], pairs=True, model="pets"
    )
    np.testing.assert_allclose(pairs.matrix, [[1], [1]], atol=1e-7)
    with pytest.raises(UserError, match=r"\.matrix"):
        float(pairs)


def test_variants_are_exact_multiples(files: dict[str, str]) -> None:
    def value(metric: str, text: str) -> float:
        return float(beholder.score(metric, images=files["cat"], texts=text, model="pets"))

    half = np.sqrt(0.5)
    assert value("clip_score(variant=x100)", "both") == pytest.approx(100 * half, abs=1e-5)
    assert value('clip_score(variant=hessel, prefix="")', "both") == pytest.approx(2.5 * half, abs=1e-6)
    assert value('clip_score(variant=hessel, prefix="")', "not a cat") == 0.0
    assert value("clip_score", "not a cat") == pytest.approx(-1.0, abs=1e-7)
    score = beholder.score("pick_score(model=pets)", images=files["cat"], texts="both")
    assert float(score) == pytest.approx(10 * half, abs=1e-5)


def test_every_kind_of_picture_is_the_same_picture(files: dict[str, str]) -> None:
    import torch

    picture = Image.open(files["cat"])
    array = np.asarray(picture)
    kinds = [
        files["cat"], Path(files["cat"]), Path(files["cat"]).read_bytes(), picture, array,
        torch.from_numpy(array.transpose(2, 0, 1).copy()), {"bytes": Path(files["cat"]).read_bytes(), "path": None},
    ]  # fmt: skip
    table = beholder.score("clip_score", images=kinds, texts="both", model="pets")
    np.testing.assert_allclose(table.matrix, np.full((7, 1), np.sqrt(0.5)), atol=1e-7)


def test_references_make_clip_i(files: dict[str, str]) -> None:
    table = beholder.score("clip_i", images=files["cat"], references=[files["cat"], files["dog"]], model="pets")
    assert float(table) == pytest.approx(0.5, abs=1e-7)
    assert table.texts == (None,)


def test_no_value_is_masked_and_says_why(files: dict[str, str]) -> None:
    table = beholder.score("clip_score", images=[files["cat"], "gone.png"], texts=["a cat", " "], model="pets")
    assert table.matrix.mask.tolist() == [[False, True], [True, True]]
    statuses = [row.score.status.value for row in table]
    assert statuses == ["ok", "empty_prompt", "missing", "missing"]
    assert all(row.score.reason for row in table if row.score.value is None)
    with pytest.raises(UserError, match="missing"):
        float(beholder.score("clip_score", images="gone.png", texts="a cat", model="pets"))


def test_a_data_frame_is_a_data_set(files: dict[str, str], tmp_path: Path) -> None:
    frame = pd.DataFrame({"image": [files["cat"], files["dog"]], "caption": ["a cat", "a cat"], "kind": ["x", None]})
    run = beholder.evaluate(
        frame, metrics="clip_score", model="pets", out=str(tmp_path / "o"), store=str(tmp_path / "s")
    )
    assert run.scores.column("clip_score").to_pylist() == pytest.approx([1.0, 0.0], abs=1e-7)
    assert run.scores.column("kind").to_pylist() == ["x", None]


def test_a_run_without_a_folder_finds_its_own_again(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = tmp_path / "mine.csv"
    rows.write_text(f"output,prompt\n{files['cat']},a cat\n")
    first = beholder.evaluate(str(rows), metrics="clip_score", model="pets")
    second = beholder.evaluate(str(rows), metrics="clip_score", model="pets")
    assert first.path == second.path
    assert first.path.parent == Path("runs")
    assert first.path.name.startswith("mine-")


def test_listing(files: dict[str, str]) -> None:
    assert {"clip_i", "clip_score", "clip_t", "pick_score"} <= {card.name for card in beholder.list_metrics()}
    assert {card.name for card in beholder.list_metrics("preference")} >= {"pick_score"}
    assert {card.family for card in beholder.list_metrics("preference")} == {"preference"}
    with pytest.raises(OptionError, match="family"):
        beholder.list_metrics("clap")
    assert "hf:openai/clip-vit-large-patch14" in {card.id for card in beholder.list_models()}


def test_win_probabilities_of_single_files_are_probabilities(files: dict[str, str]) -> None:
    metric = "pick_score(model=pets, output=probability)"
    table = beholder.score(metric, images=[files["cat"], files["dog"]], texts=["a cat", "both"])
    # logit_scale 10: scores (10, 0) for "a cat" and equal ones for "both"
    np.testing.assert_allclose(table.matrix[:, 0], [1 / (1 + np.exp(-10.0)), 1 / (1 + np.exp(10.0))], rtol=1e-6)
    np.testing.assert_allclose(table.matrix[:, 1], [0.5, 0.5], rtol=1e-6)
    alone = beholder.score(metric, images=files["cat"], texts="a cat").rows[0].score
    assert (alone.value, alone.status) == (None, "not_applicable")
    assert "two or more candidates" in str(alone.reason)
    broken = beholder.score(metric, images=[files["cat"], "none.png"], texts="a cat")
    assert [row.score.status.value for row in broken] == ["not_applicable", "missing"]
