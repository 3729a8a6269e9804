"""The lab: each change does what it says, the analysis tells truth on known metrics, and whole labs run."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import beholder
from beholder._errors import NoValue, OptionError, UserError
from beholder.cli.main import app
from beholder.lab.analysis import Scored, Units, react
from beholder.lab.pictures import PICTURES, Scene, background, crop, flip, hue, move, noise
from beholder.lab.texts import TEXTS, negate, other_text, recount, swap_words
from beholder.media.base import DecodeOptions
from beholder.media.mask import decode_mask
from beholder.media.sources import as_medium
from beholder.metrics.base import FeatureBatch, SampleMetric, ScoreColumns, Selection, Slot
from beholder.records import MetricInfo


def scene(seed: int = 0, *, size: tuple[int, int] = (40, 48)) -> Scene:
    """Soft colours with a disc, whose mask is known."""
    generator = np.random.default_rng(seed)
    coarse = generator.integers(0, 256, (5, 6, 3), dtype=np.uint8)
    pixels = np.asarray(Image.fromarray(coarse).resize((size[1], size[0]), Image.Resampling.BICUBIC)).copy()
    rows, columns = np.mgrid[: size[0], : size[1]]
    mask = (rows - 20) ** 2 + (columns - 16) ** 2 < 64
    pixels[mask] = (250, 20, 20)
    return Scene(pixels, mask, seed)


@pytest.mark.parametrize("change", PICTURES, ids=lambda change: change.name)
def test_changes_are_graded_and_leave_the_original_alone(change: Any) -> None:
    one = scene()
    before = one.pixels.copy()
    distances = []
    for degree in change.levels.values():
        changed = change.apply(one, degree)
        assert changed is not None
        assert changed.dtype == np.uint8
        assert np.array_equal(change.apply(one, degree), changed), "a change must be the same every time"
        if changed.shape == before.shape:
            distances.append(float(np.abs(changed.astype(float) - before).mean()))
    assert np.array_equal(one.pixels, before)
    if change.name != "moved":
        assert distances == sorted(distances)
    assert not distances or distances[-1] > 1


def test_crop_flip_and_hue_by_hand() -> None:
    one = scene()
    assert crop(one, 0.5).shape == (20, 24, 3)
    assert np.array_equal(crop(one, 0.5), one.pixels[10:30, 12:36])
    assert np.array_equal(flip(Scene(flip(one, 1), None, 0), 1), one.pixels)
    red = Scene(np.full((2, 2, 3), (255, 0, 0), np.uint8), None, 0)
    assert hue(red, 120)[0, 0].tolist() == pytest.approx([0, 255, 0], abs=6)


def test_noise_has_its_deviation() -> None:
    flat = Scene(np.full((64, 64, 3), 128, np.uint8), None, 3)
    assert np.std(noise(flat, 20).astype(float)) == pytest.approx(20, rel=0.05)


def test_masks_are_needed_and_respected() -> None:
    one = scene()
    assert one.mask is not None
    replaced = background(one, 1)
    assert replaced is not None
    assert np.array_equal(replaced[one.mask], one.pixels[one.mask])
    assert not np.array_equal(replaced[~one.mask], one.pixels[~one.mask])
    moved = move(one, 0.25)
    assert moved is not None
    places = np.argwhere((moved == (250, 20, 20)).all(axis=2))
    assert places[:, 1].mean() == pytest.approx(np.argwhere(one.mask)[:, 1].mean() + 12)
    assert move(one, 0.9) is None, "the subject would leave the picture"
    bare = Scene(one.pixels, None, 0)
    assert background(bare, 1) is None
    assert move(bare, 0.1) is None


def test_texts() -> None:
    text = "a red car and a blue dog"
    swapped = swap_words(text, None, 1.0, 0)
    assert swapped is not None
    assert sorted(swapped.split()) == sorted(text.split())
    assert swapped != text
    assert swap_words("a cat", None, 1.0, 0) is None
    assert negate("a photo of a cat", None, 1, 0) == "a photo of no cat"
    assert negate("cats", None, 1, 0) == "no cats"
    assert recount("three cats", None, 2, 0) == "five cats"
    assert recount("six cats", None, 1, 0) == "7 cats"
    assert recount("5 cats", None, 1, 0) == "6 cats"
    assert recount("a cat", None, 1, 0) is None
    assert other_text("a", "a", 1, 0) is None
    assert {change.name for change in TEXTS} == {"words swapped", "negated", "other number", "other caption"}


def reaction(before: np.ndarray, after: np.ndarray, *, higher: bool | None = True) -> Any:
    levels = [str(at) for at in range(after.shape[1])]
    one, other = (Scored(part, np.where(np.isfinite(part), "ok", "failed").astype(object)) for part in (before, after))
    units = Units(np.arange(len(before)))
    return react("m", "c", "says", levels, one, other, higher_is_better=higher, units=units)


def test_verdicts_on_known_reactions() -> None:
    generator = np.random.default_rng(0)
    before = generator.normal(0, 1, 60)
    falls = before[:, None] - np.array([0.2, 0.5, 1.0])
    found = reaction(before, falls)
    assert found.verdict == "moves with"
    assert [effect.change for effect in found.effects] == pytest.approx([-0.2, -0.5, -1.0])
    assert found.effects[-1].in_sd == pytest.approx(-1.0 / np.std(before, ddof=1))
    assert (found.monotone, found.effects[-1].falls) == (1.0, 1.0)
    blind = reaction(before, before[:, None] + generator.normal(0, 0.01, (60, 3)))
    assert blind.verdict == "blind to"
    assert blind.monotone < 0.5
    unclear = reaction(before, before[:, None] + generator.normal(0, 2, (60, 1)))
    assert unclear.verdict == "unclear"
    assert unclear.monotone is None, "one degree has no order"
    rises = reaction(before, before[:, None] + np.array([0.2, 0.5, 1.0]), higher=False)
    assert rises.monotone == 1.0, "for a metric of which less is better, a rise is a fall"
    nothing = reaction(before, np.full((60, 2), np.nan))
    assert (nothing.verdict, nothing.effects[0].change) == ("not tried", None)
    assert nothing.note == "no changed sample has a value: 120 failed"
    assert (unclear.n_units, found.effects[-1].falls_low, found.effects[-1].falls_high) == (60, 1.0, 1.0)
    assert blind.monotone_low < blind.monotone < blind.monotone_high


def test_samples_of_one_prompt_are_one_unit() -> None:
    # Ten prompts of six samples that react alike: rows as units would give an interval √6 times too narrow, and a
    # t quantile of 59 degrees of freedom instead of 9.
    own = np.repeat(np.random.default_rng(1).normal(size=10), 6)
    before = Scored(np.random.default_rng(2).normal(size=60), np.full(60, "ok", dtype=object))
    after = Scored((before.values + own)[:, None], np.full((60, 1), "ok", dtype=object))
    widths = []
    for codes in (np.repeat(np.arange(10), 6), np.arange(60)):
        effect = react("m", "c", "s", ["1"], before, after, higher_is_better=True, units=Units(codes)).effects[0]
        widths.append(effect.high - effect.low)  # type: ignore[operator]
    assert widths[0] / widths[1] == pytest.approx(6**0.5 * 2.262 / 2.001 * (10 / 9) ** 0.5, rel=0.2)


def test_what_has_no_value_is_counted_by_status() -> None:
    before = Scored(np.array([1.0, 2.0, np.nan, 4.0]), np.array(["ok", "ok", "no_face", "ok"], dtype=object))
    after = Scored(
        np.array([[0.0], [np.nan], [1.0], [np.nan]]), np.array([["ok"], ["no_mask"], ["ok"], [""]], dtype=object)
    )
    found = react("m", "c", "s", ["1"], before, after, higher_is_better=True, units=Units(np.arange(4)))
    # The last sample was not changed, so it is not missing.
    assert (found.effects[0].n, found.effects[0].missing) == (1, {"no_face": 1, "no_mask": 1})
    none = Scored(np.full(4, np.nan), np.full(4, "empty_prompt", dtype=object))
    told = react("m", "c", "s", ["1"], none, after, higher_is_better=True, units=Units(np.arange(4)))
    assert (told.verdict, told.note) == ("not tried", "no sample has a value: 4 empty_prompt")
    untried = Scored(np.full((4, 1), np.nan), np.full((4, 1), "", dtype=object))
    last = react("m", "c", "s", ["1"], before, untried, higher_is_better=True, units=Units(np.arange(4)))
    assert last.note == "no sample has what it needs"


class Brightness(SampleMetric):
    """The mean of the pixels: a metric whose every reaction is known."""

    info = MetricInfo(
        name="brightness", family="test", kind="sample", summary="Mean.", inputs=("output",), formula="mean",
        unit="1", range=(None, None), higher_is_better=True, degenerate="none", paper=None, reference_code=None,
        version="1",
    )  # fmt: skip
    slots = (Slot("image", "mean-pixels", "image_embedding"),)

    def select(self, sample: Any) -> Selection:
        return {"image": sample.output}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        return ScoreColumns(batch.one("image")[:, 0].astype(float))


class MeanEncoder(beholder.FakeEncoder):
    def prepare_image(self, picture: Any) -> np.ndarray:
        return np.array([picture.pixels.mean()], dtype=np.float32)

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        return np.repeat(batch.reshape(-1, 1), 2, axis=1)


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, Any]]:
    made = []
    for at in range(12):
        one = scene(at)
        path = tmp_path / f"{at}.png"
        Image.fromarray(one.pixels).save(path)
        mask = tmp_path / f"{at}-mask.png"
        assert one.mask is not None
        Image.fromarray((one.mask * 255).astype(np.uint8)).save(mask)
        made.append({"id": str(at), "output": str(path), "prompt": f"two discs number {at}", "masks": str(mask)})
    return made


def test_a_metric_of_brightness_is_blind_to_mirrors_and_texts_and_moves_with_backgrounds(
    rows: list[dict[str, Any]],
) -> None:
    beholder.register_encoder("mean-pixels", MeanEncoder("mean-pixels", dim=2))
    found = beholder.run_lab(rows, metrics=Brightness(), n=12)
    assert found.n == 12
    for change in ("flip", "words swapped", "negated", "other caption", "other number"):
        assert found.reaction("brightness", change).verdict == "blind to", change
    original = [np.asarray(Image.open(row["output"])).mean() for row in rows]
    replaced = [background(scene(at), 1) for at in range(12)]
    expected = np.mean([new.mean() for new in replaced if new is not None]) - np.mean(original)
    effect = found.reaction("brightness", "background").effects[0]
    assert effect.change == pytest.approx(expected, abs=1e-3)
    assert effect.n == 12


def test_the_lab_of_a_run_takes_its_metrics_and_input(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    data = tmp_path / "samples.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    beholder.evaluate(
        str(data), metrics="clip_score", model="fake", out=str(tmp_path / "run"), store=str(tmp_path / "s")
    )
    found = beholder.run_lab(tmp_path / "run", n=5, changes=["flip", "other caption"])
    assert list(found.metrics.values()) == ["clip_score(model=fake)"]
    assert [item.change for item in found.reactions] == ["flip", "other caption"]
    called = CliRunner().invoke(app, ["lab", str(tmp_path / "run"), "-n", "5", "-c", "flip", "--details"])
    assert called.exit_code == 0, called.output
    assert "mirrored" in called.stdout
    args = ["lab", str(data), "-m", "clip_score", "--model", "fake", "-n", "4", "-c", "blur", "--as", "json"]
    as_json = CliRunner().invoke(app, args)
    assert len(json.loads(as_json.stdout)["effects"]) == 4


class Subject(SampleMetric):
    """The mean of the subject's own pixels, by its mask: it must follow the subject wherever a change puts it."""

    info = dataclasses.replace(Brightness.info, name="subject", inputs=("output", "masks"))
    slots = (Slot("image", "subject-pixels", "image_embedding"),)

    def select(self, sample: Any) -> Selection:
        if sample.masks is None:
            raise NoValue("no_mask", "no mask")
        mask = decode_mask(sample.masks, DecodeOptions())
        pixels = sample.output.decode(DecodeOptions()).pixels
        assert mask.shape == pixels.shape[:2]
        return {"image": as_medium(np.ascontiguousarray(pixels[mask][None]))}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        return ScoreColumns(batch.one("image")[:, 0].astype(float))


