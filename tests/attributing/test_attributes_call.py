"""beholder.attributes and its command: tables, maps, reruns, statuses, several sets, by class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.attributing.attribute_sets import draw_set
from typer.testing import CliRunner

import beholder
from beholder._errors import OptionError, RunConflictError, UnknownNameError, UserError
from beholder.attributing.files import AttributeRun
from beholder.backends.pool import load_model, resolve_model
from beholder.cli.main import app
from beholder.functional.divergence import sad
from beholder.functional.patches import patch_cosines, ra_clip_scores
from beholder.functional.score_sums import Gaussian
from beholder.manifest import open_source
from beholder.media.base import DecodeOptions
from beholder.report.attributes import attributes_text

LIST = ["a cat", "a dog", "an apple"]
FAST = {"resamples": 100, "permutations": 99}


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("sets")
    shares = {"cat": 0.4, "dog": 0.5}
    return {
        "ref": draw_set(root / "ref", 60, shares, seed=1),
        "near": draw_set(root / "near", 50, shares, seed=2),
        "far": draw_set(root / "far", 50, {"cat": 0.95, "dog": 0.1}, seed=3),
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def run(sets: dict[str, Path], store: str, tmp_path_factory: pytest.TempPathFactory) -> AttributeRun:
    return beholder.attributes(
        real=str(sets["ref"]), gen={"far": str(sets["far"]), "near": str(sets["near"])}, attributes=LIST,
        model="demo:emoji", out=str(tmp_path_factory.mktemp("runs") / "a"), store=store, **FAST,
    )  # fmt: skip


def test_scores_and_divergences_by_another_way(run: AttributeRun, sets: dict[str, Path]) -> None:
    """The encoder called by hand, the equations' functions, numpy's moments."""
    encoder: Any = load_model(resolve_model("demo:emoji"), device="cpu")
    texts = [[form.format(item) for item in LIST] for form in ("This is a photo of {}.", "This is a photo without {}.")]
    plus, minus = (encoder.encode_texts(part)["embedding"] for part in texts)
    by_hand = {}
    for name in ("ref", "far"):
        pictures = [sample.output.decode(DecodeOptions()) for sample in open_source(str(sets[name])) if sample.output]
        columns = encoder.encode_patches(np.stack([encoder.prepare_image(picture) for picture in pictures]))
        cosines = patch_cosines(columns["embedding"], columns["patches"], plus, minus)
        by_hand[name] = ra_clip_scores(cosines, columns["attention"], tau=encoder.constants["logit_scale"]).scores
    table = run.scores.to_pydict()
    at = np.asarray(table["set"])
    for name, label in (("ref", "reference"), ("far", "far")):
        found = np.stack([np.asarray(table[f"score: {item}"], dtype=float)[at == label] for item in LIST], axis=1)
        np.testing.assert_allclose(found, by_hand[name], atol=5e-4)
    fits = [Gaussian(side.mean(axis=0), np.cov(side.T)) for side in (by_hand["ref"], by_hand["far"])]
    rows = [row for row in run.attributes.to_pylist() if row["set"] == "far"]
    np.testing.assert_allclose([row["sad"] for row in rows[:2]], sad(*fits)[:2], rtol=0.02)


def test_tables(run: AttributeRun) -> None:
    assert [row["set"] for row in run.sets.to_pylist()] == ["near", "far"], "the nearest set comes first"
    rows = run.attributes.to_pylist()
    assert [(row["set"], row["attribute"]) for row in rows] == [(s, a) for s in ("far", "near") for a in LIST]
    for row in rows:
        assert row["status"] == "ok"
        for name in ("sad", "w1", "jsd", "mean_difference", "mar", "level", "mar_shape"):
            for part in ("", "_low", "_high", "_null_mean", "_null_level", "_p", "_corrected"):
                assert np.isfinite(row[name + part])
        assert row["sad_corrected_low"] <= row["sad_corrected"] <= row["sad_corrected_high"]
        moved = [row[f"sad_{end}"] - 2 * row["sad_null_mean"] for end in ("low", "high")]
        assert row["sad_corrected_high"] == max(0.0, moved[1], row["sad_corrected"])
        assert row["sad_corrected_low"] == min(max(0.0, moved[0]), row["sad_corrected"])
    for one in run.sets.to_pylist():
        for name in ("sad_mean", "pad_mean", "sad_mean_relevant"):
            assert one[f"{name}_corrected_low"] <= one[f"{name}_corrected"] <= one[f"{name}_corrected_high"]
    far = rows[0]
    assert far["mean_difference"] > 0.2
    assert far["sad"] > far["sad_null_level"]
    assert far["level"] < 0, "more in the generated set"
    near = rows[len(LIST)]
    assert near["sad_q"] >= near["sad_p"] > 0.02
    apple = rows[2]
    assert apple["irrelevant"]
    assert apple["placement_status"] == "not_enough_evidence"
    assert apple["placement_jsd"] is None
    assert len(run.pairs) == 6
    assert {"pad", "dependence", "pad_q", "condition_number"} <= set(run.pairs.column_names)
    assert run.header["model"]["id"] == "demo:emoji"
    assert run.header["settings"]["seed"] == 0


def test_means_over_attributes_are_printed_with_their_intervals(run: AttributeRun) -> None:
    sets, rows = run.sets.to_pylist(), run.attributes.to_pylist()
    text = attributes_text(run.header, sets, rows)
    for one in sets:
        line = next(line for line in text.splitlines() if line.split()[:2] == [str(one["rank"]), one["set"]])
        assert line.count("[") == 5, "SaD, PaD, both corrected, and MAR"
        for name in ("sad_mean_corrected", "pad_mean_corrected"):
            assert f"{one[name]:.3g} [{one[f'{name}_low']:.3g}, {one[f'{name}_high']:.3g}]" in line
        mine = [row["mar"] for row in rows if row["set"] == one["set"] and row["mar"] is not None]
        assert one["mar_mean"] == pytest.approx(sum(mine) / len(mine))
        assert f"[{one['mar_mean_low']:.3g}, {one['mar_mean_high']:.3g}]" in line
        assert one["mar_mean_low"] < one["mar_mean_high"]


def test_a_narrow_terminal_cuts_no_number(run: AttributeRun) -> None:
    """Lines were once cut at the terminal's width: of 0.292 there stood 0.2."""
    sets, rows = run.sets.to_pylist(), run.attributes.to_pylist()
    whole, narrow = attributes_text(run.header, sets, rows), attributes_text(run.header, sets, rows, width=80)
    assert "an interval may even leave its value out" in whole
    assert "both ends less twice that, cut at 0 (_corrected_low, _corrected_high" in whole
    assert "\nSaD corrected   " in narrow, "blocks have room for it"
    for one in sets:
        assert f"{one['mar_mean']:.3g}" in narrow
        assert f"{one['mar_mean_high']:.3g}]" in narrow
        assert f"\nimages          {one['n_gen']}\n" in narrow
    long = [dict(one, set=f"{'x' * 40}{at}") for at, one in enumerate(sets)]
    shown = attributes_text(run.header, long, [])
    assert all(one["set"] in shown for one in long)


