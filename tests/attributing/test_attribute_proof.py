"""Proof on drawn scenes with `demo:emoji`: each statistic shows what was changed, and nothing else.

Orders and margins only: the encoder's weights may change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from tests.attributing.attribute_sets import draw_exact, draw_set

import beholder

N = 100
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
LIST = ["a cat", "a dog", "a banana"]


def evaluate(ref: Path, gen: dict[str, Path], out: Path, **settings: Any) -> dict[str, list[dict[str, Any]]]:
    run = beholder.attributes(
        real=str(ref), gen={name: str(path) for name, path in gen.items()}, attributes=LIST, model="demo:emoji",
        out=str(out), store=str(out.parent / "store"), resamples=200, permutations=199, **settings,
    )  # fmt: skip
    rows = run.attributes.to_pylist()
    return {name: [row for row in rows if row["set"] == name] for name in gen}


def test_a_injection_raises_its_own_divergence(tmp_path: Path) -> None:
    things = {"dog": 0.4, "banana": 0.3}
    ref = draw_exact(tmp_path / "ref", N, things, "cat", 0.0, seed=1)
    gen = {f"{share:.0%}": draw_exact(tmp_path / f"g{share}", N, things, "cat", share, seed=2) for share in SHARES}
    found = evaluate(ref, gen, tmp_path / "run")
    injected = [rows[0] for rows in found.values()]
    for name in ("mean_difference", "w1"):
        assert spearmanr(SHARES, [row[name] for row in injected])[0] == pytest.approx(1.0)
    # A normal fitted to two peaks is widest at one half, so KL(gen||ref) against an attribute that is absent grows
    # with the second moment: it still rises with every step.
    assert spearmanr(SHARES, [row["sad"] for row in injected])[0] == pytest.approx(1.0)
    assert injected[0]["sad_p"] > 0.01
    assert all(row["sad_p"] < 0.01 for row in injected[1:])
    for rows in found.values():
        for control in rows[1:]:
            assert control["sad_p"] > 0.005
            assert abs(control["mean_difference"]) < 0.15 * injected[-1]["mean_difference"]


def at(x: float) -> Any:
    return lambda rng: (float(rng.normal(x, 0.05)), float(rng.normal(0.5, 0.12)))


def test_c_a_moved_prior_shows_in_the_place_alone(tmp_path: Path) -> None:
    shares = {"cat": 0.6}
    ref = draw_set(tmp_path / "ref", N, shares, seed=1, prior=at(0.3))
    gen = {
        "same": draw_set(tmp_path / "same", N, shares, seed=2, prior=at(0.3)),
        "moved": draw_set(tmp_path / "moved", N, shares, seed=3, prior=at(0.7)),
    }
    found = evaluate(ref, gen, tmp_path / "run", regions=4)
    same, moved = found["same"][0], found["moved"][0]
    for row in (same, moved):
        assert row["sad_p"] > 0.01, "where it is moves no score"
    assert same["placement_jsd_p"] > 0.01
    assert same["mar_p"] > 0.01
    assert moved["placement_jsd_p"] < 0.01
    assert moved["mar_p"] < 0.01
    assert 0.25 < moved["placement_shift_x"] < 0.45, "to the right by some 0.4 of the width"
    assert abs(moved["placement_shift_y"]) < 0.08
    assert 0.25 < moved["placement_w1_x"] < 0.45
    from beholder.attributing.files import AttributeRun

    maps = AttributeRun(tmp_path / "run").maps("moved")
    difference = maps["r_sad"][0]
    assert difference[:, :4].mean() > 0.02, "the reference has it on the left"
    assert difference[:, 4:].mean() < -0.02
    assert maps["significant"][0][:, :4].any()
    assert maps["significant"][0][:, 4:].any()
    middle = [np.sign(difference[4, column]) for column in (2, 5)]
    assert middle == [1.0, -1.0]
    # The regional divergence is largest where the cats came to: there the reference hardly varies.
    assert same["regional_kl_p"] > 0.01 >= moved["regional_kl_p"]
    regions = maps["regional_kl"][0]
    assert regions.shape == (4, 4)
    assert regions[1:3, 3].min() > 3 * max(regions[0, :2].max(), regions[3, :2].max())
    assert regions[1:3].min() > moved["regional_kl_null_level"]
    assert (maps["regional_kl_q"][0][1:3] < 0.05).all()
    assert (maps["regional_kl_q"] >= maps["regional_kl_p"]).all()


def test_d_a_lower_frequency_leaves_the_place(tmp_path: Path) -> None:
    ref = draw_set(tmp_path / "ref", N, {"cat": 0.9}, seed=1, prior=at(0.4))
    gen = {"rare": draw_set(tmp_path / "rare", N, {"cat": 0.4}, seed=2, prior=at(0.4))}
    row = evaluate(ref, gen, tmp_path / "run")["rare"][0]
    assert row["sad_p"] < 0.01
    assert row["mean_difference"] < -0.2
    assert row["mar_p"] < 0.01
    assert row["level"] > 0, "more in the reference"
    assert row["placement_status"] == "ok"
    assert row["placement_jsd_p"] > 0.01
    assert abs(row["placement_shift_x"]) < 0.06


def coupled(folder: Path, *, together: bool, seed: int) -> Path:
    """Cats and dogs in half of the pictures each, always or never together; a banana where there is neither."""
    from tests.attributing.attribute_sets import PLAIN

    from beholder.scenes import render, sample_scene

    folder.mkdir(parents=True)
    for i in range(N):
        rng = np.random.default_rng([seed, i])
        first = i % 2 == 0
        names = (
            (["cat", "dog"] if first else ["banana", "apple"])
            if together
            else (["cat", "banana"] if first else ["dog", "apple"])
        )
        render(sample_scene(rng, PLAIN, names=names), 64).save(folder / f"{i:04d}.png")
    return folder


def test_b_coupling_shows_in_pairs(tmp_path: Path) -> None:
    ref = coupled(tmp_path / "ref", together=False, seed=1)
    gen = {
        "same": coupled(tmp_path / "same", together=False, seed=2),
        "coupled": coupled(tmp_path / "coupled", together=True, seed=3),
    }
    found = evaluate(ref, gen, tmp_path / "run")
    from beholder.attributing.files import AttributeRun

    pairs = AttributeRun(tmp_path / "run").pairs.to_pylist()
    pair = {row["set"]: row for row in pairs if (row["first"], row["second"]) == ("a cat", "a dog")}
    assert pair["same"]["pad_p"] > 0.01
    assert pair["coupled"]["pad_p"] < 0.01
    assert pair["coupled"]["dependence_p"] < 0.01
    single = sum(row["sad"] for row in found["coupled"][:2])
    assert pair["coupled"]["dependence"] > 3 * single