@pytest.mark.parametrize("named", [False, True])
def test_masks_go_with_the_picture(rows: list[dict[str, Any]], named: bool) -> None:
    # The disc is of one colour, so the mean under its mask is the same wherever it stands; without the change of the
    # mask there would be other pixels under it, or no mask at all.
    beholder.register_encoder("subject-pixels", MeanEncoder("subject-pixels", dim=2))
    if named:
        rows = [{**row, "masks": {"disc": row["masks"]}} for row in rows]
        metric: SampleMetric = NamedSubject()
    else:
        metric = Subject()
    found = beholder.run_lab(rows, metrics=metric, n=12, changes=["background", "flip", "moved", "crop", "colour"])
    label = metric.info.name
    for change in ("background", "flip", "moved", "crop"):
        effects = [effect for effect in found.reaction(label, change).effects if effect.n]
        assert effects, change
        assert [effect.change for effect in effects] == pytest.approx([0.0] * len(effects), abs=1e-4), change
        assert not any(effect.missing for effect in effects)
    assert found.reaction(label, "colour").effects[-1].change != 0


class NamedSubject(Subject):
    """The same for masks by concept."""

    info = dataclasses.replace(Subject.info, name="named_subject")

    def select(self, sample: Any) -> Selection:
        return super().select(dataclasses.replace(sample, masks=sample.masks["disc"]))


