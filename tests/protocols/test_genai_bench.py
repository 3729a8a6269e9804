"""`beholder bench genai-bench`: the published forms of the data, the table by skill, agreement with the ratings."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.protocols.bench_data import MODELS, PROMPTS, RATINGS, genai_folder, picture

import beholder as package
from beholder.protocol_runs import bench, check_data, make_protocol, read_results
from beholder.protocols.genai_bench import COLUMNS, HUMAN, PUBLISHED, SOURCE

SPEC = "vqa_score(model=fake)"
HAVE = [("basic", "attribute"), ("basic", "spatial relation"), ("basic", "basic"),
        ("advanced", "counting"), ("advanced", "negation"), ("advanced", "advanced"), ("overall", "all")]  # fmt: skip
BY_SKILL = {
    "attribute": ["00002"], "spatial relation": ["00003"], "basic": ["00002", "00003"], "counting": ["00001"],
    "negation": ["00004"], "advanced": ["00001", "00004"], "all": list(PROMPTS),
}  # fmt: skip


def scores_of(found: Any) -> dict[tuple[str, str], float]:
    """(model, prompt) → the score in the run's own table."""
    table = found.run.scores.to_pylist()
    return {(row["method"], row["prompt_id"]): row["vqa_score"] for row in table}


def test_the_folder_gives_a_sample_an_output_with_skills_and_ratings(tmp_path: Path) -> None:
    source = make_protocol("genai-bench").source(genai_folder(tmp_path / "data"))
    source.check()
    samples = {sample.id: sample for sample in source}
    assert list(samples) == [f"{model}/{key}" for model in MODELS for key in PROMPTS]
    one = samples["SDXL_Base/00003"]
    assert (one.prompt, one.prompt_id, one.method) == (PROMPTS["00003"], "00003", "SDXL_Base")
    assert one.extras["skills"] == ["spatial relation", "basic"]
    assert one.extras["ratings"] == [1, 2, 2]
    assert one.output is not None
    assert one.output.name.endswith("SDXL_Base/00003.jpeg")


def test_scores_by_model_and_skill_are_the_means_of_the_runs_own_scores(tmp_path: Path) -> None:
    found = bench("genai-bench", genai_folder(tmp_path / "data"), metrics=SPEC, out=str(tmp_path / "run"))
    table, scores = found.results.table("skills"), scores_of(found)
    assert table.columns == ("vqa_score", HUMAN)
    assert [row for row, _ in table.rows] == [(model, *skill) for model in MODELS for skill in HAVE]
    for model, (group, skill) in itertools.product(MODELS, HAVE):
        keys = BY_SKILL[skill]
        number = table.number(model, group, skill, column="vqa_score")
        assert number.value == pytest.approx(np.mean([scores[model, key] for key in keys]), abs=1e-12)
        assert (number.n, number.n_missing) == (len(keys), {})
        human = table.number(model, group, skill, column=HUMAN)
        assert human.value == pytest.approx(np.mean([np.mean(RATINGS[model][key]) for key in keys]), abs=1e-12)
        if len(keys) == 1:
            assert number.low is None
            assert "two prompts" in str(number.note)
        else:
            assert number.low is not None
            assert number.high is not None
            assert number.low <= number.value <= number.high
    assert found.results.counts["ratings"] == 24
    assert found.results.counts["skills"]["advanced"] == 4


def test_an_own_model_beside_the_rated_ones_has_scores_and_no_human_rating(tmp_path: Path) -> None:
    found = bench("genai-bench", genai_folder(tmp_path / "data", own=True), metrics=SPEC, out=str(tmp_path / "run"))
    table = found.results.table("skills")
    assert table.number("mine", "overall", "all", column="vqa_score").n == 3
    with pytest.raises(package.UserError, match="number of the table"):
        table.number("mine", "overall", "all", column=HUMAN)
    assert "No ratings of mine." in table.notes
    assert ("mine", "advanced", "negation") not in [row for row, _ in table.rows]
    assert found.results.counts["models"] == {"DALLE_3": 4, "SDXL_Base": 4, "mine": 3}


def plain_accuracy(x: Sequence[float], y: Sequence[float], epsilon: float) -> float:
    """Pairwise accuracy with ties over all pairs, by a loop."""
    right = 0
    pairs = list(itertools.combinations(range(len(x)), 2))
    for i, j in pairs:
        dx, dy = x[i] - x[j], y[i] - y[j]
        tied = abs(dx) <= epsilon
        right += (tied and dy == 0) or (not tied and dx * dy > 0)
    return right / len(pairs)


