"""OpenS2V's data: the evaluation file, models, missing and foreign videos; and the command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.metrics.test_natural_score import Judge
from tests.protocols.test_opens2v_board import SAMPLE, write

from beholder._errors import UserError
from beholder.protocol_runs import bench, check_data, finished_run, make_protocol
from beholder.protocols.opens2v.board import PARTS
from beholder.protocols.opens2v.data import subtrack_of
from beholder.protocols.opens2v.official import read_official
from beholder.reporting.commands import run_command

ENTRIES: dict[str, Any] = {
    "singleobj_1": {"img_paths": ["Images/thing/cup/1.png"], "class_label": ["Cup"], "prompt": "a cup",
                    "synthesis_flag": "wrong"},
    "faceobj_14": {"img_paths": ["Images/human/crop_woman/4.png", "Images/thing/cup/1.png"],
                   "class_label": ["Woman", "Cup"], "prompt": "a woman"},
}  # fmt: skip


def dataset(folder: Path, entries: dict[str, Any] = ENTRIES, name: str = "Open-Domain_Eval.json") -> Path:
    for entry in entries.values():
        for path in entry.get("img_paths", []):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (200, 10, 10)).save(folder / path)
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(entries), encoding="utf-8")
    return folder


def clip(path: Path, frames: int = 3) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures = [Image.new("RGB", (16, 12), (40 * at, 10, 10)) for at in range(frames)]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], lossless=True, duration=100)


def samples(data: Path, **options: Any) -> list[Any]:
    source = make_protocol("opens2v", options).source(str(data))
    source.check()
    return list(source)


def test_every_entry_of_every_model(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data")
    clip(data / "videos" / "a" / "singleobj_1.webp")
    clip(data / "videos" / "a" / "faceobj_14.webp")
    clip(data / "videos" / "b" / "singleobj_1.webp")
    found = {sample.id: sample for sample in samples(data)}
    assert list(found) == ["a/singleobj_1", "a/faceobj_14", "b/singleobj_1", "b/faceobj_14"]
    one = found["a/faceobj_14"]
    assert (one.method, one.task, one.prompt) == ("a", "faceobj", "a woman")
    assert one.extras["stem"] == "faceobj_14"
    assert list(one.seg_prompt) == ["Woman", "Cup"]
    assert len(one.references) == 2
    assert found["b/faceobj_14"].output.name.endswith("faceobj_14.mp4"), "a video that is not there is still expected"


def test_a_folder_a_sub_track_is_no_model(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data")
    for model in ("a", "b"):
        for stem in ENTRIES:
            clip(data / "videos" / model / subtrack_of(stem) / f"{stem}.webp")
    found = {sample.id: sample for sample in samples(data)}
    assert set(found) == {f"{model}/{stem}" for model in ("a", "b") for stem in ENTRIES}
    assert found["b/faceobj_14"].method == "b"
    assert found["b/faceobj_14"].output.name.endswith("b/faceobj/faceobj_14.webp")


def test_the_pages_manifest_loads_without_prompts(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", {"video_001": {"img_paths": ["ref/a.png"], "class_label": ["Cup"]}}, "eval.json")
    clip(data / "video_001.webp")
    (sample,) = samples(data)
    assert sample.prompt is None
    assert (sample.task, sample.method) == ("video", None)


def test_what_is_odd_is_told(tmp_path: Path) -> None:
    entries = {**ENTRIES, "multiobject_2": {"img_paths": ["Images/x.png"], "class_label": ["Cup", "Hat"]}}
    data = dataset(tmp_path / "data", entries)
    clip(data / "videos" / "singleobj_1.webp")
    (data / "videos" / "stranger_9.mp4").write_bytes(b"x")
    source = make_protocol("opens2v").source(str(data))
    source.check()
    list(source)
    told = " ".join(source.notices)
    assert "stranger_9.mp4" in told
    assert "singleobj_1.webp" in told
    assert "multiobject_2 (1 references, 2 labels)" in told
    report = check_data("opens2v", str(data))
    text = " ".join(fault.message for fault in report.faults)
    assert "1 references and 2 labels" in text


def test_tracks_choose_the_file(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data")
    dataset(data, {"singlehuman_1": ENTRIES["singleobj_1"]}, "Human-Domain_Eval.json")
    assert {sample.id for sample in samples(data, track="human")} == {"singlehuman_1"}
    assert len(samples(data)) == 2
    with pytest.raises(UserError, match="track single"):
        samples(data, track="single")
    (data / "Open-Domain_Eval.json").unlink()
    (data / "Human-Domain_Eval.json").unlink()
    dataset(data, ENTRIES, "one.json")
    dataset(data, ENTRIES, "two.json")
    with pytest.raises(UserError, match=r"one\.json, two\.json"):
        samples(data)
    assert len(samples(data / "one.json")) == 2


def test_entries_of_another_form(tmp_path: Path) -> None:
    from beholder._errors import InputError

    data = dataset(tmp_path / "data", {**ENTRIES, "bad_1": {"img_paths": ["a.png"], "class_label": "Cup"}})
    with pytest.raises(InputError, match="class_label of bad_1"):
        samples(data)


@pytest.mark.parametrize(
    ("stem", "wanted"),
    [
        ("faceobj_14", "faceobj"),
        ("faceobj_3.final_cut", "faceobj"),
        ("faceobj", "faceobj"),
        ("a.b_3", "a.b"),
        ("plain", "plain"),
        ("x_y", "x_y"),
    ],
)
def test_sub_tracks(stem: str, wanted: str) -> None:
    assert subtrack_of(stem) == wanted


def test_metrics_by_track() -> None:
    assert not any("nexus" in spec for spec in make_protocol("opens2v", {"track": "human"}).metrics())
    named = make_protocol("opens2v").metrics(["nexus_score(detector=owlv2)"])
    assert "nexus_score(detector=owlv2)" in named
    assert "nexus_score" not in named


def test_official_files_stand_in_for_what_is_not_scored(tmp_path: Path) -> None:
    Judge(["4", "4", "4"])
    data = dataset(tmp_path / "data")
    clip(data / "videos" / "singleobj_1.webp")
    clip(data / "videos" / "faceobj_14.webp")
    official = {**SAMPLE, "gmescore": {"singleobj_1": {"gme_score": 0.5}, "other_9": {"gme_score": 0.9}}}
    protocol = make_protocol("opens2v", {"from_official": str(write(tmp_path / "files", official))})
    found = bench(protocol, str(data), metrics=["natural_score(model=judge)"], only=True, out=str(tmp_path / "run"),
                  store=str(tmp_path / "store"))  # fmt: skip
    board = found.results.table("board")
    assert board.number("(all videos)", column="NaturalScore").value == pytest.approx(75)
    gme = board.number("(all videos)", column="GmeScore")
    assert (gme.value, gme.n, gme.note) == (50, 1, "from an official file")
    assert board.number("(all videos)", column="Aesthetic").value == pytest.approx(100 * (4.811809062957764 - 4) / 3)


def test_the_command_on_official_files(beholder: Callable[..., Any], tmp_path: Path) -> None:
    folder = write(tmp_path / "Model", SAMPLE)
    done = beholder("bench", "opens2v", "--from-official", str(folder), "--as", "json")
    assert done.exit_code == 0, done.stderr
    tables = {table["name"]: table for table in json.loads(done.stdout)["protocol"]["tables"]}
    own = [number for number in tables["board"]["numbers"] if number["source"] is None]
    assert any(number["column"] == "Total v1.1 open" and number["value"] for number in own)
    human = beholder("bench", "opens2v", "--from-official", str(folder), "--track", "human", "--version", "1.0")
    assert "Total v1.0 human" in human.stdout
    assert beholder("bench", "opens2v").exit_code == 2
    assert beholder("bench", "opens2v", "--from-official", str(tmp_path / "none")).exit_code == 2
    assert beholder("bench", "genai-bench", str(tmp_path), "--track", "open").exit_code == 2


def test_the_command_exports(beholder: Callable[..., Any], tmp_path: Path) -> None:
    Judge(["4", "3 or 4", "5"])
    data = dataset(tmp_path / "data")
    for model in ("a", "b"):
        clip(data / "videos" / model / "singleobj_1.webp")
        # An animation under the name that OpenS2V's scripts look for.
        (data / "videos" / model / "singleobj_1.webp").rename(data / "videos" / model / "singleobj_1.mp4")
    done = beholder(
        "bench", "opens2v", data, "-o", tmp_path / "run", "-m", "natural_score(model=judge,frames=uniform:4)", "--only",
        "--export-official", tmp_path / "official", "--store", tmp_path / "store", "--max-failed", "1",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    for model in ("a", "b"):
        there = sorted(path.name for path in (tmp_path / "official" / model).iterdir())
        assert there == ["naturalscore_1.json", "naturalscore_2.json", "naturalscore_3.json"]
        second = json.loads((tmp_path / "official" / model / "naturalscore_2.json").read_text())
        assert second == {"singleobj_1": "error"}
    assert "official files" in done.stderr.lower()


def test_parts_from_official_files_are_exported_again(tmp_path: Path) -> None:
    Judge(["4", "3.25", "no idea"])
    data = dataset(tmp_path / "data")
    for stem in ENTRIES:
        clip(data / "videos" / f"{stem}.webp")
        # An animation under the name that OpenS2V's scripts look for.
        (data / "videos" / f"{stem}.webp").rename(data / "videos" / f"{stem}.mp4")
    official = {**SAMPLE, "gmescore": {"singleobj_1": {"gme_score": 0.5}, "other_9": {"gme_score": 0.9}}}
    protocol = make_protocol("opens2v", {"from_official": str(write(tmp_path / "files", official))})
    found = bench(protocol, str(data), metrics=["natural_score(model=judge)"], only=True, out=str(tmp_path / "run"),
                  store=str(tmp_path / "store"))  # fmt: skip
    (tmp_path / "again").mkdir()
    for name, content in protocol.export(finished_run(found.run)).items():  # type: ignore[attr-defined]
        (tmp_path / "again" / name).write_bytes(content)
    again = read_official(tmp_path / "again")
    assert set(again.values) == {"aes", "smooth", "ampl", "face", "gme", "nexus", "natural"}
    assert again.values["gme"] == {"singleobj_1": 0.5}
    assert again.runs == {key: [4, 3.25, None] for key in ENTRIES}
    board, table = again.board(version="1.1", track="open"), found.results.table("board")
    for key, part in board.parts.items():
        told = table.number("(all videos)", column=PARTS[key].title).value
        assert (part is None) == (told is None)
        assert part is None or 100 * part == pytest.approx(told)


def test_a_run_without_smoothness_has_a_partial_sum_that_says_so(beholder: Callable[..., Any], tmp_path: Path) -> None:
    Judge(["4", "4", "4"])
    data = dataset(tmp_path / "data")
    clip(data / "videos" / "singleobj_1.webp")
    done = beholder(
        "bench", "opens2v", data, "-o", tmp_path / "run", "-m", "natural_score(model=judge,frames=uniform:4)", "--only",
        "--store", tmp_path / "store", "--max-failed", "1", "--as", "json",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    tables = {table["name"]: table for table in json.loads(done.stdout)["protocol"]["tables"]}
    own = {number["column"]: number for number in tables["board"]["numbers"] if number["source"] is None}
    assert own["Total v1.1 open"]["value"] is None
    assert "Smoothness" in own["Total v1.1 open"]["note"]
    assert own["Partial sum"]["value"] == pytest.approx(100 * 0.24 * 0.75)
    assert "Smoothness" in own["Partial sum"]["note"]
    assert "0.24" in own["Partial sum"]["note"] or "24" in own["Partial sum"]["note"]


def test_the_options_of_a_board_are_in_the_command_that_makes_it_again(tmp_path: Path) -> None:
    Judge(["4", "4", "4"])
    data = dataset(dataset(tmp_path / "data"), name="Single-Domain_Eval.json")
    clip(data / "videos" / "singleobj_1.webp")
    files = write(tmp_path / "files", SAMPLE)
    protocol = make_protocol("opens2v", {"from_official": str(files), "track": "single", "version": "1.0"})
    found = bench(protocol, str(data), metrics=["natural_score(model=judge)"], only=True, out=str(tmp_path / "run"),
                  store=str(tmp_path / "store"))  # fmt: skip
    words = ["beholder", "bench", "opens2v", str(data), "--only", "-m", "natural_score(model=judge)",
             "--track", "single", "--version", "1.0", "--from-official", str(files), "-o",
             str(found.run.path)]  # fmt: skip
    assert run_command(found.run) == shlex.join(words)
    plain = bench("opens2v", str(data), metrics=["natural_score(model=judge)"], only=True, out=str(tmp_path / "plain"),
                  store=str(tmp_path / "store"))  # fmt: skip
    assert shlex.split(str(run_command(plain.run))) == [*words[:7], "-o", str(plain.run.path)], "defaults are not named"
