"""The engine: right numbers, every feature once, a bad row costs one row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.runs.helpers import CountingEncoder, cosine, counting, write_set

import beholder
from beholder._errors import InputError, OptionError, RunConflictError, UnknownNameError, UserError
from beholder.media.base import DecodeOptions
from beholder.media.sources import as_medium

METRICS = ["clip_score", "clip_t", "clip_i"]


def run(data: Any, tmp_path: Path, *, out: str = "out", metrics: Any = METRICS, **options: Any) -> beholder.Run:
    options.setdefault("model", "counting")
    return beholder.evaluate(data, metrics=metrics, out=str(tmp_path / out), store=str(tmp_path / "store"), **options)


def image_vector(encoder: CountingEncoder, path: Path) -> np.ndarray:
    picture = as_medium(str(path)).decode(DecodeOptions())
    return encoder.encode_images(encoder.prepare_image(picture)[None])[0]


def test_scores_equal_those_of_a_plain_loop(tmp_path: Path) -> None:
    encoder = counting()
    data = write_set(tmp_path, 30)
    table = run(str(data), tmp_path).scores.to_pylist()
    assert len(table) == 30
    for row, line in zip(table, data.read_text().splitlines(), strict=True):
        asked = json.loads(line)
        image = image_vector(encoder, tmp_path / asked["output"])
        text = encoder.encode_texts([asked["prompt"]])["embedding"][0]
        references = [image_vector(encoder, tmp_path / name) for name in asked["references"]]
        assert row["clip_score"] == pytest.approx(cosine(image, text), abs=1e-6)
        assert row["clip_t"] == row["clip_score"]
        assert row["clip_i"] == pytest.approx(np.mean([cosine(image, other) for other in references]), abs=1e-6)
        assert row["clip_score_status"] == "ok"


def test_every_feature_is_made_once(tmp_path: Path) -> None:
    encoder = counting()
    run(str(write_set(tmp_path, 30)), tmp_path)
    assert encoder.prepared == 30 + 6
    assert sorted(encoder.texts) == [f"a photo of thing {number}" for number in range(5)]
    assert encoder.shapes == {8}


def test_a_rerun_encodes_nothing_and_gives_the_same(tmp_path: Path) -> None:
    encoder = counting()
    data = write_set(tmp_path, 30)
    first = run(str(data), tmp_path).scores
    prepared = encoder.prepared
    assert run(str(data), tmp_path).scores.equals(first)
    assert run(str(data), tmp_path, out="elsewhere").scores.equals(first)
    assert encoder.prepared == prepared


def test_a_new_metric_on_the_same_encoder_encodes_only_what_is_new(tmp_path: Path) -> None:
    encoder = counting()
    data = write_set(tmp_path, 20)
    run(str(data), tmp_path, metrics="clip_score", out="one")
    prepared = encoder.prepared
    run(str(data), tmp_path, metrics=["clip_score", "clip_i"], out="two")
    assert encoder.prepared == prepared + 6


def test_new_rows_cost_only_themselves(tmp_path: Path) -> None:
    encoder = counting()
    run(str(write_set(tmp_path, 20)), tmp_path)
    prepared = encoder.prepared
    grown = run(str(write_set(tmp_path, 23)), tmp_path)
    assert encoder.prepared == prepared + 3
    assert grown.n == 23


def test_order_and_grouping_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting()
    data = write_set(tmp_path, 30)
    straight = {row["id"]: row for row in run(str(data), tmp_path).scores.to_pylist()}
    lines = data.read_text().splitlines()
    shuffled = data.with_name("shuffled.jsonl")
    shuffled.write_text("\n".join(lines[::-1]))
    monkeypatch.setattr("beholder.runs.engine.CHUNK", 7)
    other = beholder.evaluate(
        str(shuffled),
        metrics=METRICS,
        model="counting",
        out=str(tmp_path / "o2"),
        store=str(tmp_path / "s2"),
        batch_size=3,
    )
    assert other.scores.column("id").to_pylist() == [json.loads(line)["output"] for line in lines[::-1]]
    for row in other.scores.to_pylist():
        for name in METRICS:
            assert row[name] == pytest.approx(straight[row["id"]][name], abs=1e-6)


def test_a_bad_row_costs_one_row(tmp_path: Path) -> None:
    counting(fail_on="boom", zero_on="hollow")
    data = write_set(
        tmp_path,
        20,
        r1={"output": "img/none.png"},
        r2={"prompt": "  "},
        r4={"prompt": "boom goes the model"},
        r5={"references": ["img/ref0_0.png", "img/gone.png"]},
        r6={"output": "img/broken.png"},
        r8={"prompt": "a hollow thing"},
        r9={"references": []},
    )
    (tmp_path / "img" / "broken.png").write_bytes(b"this is text")
    result = run(str(data), tmp_path)
    rows = result.scores.to_pylist()
    found = {
        (at, name): row[f"{name}_status"]
        for at, row in enumerate(rows)
        for name in METRICS
        if row[f"{name}_status"] != "ok"
    }
    assert found == {
        (1, "clip_score"): "missing", (1, "clip_t"): "missing", (1, "clip_i"): "missing",
        (2, "clip_score"): "empty_prompt", (2, "clip_t"): "empty_prompt",
        (4, "clip_score"): "failed", (4, "clip_t"): "failed",
        (5, "clip_i"): "missing",
        (6, "clip_score"): "unreadable", (6, "clip_t"): "unreadable", (6, "clip_i"): "unreadable",
        (8, "clip_score"): "degenerate_embedding", (8, "clip_t"): "degenerate_embedding",
        (9, "clip_i"): "no_reference",
    }  # fmt: skip
    for at, name in found:
        assert rows[at][name] is None
        assert rows[at][f"{name}_reason"]
    assert "img/gone.png" in rows[5]["clip_i_reason"]
    assert "boom" in rows[4]["clip_score_reason"]
    assert result.n_faults == 5
    assert result.exit_code == 3
    macro = next(s for s in result.summary if s.label == "clip_score" and s.headline and not s.group)
    assert macro.n == 15
    assert dict(macro.n_missing) == {
        "missing": 1, "empty_prompt": 1, "failed": 1, "unreadable": 1, "degenerate_embedding": 1
    }  # fmt: skip


def test_the_allowed_share_of_faults_decides_the_exit_code(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 20, r1={"output": "img/none.png"}, r2={"prompt": ""})
    assert run(str(data), tmp_path, out="a", max_failed=0.05).exit_code == 0
    assert run(str(data), tmp_path, out="b", max_failed=0.04).exit_code == 3


def test_a_file_that_comes_back_is_scored_on_the_next_run(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 10, r3={"output": "img/late.png"})
    assert run(str(data), tmp_path).n_faults == 1
    Image.new("RGB", (9, 9), (1, 2, 3)).save(tmp_path / "img" / "late.png")
    assert run(str(data), tmp_path).n_faults == 0


def test_a_row_that_failed_gets_another_try(tmp_path: Path) -> None:
    counting(fail_on="thing 3")
    data = write_set(tmp_path, 10)
    assert run(str(data), tmp_path).n_faults == 2
    counting()
    again = run(str(data), tmp_path, overwrite=True)
    assert again.n_faults == 0


def test_a_changed_file_is_scored_anew(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 10)
    before = run(str(data), tmp_path).scores.column("clip_score").to_pylist()
    Image.new("RGB", (16, 12), (200, 10, 10)).save(tmp_path / "img" / "4.png")
    after = run(str(data), tmp_path).scores.column("clip_score").to_pylist()
    assert [at for at in range(10) if before[at] != after[at]] == [4]


def test_two_models_visit_the_samples_one_after_another(tmp_path: Path) -> None:
    one, two = counting("one"), counting("two", seed=1)
    metrics = ["clip_score(model=one)", "clip_score(model=two)", "pick_score(model=two)"]
    result = run(str(write_set(tmp_path, 12)), tmp_path, metrics=metrics, model=None)
    assert result.labels == ["clip_score(model=one)", "clip_score(model=two)", "pick_score"]
    assert (one.prepared, two.prepared) == (12, 12)
    row = result.scores.to_pylist()[0]
    assert row["pick_score"] == pytest.approx(100 * row["clip_score(model=two)"], rel=1e-6)
    assert row["clip_score(model=one)"] != row["clip_score(model=two)"]


def test_a_generator_is_read_once_whatever_the_number_of_models(tmp_path: Path) -> None:
    one, two = counting("one"), counting("two", seed=1)
    pixels = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    rows = ({"output": pixels[at], "prompt": f"p{at % 3}", "seed": at} for at in range(12))
    result = run(rows, tmp_path, metrics=["clip_score(model=one)", "clip_score(model=two)"], model=None)
    assert result.n == 12
    assert result.n_faults == 0
    assert (one.prepared, two.prepared) == (12, 12)


def test_win_probabilities_sum_to_one_over_a_prompts_candidates(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 10, r9={"prompt": "alone"})
    options: dict[str, Any] = {"model": None}
    table = run(str(data), tmp_path, metrics="pick_score(model=counting, output=probability)", **options).scores
    raw = run(str(data), tmp_path, out="raw", metrics="pick_score(model=counting)", **options).scores
    sums: dict[str, float] = {}
    for row, score in zip(table.to_pylist(), raw.to_pylist(), strict=True):
        others = [r["pick_score"] for r in raw.to_pylist() if r["prompt"] == row["prompt"]]
        if len(others) == 1:
            assert (row["pick_score"], row["pick_score_status"]) == (None, "not_applicable")
            continue
        weights = np.exp(np.array(others) - score["pick_score"])
        assert row["pick_score"] == pytest.approx(1 / weights.sum(), rel=1e-9)
        sums[row["prompt"]] = sums.get(row["prompt"], 0) + row["pick_score"]
    # "thing 4" lost its second candidate to "alone".
    assert sums == pytest.approx({f"a photo of thing {at}": 1.0 for at in range(4)})
    assert "pick_score_group" not in table.column_names


def test_pairs_weight_a_concept_by_its_references(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 6, r0={"references": ["img/ref0_0.png"]})
    result = run(str(data), tmp_path, metrics="clip_i")
    rows = result.scores.to_pylist()
    assert [row["clip_i_pairs"] for row in rows] == [1, 2, 2, 2, 2, 2]
    pairs = next(row for row in result.summary if row.aggregate == "pairs" and not row.group)
    expected = sum(row["clip_i"] * row["clip_i_pairs"] for row in rows) / 11
    assert pairs.value == pytest.approx(expected, abs=1e-12)


def test_a_folder_holds_one_run(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 6)
    run(str(data), tmp_path, metrics="clip_score")
    with pytest.raises(RunConflictError, match=r"clip_score against clip_i.*--overwrite"):
        run(str(data), tmp_path, metrics="clip_i")
    assert run(str(data), tmp_path, metrics="clip_i", overwrite=True).labels == ["clip_i"]


def test_summary_settings_may_change_in_a_folder(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 12)
    first = run(str(data), tmp_path, metrics="clip_score")
    second = run(str(data), tmp_path, metrics="clip_score", level=0.5, by="seed")
    assert first.scores.equals(second.scores)
    assert second.summary[0].level == 0.5
    assert {"seed": 1} in [dict(row.group) for row in second.summary]


def test_grouping_at_reading_time(tmp_path: Path) -> None:
    counting()
    result = run(str(write_set(tmp_path, 12)), tmp_path, metrics="clip_score")
    groups = [dict(row.group) for row in result.summarise(by=["seed", "method"]) if row.headline]
    assert {"seed": 0, "method": "a"} in groups
    assert {"method": "b"} in groups
    with pytest.raises(UnknownNameError, match=r"Did you mean method\?.*Columns: .*\bmethod\b"):
        result.summarise(by=["methd"])


def test_a_smaller_limit_counts_even_where_the_feature_is_stored(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 4)
    assert run(str(data), tmp_path, metrics="clip_score").n_faults == 0
    small = run(str(data), tmp_path, metrics="clip_score", max_pixels=100, out="small")
    assert {row["clip_score_status"] for row in small.scores.to_pylist()} == {"too_large"}


def test_another_script_is_told_of_on_every_run(tmp_path: Path) -> None:
    from dataclasses import replace

    encoder = counting()
    encoder.model = replace(encoder.model, card=replace(encoder.model.card, english_only=True))
    data = write_set(tmp_path, 4, r1={"prompt": "一只猫"}, r2={"prompt": "🐱🐱"}, r3={"prompt": "café"})
    for _ in range(2):
        result = run(str(data), tmp_path, metrics="clip_score")
        assert [text for text in result.notices if "English" in text] == [
            "counting was trained on English only; 1 text in another script got a score that means little"
        ]
    assert result.n_faults == 0


def test_an_unknown_column_to_group_by_stops_the_run_before_any_compute(tmp_path: Path) -> None:
    encoder = counting()
    data = write_set(tmp_path, 12)
    with pytest.raises(UnknownNameError, match=r"methd.*Did you mean method"):
        run(str(data), tmp_path, by="methd")
    assert encoder.prepared == 0
    assert not (tmp_path / "out").exists()
    by_alias = run(str(data), tmp_path, by="model")
    assert {"method": "a"} in [dict(row.group) for row in by_alias.summary]
    rows = [{"output": str(tmp_path / "img" / "1.png"), "prompt": "a"}]
    once = run(iter(rows), tmp_path, by="nothing", out="once")
    assert any("no row has the column nothing" in text for text in once.notices)


def test_the_unit_follows_the_scale(tmp_path: Path) -> None:
    counting()
    result = run(str(write_set(tmp_path, 3)), tmp_path, metrics=["clip_score(variant=x100)", "clip_i"])
    assert [item["info"]["unit"] for item in result.header["metrics"]] == ["100 × cosine", "cosine"]


def test_the_header_tells_what_the_numbers_depend_on(tmp_path: Path) -> None:
    counting()
    result = run(str(write_set(tmp_path, 6)), tmp_path, metrics=["clip_score(variant=x100)", "clip_i"])
    header = result.header
    assert header["status"] == "finished"
    assert header["metrics"][0]["identity"] == "clip_score(model=counting, variant=x100)"
    assert header["metrics"][0]["settings"]["scale"] == 100.0
    (model,) = header["models"].values()
    assert len(model["weights_sha256"]) == 64
    assert model["ran"] == {"device": None, "image_batch": 8, "text_batch": 8}
    again = run(str(write_set(tmp_path, 6)), tmp_path, metrics=["clip_score(variant=x100)", "clip_i"])
    assert [item["ran"] for item in again.header["models"].values()] == [None]
    assert header["versions"]["python"]
    assert str(tmp_path) not in json.dumps({key: header[key] for key in ("metrics", "models", "versions")})


def test_truncated_rows_are_marked_and_counted(tmp_path: Path) -> None:
    counting(context_length=8)
    data = write_set(tmp_path, 6, r2={"prompt": "word " * 50})
    result = run(str(data), tmp_path, metrics="clip_score")
    assert json.loads(result.scores.to_pylist()[2]["clip_score_evidence"]) == {"truncated": True, "n_tokens": 52}
    assert any("clip_score: 1 row has a text longer" in text for text in result.notices)
    strict = run(str(data), tmp_path, metrics="clip_score", out="strict", truncation="error")
    assert [row["clip_score_status"] for row in strict.scores.to_pylist()] == ["ok", "ok", "failed", "ok", "ok", "ok"]
    assert "52 tokens" in strict.scores.to_pylist()[2]["clip_score_reason"]


def test_an_output_that_is_its_own_reference_is_told_of(tmp_path: Path) -> None:
    counting()
    data = write_set(tmp_path, 6, r2={"output": "img/ref2_1.png"})
    result = run(str(data), tmp_path, metrics="clip_i")
    assert any("byte for byte" in text and "img/ref2_1.png" in text for text in result.notices)


def test_unknown_settings_metrics_and_models_suggest_near_ones(tmp_path: Path) -> None:
    data = str(write_set(tmp_path, 3))
    with pytest.raises(UnknownNameError, match="clip_score"):
        run(data, tmp_path, metrics="clipscore")
    with pytest.raises(UnknownNameError, match="variant"):
        run(data, tmp_path, metrics="clip_score(varant=raw)")
    with pytest.raises(UnknownNameError, match="openai:ViT-L-14"):
        run(data, tmp_path, metrics="clip_score", model="openai:ViT-L-41")
    with pytest.raises(InputError, match="resamples"):
        run(data, tmp_path, metrics="clip_score", resamples=3)
    with pytest.raises(OptionError, match="--model"):
        run(data, tmp_path, metrics="pick_score", model="counting")
    with pytest.raises(OptionError, match="once"):
        run(data, tmp_path, metrics=["clip_score", "clip_score()"])


def test_no_samples_is_never_an_empty_success(tmp_path: Path) -> None:
    counting()
    with pytest.raises(UserError):
        run([], tmp_path)
    with pytest.raises(UserError):
        run(iter(()), tmp_path)


def test_faults_of_form_stop_before_any_compute(tmp_path: Path) -> None:
    encoder = counting()
    data = write_set(tmp_path, 6, r1={"id": "x"}, r3={"id": "x"}, r4={"id": "y"}, r5={"id": "y"})
    with pytest.raises(InputError) as caught:
        run(str(data), tmp_path)
    assert len(caught.value.faults) == 2
    assert encoder.prepared == 0
    assert not (tmp_path / "out").exists()


def test_csv_and_parquet_hold_the_same(tmp_path: Path) -> None:
    import csv

    counting()
    result = run(str(write_set(tmp_path, 8, r1={"output": "img/none.png"})), tmp_path)
    with open(result.path / "scores.csv", newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    for row, other in zip(rows, result.scores.to_pylist(), strict=True):
        assert row["id"] == other["id"]
        assert row["references"] == "|".join(other["references"])
        assert (None if row["clip_i"] == "" else float(row["clip_i"])) == other["clip_i"]


def test_no_file_of_a_run_holds_a_nan(tmp_path: Path) -> None:
    counting(zero_on="thing")
    result = run(str(write_set(tmp_path, 8)), tmp_path)
    assert all(row["clip_score"] is None for row in result.scores.to_pylist())
    for name in ("run.json", "summary.json", "scores.csv"):
        assert "nan" not in (result.path / name).read_text().lower().replace("degenerate", "")
    macro = next(row for row in result.summary if row.label == "clip_score")
    assert macro.value is None


def test_in_memory_pictures_end_a_chunk_early() -> None:
    from beholder.manifest.schema import Sample
    from beholder.runs.engine import chunks

    pixels = np.zeros((10, 10, 3), dtype=np.uint8)
    samples = [Sample(str(at), as_medium(pixels)) for at in range(10)]
    assert [len(part) for part in chunks(samples, size=4)] == [4, 4, 2]
    assert [len(part) for part in chunks(samples, size=100, most_bytes=900)] == [3, 3, 3, 1]