def test_agreement_as_published_pools_all_pairs_and_tunes_ties_on_the_same_ratings(tmp_path: Path) -> None:
    found = bench("genai-bench", genai_folder(tmp_path / "data"), metrics=SPEC, out=str(tmp_path / "run"))
    scores, table = scores_of(found), found.results.table("agreement")
    keys = list(itertools.product(MODELS, PROMPTS))
    x = [scores[key] for key in keys]
    y = [float(np.mean(RATINGS[model][prompt])) for model, prompt in keys]
    gaps = [0.0, *(abs(a - b) for a, b in itertools.combinations(x, 2))]
    best = max(plain_accuracy(x, y, gap) for gap in gaps)
    assert table.number("vqa_score", "as published", column="accuracy %").value == pytest.approx(100 * best, abs=1e-9)
    pearson = np.corrcoef(x, y)[0, 1]
    assert table.number("vqa_score", "as published", column=COLUMNS[1]).value == pytest.approx(100 * pearson, abs=1e-9)
    signs = [(np.sign(a - b), np.sign(c - d)) for (a, c), (b, d) in itertools.combinations(zip(x, y), 2)]
    tau = sum(a * b for a, b in signs) / np.sqrt(sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs))
    assert table.number("vqa_score", "as published", column=COLUMNS[2]).value == pytest.approx(100 * tau, abs=1e-9)
    constant = table.number("(constant metric)", "as published", column="accuracy %")
    assert constant.value == pytest.approx(100 * sum(b == 0 for _, b in signs) / len(signs))
    assert table.number("vqa_score", "within prompts", column="accuracy %").n == 8


def test_published_rows_stand_beside_and_are_marked_as_theirs(tmp_path: Path) -> None:
    found = bench("genai-bench", genai_folder(tmp_path / "data"), metrics=SPEC, out=str(tmp_path / "run"))
    table = found.results.table("agreement")
    theirs = [number for number in table.numbers if number.is_published]
    assert {number.row[0] for number in theirs} == set(PUBLISHED["image"])
    assert {number.source for number in theirs} == {SOURCE}
    best = table.number("VQAScore CLIP-FlanT5-XXL", "as published", column="accuracy %", published=True)
    assert (best.value, best.low, best.n) == (64.1, None, None)
    assert any("not recomputed" in note for note in table.notes)
    own = [row for row, published in table.rows if not published]
    assert [published for _, published in table.rows] == [False] * len(own) + [True] * len(PUBLISHED["image"])


def test_videos_stand_beside_the_published_numbers_for_videos() -> None:
    assert PUBLISHED["video"]["VQAScore CLIP-FlanT5-XXL"] == (63.2, 50.6, 38.2)
    assert PUBLISHED["image"].keys() == PUBLISHED["video"].keys()
    from beholder.protocols.base import Agreed, Finished
    from beholder.protocols.genai_bench import GenAIBench

    protocol = GenAIBench()
    for output, value in (("Gen2/00001.mp4", 63.2), ("DALLE_3/00001.png", 64.1)):
        columns = {"id": ["a"], "output": [output], "ratings": ["[3]"], "method": ["m"], "prompt_id": ["1"]}
        finished = Finished(1, columns, [], [Agreed(protocol.agreement_asks[0], [])])
        (_, table) = protocol.tables(finished)
        assert (
            table.number("VQAScore CLIP-FlanT5-XXL", "as published", column="accuracy %", published=True).value == value
        )


def published_table(path: Path, folder: Path) -> Path:
    """The data set's Parquet form of `genai_folder`."""
    columns: dict[str, list[Any]] = {"id": [], "prompt": [], "basic_skills": [], "advanced_skills": []}
    skills = {"00001": ("", "['counting']"), "00002": ("['attribute']", ""), "00003": ("['spatial relation']", ""),
              "00004": ("['scene']", "['negation']")}  # fmt: skip
    for key, text in PROMPTS.items():
        for name, value in zip(columns, (key, text, *skills[key])):
            columns[name].append(value)
        for model in MODELS:
            data = (folder / model / f"{key}.jpeg").read_bytes()
            columns.setdefault(model, []).append({"bytes": data, "path": f"{key}.jpeg"})
            columns.setdefault(f"{model}_HumanRating", []).append(str(RATINGS[model][key]))
    pq.write_table(pa.table(columns), path)
    return path


def test_the_published_table_gives_the_numbers_of_the_published_folder(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "data")
    one = bench("genai-bench", folder, metrics=SPEC, out=str(tmp_path / "one"))
    two = bench("genai-bench", published_table(tmp_path / "t.parquet", folder), metrics=SPEC, out=str(tmp_path / "two"))
    for model in MODELS:
        for row in (("basic", "attribute"), ("advanced", "advanced"), ("basic", "basic"), ("overall", "all")):
            for column in ("vqa_score", HUMAN):
                pair = [found.results.table("skills").number(model, *row, column=column) for found in (one, two)]
                assert pair[0].value == pytest.approx(pair[1].value, abs=1e-12)
    pairs = zip(one.results.table("agreement").numbers, two.results.table("agreement").numbers)
    for first, second in pairs:
        assert (first.row, first.column, first.n) == (second.row, second.column, second.n)
        assert first.value == pytest.approx(second.value, abs=1e-9)  # rows come in another order