def test_corrected_values_stand_where_there_is_room(run: AttributeRun) -> None:
    sets, rows = run.sets.to_pylist(), run.attributes.to_pylist()
    wide = attributes_text(run.header, sets, rows, width=200)
    assert wide.count("SaD corrected") == 3, "of the sets, and of each one's attributes"
    fewer = attributes_text(run.header, sets, rows, width=130)
    assert "SaD corrected" not in fewer
    assert "\nattribute   a cat" not in fewer, "tables all the same, no blocks"
    older = [{name: value for name, value in row.items() if "corrected_" not in name} for row in (*sets, *rows)]
    assert "SaD corrected" not in attributes_text(run.header, older[: len(sets)], older[len(sets) :])


def test_means_of_maps_over_attributes_have_intervals(run: AttributeRun) -> None:
    rows = run.attributes.to_pylist()
    for one in run.sets.to_pylist():
        for name, has_null in (("mar", True), ("regional_kl", True), ("placement_jsd", False)):
            mine = [row for row in rows if row["set"] == one["set"] and row[name] is not None]
            mean = one[f"{name}_mean"]
            low, high = one[f"{name}_mean_low"], one[f"{name}_mean_high"]
            assert mean == pytest.approx(sum(row[name] for row in mine) / len(mine))
            assert low < high
            widths = [row[f"{name}_high"] - row[f"{name}_low"] for row in mine]
            assert high - low < 1.1 * sum(widths) / len(widths), "a mean varies no more than what it is of"
            assert (one.get(f"{name}_mean_p") is not None) == has_null


