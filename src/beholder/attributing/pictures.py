"""Draws the figures of an attribute evaluation: what they need beyond the tables is a few decoded images."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import NoValue
from beholder.attributing.encode import SetEncoder
from beholder.attributing.files import AttributeRun
from beholder.manifest.schema import Sample, SampleSource
from beholder.media.base import DecodeOptions
from beholder.metrics.text_image import output_of
from beholder.report.attribute_plots import (
    example_images,
    overlay,
    pad_matrix,
    placement_arrows,
    r_sad_maps,
    regional_maps,
    sad_bars,
    save,
)

MEAN_OF = 200
"""Reference images that the mean image is made of, at most."""
SHOWN = 5
"""Images with the highest, and with the lowest score."""
ATTRIBUTES = 6
"""Attributes whose examples are shown: those with the largest SaD above its null."""
_SIDE = 160


def draw(run: AttributeRun, sources: Mapping[str, SampleSource], encoder: SetEncoder) -> Path:
    """Draws all figures of a run into its folder `pictures`, a folder a generated set."""
    folder = run.path / "pictures"
    header = run.header
    all_rows = run.attributes.to_pylist()
    names = [item["name"] for item in header["attributes"]]
    mean = _mean_image(sources[header["reference"]]) if header["grid"] is not None else None
    pairs = run.pairs.to_pylist() if run.pairs.num_columns else []
    for name in header["generated"]:
        rows = [row for row in all_rows if row["set"] == name]
        place = folder / slug(name)
        save(sad_bars(rows, score=header["settings"]["score"], unit=header["unit"]), place, "sad")
        own = [row for row in pairs if row["set"] == name]
        if own:
            save(pad_matrix(own, names, unit=header["unit"]), place, "pad")
        if header["grid"] is not None and header["settings"]["maps"]:
            maps = run.maps(name)
            save(r_sad_maps(rows, maps, mean), place, "r_sad")
            if "regional_kl_q" in maps:  # not in runs of older versions
                save(regional_maps(rows, maps, mean), place, "regional_kl")
            save(placement_arrows(rows, maps, mean), place, "placement")
        _draw_examples(run, name, rows, sources[name], encoder, place)
    return folder


def slug(name: str) -> str:
    """A name as a file name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:60] or "set"


def _draw_examples(
    run: AttributeRun, name: str, rows: Sequence[Mapping[str, Any]], source: SampleSource, encoder: SetEncoder,
    place: Path,
) -> None:  # fmt: skip
    table = run.scores
    mine = [row for row in table.to_pylist() if row["set"] == name and row["status"] == "ok"]
    chosen = sorted((row for row in rows if row.get("sad") is not None), key=lambda row: -row["sad_corrected"]
                    if row.get("sad_corrected") is not None else -row["sad"])[:ATTRIBUTES]  # fmt: skip
    picked: dict[str, tuple[list[Any], list[Any]]] = {}
    for row in chosen:
        column = f"score: {row['attribute']}"
        order = sorted(mine, key=lambda item: item[column])
        picked[row["attribute"]] = order[:SHOWN], order[::-1][:SHOWN]
    wanted = {item["id"] for sides in picked.values() for side in sides for item in side}
    samples = {sample.id: sample for sample in source if sample.id in wanted}
    pixels = {key: thumbnail(sample) for key, sample in samples.items()}
    index = {item["name"]: c for c, item in enumerate(run.header["attributes"])}
    for attribute, sides in picked.items():
        column = f"score: {attribute}"
        low, high = ([(item["id"], item[column], pixels[item["id"]]) for item in side] for side in sides)
        save(example_images(attribute, low, high), place, f"examples-{slug(attribute)}")
        grid = run.header["grid"]
        if grid is not None:
            best = [samples[item["id"]] for item in sides[1][:4]]
            maps = encoder.maps_of(best)[:, index[attribute]].reshape(len(best), *grid)
            items = [(one.id, pixels[one.id], found) for one, found in zip(best, maps)]
            save(overlay(attribute, items), place, f"overlay-{slug(attribute)}")


def thumbnail(sample: Sample, side: int = _SIDE) -> np.ndarray:
    """(side, side, 3) uint8: the picture as encoders with resize and centre crop see it."""
    from PIL import Image

    picture = Image.fromarray(output_of(sample).decode(DecodeOptions()).pixels[..., :3])
    scale = side / min(picture.size)
    width, height = (max(side, round(length * scale)) for length in picture.size)
    left, top = (width - side) // 2, (height - side) // 2
    resized = picture.resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(resized.crop((left, top, left + side, top + side)))


def _mean_image(source: SampleSource) -> np.ndarray | None:
    """(side, side) gray mean of reference images, as the model sees them where it crops the centre."""
    total, count = np.zeros((_SIDE, _SIDE)), 0
    for sample in source:
        if count == MEAN_OF:
            break
        try:
            total += thumbnail(sample).mean(axis=2)
        except NoValue:  # a picture that cannot be read has its status in the tables
            continue
        count += 1
    return total / count if count else None
