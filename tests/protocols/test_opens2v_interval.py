"""The interval of OpenS2V's total: videos drawn whole, every part over those that have it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.protocols.test_opens2v_board import SAMPLE, write

from beholder.protocol_runs import make_protocol
from beholder.protocols.base import Finished, Scored
from beholder.protocols.opens2v.board import PARTS, make_board, weights
from beholder.report.numbers import format_estimate
from beholder.report.protocol import render_results

TOTAL = "Total v1.1 open"
KEYS = {"aes": ("aesthetic_score", "aes_score"), "smooth": ("motion_smoothness", "motion_smoothness"),
        "ampl": ("motion_amplitude", "motion_fb"), "face": ("facesim", "cur_score"),
        "gme": ("gmescore", "gme_score"), "nexus": ("nexusscore", "nexus_score")}  # fmt: skip


def videos(n: int = 24) -> dict[str, dict[str, float]]:
    """By part: value by stem, sorted by aesthetics within the bounds. FaceSim lacks videos; zeros of Nexus drop out."""
    rng = np.random.default_rng(11)
    stems = [f"faceobj_{at}" for at in range(n)]
    made = {
        "aes": np.linspace(4.1, 6.9, n), "smooth": rng.uniform(0.8, 1.1, n), "ampl": rng.uniform(-1, 1, n),
        "face": rng.uniform(0, 0.9, n), "gme": rng.uniform(0.5, 0.8, n), "nexus": rng.uniform(0.0, 0.08, n),
        "natural": rng.integers(1, 6, n).astype(float),
    }  # fmt: skip
    made["nexus"][::4] = 0
    return {key: {stem: float(value) for at, (stem, value) in enumerate(zip(stems, values))
                  if key != "face" or at % 3} for key, values in made.items()}  # fmt: skip


def as_files(values: dict[str, dict[str, float]]) -> dict[str, Any]:
    files: dict[str, Any] = {
        KEYS[key][0]: {stem: {KEYS[key][1]: value} for stem, value in own.items()}
        for key, own in values.items() if key != "natural"
    }  # fmt: skip
    return {**files, "naturalscore_1": {stem: f"{value:g}" for stem, value in values["natural"].items()}}


def by_hand(
    values: dict[str, dict[str, float]],
    *,
    skip: tuple[str, ...] = (),
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentiles of the board's own sum over drawn videos, in percent, by the board's arithmetic draw for draw."""
    stems, sums = list(values["aes"]), []
    for chosen in np.random.default_rng(seed).integers(0, len(stems), size=(resamples, len(stems))):
        told = {key: [own[stems[at]] for at in chosen if stems[at] in own]
                for key, own in values.items() if key not in skip}  # fmt: skip
        sums.append(100 * make_board(told, version="1.1", track="open").partial)
    low, high = np.quantile(sums, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def results_of(folder: Path, **settings: Any) -> Any:
    return make_protocol("opens2v", {"from_official": str(folder), **settings}).official_results()  # type: ignore[attr-defined]


def test_total_has_the_interval_of_drawn_videos(tmp_path: Path) -> None:
    values = videos()
    found = results_of(write(tmp_path / "Model", as_files(values)))
    number = found.table("board").number("Model", column=TOTAL)
    low, high = by_hand(values)
    assert (number.low, number.high) == pytest.approx((low, high), abs=1e-9)
    assert number.low < number.value < number.high
    assert (number.n, number.n_units, number.unit, number.n_missing) == (24, 24, "video", {})
    shown = format_estimate(number.value, number.low, number.high)
    assert "45.9" in shown
    for form in ("text", "md"):
        assert shown in render_results(found, form, width=400), form
    assert "45.9" in render_results(found, "latex")
    rows = list(csv.DictReader(io.StringIO(render_results(found, "csv"))))
    (row,) = [one for one in rows if one["column"] == TOTAL and one["from"] == "this run"]
    assert (float(row["low"]), float(row["high"])) == (number.low, number.high)
    (told,) = [one for one in found.to_dict()["tables"][0]["numbers"] if one["column"] == TOTAL and not one["source"]]
    assert json.loads(json.dumps(told))["low"] == number.low


def test_parts_go_together(tmp_path: Path) -> None:
    """GmeScore that falls as FaceSim rises leaves less room than two intervals added up."""
    values = videos()
    rise = np.linspace(0.1, 0.9, 24)
    values["face"] = {stem: float(x) for stem, x in zip(values["aes"], rise)}
    values["gme"] = {stem: float(1 - x) for stem, x in zip(values["aes"], rise)}
    found = results_of(write(tmp_path / "Model", as_files(values))).table("board")
    total = found.number("Model", column=TOTAL)
    parts = [found.number("Model", column=PARTS[key].title) for key in weights("1.1", "open")]
    shares = weights("1.1", "open").values()
    assert total.high - total.low < sum(w * (part.high - part.low) for w, part in zip(shares, parts))


def test_partial_sums_have_it_too(tmp_path: Path) -> None:
    values = videos()
    files = {name: own for name, own in as_files(values).items() if name != "motion_smoothness"}
    board = results_of(write(tmp_path / "Model", files), renormalised=True).table("board")
    total = board.number("Model", column=TOTAL)
    assert (total.value, total.low) == (None, None)
    partial = board.number("Model", column="Partial sum")
    low, high = by_hand(values, skip=("smooth",))
    assert (partial.low, partial.high) == pytest.approx((low, high), abs=1e-9)
    assert "without Smoothness" in (partial.note or "")
    again = board.number("Model", column="Renormalised (no number of the board)")
    assert (again.low, again.high) == pytest.approx((low / 0.94, high / 0.94), abs=1e-9)


def test_one_video_in_a_part_gives_none_and_says_why(tmp_path: Path) -> None:
    number = results_of(write(tmp_path / "Model", SAMPLE)).table("board").number("Model", column=TOTAL)
    assert number.value is not None
    assert (number.low, number.high) == (None, None)
    assert number.note == "no interval: every mean needs two videos, one has 1"
    assert (number.n, number.unit) == (2, "video")


def test_settings_of_the_command_count_without_a_run(beholder: Callable[..., Any], tmp_path: Path) -> None:
    folder = write(tmp_path / "Model", as_files(videos()))
    settings = ("--seed", "3", "--resamples", "150", "--level", "0.5")
    done = beholder("bench", "opens2v", "--from-official", str(folder), *settings, "--as", "json")
    assert done.exit_code == 0, done.stderr
    numbers = json.loads(done.stdout)["protocol"]["tables"][0]["numbers"]
    (told,) = [one for one in numbers if one["column"] == TOTAL and not one["source"]]
    low, high = by_hand(videos(), seed=3, resamples=150, level=0.5)
    assert (told["low"], told["high"]) == pytest.approx((low, high), abs=1e-9)
    wrong = beholder("bench", "opens2v", "--from-official", str(folder), "--level", "2")
    assert wrong.exit_code == 2
    assert "level" in wrong.stderr


def test_a_run_gives_its_settings_and_counts_what_is_missing() -> None:
    values = np.array([*np.linspace(4.1, 6.9, 20), np.nan, np.nan, np.nan])
    statuses = ["ok"] * 20 + ["missing", "missing", "unreadable"]
    scored = Scored("aes", "laion_aesthetic", "laion_aesthetic", values, statuses, [None] * 23)
    finished = Finished(23, {"method": ["m"] * 23}, [scored], seed=9, resamples=200, level=0.8)
    (board, *_) = make_protocol("opens2v").tables(finished)
    number = board.number("m", column="Partial sum")
    draws = np.random.default_rng(9).integers(0, 20, size=(200, 20))
    sums = [16 * (float(np.mean(values[chosen])) - 4) / 3 for chosen in draws]
    assert (number.low, number.high) == pytest.approx(tuple(np.quantile(sums, [0.1, 0.9])), abs=1e-9)
    assert (number.n, number.n_units, number.n_missing) == (20, 20, {"missing": 2, "unreadable": 1})


def test_the_golden_interval(tmp_path: Path) -> None:
    number = results_of(write(tmp_path / "Model", as_files(videos()))).table("board").number("Model", column=TOTAL)
    assert (number.value, number.low, number.high) == pytest.approx(GOLDEN, abs=1e-6)


GOLDEN = (50.913594036549746, 45.91701186242755, 56.04102309308336)