def test_maps(run: AttributeRun) -> None:
    maps = run.maps("far")
    assert maps["r_sad"].shape == (3, 8, 8)
    assert all(np.isfinite(array).all() for array in maps.values())
    np.testing.assert_allclose(maps["r_sad"], maps["ref_mean"] - maps["gen_mean"], atol=1e-12)
    assert maps["valid"].all()
    assert maps["significant"][0].any()
    row = run.attributes.to_pylist()[0]
    assert row["mar"] == pytest.approx(np.abs(maps["r_sad"][0]).mean())
    with pytest.raises(UserError, match="far, near"):
        run.maps()


def test_a_second_call_computes_nothing(
    run: AttributeRun, sets: dict[str, Path], store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("nothing may be computed")

    monkeypatch.setattr("beholder.attributing.call.compare_sets", refuse)
    monkeypatch.setattr("beholder.backends.pool.load_model", refuse)
    gen = {"far": str(sets["far"]), "near": str(sets["near"])}
    settings = {"attributes": LIST, "model": "demo:emoji", "out": str(run.path), "store": store, **FAST}
    again = beholder.attributes(real=str(sets["ref"]), gen=gen, **settings)
    assert again.header == run.header
    with pytest.raises(RunConflictError, match="other inputs or settings"):
        beholder.attributes(real=str(sets["ref"]), gen=gen, **{**settings, "seed": 1})


def test_other_settings_reuse_the_features(
    sets: dict[str, Path], store: str, run: AttributeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beholder.backends.hf_clip.HFClipEncoder.encode_patches", None)
    gen = {"far": str(sets["far"])}
    for name, settings in {
        "kde": {"density": "kde", "direction": "ref||gen"},
        "scaled": {"legacy_scale": True, "map_images": 40},
        "hcs": {"score": "hcs", "density": "kde_legacy"},
        "clip": {"score": "clip_score", "maps": True},
        "ablation": {"refine": "none", "dual": False, "local": False, "global_layer": "L-1"},
    }.items():
        made = beholder.attributes(
            real=str(sets["ref"]), gen=gen, attributes=LIST, model="demo:emoji", out=str(tmp_path / name), store=store,
            **FAST, **settings,
        )  # fmt: skip
        rows = made.attributes.to_pylist()
        assert all(np.isfinite(row["sad"]) for row in rows)
        if name == "kde":
            assert all(np.isfinite(row["pad_low"]) for row in made.pairs.to_pylist())
            assert all(row["sad_corrected_low"] is None for row in rows)
            told = attributes_text(made.header, made.sets.to_pylist(), rows)
            assert "Corrected values by kernels have no interval" in told
        if name == "scaled":
            plain = [row for row in run.attributes.to_pylist() if row["set"] == "far"]
            for part in ("", "_low", "_null_level", "_corrected_low", "_corrected_high"):
                assert [row[f"sad{part}"] / 1000 for row in rows] == pytest.approx([row[f"sad{part}"] for row in plain])
            assert rows[0]["w1"] == plain[0]["w1"]
            assert (rows[0]["map_null"], plain[0]["map_null"]) == ("centred-bootstrap", "permutation")
            assert made.header["unit"] == "1000 × nats"
        if name == "hcs":
            assert rows[0]["sad_low"] is None
            assert made.header["settings"]["direction"] == "ref||gen"
            assert rows[0]["sad"] > 100, "on the scale that the public code prints"
            assert "prevalence_ref" not in rows[0]
            scores = made.scores.to_pydict()
            assert max(abs(v) for v in scores["score: a cat"]) <= 100


def test_files_that_cannot_be_read_and_small_sets(sets: dict[str, Path], store: str, tmp_path: Path) -> None:
    rows = [{"id": str(i), "output": str(path)} for i, path in enumerate(sorted(sets["near"].iterdir())[:2])]
    (tmp_path / "broken.png").write_bytes(b"no picture")
    rows += [{"id": "b", "output": str(tmp_path / "broken.png")}, {"id": "m", "output": str(tmp_path / "gone.png")}]
    made = beholder.attributes(
        real=str(sets["ref"]), gen={"few": rows}, attributes=LIST[:1], model="demo:emoji", out=str(tmp_path / "r"),
        store=store, **FAST,
    )  # fmt: skip
    table = made.scores.to_pydict()
    assert table["status"][-2:] == ["unreadable", "missing"]
    assert table["score: a cat"][-2:] == [None, None]
    row = made.attributes.to_pylist()[0]
    assert row["status"] == "not_enough_evidence"
    assert row["reason"] == f"each set needs 3 scored images: the reference has {row['n_ref']}, the generated set 2"
    told = attributes_text(made.header, made.sets.to_pylist(), [row])
    assert "Images of few that were left out: missing 1, unreadable 1" in told
    assert "few: each set needs 3 scored images" in told
    assert "the reference that" not in told
    assert not made.maps()["valid"].any()
    assert made.sets.to_pylist()[0]["n_missing"] == '{"missing":1,"unreadable":1}'
    assert (made.n_faults, made.n, made.fault_share) == (2, 64, 2 / 64)


def test_more_faults_than_allowed_give_exit_code_3(sets: dict[str, Path], store: str, tmp_path: Path) -> None:
    (tmp_path / "gen").mkdir()
    for path in sorted(sets["near"].iterdir())[:4]:
        (tmp_path / "gen" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "gen" / "broken.png").write_bytes(b"no picture")
    listed = tmp_path / "list.txt"
    listed.write_text("a cat\n")
    call = ["attributes", "--real", str(sets["near"]), "--gen", str(tmp_path / "gen"), "--attributes", str(listed),
            "--model", "demo:emoji", "--store", store, "--resamples", "0", "--permutations", "0", "--no-maps", "-q",
            "-o", str(tmp_path / "run")]  # fmt: skip
    strict = CliRunner().invoke(app, call)
    assert strict.exit_code == 3
    assert "unreadable 1" in strict.stdout
    assert "1 of 55 images have a fault, more than the 0 % that --max-failed allows" in strict.stderr
    assert CliRunner().invoke(app, [*call, "--max-failed", "0.1"]).exit_code == 0
    assert CliRunner().invoke(app, [*call, "--max-failed", "2"]).exit_code == 2


def test_by_class(sets: dict[str, Path], store: str, tmp_path: Path) -> None:
    def rows(folder: Path) -> list[dict[str, Any]]:
        return [
            {"id": path.name, "output": str(path), "class_name": ("a cat", "a dog")[i % 2]}
            for i, path in enumerate(sorted(folder.iterdir()))
        ]

    made = beholder.attributes(
        real=rows(sets["ref"]), gen={"far": rows(sets["far"])}, attributes=LIST, model="demo:emoji", by_class=True,
        out=str(tmp_path / "r"), store=store, **FAST,
    )  # fmt: skip
    table = made.attributes.to_pylist()
    assert [row["status"] for row in table] == ["ok", "ok", "not_enough_evidence"]
    assert [row["reason"] is None for row in table] == [True, True, False]
    assert f"whose class_name is {LIST[2]!r}: the reference has 0" in table[2]["reason"]
    assert (table[0]["n_ref"], table[0]["n_gen"]) == (30, 25)
    assert made.maps()["valid"].tolist() == [True, True, False]
    assert not len(made.pairs)
    scores = made.scores.to_pydict()
    mine = [
        v for v, s, c in zip(scores["score: a cat"], scores["set"], scores["class_name"]) if s == "far" and c == "a cat"
    ]
    theirs = [v for v, s, c in zip(scores["score: a cat"], scores["set"], scores["class_name"])
              if s == "reference" and c == "a cat"]  # fmt: skip
    assert table[0]["mean_difference"] == pytest.approx(np.mean(mine) - np.mean(theirs), abs=1e-6)
    (whole,) = made.sets.to_pylist()
    for name in ("sad", "mar", "regional_kl", "placement_jsd"):
        have = [row for row in table if row.get(name) is not None]
        assert whole[f"{name}_mean"] == pytest.approx(np.mean([row[name] for row in have]))
        assert whole[f"{name}_mean_low"] < whole[f"{name}_mean_high"]
        widths = [row[f"{name}_high"] - row[f"{name}_low"] for row in have]
        assert whole[f"{name}_mean_high"] - whole[f"{name}_mean_low"] < 1.1 * np.mean(widths)
    assert whole["sad_mean_relevant_low"] < whole["sad_mean_relevant_high"]
    for name in ("sad_mean", "sad_mean_relevant"):
        assert whole[f"{name}_corrected_low"] <= whole[f"{name}_corrected"] <= whole[f"{name}_corrected_high"]
    assert whole["pad_mean_corrected_low"] is None


def test_what_is_refused(sets: dict[str, Path], tmp_path: Path) -> None:
    common: dict[str, Any] = {"real": str(sets["ref"]), "gen": str(sets["near"]), "attributes": LIST}
    for settings, error, message in (
        ({"tua": 3}, UnknownNameError, "tua"),
        ({"score": "sad"}, OptionError, "ra_clip_score"),
        ({"density": "box"}, OptionError, "kde_legacy"),
        ({"density": "kde_legacy", "direction": "gen||ref"}, OptionError, "ref||gen"),
        ({"map_images": 0}, OptionError, "map_images"),
        ({"level": 1.0}, OptionError, "level"),
        ({"regions": 0}, OptionError, "regions"),
        ({"resamples": -1}, OptionError, "0 or more"),
        ({"gen": {"reference": str(sets["near"])}}, OptionError, "reference"),
        ({"gen": {}}, OptionError, "at least one"),
        ({"gen": {"s": iter([{"output": "x.png"}])}}, OptionError, "readable twice"),
    ):
        with pytest.raises(error, match=message):
            beholder.attributes(**{**common, "model": "fake", "out": str(tmp_path / "x"), **settings})
    with pytest.raises(UserError, match="written by"):
        AttributeRun(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(RunConflictError, match="other files"):
        beholder.attributes(**common, model="fake", out=str(tmp_path / "full"), store=str(tmp_path / "s"))


def test_the_command(sets: dict[str, Path], store: str, tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("\n".join(LIST), encoding="utf-8")
    arguments = [
        "attributes", "--real", str(sets["ref"]), "--gen", f"far={sets['far']}", "--gen", str(sets["near"]),
        "--attributes", str(listed), "-o", str(tmp_path / "run"), "--model", "demo:emoji", "--store", store,
        "--resamples", "100", "--permutations", "99",
    ]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "a cat" in done.stdout
    assert "null" in done.stdout
    ranked = [line.split()[1] for line in done.stdout.splitlines() if line.split()[:1] in (["1"], ["2"])]
    assert (len(ranked), ranked[1]) == (2, "far")
    again = CliRunner().invoke(app, [*arguments, "--json", "-q"])
    assert again.exit_code == 0
    assert '"sad_null_level"' in again.stdout
    wrong = CliRunner().invoke(app, [*arguments, "--density", "box"])
    assert wrong.exit_code == 2


def test_options_of_maps_and_scale_on_the_command_line(sets: dict[str, Path], store: str, tmp_path: Path) -> None:
    def table(name: str, *more: str) -> AttributeRun:
        out = tmp_path / name
        done = CliRunner().invoke(app, [
            "attributes", "--real", str(sets["ref"]), "--gen", f"far={sets['far']}", "--attributes", "faces", "-q",
            "-o", str(out), "--model", "demo:emoji", "--store", store, "--resamples", "20", "--permutations", "19",
            *more,
        ])  # fmt: skip
        assert done.exit_code == 0, done.output
        return AttributeRun(out)

    plain, scaled = table("plain", "--regions", "2"), table("scaled", "--legacy-scale", "--map-images", "5")
    assert plain.maps("far")["regional_kl"].shape[1:] == (2, 2)
    first, second = (run.attributes.to_pylist()[0] for run in (plain, scaled))
    assert second["sad"] == pytest.approx(1000 * first["sad"], rel=1e-6)
    assert (first["map_null"], second["map_null"]) == ("permutation", "centred-bootstrap")
    wrong = CliRunner().invoke(app, ["attributes", "--real", "a", "--gen", "b", "--attributes", "faces", "-o",
                                     str(tmp_path / "x"), "--regions", "0"])  # fmt: skip
    assert wrong.exit_code == 2