def test_structs_of_tags_and_ratings_are_read_too() -> None:
    from beholder.protocols.genai_data import is_published_table, picture_columns, table_skills

    names = ["Index", "Prompt", "Tags", "HumanRatings", "DALLE_3", "SDXL_Base"]
    assert is_published_table(names)
    assert picture_columns(names) == ["DALLE_3", "SDXL_Base"]
    assert table_skills({"tags": {"advanced": [], "basic": ["scene"]}}) == ["scene", "basic"]
    assert table_skills({"tags": {"advanced": ["counting"], "basic": ["scene"]}}) == ["scene", "counting", "advanced"]
    assert not is_published_table(["prompt", "output", "skills"])


def manifest_rows(folder: Path) -> list[dict[str, Any]]:
    return [
        {
            "output": str(picture(folder / f"{at}.png", at)), "prompt": f"prompt {at % 3}", "prompt_id": f"p{at % 3}",
            "method": "ab"[at // 3], "skills": ["counting"] if at % 3 else [], "ratings": [at % 5 + 1, 3],
        }
        for at in range(6)
    ]  # fmt: skip


def test_a_manifest_with_skills_and_ratings_will_do_and_outputs_without_skills_are_told_apart(tmp_path: Path) -> None:
    found = bench("genai-bench", manifest_rows(tmp_path / "img"), metrics=SPEC, out=str(tmp_path / "run"))
    table = found.results.table("skills")
    assert table.number("a", "overall", "all", column="vqa_score").n == 3
    assert table.number("a", "overall", "tagged", column="vqa_score").n == 2
    assert any("2 of 6 outputs have no skill" in note for note in table.notes)


def test_metrics_given_stand_beside_the_protocols_own_or_take_the_place_of_a_namesake() -> None:
    protocol = make_protocol("genai-bench")
    assert protocol.metrics() == ("vqa_score",)
    assert protocol.metrics(["clip_score"]) == ("vqa_score", "clip_score")
    assert protocol.metrics([SPEC, "clip_score"]) == (SPEC, "clip_score")
    assert protocol.metrics(["clip_score"], only=True) == ("clip_score",)


def test_without_ratings_there_is_no_table_of_agreement(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "data")
    prompts = {key: {"prompt": text} for key, text in PROMPTS.items()}
    (folder / "genai_image.json").write_text(json.dumps(prompts))
    found = bench("genai-bench", folder, metrics=SPEC, out=str(tmp_path / "run"))
    assert [table.name for table in found.results.tables] == ["skills"]
    assert found.results.table("skills").columns == ("vqa_score",)


def test_a_missing_picture_costs_its_own_row_and_is_counted(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "data")
    (folder / "DALLE_3" / "00002.jpeg").unlink()
    found = bench("genai-bench", folder, metrics=SPEC, out=str(tmp_path / "run"))
    number = found.results.table("skills").number("DALLE_3", "overall", "all", column="vqa_score")
    assert (number.n, number.n_missing) == (3, {"missing": 1})
    gone = found.results.table("skills").number("DALLE_3", "basic", "attribute", column="vqa_score")
    assert (gone.value, gone.n, gone.n_missing) == (None, 0, {"missing": 1})
    assert found.run.exit_code == 3


def test_a_rated_model_whose_folder_is_not_there_is_left_out_and_named(tmp_path: Path) -> None:
    import shutil

    folder = genai_folder(tmp_path / "data")
    shutil.rmtree(folder / "SDXL_Base")
    source = make_protocol("genai-bench").source(folder)
    assert {sample.method for sample in source} == {"DALLE_3"}
    assert any("SDXL_Base" in text and "left out" in text for text in source.notices)


@pytest.mark.parametrize(
    ("content", "said"),
    [("[]", "an object of prompts"), ('{"00001": {"text": "x"}}', '"prompt"'), ("{", "valid JSON")],
)
def test_a_prompt_file_of_another_form_is_an_error_before_anything_is_computed(
    tmp_path: Path, content: str, said: str
) -> None:
    folder = genai_folder(tmp_path / "data")
    (folder / "genai_image.json").write_text(content)
    with pytest.raises(package.UserError, match=said):
        bench("genai-bench", folder, metrics=SPEC, out=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_validate_tells_of_ratings_out_of_range_and_of_what_is_there(tmp_path: Path) -> None:
    rows = manifest_rows(tmp_path / "img")
    rows[1]["ratings"] = [3, 7]
    report = check_data("genai-bench", rows)
    assert [str(fault) for fault in report.faults] == ["row 2, ratings: a rating must be a number from 1 to 5; got 7"]
    assert report.counts["outputs_with_skills"] == 4
    assert report.exit_code == 2
    clean = check_data("genai-bench", genai_folder(tmp_path / "data"))
    assert clean.exit_code == 0
    assert clean.counts["skills"] == {"counting": 2, "advanced": 4, "attribute": 2, "basic": 4, "spatial relation": 2,
                                      "negation": 2}  # fmt: skip


def test_validate_warns_of_data_without_skills_and_ratings(tmp_path: Path) -> None:
    rows = [{"output": str(picture(tmp_path / "a.png", 1)), "prompt": "x"}]
    report = check_data("genai-bench", rows)
    assert any("no output has skill tags" in text for text in report.warnings)
    assert any("no output has human ratings" in text for text in report.warnings)


def test_ratings_that_are_no_ratings_are_left_out_of_the_agreement(tmp_path: Path) -> None:
    rows = manifest_rows(tmp_path / "img")
    rows[0]["ratings"] = ["n/a", 4]
    found = bench("genai-bench", rows, metrics=SPEC, out=str(tmp_path / "run"))
    assert found.results.counts["ratings"] == 11


def test_the_run_folder_is_an_ordinary_one_and_keeps_the_tables(tmp_path: Path) -> None:
    found = bench("genai-bench", genai_folder(tmp_path / "data"), metrics=SPEC, out=str(tmp_path / "run"))
    run = package.open_run_folder(tmp_path / "run")
    assert run.finished
    assert read_results(run) == found.results
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"run.json", "scores.parquet", "summary.json", "protocol.json"} <= names


def test_tables_of_other_scores_are_not_taken_for_these(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "data")
    bench("genai-bench", folder, metrics=SPEC, out=str(tmp_path / "run"))
    run = package.evaluate(
        [{"output": str(picture(tmp_path / "a.png", 1)), "prompt": "x"}],
        metrics=SPEC, out=str(tmp_path / "run"), overwrite=True,
    )  # fmt: skip
    assert read_results(run) is None


@pytest.mark.parametrize("form", ["text", "md", "latex", "csv", "json"])
def test_the_command_prints_every_form_and_show_prints_it_again(
    beholder: Callable[..., Any], tmp_path: Path, form: str
) -> None:
    folder = genai_folder(tmp_path / "data")
    done = beholder("bench", "genai-bench", folder, "-m", SPEC, "-o", tmp_path / "run", "--as", form)
    assert done.exit_code == 0, done.stderr
    assert "DALLE_3" in done.stdout.replace("\\_", "_")
    shown = beholder("show", tmp_path / "run", "--as", form)
    assert shown.stdout == done.stdout
    if form == "json":
        told: Mapping[str, Any] = json.loads(done.stdout)
        assert told["protocol"]["protocol"] == "genai-bench"
        assert told["n"] == 8
    elif form == "csv":
        head, *lines = done.stdout.splitlines()
        assert "source" in head.split(",")
        assert sum(SOURCE in line for line in lines) == 18
    else:
        assert "published" in done.stdout
        assert "64.1" in done.stdout


def test_show_with_all_gives_the_runs_own_table(beholder: Callable[..., Any], tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "data")
    beholder("bench", "genai-bench", folder, "-m", SPEC, "-o", tmp_path / "run", "-q")
    assert "aggregate" in beholder("show", tmp_path / "run", "--all").stdout
    assert "method" in beholder("show", tmp_path / "run", "--by", "method").stdout


def test_validate_on_the_command_line(beholder: Callable[..., Any], tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "data")
    good = beholder("validate", folder, "--protocol", "genai-bench")
    assert good.exit_code == 0, good.stdout
    (folder / "DALLE_3" / "00002.jpeg").write_bytes(b"no picture")
    bad = beholder("validate", folder, "--protocol", "genai-bench", "--json")
    assert bad.exit_code == 2
    told = json.loads(bad.stdout)
    assert told["counts"]["protocol"] == "genai-bench"
    assert [fault["row"] for fault in told["faults"]] == [2]


def test_wrong_use_says_what_is_wrong(beholder: Callable[..., Any], tmp_path: Path) -> None:
    unknown = beholder("bench", "genai-bnch", tmp_path)
    assert unknown.exit_code == 2
    assert "genai-bench" in unknown.stderr
    segmenter = beholder("bench", "genai-bench", genai_folder(tmp_path / "d"), "--segmenter", "masks")
    assert segmenter.exit_code == 2
    assert "segmenter" in segmenter.stderr
    nothing = beholder("bench", "genai-bench", tmp_path / "d", "--only")
    assert nothing.exit_code == 2
    gone = beholder("bench", "genai-bench", tmp_path / "nowhere")
    assert gone.exit_code == 2
    assert "nowhere" in gone.stderr
