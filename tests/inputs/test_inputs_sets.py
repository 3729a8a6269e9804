"""Sets: M1, M2, M4 and M5 of the table in README.md, from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.models_sets import make_inception

METRICS = ("fd", "kid", "cmmd", "precision", "recall", "density", "coverage")


def folder(path: Path, count: int, *, seed: int = 0, size: tuple[int, int] = (9, 7)) -> Path:
    path.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    for at in range(count):
        Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(path / f"{path.name}{at}.png")
    return path


def measured(cli: Any, gen: Path, real: Path, out: Path, *more: Any, dim: int = 8) -> dict[str, Any]:
    asked = [item for name in METRICS for item in ("-m", f"{name}(model=fake:dim={dim})")]
    result = cli("run", "--gen", gen, "--real", real, *asked, "-o", out, "--json", *more)
    assert result.exit_code == 0, result.stderr
    return {row["label"]: row for row in json.loads(result.stdout)["summary"] if not row["group"]}


@pytest.mark.parametrize("metric", METRICS)
def test_m1_one_against_one_names_n_and_the_least_number(tmp_path: Path, cli: Any, metric: str) -> None:
    one, other = folder(tmp_path / "g", 1), folder(tmp_path / "r", 1, seed=1)
    result = cli("run", one, "--real", other, "-m", f"{metric}(model=fake)", "-o", tmp_path / "o")
    least = 6 if metric in ("precision", "recall", "density", "coverage") else 2
    assert result.exit_code == 2
    assert f"at least {least} pictures in each set; got n = 1" in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_m2_identical_sets_are_0_apart(tmp_path: Path, cli: Any) -> None:
    gen = folder(tmp_path / "g", 40)
    found = measured(cli, gen, Path(shutil.copytree(gen, tmp_path / "r")), tmp_path / "o")
    assert 0.0 <= found["fd"]["value"] < 1e-9
    assert 0.0 <= found["cmmd"]["value"] < 1e-9
    assert found["kid"]["value"] < 0.0
    assert [found[name]["value"] for name in ("precision", "recall", "coverage")] == [1.0, 1.0, 1.0]
    assert found["fd"]["note"] is None


def test_m2_fewer_pictures_than_dimensions_is_said(tmp_path: Path, cli: Any) -> None:
    gen, real = folder(tmp_path / "g", 20), folder(tmp_path / "r", 20, seed=1)
    found = measured(cli, gen, real, tmp_path / "o", dim=64)
    assert found["fd"]["value"] > 0
    assert "n = 20 is less than the 64 dimensions" in found["fd"]["note"]


def test_m2_one_picture_many_times(tmp_path: Path, cli: Any) -> None:
    paths = [tmp_path / "g", tmp_path / "r"]
    for path in paths:
        folder(path, 1, seed=3)
        for at in range(1, 12):
            shutil.copy(path / f"{path.name}0.png", path / f"{at}.png")
    found = measured(cli, *paths, tmp_path / "o")
    for name in ("fd", "kid", "cmmd"):
        assert abs(found[name]["value"]) < 1e-6, name
    for name in ("precision", "recall", "coverage"):
        assert found[name]["value"] == 1.0


def test_m4_real_sets_that_hold_no_pictures(tmp_path: Path, cli: Any) -> None:
    gen = folder(tmp_path / "g", 3)
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "a.xyz").write_text("x")
    for name in ("empty", "odd", "missing"):
        for command in (("run", gen, "-m", "fd(model=fake)", "--real", tmp_path / name, "-o", tmp_path / "o"),
                        ("stats", tmp_path / name, "-o", tmp_path / "s.npz", "--model", "fake")):  # fmt: skip
            result = cli(*command)
            assert result.exit_code == 2, (name, command)
            assert name in result.stderr
            assert "Traceback" not in result.stderr
            if name == "empty":
                assert "found 0 images and videos under" in result.stderr
                assert ".png" in result.stderr


def test_m5_two_sizes_share_a_set(tmp_path: Path, cli: Any) -> None:
    weights = make_inception(tmp_path / "net.pth")
    gen, real = folder(tmp_path / "g", 2), folder(tmp_path / "r", 2, seed=1)
    folder(gen, 3, seed=2, size=(31, 12))
    folder(real, 3, seed=3, size=(5, 40))
    result = cli("run", gen, "--real", real, "-m", f"fid(model=inception:{weights})", "-o", tmp_path / "o", "--json")
    assert result.exit_code == 0, result.stderr
    (row,) = json.loads(result.stdout)["summary"]
    assert row["n"] == 3
    assert row["value"] > 0
    assert "2048 dimensions" in row["note"]


def test_statistics_from_the_command_line(tmp_path: Path, cli: Any) -> None:
    gen, real = folder(tmp_path / "g", 12), folder(tmp_path / "r", 12, seed=1)
    made = cli("stats", real, "-o", tmp_path / "ref.npz", "--model", "fake:dim=4", "--json")
    assert made.exit_code == 0, made.stderr
    assert json.loads(made.stdout) == {"path": str(tmp_path / "ref.npz"), "n": 12, "dimensions": 4}
    values = []
    for at, source in enumerate((real, tmp_path / "ref.npz")):
        result = cli("run", gen, "--real", source, "-m", "fd(model=fake:dim=4)", "-o", tmp_path / f"o{at}", "--json")
        values.append(json.loads(result.stdout)["summary"][0]["value"])
    assert values[1] == pytest.approx(values[0], rel=1e-9)
    (real / "r3.png").write_bytes(b"broken")
    refused = cli("stats", real, "-o", tmp_path / "two.npz", "--model", "fake:dim=4")
    assert refused.exit_code == 2
    assert "1 of 12 without" in refused.stderr
    assert "r3" in refused.stderr
    assert not (tmp_path / "two.npz").exists()
    allowed = cli("stats", real, "-o", tmp_path / "two.npz", "--model", "fake:dim=4", "--max-failed", "0.1", "--json")
    assert json.loads(allowed.stdout)["n"] == 11


def test_the_generated_set_is_named_once(tmp_path: Path, cli: Any) -> None:
    gen = folder(tmp_path / "g", 3)
    result = cli("run", gen, "--gen", gen, "-m", "vendi(model=fake)", "-o", tmp_path / "o")
    assert result.exit_code == 2
    assert "must be named once" in result.stderr


def test_a_table_a_page_and_a_plan_of_a_run_with_sets(tmp_path: Path, cli: Any) -> None:
    gen, real = folder(tmp_path / "g", 24), folder(tmp_path / "r", 24, seed=1)
    asked = ("-m", "vendi(model=fake)", "-m", "fd(model=fake)")
    assert cli("run", gen, "--real", real, *asked, "--dry-run").exit_code == 0
    assert cli("run", gen, "--real", real, *asked, "-o", tmp_path / "o").exit_code == 0
    for form in ("text", "md", "csv", "json", "latex"):
        shown = cli("show", tmp_path / "o", "--as", form)
        assert shown.exit_code == 0, shown.stderr
        assert "vendi" in shown.stdout
    page = cli("report", tmp_path / "o", "-o", tmp_path / "page")
    assert page.exit_code == 0, page.stderr
    assert "vendi" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
