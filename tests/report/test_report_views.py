"""The views of benchmarks and attribute evaluations as data: numbers worked out by hand, blockers, foreign files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.report.report_runs import EVIL, pictured_run
from tests.report.report_views import attribute_folder, subject_run, video_run

from beholder._errors import UserError
from beholder.protocol_runs import read_results
from beholder.report.html.data import Report, View
from beholder.reporting import write_report
from beholder.reporting.collect import collect
from beholder.reporting.commands import run_command
from beholder.runs.results import open_run_folder


def view_of(*runs: Path, at: int = 0) -> View:
    return collect(runs, resamples=50).views[at]


def cells(table: dict[str, Any], *labels: str) -> list[Any]:
    """The cells behind the labels of a row."""
    (row,) = [row["cells"] for row in table["rows"] if tuple(row["cells"][: len(labels)]) == labels]
    return list(row[len(labels) :])


def column(table: dict[str, Any], title: str) -> int:
    return [head["title"] for head in table["columns"]].index(title)


def test_concepts_have_each_metric_with_interval_count_and_background_share(tmp_path: Path) -> None:
    table = view_of(subject_run(tmp_path)).data["concepts"]
    titles = [head["title"] for head in table["columns"]]
    assert titles == ["task", "method", "concept", "CLIP-I", "CLIP-I-Seg", "CLIP-T", "background_share"]
    found = cells(table, "generation", "copycat", "cat")
    assert [cell["v"] for cell in found] == pytest.approx([0.905, 0.105, 0.3, 1.0])
    assert "n 2" in found[0]["k"]
    assert cells(table, "reconstruction", "copycat", "cat")[2] == {"t": "—", "v": None}  # CLIP-T does not apply


def test_published_rows_stand_below_and_say_so(tmp_path: Path) -> None:
    rows = view_of(subject_run(tmp_path)).data["paper"]["rows"]
    assert [row["published"] for row in rows] == sorted(row["published"] for row in rows)
    assert {row["cells"][0] for row in rows if row["published"]} == {"Naive-DB", "Enc-FT", "MoKus"}


def test_the_square_of_subject_and_surroundings_counts_every_output_once(tmp_path: Path) -> None:
    copied = view_of(subject_run(tmp_path)).data["copied"]
    corners = {(one["side"], one["front"], one["back"]): one for one in copied["corners"]}
    assert len(corners) == 8
    assert {key: one["n"] for key, one in corners.items() if one["n"]} == {(0, True, False): 8, (1, False, True): 8}
    trap = corners[1, False, True]
    assert [mean["v"] for mean in trap["means"]] == pytest.approx([0.905, 0.105, 0.3])
    assert [mean["n"] for mean in trap["means"]] == [8, 8, 4]
    assert trap["rows"] == list(range(8, 16))
    assert "[" in trap["means"][0]["t"]  # the interval over prompts


def test_outputs_of_a_concept_stand_side_by_side_with_their_masks(tmp_path: Path) -> None:
    report = collect([subject_run(tmp_path)], resamples=50)
    entries = report.views[0].data["outputs"]["dog"]
    assert [(entry["task"], entry["seed"]) for entry in entries] == [
        (task, seed) for task in ("reconstruction", "generation") for seed in "01"
    ]
    assert [report.samples.ids[row] for row in entries[2]["rows"]] == [
        "gen/faithful/dog-generation-0.png", "gen/copycat/dog-generation-0.png",
    ]  # fmt: skip
    shown = report.samples.visuals[entries[0]["rows"][0]]
    assert [medium.name for medium in shown.references] == ["ref/dog.png"]
    assert len(shown.masks) == len(shown.reference_masks) == 1


def test_totals_are_weights_times_parts(tmp_path: Path) -> None:
    bars = view_of(video_run(tmp_path)).data["bars"]
    weights = {part["title"]: part["weight"] for part in bars["parts"]}
    assert weights["NexusScore"] == 0.20
    assert {part["title"]: part["bounds"] for part in bars["parts"]}["NexusScore"] == "0 to 0.05, zeros left out"
    models = {model["name"]: model for model in bars["models"] if not model["published"]}
    # Aesthetic (5.5 − 4)/3, smoothness .5, amplitude .1, face .4, gme .5, nexus .025/.05, natural (3 − 1)/4
    by_hand = 100 * (0.16 * 0.5 + 0.06 * 0.5 + 0.02 * 0.1 + 0.20 * 0.4 + 0.12 * 0.5 + 0.20 * 0.5 + 0.24 * 0.5)
    assert models["whole"]["total"] == pytest.approx(by_hand)
    assert sum(part["adds"] for part in models["whole"]["parts"]) == pytest.approx(by_hand)
    assert models["gone"]["total"] is None
    assert models["gone"]["partial"] == pytest.approx(by_hand - 10)


def test_a_partial_total_is_a_blocker(tmp_path: Path) -> None:
    blockers = collect([video_run(tmp_path)], resamples=50).blockers
    assert any(
        "gone: Total v1.1 open is not whole (no total: NexusScore without any value)" in text for text in blockers
    )
    assert not any("whole: Total" in text for text in blockers)


def test_videos_that_do_not_count_lead_to_their_samples(tmp_path: Path) -> None:
    report = collect([video_run(tmp_path)], resamples=50)
    rows = [row for row in report.views[0].data["why"]["rows"] if row["cells"][2] == "NexusScore"]
    assert [row["cells"] for row in rows] == [
        ["gone", stem, "NexusScore", "no_detection", "left out", "no box"] for stem in ("faceobj_1", "singleobj_1")
    ]
    assert [report.samples.ids[row["row"]] for row in rows] == ["gone/faceobj_1", "gone/singleobj_1"]


def test_companions_stand_beside_official_means(tmp_path: Path) -> None:
    table = view_of(video_run(tmp_path)).data["companions"]
    found = cells(table, "NexusScore", "Nexus corrected", "whole")
    assert [found[0]["v"], found[1]["v"]] == pytest.approx([0.025, 0.5])
    assert [cell["t"] for cell in found[2:]] == ["1.", "1."]
    assert cells(table, "NexusScore", "Nexus corrected", "gone")[0]["v"] is None
    assert found[1]["l"] <= found[1]["v"] <= found[1]["h"], "no mean without its interval"
    assert "n 2" in found[1]["k"].replace("n = ", "n ")


def test_means_of_companions_know_what_is_missing(tmp_path: Path) -> None:
    found = read_results(open_run_folder(video_run(tmp_path)))
    assert found is not None
    table = next(table for table in found.tables if table.name == "companions")
    known, none = (table.number("whole", column=name) for name in ("Nexus coverage", "Motion magnitude"))
    assert (known.n, known.low, known.high, dict(known.n_missing)) == (2, 1.0, 1.0, {})
    assert (none.value, none.n, dict(none.n_missing)) == (None, 0, {"not_applicable": 2})


def test_a_benchmark_is_made_again_by_bench(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    asked = {"data": str(folder), "metrics": ["nexus_score(label=0.0)"], "model": "demo:emoji", "seed": 3}
    run = video_run(tmp_path)
    header = json.loads((run / "run.json").read_text("utf-8"))
    header["asked"] |= asked
    (run / "run.json").write_text(json.dumps(header), encoding="utf-8")
    assert run_command(open_run_folder(run)) == (
        f"beholder bench opens2v {folder} --only -m 'nexus_score(label=0.0)' "
        f"--model demo:emoji --seed 3 --resamples 200 -o {run}"
    )
    results = json.loads((run / "protocol.json").read_text("utf-8"))
    options = {"text": "class", "from_official": "its files", "renormalised": True}
    (run / "protocol.json").write_text(json.dumps({**results, "options": options}), encoding="utf-8")
    assert run_command(open_run_folder(run)) == (
        f"beholder bench opens2v {folder} --only -m 'nexus_score(label=0.0)' --text class --from-official 'its files' "
        f"--model demo:emoji --seed 3 --resamples 200 -o {run}"
    )


def test_attributes_are_data_not_pictures(tmp_path: Path) -> None:
    report = collect([pictured_run(tmp_path / "a"), attribute_folder(tmp_path / "b")], resamples=50)
    (one,) = report.views[0].data["sets"]
    assert [(row["name"], row["sad"], row["null"], row["sure"]) for row in one["attributes"]] == [
        ("a cat", 0.5, 0.1, True), ("a dog", 0.02, 0.1, False),
    ]  # fmt: skip
    assert one["pairs"]["cells"][0][:6] == [0, 1, 0.75, -0.25, True, False]
    assert list(one["maps"]["of"]) == ["a cat"]  # the other has no valid map
    assert one["maps"]["of"]["a cat"]["r_sad"] == [[1.0, -1.0], [1.0, -1.0]]
    move = one["maps"]["of"]["a cat"]["move"]
    assert (move["x"], move["y"], move["dx"], move["dy"]) == pytest.approx((0.25, 0.5, 0.5, 0.0))
    found = cells(one["table"], "a cat")
    assert found[column(one["table"], "prevalence ref → gen") - 1]["t"] == "25 → 50 %"
    told = report.views[0].data["ranking"]["notes"]
    assert "both ends less twice that, cut at 0 (_corrected_low, _corrected_high" in told[1]
    assert found[column(one["table"], "SaD, corrected") - 1]["t"] == "0.45 [0.30, 0.60]"
    assert one["attributes"][0]["tip"].endswith("corrected 0.45 [0.3, 0.6]")
    assert "corrected" not in one["attributes"][1]["tip"], "made by an older version"
    (whole,) = (row["cells"] for row in report.views[0].data["ranking"]["rows"])
    assert whole[column(report.views[0].data["ranking"], "SaD, mean, corrected")]["t"] == "0.21 [0.10, 0.30]"
    assert whole[column(report.views[0].data["ranking"], "PaD, mean, corrected")]["v"] is None


def test_attributes_have_a_page_of_their_own(tmp_path: Path) -> None:
    folder = attribute_folder(tmp_path / "faces", model="demo:emoji")
    report = collect([folder])
    assert report.verdicts == ["sdxl: 1 of 2 attributes differ from the reference (a cat)."]
    assert any("demo:emoji, a stand-in" in text for text in report.blockers)
    assert write_report(folder) == folder / "report" / "index.html"
    assert not any("stand-in" in text for text in collect([attribute_folder(tmp_path / "real")]).blockers)


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(UserError, match="needs a run"):
        collect([])


def test_a_link_out_of_an_evaluation_is_not_copied(tmp_path: Path) -> None:
    folder = attribute_folder(tmp_path / "faces")
    (folder / "pictures" / "sdxl").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(folder / "pictures" / "sdxl" / "overlay-a.png")
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    (folder / "pictures" / "sdxl" / "overlay-b.png").symlink_to(tmp_path / "secret.png")
    (folder / "pictures" / "sdxl" / "overlay-c.png").write_text("no picture")
    assert [figure["name"] for figure in view_of(folder).data["figures"]] == ["sdxl/overlay-a"]


def hostile(tmp_path: Path) -> Report:
    folders = [subject_run(tmp_path / "s", mark=EVIL), attribute_folder(tmp_path / "a", mark=EVIL)]
    return collect(folders, resamples=50)


def test_hostile_texts_reach_views_as_texts(tmp_path: Path) -> None:
    report = hostile(tmp_path)
    assert f"cat{EVIL}" in report.views[0].data["outputs"]
    assert report.views[1].data["sets"][0]["name"] == f"sdxl{EVIL}"
