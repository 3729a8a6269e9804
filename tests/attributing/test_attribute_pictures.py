"""Figures: they are drawn, the same bytes each time; and the palettes keep their order without hue."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.attributing.attribute_sets import draw_set

import beholder
from beholder.report.attribute_plots import pad_matrix, placement_arrows, r_sad_maps, regional_maps, sad_bars, save
from beholder.report.palettes import DIVERGING, SEQUENTIAL, decode, encode, lightness, palette

# Machado, Oliveira and Fernandes 2009, severity 1, in linear light.
DEUTERANOPIA = np.array([
    [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881],
])  # fmt: skip


def as_deuteranopes_see(colours: np.ndarray) -> np.ndarray:
    return encode(np.clip(decode(colours) @ DEUTERANOPIA.T, 0, 1))


def as_gray(colours: np.ndarray) -> np.ndarray:
    light = decode(colours) @ np.array([0.2126, 0.7152, 0.0722])
    return encode(np.repeat(light[:, None], 3, axis=1))


@pytest.mark.parametrize("anchors", [SEQUENTIAL, DIVERGING])
@pytest.mark.parametrize("seen", [lambda c: c, as_deuteranopes_see, as_gray])
def test_lightness_rises_from_end_to_end(anchors: tuple[str, ...], seen) -> None:  # type: ignore[no-untyped-def]
    steps = np.diff(lightness(seen(palette(anchors, 33))))
    assert steps.min() > 0.8, "every step is lighter than the one before"
    assert steps.sum() > 65


def test_the_diverging_palette_has_a_gray_centre_and_two_hues() -> None:
    colours = palette(DIVERGING, 33)
    assert np.ptp(colours[16]) < 0.02
    for seen in (colours, as_deuteranopes_see(colours)):
        assert seen[4, 2] - seen[4, 0] > 0.15, "blue below"
        assert seen[28, 0] - seen[28, 2] > 0.15, "yellow above"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("drawn")
    ref = draw_set(root / "ref", 30, {"cat": 0.5, "dog": 0.5}, seed=1)
    gen = draw_set(root / "gen", 30, {"cat": 0.9, "dog": 0.1}, seed=2)
    run = beholder.attributes(
        real=str(ref), gen=str(gen), attributes=["a cat", "a dog"], model="demo:emoji", out=str(root / "run"),
        store=str(root / "store"), resamples=100, permutations=99, pictures=True,
    )  # fmt: skip
    return run.path


def test_every_figure_is_there(drawn: Path) -> None:
    names = {path.name for path in (drawn / "pictures" / "generated").iterdir()}
    stems = {
        "sad",
        "pad",
        "r_sad",
        "regional_kl",
        "placement",
        "examples-a-cat",
        "examples-a-dog",
        "overlay-a-cat",
        "overlay-a-dog",
    }
    assert names == {f"{stem}.{form}" for stem in stems for form in ("png", "svg")}
    for path in (drawn / "pictures" / "generated").glob("*.png"):
        with Image.open(path) as picture:
            assert np.asarray(picture.convert("L")).std() > 5, "something is drawn"
    assert "a cat" in (drawn / "pictures" / "generated" / "sad.svg").read_text(encoding="utf-8")


def test_the_same_figure_has_the_same_bytes(drawn: Path, tmp_path: Path) -> None:
    run = beholder.attributing.files.AttributeRun(drawn)  # type: ignore[attr-defined]
    rows, maps = run.attributes.to_pylist(), run.maps()
    for make in (
        lambda: sad_bars(rows, score="ra_clip_score"),
        lambda: pad_matrix(run.pairs.to_pylist(), ["a cat", "a dog"]),
        lambda: r_sad_maps(rows, maps, None),
        lambda: regional_maps(rows, maps, None),
        lambda: placement_arrows(rows, maps, None),
    ):
        first, second = save(make(), tmp_path, "one"), save(make(), tmp_path, "two")
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_axes_tell_the_unit_of_divergences() -> None:
    row = {
        "attribute": "a cat",
        "sad": 3.0,
        "mean_difference": 0.5,
        "first": "a cat",
        "second": "a dog",
        "pad": 4.0,
        "dependence": -1.0,
    }
    bars = sad_bars([row], score="hcs", unit="1000 × nats")
    assert bars.axes[0].get_xlabel().startswith("SaD in 1000 × nats, of hcs")
    matrix = pad_matrix([row], ["a cat", "a dog"], unit="1000 × nats")
    labels = {axes.get_xlabel() + axes.get_ylabel() for axes in matrix.axes}
    assert {"PaD, 1000 × nats (above the diagonal)", "dependence, 1000 × nats (below); dot: significant"} <= labels


def test_outlines_are_seen_on_dark_and_on_light_cells() -> None:
    """A region of the sequential palette's dark end has a white line beside the black one."""
    rows = [{"attribute": "a cat", "regional_kl": 1.0}]
    q = np.ones((1, 2, 2))
    q[0, 0, 0] = 0.01
    maps = {"regional_kl": np.array([[[0.0, 1.0], [1.0, 1.0]]]), "regional_kl_q": q, "valid": np.array([True])}
    lines = regional_maps(rows, maps, None).axes[0].get_lines()
    assert [line.get_color() for line in lines] == ["white", "black"] * 4
    assert lines[0].get_linewidth() > lines[1].get_linewidth()
    assert lines[0].get_zorder() < lines[1].get_zorder()