def test_a_folder_of_pictures_without_texts_says_what_is_lacking(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    for row in rows:
        Path(row["output"]).rename(folder / Path(row["output"]).name)
    args = ["lab", str(folder), "-m", "clip_score", "--model", "fake", "-c", "blur", "-c", "flip"]
    called = CliRunner().invoke(app, args)
    assert called.exit_code == 0, called.output
    assert "clip_score, not tried: no sample has a value: 12 empty_prompt (blur, flip)." in called.stdout
    assert "12 samples; 95 % intervals over samples." in called.stdout
    assert "ptimistic" not in called.output, "there is no interval that could be"


def test_the_lab_of_a_run_leaves_metrics_of_sets_out(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    data = tmp_path / "samples.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    beholder.evaluate(
        str(data), metrics=["clip_score", "vendi(model=fake)"], model="fake", out=str(tmp_path / "run"),
        store=str(tmp_path / "s"),
    )  # fmt: skip
    found = beholder.run_lab(tmp_path / "run", n=5, changes=["flip"])
    assert list(found.metrics) == ["clip_score"]
    with pytest.raises(UserError, match="the lab takes metrics of samples"):
        beholder.run_lab(tmp_path / "run", metrics="vendi(model=fake)", changes=["flip"])


def test_foreign_captions_are_of_other_prompts(rows: list[dict[str, Any]]) -> None:
    # Neighbours share a prompt: each must still get another prompt's text.
    for at, row in enumerate(rows):
        row["prompt"] = f"scene {at // 6}"
    found = beholder.run_lab(rows, metrics="clip_score", model="fake", n=12, changes=["other caption"])
    assert found.reaction("clip_score", "other caption").effects[0].n == 12
    assert found.unit == "prompt"
    assert found.notices == ("Optimistic: the interval rests on 2 prompts only",)


def test_the_lab_as_csv_has_every_degree_with_its_intervals(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    data = tmp_path / "samples.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    args = ["lab", str(data), "-m", "clip_score", "--model", "fake", "-c", "blur", "--as", "csv"]
    called = CliRunner().invoke(app, args)
    assert called.exit_code == 0, called.output
    found = list(csv.DictReader(io.StringIO(called.stdout)))
    assert [row["degree"] for row in found] == ["0.5 %", "1 %", "2 %", "4 %"]
    for name in ("low", "high", "worse_low", "worse_high", "monotone_low", "monotone_high"):
        assert all(float(row[name]) == float(row[name]) for row in found), name
    assert {(row["n"], row["n_units"], row["missing"]) for row in found} == {("12", "12", "")}


def test_wrong_use_is_said(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(OptionError, match="blur"):
        beholder.run_lab(rows, metrics="clip_score", model="fake", changes=["blurr"])
    with pytest.raises(OptionError, match="at least one metric"):
        beholder.run_lab(rows, model="fake")
    with pytest.raises(UserError, match="two still pictures"):
        beholder.run_lab(rows[:1], metrics="clip_score", model="fake")
