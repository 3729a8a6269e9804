"""Draws the figures of docs/attributes.md: the four proofs on drawn scenes with `demo:emoji`.

    python tools/draw_attribute_page.py

Writes docs/pictures/attributes/*.png and prints the page's table. To be run again when the demo encoder changes.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import beholder
from beholder.attributing.pictures import slug
from beholder.scenes import SceneOptions, render, sample_scene

PAGE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "attributes"
LIST = ["a cat", "a dog", "a banana", "an apple", "a car"]
FIGURES = {"a": ("sad", "overlay-a-cat"), "b": ("pad",), "c": ("r_sad", "placement", "regional_kl"), "d": ("r_sad",)}
N = 300
Draw = Callable[[np.random.Generator, int], list[str]]


def draw(folder: Path, names: Draw, *, seed: int, x: float | None = None) -> str:
    """A folder of N scenes; `x` moves the objects' prior."""
    folder.mkdir(parents=True)

    def prior(rng: np.random.Generator) -> tuple[float, float]:
        return float(rng.normal(x or 0.5, 0.05)), float(rng.normal(0.5, 0.12))

    options = SceneOptions(textures=("plain",), sizes=(0.3, 0.5), crowded_size=0.4, prior=None if x is None else prior)
    for i in range(N):
        rng = np.random.default_rng([seed, i])
        render(sample_scene(rng, options, names=names(rng, i)), 64).save(folder / f"{i:04d}.png")
    return str(folder)


def shares(**chances: float) -> Draw:
    """Each thing in its share of the scenes."""
    return lambda rng, _: [name for name, chance in chances.items() if rng.random() < chance]


def coupled(*, together: bool) -> Draw:
    """Cats and dogs in half of the scenes each, always or never together."""
    pairs = (["cat", "dog"], ["banana", "apple"]) if together else (["cat", "banana"], ["dog", "apple"])
    return lambda _, i: pairs[i % 2]


def evaluate(root: Path, name: str, ref: str, gen: Mapping[str, str]) -> list[dict[str, Any]]:
    run = beholder.attributes(
        real=ref, gen=gen, attributes=LIST, model="demo:emoji", out=str(root / name), store=str(root / "store"),
        pictures=True,
    )  # fmt: skip
    PAGE.mkdir(parents=True, exist_ok=True)
    last = slug(list(gen)[-1])
    for figure in FIGURES[name]:
        shutil.copy(root / name / "pictures" / last / f"{figure}.png", PAGE / f"{name}-{figure}.png")
    pairs = {(row["set"], row["first"], row["second"]): row for row in run.pairs.to_pylist()}
    rows = []
    for row in run.attributes.to_pylist():
        if row["attribute"] == "a cat":
            rows.append(row | {"pair": pairs[row["set"], "a cat", "a dog"]})
    return rows


def line(row: Mapping[str, Any]) -> str:
    pair = row["pair"]
    cells = [
        row["set"], f"{row['sad']:.3f} ({row['sad_null_level']:.3f})", f"{row['mean_difference']:+.3f}",
        f"{pair['dependence']:+.3f} ({pair['dependence_p']:.3f})",
        f"{row['mar']:.3f} ({row['mar_null_level']:.3f})",
    ]  # fmt: skip
    if row["placement_status"] == "ok":
        cells += [f"{row['placement_jsd']:.3f} ({row['placement_jsd_null_level']:.3f})",
                  f"{row['placement_shift_x']:+.2f}"]  # fmt: skip
    else:
        cells += [row["placement_status"], ""]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        rest = {"dog": 0.4, "banana": 0.3}
        rows = evaluate(root, "a", draw(root / "ar", shares(**rest), seed=1), {
            f"cats in {share} %": draw(root / f"a{share}", shares(**rest, cat=share / 100), seed=2 + share)
            for share in (0, 25, 50, 75, 100)
        })  # fmt: skip
        rows += evaluate(root, "b", draw(root / "b0", coupled(together=False), seed=1), {
            "never together": draw(root / "b1", coupled(together=False), seed=2),
            "always together": draw(root / "b2", coupled(together=True), seed=3),
        })  # fmt: skip
        rows += evaluate(root, "c", draw(root / "c0", shares(cat=0.6), seed=1, x=0.3), {
            "same place": draw(root / "c1", shares(cat=0.6), seed=2, x=0.3),
            "moved right": draw(root / "c2", shares(cat=0.6), seed=3, x=0.7),
        })  # fmt: skip
        rows += evaluate(root, "d", draw(root / "d0", shares(cat=0.9), seed=1, x=0.4), {
            "rarer": draw(root / "d1", shares(cat=0.4), seed=2, x=0.4),
        })  # fmt: skip
        sys.stdout.write("\n".join(line(row) for row in rows) + "\n")


if __name__ == "__main__":
    main()
