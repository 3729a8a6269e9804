"""Metrics of whole sets in runs: one pass, groups, unequal sets, `n`, stored statistics, resumption, errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.runs.helpers import counting

import beholder
from beholder import evaluate
from beholder._errors import OptionError, UserError
from beholder.comparing.gate import gate
from beholder.functional.gaussians import fit_features, frechet_distance
from beholder.functional.neighbours import neighbour_metrics
from beholder.report.comparison import comparison_table, flat_records
from beholder.runs.results import Run


def pictures(folder: Path, count: int, *, seed: int = 0, **columns: Any) -> list[dict[str, Any]]:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    rows = []
    for at in range(count):
        path = folder / f"{at}.png"
        Image.fromarray(rng.integers(0, 256, (8, 10, 3), dtype=np.uint8)).save(path)
        more = {name: values[at % len(values)] for name, values in columns.items()}
        rows.append({"id": f"{folder.name}{at}", "output": str(path), "prompt": f"p{at % 6}", **more})
    return rows


def embeddings(rows: list[dict[str, Any]], name: str = "fake:dim=8") -> np.ndarray:
    """What the fake encoder makes, straight."""
    from beholder.backends.pool import load_model, resolve_model
    from beholder.media.base import Picture

    encoder = load_model(resolve_model(name), device="cpu")
    pixels = [np.ascontiguousarray(Image.open(row["output"]).convert("RGB")) for row in rows]
    prepared = [encoder.prepare_image(Picture(item, (item.shape[1], item.shape[0]), "RGB")) for item in pixels]
    return np.asarray(encoder.encode_images(np.stack(prepared)))


def by_group(run: Run, label: str) -> dict[tuple[Any, ...], Any]:
    return {tuple(row.group.values()): row for row in run.summary if row.label == label}


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return {"model": "fake:dim=8", "store": str(tmp_path / "store")}


def test_values_are_those_of_the_features_and_stand_in_the_summary(tmp_path: Path, settings: dict[str, Any]) -> None:
    gen, real = pictures(tmp_path / "g", 40), pictures(tmp_path / "r", 40, seed=1)
    run = evaluate(gen, metrics=["clip_score", "fd", "recall"], real=real, out=str(tmp_path / "o"), **settings)
    x, y = embeddings(gen), embeddings(real)
    assert by_group(run, "fd")[()].value == pytest.approx(frechet_distance(fit_features(x), fit_features(y)), rel=1e-9)
    assert by_group(run, "recall")[()].value == neighbour_metrics(y, x, k=5).recall
    assert "fd" not in run.scores.column_names
    assert set(run.scores["fd_status"].to_pylist()) == {"ok"}
    assert run.sample_labels == ["clip_score"]
    assert run.header["real"]["n"] == 40
    row = by_group(run, "fd")[()]
    assert (row.n, row.ci_method, row.aggregate) == (40, "half-sampling", "set")
    again = Run(run.path).summary
    assert [item for item in again if item.label == "fd"] == [row]


def test_outputs_are_encoded_once_for_metrics_of_samples_and_of_sets(tmp_path: Path, settings: dict[str, Any]) -> None:
    encoder = counting("sets-counting")
    gen, real = pictures(tmp_path / "g", 12), pictures(tmp_path / "r", 12, seed=1)
    settings["model"] = "sets-counting"
    evaluate(gen, metrics=["clip_score", "fd", "density"], real=real, out=str(tmp_path / "o"), **settings)
    assert encoder.prepared == 24
    evaluate(gen, metrics=["vendi", "coverage"], real=real, out=str(tmp_path / "p"), **settings)
    assert encoder.prepared == 24


def test_order_and_folder_do_not_move_a_value(tmp_path: Path, settings: dict[str, Any]) -> None:
    gen, real = pictures(tmp_path / "g", 30), pictures(tmp_path / "r", 30, seed=1)
    runs = [
        evaluate(rows, metrics=["fd", "density", "vendi"], real=other, out=str(tmp_path / name),
                 model="fake:dim=8", store=str(tmp_path / f"store-{name}"))
        for name, rows, other in (("a", gen, real), ("b", gen[::-1], real[5:] + real[:5]))
    ]  # fmt: skip
    for label in ("fd", "density", "vendi"):
        one, other = (by_group(run, label)[()] for run in runs)
        assert other.value == pytest.approx(one.value, rel=1e-10)
        assert other.low == pytest.approx(one.low, rel=1e-7)


def test_unequal_sets_are_refused_before_anything_is_computed_and_n_draws_equal_ones(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    encoder = counting("sets-unequal")
    settings["model"] = "sets-unequal"
    gen, real = pictures(tmp_path / "g", 20), pictures(tmp_path / "r", 30, seed=1)
    with pytest.raises(OptionError, match=r"20 generated and 30 real pictures.*--n 20"):
        evaluate(gen, metrics="fd", real=real, out=str(tmp_path / "o"), **settings)
    assert encoder.prepared == 0
    runs = [evaluate(gen, metrics="fd", real=real, n=15, seed=seed, out=str(tmp_path / f"o{seed}{again}"), **settings)
            for seed, again in ((0, 0), (0, 1), (1, 0))]  # fmt: skip
    values = [by_group(run, "fd")[()] for run in runs]
    assert values[0].value == values[1].value != values[2].value
    assert values[0].n == 15
    assert "15 of 20 generated pictures and 15 of 30 real pictures drawn (seed 0)" in values[0].note
    with pytest.raises(OptionError, match="--n 25 needs 25 pictures in each set"):
        evaluate(gen, metrics="fd", real=real, n=25, out=str(tmp_path / "p"), **settings)


def test_methods_and_groups_have_values_of_their_own(tmp_path: Path, settings: dict[str, Any]) -> None:
    gen = pictures(tmp_path / "g", 40, method="aabb", style="xy")
    real = pictures(tmp_path / "r", 20, seed=1)
    run = evaluate(gen, metrics=["fd", "diversity"], real=real, by="style", out=str(tmp_path / "o"), **settings)
    found = by_group(run, "fd")
    assert found[()].value is None
    assert "40 generated and 20 real" in found[()].note
    for method in "ab":
        own = [row for row in gen if row["method"] == method]
        expected = frechet_distance(fit_features(embeddings(own)), fit_features(embeddings(real)))
        assert found[(method,)].value == pytest.approx(expected, rel=1e-9)
    assert {group for group in found if group and group[0] in "xy"} == {("x",), ("y",)}
    # Outputs of two methods for one prompt are not seeds of one another.
    assert by_group(run, "diversity")[()].n_units == 12


def test_groups_that_a_run_was_not_asked_for_are_measured_from_what_it_keeps(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    gen = pictures(tmp_path / "g", 40, style="xxyy", rare=["r", *"s" * 39])
    real = pictures(tmp_path / "r", 20, seed=1)
    encoder = counting("sets-groups")
    settings["model"] = "sets-groups"
    metrics = ["clip_score", "fd", "recall", "diversity"]
    plain = evaluate(gen, metrics=metrics, real=real, n=15, out=str(tmp_path / "o"), **settings)
    made = encoder.prepared
    asked = evaluate(gen, metrics=metrics, real=real, n=15, by="style", out=str(tmp_path / "p"), **settings)
    opened = Run(plain.path)
    assert opened.summarise(by="style") == asked.summary
    assert encoder.prepared == made
    (rare,) = [row for row in opened.summarise(by="rare") if row.label == "fd" and row.group == {"rare": "r"}]
    assert (rare.value, rare.n) == (None, 1)
    assert "1 generated and 20 real" in rare.note
    assert {row.label for row in opened.summarise(by="rare", measure_sets=False) if row.group} == {"clip_score"}
    shutil.rmtree(settings["store"])
    whole = next(row for row in Run(plain.path).summarise(by="style") if row.label == "fd")
    assert whole.group == {}
    assert whole.value is not None
    assert "not there" in whole.note
    assert "with --by style" in whole.note


def test_pictures_without_features_are_counted_on_both_sides(tmp_path: Path, settings: dict[str, Any]) -> None:
    gen, real = pictures(tmp_path / "g", 21), pictures(tmp_path / "r", 22, seed=1)
    Path(gen[3]["output"]).write_bytes(b"broken")
    for at in (1, 2):
        Path(real[at]["output"]).unlink()
    run = evaluate(gen, metrics="fd", real=real, max_failed=0.1, n=20, out=str(tmp_path / "o"), **settings)
    row = by_group(run, "fd")[()]
    assert row.n_missing == {"unreadable": 1}
    assert row.n == 20
    assert any("2 pictures of the real set" in text and "2 missing" in text for text in run.notices)
    assert run.n_faults == 1


def test_another_real_set_needs_no_new_run_folder(tmp_path: Path, settings: dict[str, Any]) -> None:
    gen = pictures(tmp_path / "g", 12)
    values = []
    for seed in (1, 2, 1):
        real = pictures(tmp_path / f"r{seed}", 12, seed=seed)
        run = evaluate(gen, metrics="fd", real=real, out=str(tmp_path / "o"), **settings)
        values.append(by_group(run, "fd")[()].value)
    assert values[0] == values[2] != values[1]


def test_statistics_of_a_file_give_the_value_of_the_pictures(tmp_path: Path, settings: dict[str, Any]) -> None:
    gen, real = pictures(tmp_path / "g", 25), pictures(tmp_path / "r", 25, seed=1)
    path = str(tmp_path / "ref.npz")
    stats = beholder.make_stats(str(tmp_path / "r"), out=path, **settings)
    x = embeddings(real)
    np.testing.assert_allclose(stats.fit.mean, x.astype(np.float64).mean(axis=0), rtol=1e-12)
    with np.load(path, allow_pickle=False) as found:
        assert {"mu", "sigma", "n", "about"} == set(found.files)
        np.testing.assert_allclose(found["sigma"], np.cov(x.astype(np.float64), rowvar=False), rtol=1e-9)
        assert int(found["n"]) == 25
    whole = evaluate(gen, metrics="fd", real=real, out=str(tmp_path / "o"), **settings)
    fitted = evaluate(gen, metrics="fd", real=path, out=str(tmp_path / "p"), **settings)
    rows = [by_group(run, "fd")[()] for run in (whole, fitted)]
    assert rows[1].value == pytest.approx(rows[0].value, rel=1e-9)
    assert "mean and covariance alone, of 25 pictures" in rows[1].note
    with pytest.raises(OptionError, match=r"kid.* needs the real pictures"):
        evaluate(gen, metrics="kid(model=fake:dim=8)", real=path, out=str(tmp_path / "q"), **settings_only(settings))
    with pytest.raises(OptionError, match="must be of the metric's encoder"):
        evaluate(gen, metrics="fd(model=fake:seed=3)", real=path, out=str(tmp_path / "q"), **settings_only(settings))


def settings_only(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "model"}


def test_statistics_of_other_tools_are_read_and_their_unknown_size_is_told(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    gen, real = pictures(tmp_path / "g", 25), pictures(tmp_path / "r", 30, seed=1)
    fit = fit_features(embeddings(real))
    np.savez(tmp_path / "theirs.npz", mu=fit.mean, sigma=fit.cov)
    run = evaluate(gen, metrics="fd", real=str(tmp_path / "theirs.npz"), out=str(tmp_path / "o"), **settings)
    row = by_group(run, "fd")[()]
    assert row.value == pytest.approx(frechet_distance(fit_features(embeddings(gen)), fit), rel=1e-9)
    assert "an unknown number of pictures" in row.note


@pytest.mark.parametrize("content", ["text", "keys", "shape", "nan"])
def test_files_that_are_no_statistics(tmp_path: Path, settings: dict[str, Any], content: str) -> None:
    path = tmp_path / "bad.npz"
    arrays = {
        "keys": {"mean": np.zeros(2)},
        "shape": {"mu": np.zeros(2), "sigma": np.eye(3)},
        "nan": {"mu": np.array([0.0, np.nan]), "sigma": np.eye(2)},
    }
    if content == "text":
        path.write_text("no")
    else:
        np.savez(path, **arrays[content])
    with pytest.raises(UserError, match=r"bad\.npz"):
        evaluate(pictures(tmp_path / "g", 5), metrics="fd", real=str(path), out=str(tmp_path / "o"), **settings)


def test_what_cannot_be_asked_for(tmp_path: Path, settings: dict[str, Any]) -> None:
    gen = pictures(tmp_path / "g", 8)
    out = {"out": str(tmp_path / "o"), **settings}
    with pytest.raises(OptionError, match="--real"):
        evaluate(gen, metrics="fd", **out)
    with pytest.raises(OptionError, match="--real goes with"):
        evaluate(gen, metrics=["clip_score", "vendi"], real=gen, **out)
    with pytest.raises(OptionError, match="k must be at least 1"):
        evaluate(gen, metrics="recall(k=0)", real=gen, **out)
    with pytest.raises(OptionError, match="takes metrics of samples"):
        beholder.score("vendi(model=fake)", images=gen[0]["output"])
    with pytest.raises(OptionError, match="prompt with two outputs"):
        evaluate(gen[:2], metrics="diversity", **out)
    assert not (tmp_path / "o" / "sets.json").exists()


def test_videos_give_their_frames_to_the_set(tmp_path: Path, settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for at in range(3):
        first, *others = [Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)) for _ in range(4)]
        first.save(tmp_path / f"{at}.gif", save_all=True, append_images=others, duration=100)
        rows.append({"id": str(at), "output": str(tmp_path / f"{at}.gif"), "prompt": "p"})
    run = evaluate(rows, metrics="vendi(frames=all)", out=str(tmp_path / "o"), **settings)
    assert by_group(run, "vendi")[()].n == 12


def test_an_open_run_measures_the_set_when_it_closes(tmp_path: Path, settings: dict[str, Any]) -> None:
    gen, real = pictures(tmp_path / "g", 12), pictures(tmp_path / "r", 12, seed=1)
    with beholder.open_run(str(tmp_path / "o"), metrics=["fd"], real=real, **settings) as opened:
        for row in gen:
            opened.add(**row)
    assert opened.run is not None
    straight = evaluate(gen, metrics="fd", real=real, out=str(tmp_path / "p"), **settings)
    assert by_group(opened.run, "fd")[()].value == pytest.approx(by_group(straight, "fd")[()].value, rel=1e-12)


def test_later_looks_at_a_run_with_sets(tmp_path: Path, settings: dict[str, Any]) -> None:
    real = pictures(tmp_path / "r", 24, seed=1)
    runs = []
    for name, seed in (("a", 2), ("b", 3)):
        gen = pictures(tmp_path / name, 24, seed=seed)
        data = tmp_path / f"{name}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in gen))
        out = str(tmp_path / f"run-{name}")
        runs.append(evaluate(str(data), metrics=["clip_score", "fd"], real=real, out=out, **settings))
    verified = beholder.verify(runs[0])
    assert [(item.label, item.note is None) for item in verified.metrics] == [("clip_score", True), ("fd", False)]
    assert verified.passed
    assert gate(runs[0], require=["fd>=0"]).passed
    assert not gate(runs[0], require=["fd<=0"]).passed
    for allowed, outcome in ((1e6, "pass"), (0.0, "inconclusive")):
        checks = gate(runs[1], baseline=runs[0], max_drop={"fd": allowed}).checks
        assert next(item.outcome for item in checks if item.name.startswith("max-drop")) == outcome
    found = beholder.compare(*runs)
    assert {row.label for row in found.rows} == {"clip_score"}
    (row,) = found.sets
    one, other = (by_group(run, "fd")[()] for run in runs)
    assert (row.a, row.b, row.value_a, row.value_b) == ("run-a", "run-b", one.value, other.value)
    assert row.difference == other.value - one.value
    reach = 1.959963984540054 * (one.sd**2 + other.sd**2) ** 0.5
    assert (row.low, row.high) == pytest.approx((row.difference - reach, row.difference + reach))
    assert row.verdict == "inconclusive"
    table = comparison_table(found)
    assert [cells[0] for cells in table.rows] == ["clip_score ↑", "fd ↓"]
    assert any("whole sets" in note for note in table.notes)
    flat = flat_records(found)
    assert [(item["label"], item["unit"], item["mean"]) for item in flat][1] == ("fd", "set", other.value)
    assert list(flat[0]) == list(flat[1]), "one table has one set of columns"
    assert (flat[1]["mean_low"], flat[1]["mean_high"], flat[1]["note"]) == (other.low, other.high, one.note)
    alone = beholder.compare(*runs, metrics=["fd"])
    assert (alone.rows, alone.sets) == ((), found.sets)


def test_values_against_other_real_sets_are_not_compared(tmp_path: Path, settings: dict[str, Any]) -> None:
    runs = []
    for name, seed in (("a", 1), ("b", 2)):
        real = pictures(tmp_path / f"real-{name}", 24, seed=seed)
        gen = pictures(tmp_path / name, 24, seed=5)
        runs.append(evaluate(gen, metrics="fd", real=real, out=str(tmp_path / f"run-{name}"), **settings))
    with pytest.raises(UserError, match="real set"):
        beholder.compare(*runs)
    found = beholder.compare(*runs, allow_different=True)
    assert any("real set" in text for text in found.warnings)


def test_methods_of_a_run_are_compared_as_sets(tmp_path: Path, settings: dict[str, Any]) -> None:
    gen = pictures(tmp_path / "g", 48, method="aabb")
    for row in gen:
        if row["method"] == "b":  # one picture's worth of variety, far from the real set
            Image.new("RGB", (10, 8), (int(row["id"][1:]), 0, 0)).save(row["output"])
    real = pictures(tmp_path / "r", 24, seed=1)
    run = evaluate(gen, metrics=["fd", "vendi"], real=real, out=str(tmp_path / "o"), **settings)
    found = beholder.compare(run)
    assert {(row.label, row.b, row.verdict) for row in found.sets} == {("fd", "b", "worse"), ("vendi", "b", "lower")}


def test_a_dry_run_counts_the_real_set_and_tells_of_unequal_ones(tmp_path: Path, settings: dict[str, Any]) -> None:
    from beholder.runs.config import make_config
    from beholder.runs.dry_run import dry_run

    gen = pictures(tmp_path / "g", 12)
    pictures(tmp_path / "r", 12, seed=1)
    pictures(tmp_path / "small", 5, seed=2)
    data = tmp_path / "gen.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in gen))
    asked = {"data": str(data), "metrics": ["fd", "clip_score"], "out": str(tmp_path / "o"), **settings}
    found = dry_run(make_config({**asked, "real": str(tmp_path / "r")}))
    work = {item.feature: (item.needed, item.stored) for item in found.work}
    assert work == {"image_embedding": (24, 0), "text_embedding": (6, 0)}
    assert found.samples == 12
    assert any("12 pictures" in line for line in found.lines())
    part = dry_run(make_config({**asked, "real": str(tmp_path / "r"), "shard": "1/3", "store": None}))
    assert part.samples == 4
    assert {item.feature: item.needed for item in part.work}["image_embedding"] == 8
    with pytest.raises(OptionError, match=r"12 generated and 5 real"):
        dry_run(make_config({**asked, "real": str(tmp_path / "small")}))
    assert not (tmp_path / "o").exists()


def test_sides_with_and_without_metrics_of_samples_share_those_of_sets(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    gen, real = pictures(tmp_path / "g", 24), pictures(tmp_path / "r", 24, seed=1)
    one = evaluate(gen, metrics=["clip_score", "fd"], real=real, out=str(tmp_path / "a"), **settings)
    other = evaluate(gen, metrics="fd", real=real, out=str(tmp_path / "b"), **settings)
    found = beholder.compare(one, other)
    assert found.rows == ()
    assert [row.label for row in found.sets] == ["fd"]
    assert found.sets[0].difference == 0.0
