"""`pyiqa:NAME`: values, direction, identity, batches, refusals; on a stand-in, and on pyiqa where it is installed."""

from __future__ import annotations

import importlib.util
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models_pyiqa import Fake, install
from typer.testing import CliRunner

import beholder
from beholder._errors import MissingExtraError, OptionError, UnknownNameError, WeightsMismatchError, WeightsMissingError
from beholder._identity import MetricSpec, parse_spec
from beholder.backends.base import LoadOptions
from beholder.backends.pool import find_card, load_model, resolve_model
from beholder.cli.main import app
from beholder.media.base import Picture
from beholder.metrics.base import make_metric


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    (tmp_path / "weights").mkdir()
    return install(monkeypatch, tmp_path / "weights")


def write_rows(
    folder: Path, sizes: list[tuple[int, int]], **cells: Any
) -> tuple[list[dict[str, Any]], list[np.ndarray]]:
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    rows, pixels = [], []
    for at, (width, height) in enumerate(sizes):
        pixels.append(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        Image.fromarray(pixels[-1]).save(folder / f"{at}.png")
        rows.append({"id": str(at), "output": str(folder / f"{at}.png"), **cells})
    return rows, pixels


def sharp(pixels: np.ndarray, weight: float = 2.0) -> float:
    values = pixels.astype(np.float64) / 255.0
    return float(weight * ((values[:, 1:] - values[:, :-1]) ** 2).mean())


def evaluate(rows: Any, tmp_path: Path, name: str, metrics: Any, **more: Any) -> beholder.Run:
    return beholder.evaluate(rows, metrics=metrics, out=str(tmp_path / name), store=str(tmp_path / f"s-{name}"), **more)


def test_values_are_pyiqas_for_pictures_of_any_size(fake: Fake, tmp_path: Path) -> None:
    rows, pixels = write_rows(tmp_path / "i", [(16, 12)] * 5 + [(20, 9), (9, 9)])
    run = evaluate(rows, tmp_path, "o", ["pyiqa:sharp", "pyiqa:sharp(over_frames=max, as=b)"])
    assert run.labels == ["pyiqa:sharp", "b"]
    np.testing.assert_allclose(run.scores["pyiqa:sharp"].to_numpy(), [sharp(item) for item in pixels], rtol=1e-5)
    (item, _) = run.header["metrics"]
    assert item["info"]["higher_is_better"] is True
    (model,) = run.header["models"].values()
    assert model["preprocessing"]["pyiqa"] == "9.9"
    # The first pictures of one size are tried alone and together; then they go together.
    assert max(fake.made[-1].batches) == 4


def test_pictures_at_random_crops_are_looked_at_one_by_one(fake: Fake, tmp_path: Path) -> None:
    rows, _ = write_rows(tmp_path / "i", [(16, 12)] * 9)
    before = np.random.get_state()[1].tolist()  # type: ignore[union-attr]
    one = evaluate(rows, tmp_path, "o", "pyiqa:crops").scores["pyiqa:crops"].to_pylist()
    assert np.random.get_state()[1].tolist() == before  # type: ignore[union-attr]
    other = evaluate(rows[::-1], tmp_path, "p", "pyiqa:crops").scores["pyiqa:crops"].to_pylist()
    assert one == other[::-1]


def test_references_are_averaged_and_must_have_the_outputs_size(fake: Fake, tmp_path: Path) -> None:
    references, ref_pixels = write_rows(tmp_path / "r", [(16, 12), (16, 12), (8, 8)])
    rows, pixels = write_rows(tmp_path / "i", [(16, 12)] * 3 + [(16, 12)])
    paths = [row["output"] for row in references]
    for row, own in zip(rows, (paths[:2], paths[1:2], paths[:3], [])):
        row["references"] = own
    run = evaluate(rows, tmp_path, "o", "pyiqa:loss")
    scores = run.scores
    assert scores["pyiqa:loss_status"].to_pylist() == ["ok", "ok", "not_applicable", "no_reference"]
    assert "16×12 and the reference 8×8" in scores["pyiqa:loss_reason"].to_pylist()[2]
    for row, own in ((0, ref_pixels[:2]), (1, ref_pixels[1:2])):
        values = [((pixels[row] / 255.0 - item / 255.0) ** 2).mean() for item in own]
        assert scores["pyiqa:loss"].to_pylist()[row] == pytest.approx(float(np.mean(values)), rel=1e-5)
    assert run.header["metrics"][0]["info"]["higher_is_better"] is False


def test_a_picture_that_pyiqa_refuses_costs_its_row(fake: Fake, tmp_path: Path) -> None:
    rows, _ = write_rows(tmp_path / "i", [(16, 12), (4, 4), (16, 12)])
    run = evaluate(rows, tmp_path, "o", "pyiqa:small", max_failed=0.5)
    assert run.scores["pyiqa:small_status"].to_pylist() == ["ok", "failed", "ok"]
    assert "8 pixels a side" in run.scores["pyiqa:small_reason"].to_pylist()[1]


def test_version_name_and_weights_are_part_of_the_key(fake: Fake, tmp_path: Path) -> None:
    def key(name: str) -> str:
        return resolve_model(f"pyiqa:{name}", capability="ImageScorer").key

    first = key("sharp")
    assert key("sharp") == first != key("crops")
    fake.weight = 3.0
    assert key("sharp") != first
    fake.weight = 2.0
    sys.modules["pyiqa"].__dict__["__version__"] = "10"
    assert key("sharp") != first
    model = resolve_model("pyiqa:sharp", capability="ImageScorer")
    load_model(model).close()
    fake.weight = 4.0
    with pytest.raises(WeightsMismatchError, match="must not change during a run"):
        load_model(model)


def test_files_that_pyiqa_reads_are_hashed_fetched_once_and_never_run(fake: Fake, tmp_path: Path) -> None:
    def resolve(offline: bool = False) -> str:
        options = LoadOptions(offline=offline)
        return resolve_model("pyiqa:needs_file", capability="ImageScorer", options=options).weights_sha256

    with pytest.raises(WeightsMissingError, match=r"weights\.pth, offline.*Fetch https://example\.org"):
        resolve(offline=True)
    first = resolve()
    assert fake.fetched == ["https://example.org/w/weights.pth"]
    (fake.folder / "weights.pth").write_bytes(b"others")
    assert resolve(offline=True) != first
    assert len(fake.fetched) == 1
    torch.save({"x": Path("code")}, fake.folder / "weights.pth")  # an object whose making would run code
    with pytest.raises(WeightsMismatchError, match=r"needs_file.*[Ww]eights.only"):
        resolve()


def test_names_are_read_suggested_and_refused(fake: Fake) -> None:
    metric = make_metric(parse_spec("pyiqa:sharp(frames=first)"))
    assert str(metric) == "pyiqa:sharp(frames=first)"
    assert make_metric(parse_spec(str(metric))) == metric
    assert pickle.loads(pickle.dumps(metric)) == metric
    assert make_metric(MetricSpec("pyiqa:loss")).info.inputs == ("output", "references")
    with pytest.raises(UnknownNameError, match=r"metric of pyiqa.*'sharpp'.*sharp"):
        make_metric(MetricSpec("pyiqa:sharpp"))
    with pytest.raises(OptionError, match=r"fid, of whole sets.*-m fid"):
        make_metric(MetricSpec("pyiqa:fid"))
    with pytest.raises(OptionError, match=r"clipscore.*-m clip_score"):
        make_metric(MetricSpec("pyiqa:clipscore"))
    with pytest.raises(OptionError, match="float32"):
        resolve_model("pyiqa:sharp", dtype="bfloat16", capability="ImageScorer")


def test_commercial_use_is_refused(fake: Fake, tmp_path: Path) -> None:
    card = find_card("pyiqa:sharp")
    assert card is not None
    assert card.commercial is False
    rows, _ = write_rows(tmp_path / "i", [(16, 12)])
    with pytest.raises(OptionError, match=r"pyiqa:sharp \(licence: PolyForm-Noncommercial.*no commercial use"):
        evaluate(rows, tmp_path, "o", "pyiqa:sharp", commercial_only=True)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder.metrics.catalog import METRICS

    monkeypatch.setattr(METRICS, "_loaded", {})
    monkeypatch.setitem(sys.modules, "pyiqa", None)
    with pytest.raises(MissingExtraError, match=r'pip install "beholder\[pyiqa\]"'):
        make_metric(MetricSpec("pyiqa:musiq"))


def test_a_run_in_parts_and_on_the_command_line(fake: Fake, tmp_path: Path) -> None:
    def cli(*arguments: Any) -> Any:
        return CliRunner().invoke(app, [str(item) for item in arguments], catch_exceptions=False)

    rows, _ = write_rows(tmp_path / "i", [(16, 12)] * 6)
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    one = evaluate(str(data), tmp_path, "o", "pyiqa:sharp")
    for index in range(2):
        done = cli("run", data, "-m", "pyiqa:sharp", "-o", tmp_path / "p", "--shard", f"{index}/2")
        assert done.exit_code == 0, done.stderr
    assert cli("merge", tmp_path / "p").exit_code == 0
    assert beholder.open_run_folder(tmp_path / "p").scores.equals(one.scores)
    told = cli("info", "pyiqa:sharp")
    assert told.exit_code == 0, told.stderr
    assert "PolyForm" in told.stdout


@pytest.mark.skipif(
    importlib.util.find_spec("pyiqa") is None, reason="pyiqa is not installed (its licence keeps it out of [all])"
)
def test_pyiqas_own_psnr_and_ssim(tmp_path: Path) -> None:
    from skimage.metrics import peak_signal_noise_ratio

    references, ref_pixels = write_rows(tmp_path / "r", [(64, 48)] * 3)
    rows, pixels = write_rows(tmp_path / "i", [(64, 48)] * 3)
    for at, row in enumerate(rows):
        noisy = np.clip(pixels[at].astype(int) + 20 * at, 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(row["output"])
        row["references"] = [references[at]["output"]]
        pixels[at] = noisy
    run = evaluate(rows, tmp_path, "o", ["pyiqa:psnr", "pyiqa:ssim"])
    found = run.scores["pyiqa:psnr"].to_pylist()
    for at in (1, 2):
        assert found[at] == pytest.approx(peak_signal_noise_ratio(ref_pixels[at], pixels[at]), abs=1e-3)
    assert found[0] > 70
    assert run.scores["pyiqa:ssim"].to_pylist()[0] == pytest.approx(1.0, abs=1e-5)
    picture = Picture(pixels[0], (64, 48), "RGB")
    model = load_model(resolve_model("pyiqa:psnr", capability="ReferenceScorer"), device="cpu")
    assert model.prepare([picture]).shape == (3, 48, 64)
