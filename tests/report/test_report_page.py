"""The report as files: what it says, that no text becomes code, what it writes and what it leaves alone."""

from __future__ import annotations

import base64
import json
import os
import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.comparing.made_runs import made_metric, made_run
from tests.report.report_runs import EVIL, PROMPTS, pictured_run, set_run
from tests.report.report_views import add_columns

from beholder._errors import OptionError, UnknownNameError, UserError
from beholder.report.html.escape import element, script_json
from beholder.report.html.write import SCRIPTS, _asset, script
from beholder.reporting import write_report
from beholder.reporting.collect import collect


def part(folder: Path, name: str) -> Any:
    text = (folder / "data" / f"{name}.js").read_text(encoding="utf-8")
    assert text.startswith(f'beholderData("{name}",')
    return json.loads(text[len(f'beholderData("{name}",') : text.rindex(")")])


def head(page: Path) -> Any:
    found = re.search(r'<script type="application/json" id="head-data">(.*?)</script>', page.read_text("utf-8"), re.S)
    assert found is not None
    return json.loads(found[1])


class Tags(HTMLParser):
    """Collects elements and the text outside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.texts.append(data)


def test_the_first_screen_says_verdict_table_and_changes(tmp_path: Path) -> None:
    page = write_report(pictured_run(tmp_path), out=tmp_path / "r")
    text = " ".join(Tags(page.read_text("utf-8")).texts)
    assert "better beats base on 1 of 1 metric." in text
    assert "0.550" in text  # mean of 0.3 + 0.01 k for k = 0 … 10, and 0.2 more
    assert "11 of 12: 1 missing" in re.sub(r"\s+", " ", text)
    assert "+0.2" in text
    assert "Before you use these numbers" not in text
    groups = part(page.parent, "groups")["category"]
    assert {"cats", "dogs"} <= {bar["group"] for bar in groups["bars"]["quality"]}


def test_every_sample_is_in_the_data_with_its_pictures_and_evidence(tmp_path: Path) -> None:
    folder = write_report(pictured_run(tmp_path), out=tmp_path / "r").parent
    core, details = part(folder, "core"), part(folder, "details-0")
    assert len(core["ids"]) == len(details) == 2 * PROMPTS
    assert core["values"]["quality"][:3] == [0.3, 0.31, 0.32]
    assert core["values"]["quality"][11] is None
    assert core["statusNames"][core["statuses"]["quality"][11]] == "missing"
    assert core["keys"][3] == core["keys"][3 + PROMPTS] >= 0
    assert (core["outputThumbs"][11], core["outputThumbs"][0] >= 0) == (-1, True)
    one = details[0]
    assert one["scores"]["quality"]["evidence"]["frames"]["indices"] == [0]
    assert details[11]["scores"]["quality"]["reason"] == "no file a plain text"
    assert one["original"] == "./../base-0.png"
    assert one["shows"]
    reference, mask = (core["thumbs"][one[kind][0][1]] for kind in ("references", "masks"))
    with Image.open(folder / "thumbs" / f"{reference}.jpg") as image:
        assert image.size == (192, 144)
        assert all(abs(a - b) < 6 for a, b in zip(image.getpixel((9, 9)), (9, 9, 200)))
    with Image.open(folder / "thumbs" / f"{mask}.jpg") as image:
        assert [image.convert("L").getpixel(at) > 128 for at in ((5, 5), (96, 72))] == [False, True]


@pytest.mark.parametrize("name", ["r", "r.html"])
def test_no_text_of_a_manifest_becomes_code(tmp_path: Path, name: str) -> None:
    page = write_report(pictured_run(tmp_path, evil=True), out=tmp_path / name)
    text = page.read_text("utf-8")
    found = Tags(text)
    assert EVIL in "".join(found.texts)  # it is shown, as text
    assert not any(tag == "img" or any(key.startswith("on") for key in attributes) for tag, attributes in found.tags)
    scripts = [attributes for tag, attributes in found.tags if tag == "script"]
    assert all(s.get("type") == "application/json" or s.get("src") == "report.js" or not s for s in scripts)
    assert sum(not s or "src" in s for s in scripts) == 1
    for path in [page, *(page.parent / "data").glob("*.js")] if name == "r" else [page]:
        assert "<script>window.evil" not in path.read_text("utf-8")
    if name == "r":
        assert EVIL in part(page.parent, "core")["ids"][0]


def test_the_application_makes_no_html_of_text() -> None:
    code = script()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "http://",
        "https://",
    ):
        assert word not in code.replace("http://www.w3.org/2000/svg", ""), word
    assert "url(" not in _asset("report.css")
    assert all(len(_asset(name).splitlines()) < 400 for name in SCRIPTS)


@pytest.mark.parametrize("name", ["r", "r.html"])
def test_the_policy_forbids_the_network(tmp_path: Path, name: str) -> None:
    page = write_report(pictured_run(tmp_path), out=tmp_path / name)
    policies = [a["content"] for tag, a in Tags(page.read_text("utf-8")).tags if a.get("http-equiv")]
    assert len(policies) == 1
    assert policies[0] is not None
    assert policies[0].startswith("default-src 'none';")
    assert "http" not in policies[0]


def test_one_file_holds_everything(tmp_path: Path) -> None:
    page = write_report(pictured_run(tmp_path), out=tmp_path / "only" / "r.html")
    assert [item.name for item in page.parent.iterdir()] == ["r.html"]
    text = page.read_text("utf-8")
    parts = dict(re.findall(r'<script type="application/json" data-part="([\w-]+)">(.*?)</script>', text, re.S))
    assert list(parts) == ["core", "groups", "details-0", "thumbs-0"]
    core, thumbs = json.loads(parts["core"]), json.loads(parts["thumbs-0"])
    key = core["thumbs"][core["outputThumbs"][0]]
    with Image.open(BytesIO(base64.b64decode(thumbs[key]))) as image:
        assert image.size == (192, 144)
    assert head(page)["cards"]["0"]["thumb"] == f"data:image/jpeg;base64,{thumbs[key]}"


def test_thumbnails_are_made_once_and_cleared_away(tmp_path: Path) -> None:
    run = pictured_run(tmp_path)
    folder = write_report(run, out=tmp_path / "r").parent
    thumbs = sorted((folder / "thumbs").iterdir())
    assert len(thumbs) == 2 * (PROMPTS - 1) + 2  # outputs, one reference, one mask
    times = {path.name: path.stat().st_mtime_ns for path in thumbs}
    Image.new("RGB", (50, 50), (1, 2, 3)).save(tmp_path / "base-0.png")
    os.utime(tmp_path / "base-0.png", ns=(1, 1))
    write_report(run, out=folder)
    again = {path.name: path.stat().st_mtime_ns for path in (folder / "thumbs").iterdir()}
    assert len(again) == len(times)
    assert sum(again.get(name) == time for name, time in times.items()) == len(times) - 1


def test_a_folder_or_page_of_others_is_left_alone(tmp_path: Path) -> None:
    run = pictured_run(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear diary")
    (tmp_path / "page.html").write_text("<p>mine</p>")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<p>mine</p>")
    for place in ("mine", "page.html", "site"):
        with pytest.raises(UserError, match="report"):
            write_report(run, out=tmp_path / place)
    assert (tmp_path / "page.html").read_text() == "<p>mine</p>"
    assert [item.name for item in (tmp_path / "mine").iterdir()] == ["diary.txt"]


def test_the_default_place_is_the_first_run(tmp_path: Path) -> None:
    run = pictured_run(tmp_path)
    assert write_report(run) == run / "report" / "index.html"


def blockers(*runs: Path) -> list[str]:
    return list(collect(runs, resamples=100).blockers)


def test_blockers_are_what_forbids_to_use_numbers(tmp_path: Path) -> None:
    rows = [{"prompt": f"p{at}", "clip_score": None if at < 3 else 0.1 * at} for at in range(9)]
    slots = {"image": {"model": "demo:emoji", "model_key": "k"}}
    demo = made_run(
        tmp_path / "demo",
        rows,
        [made_metric("clip_score", slots=slots)],
        models={"k": {"id": "demo:emoji", "card": {"engine": "demo"}}},
    )
    found = blockers(demo)
    assert len(found) == 2
    assert "scored with stand-ins for trying things out" in found[0]
    assert found[0].endswith("clip_score with demo:emoji.")
    assert "3 of 9 samples have a fault, more than the 0 %" in found[1]
    other = made_run(tmp_path / "other", rows, [made_metric("clip_score", identity="clip_score(variant=x100)")])
    same = made_run(tmp_path / "same", rows)
    assert any("clip_score cannot be compared" in text and "x100" in text for text in blockers(same, other))
    assert collect([same, other], resamples=100).deltas == {}


def test_pairs_that_moved_most_come_first(tmp_path: Path) -> None:
    moves = [0.0, 0.5, -0.9, 0.1]
    a = made_run(tmp_path / "a", [{"prompt": f"p{at}", "clip_score": 1.0} for at in range(4)])
    b = made_run(tmp_path / "b", [{"prompt": f"p{at}", "clip_score": 1.0 + move} for at, move in enumerate(moves)])
    (pick,) = collect([a, b], resamples=100).picks
    assert [list(rows) for rows in pick.rows] == [[2, 6], [1, 5], [3, 7]]
    assert [float(note) for note in pick.notes] == pytest.approx([0.9, 0.5, 0.1])


def test_one_run_shows_its_worst_by_direction_and_a_seeded_draw(tmp_path: Path) -> None:
    rows = [{"prompt": f"p{at}", "up": at / 20, "down": at / 20} for at in range(20)]
    run = made_run(tmp_path / "a", rows, [made_metric("up"), made_metric("down", higher=False)])
    picks = {(pick.title, pick.label): [row for (row,) in pick.rows] for pick in collect([run]).picks}
    assert picks["worst", "up"] == list(range(8))
    assert picks["worst", "down"] == list(range(19, 11, -1))
    assert len(set(picks["random", "up"])) == 8
    again = {(pick.title, pick.label): [row for (row,) in pick.rows] for pick in collect([run]).picks}
    other = {(pick.title, pick.label): [row for (row,) in pick.rows] for pick in collect([run], seed=1).picks}
    assert again == picks
    assert other["random", "up"] != picks["random", "up"]


def test_histograms_count_every_value_once(tmp_path: Path) -> None:
    report = collect([pictured_run(tmp_path)], resamples=100)
    assert [[sum(counts) for counts in item.counts] for item in report.histograms] == [[11, 11], [12, 12]]
    low, high = report.histograms[0].edges[0], report.histograms[0].edges[-1]
    assert (low, high) == pytest.approx((0.3, 0.6))


def test_a_run_without_its_input_still_has_a_report(tmp_path: Path) -> None:
    run = pictured_run(tmp_path)
    for path in [*tmp_path.glob("*.png"), tmp_path / "manifest.jsonl"]:
        path.unlink()
    folder = write_report(run, out=tmp_path / "r").parent
    assert set(part(folder, "core")["outputThumbs"]) == {-1}


def test_the_baseline_is_chosen_and_unknown_ones_are_named(tmp_path: Path) -> None:
    run = pictured_run(tmp_path)
    report = collect([run], baseline="better", resamples=100)
    assert [side.name for side in report.sides] == ["better", "base"]
    assert report.verdicts == ["base beats better on none of 1 metric, worse on 1."]
    with pytest.raises(UnknownNameError, match="side"):
        collect([run], baseline="best")


def test_elements_escape_texts_and_attributes() -> None:
    assert element("p", EVIL, title=EVIL).count("<") == 2
    assert json.loads(script_json({"a": EVIL})) == {"a": EVIL}
    assert not set("<>&\u2028") & set(script_json(EVIL))


def test_the_tables_of_benchmarks_are_shown(tmp_path: Path) -> None:
    from beholder.protocol_runs import FILE, _stamp
    from beholder.protocols.results import Number, Results, ResultTable
    from beholder.runs.results import Run

    run = Run(pictured_run(tmp_path))
    number = Number(("<b>counting</b>",), "quality", 0.25, 0.2, 0.3, n=7)
    table = ResultTable("skills", "Skills <i>", ("skill",), ("quality",), (number,))
    results = Results("bench-x", "1", (table,), {}, ())
    (run.path / FILE).write_text(json.dumps({**results.to_dict(), "run": _stamp(run)}), encoding="utf-8")
    page = write_report(run, out=tmp_path / "r")
    assert head(page)["views"] == [{"kind": "tables", "name": "bench-x"}]
    assert "bench-x: run" in "".join(Tags(page.read_text("utf-8")).texts)
    (shown,) = part(page.parent, "view-0")["tables"]
    assert shown["title"] == "Skills <i>"
    assert shown["rows"][0]["cells"][0] == "<b>counting</b>"
    assert shown["rows"][0]["cells"][1]["t"] == "0.250 [0.200, 0.300]"
    assert "<b>counting" not in (page.parent / "data" / "view-0.js").read_text("utf-8")


def test_a_path_out_of_the_folder_is_linked_only_as_a_sample(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.txt").write_text("a secret")
    for name in ("sample.png", "other.png"):
        Image.new("RGB", (8, 8), (len(name), 0, 0)).save(tmp_path / name)
    outputs = ["../secret.txt", "../sample.png", "../gone.png"]
    rows = [{"id": str(at), "output": name, "prompt": "p", "note": "../other.png", "clip_score": 0.1 * at}
            for at, name in enumerate(outputs)]  # fmt: skip
    asked = {"by": [], "max_failed": 0.0, "seed": 0, "resamples": 50, "level": 0.95, "data": "manifest.jsonl"}
    places = {"absolute": [str(inner / "manifest.jsonl")], "from_run": ["../manifest.jsonl"]}
    run = made_run(inner / "run", rows, asked=asked, input=places)
    # The manifest was changed after the run: its last row and its references now name files that nobody scored.
    lines = [row | {"references": ["../other.png"]} for row in [*rows[:2], rows[2] | {"output": "../other.png"}]]
    (inner / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    add_columns(run, {"references": ["../gone.png"] * 3})
    folder = write_report(run, out=inner / "r").parent
    details = part(folder, "details-0")
    assert [detail["original"] for detail in details] == [None, "./../../sample.png", None]
    assert [detail["references"] for detail in details] == [[], [], []]
    assert len(list((folder / "thumbs").iterdir())) == 1
    assert not any(b"a secret" in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_every_column_of_the_manifest_makes_slices(tmp_path: Path) -> None:
    run = pictured_run(tmp_path)
    report = collect([run], by=["prompt_id", "category"], resamples=200)
    assert list(report.groups)[:2] == ["prompt_id", "category"]
    assert {item.column for item in report.slices} == {"category"}  # groups of one prompt are too small
    assert "--by prompt_id --by category" in report.command
    assert report.command.endswith(" --by category -o REPORT\n")
    assert collect([run], seed=7, resamples=200).command.endswith(f"beholder report {run} --seed 7 -o REPORT\n")
    table = report.group_tables["category"]
    assert [head["title"] for head in table["columns"]] == [
        "category", "method", "quality", "Δ quality", "other", "Δ other",
    ]  # fmt: skip
    (row,) = [row["cells"] for row in table["rows"] if row["cells"][:2] == ["dogs", "better"]]
    assert row[2]["v"] == pytest.approx(0.58)  # mean of 0.56 … 0.60; the sixth is missing
    assert row[2]["s"] == "n 5, 1 missing"
    assert row[3]["v"] == pytest.approx(0.2)
    assert collect([run], by=["prompt"], resamples=100).samples.filters.count("prompt") == 1
    with pytest.raises(UnknownNameError, match="colour"):
        collect([run], by=["colour"])
    with pytest.raises(OptionError, match="metric"):
        collect([run], by=["quality"])


def test_a_column_of_too_many_values_is_refused(tmp_path: Path) -> None:
    rows = [{"prompt": f"p{at}", "name": f"n{at}", "clip_score": at / 300} for at in range(201)]
    run = made_run(tmp_path / "a", rows)
    with pytest.raises(OptionError, match="at most 200"):
        collect([run], by=["name"])


def test_metrics_of_sets_alone_have_a_page(tmp_path: Path) -> None:
    run = set_run(tmp_path / "a", {"fid": 20.0}, real={"name": "photos", "n": 10, "sha256": "a" * 64})
    page = write_report(run, out=tmp_path / "r")
    text = re.sub(r"\s+", " ", " ".join(Tags(page.read_text("utf-8")).texts))
    assert "real set photos of 10" in text
    assert "20.0 [18.0, 22.0]" in text
    assert "10 of 10" in text
    assert "Identity" in text
    assert head(page)["metrics"] == []
    assert part(page.parent, "core")["ids"] == [f"a {at}" for at in range(10)]


def test_sets_of_two_runs_are_compared(tmp_path: Path) -> None:
    one, other = set_run(tmp_path / "a", {"fid": 20.0}), set_run(tmp_path / "b", {"fid": 10.0})
    report = collect([one, other], resamples=100)
    assert report.verdicts == ["b beats a on 1 of 1 metric."]
    delta = report.deltas[1, "fid"]
    assert delta.verdict == "better"
    assert delta.text.startswith("−10.0 [−12.8, −7.2]")  # 1.96 · √2 = 2.77
    third = set_run(tmp_path / "c", {"fid": 10.0}, real={"sha256": "f" * 64, "name": "other photos"})
    refused = collect([one, third], resamples=100)
    assert refused.deltas == {}
    assert any("real set" in text and "no difference is shown" in text for text in refused.blockers)


def test_the_page_itself_does_not_grow_with_the_samples(tmp_path: Path) -> None:
    sizes = []
    for count in (100, 4000):
        rows = [{"prompt": f"p{at}", "group": f"g{at % 5}", "clip_score": (at % 97) / 97} for at in range(count)]
        page = write_report(made_run(tmp_path / str(count), rows), out=tmp_path / f"r{count}")
        sizes.append(page.stat().st_size)
    assert sizes[1] < 1.05 * sizes[0]
