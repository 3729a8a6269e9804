"""`beholder bench knowcusbench` and its kin: tasks and metrics, aggregation, missing masks, published rows, checks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.protocols.bench_data import picture

import beholder as package
from beholder.metrics.segmenting import is_long_winded
from beholder.protocol_runs import bench, check_data, make_protocol
from beholder.protocols.subject_tables import PUBLISHED_METHODS, SOURCE

FAKES = (
    "clip_i(model=fake)",
    "clip_i_seg(model=fake, segmenter=masks)",
    "clip_t(model=fake)",
    "pick_score(model=fake)",
)


def plain(path: Path, colour: tuple[int, int, int]) -> str:
    """A picture of one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (16, 16), colour).save(path)
    return str(path)


def mask(path: Path, *, empty: bool = False, size: int = 16) -> str:
    """A mask of the left half, or of nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros((size, size), dtype=np.uint8)
    pixels[:, : 0 if empty else size // 2] = 255
    Image.fromarray(pixels).save(path)
    return str(path)


def knowcus(folder: Path, *, methods: tuple[str, ...] = ("a",), seeds: int = 2) -> dict[str, Any]:
    """A manifest of two concepts with unequal references and prompts, both tasks, some seeds."""
    concepts = [
        {
            "concept_id": name, "class_name": kind,
            "references": [
                str(picture(folder / f"ref/{name}/{at}.png", 50 + 10 * number + at)) for at in range(2 + number)
            ],
            "knowledge": [{"id": "k0", "text": f"my {name}"}, {"id": "k1", "text": f"what they call {name}"}],
        }
        for number, (name, kind) in enumerate((("mermaid", "statue"), ("rex", "dog")))
    ]  # fmt: skip
    items = []
    for number, (name, prompts) in enumerate((("mermaid", ["in snow"]), ("rex", ["at sea", "in a box"]))):
        for m, method in enumerate(methods):
            for seed in range(seeds):
                stem = f"{method}/{name}_{seed}"
                tag = 1000 * m + 100 * number + 10 * seed
                common = {"concept_id": name, "method": method, "seed": seed}
                items.append(
                    {
                        **common, "image": str(picture(folder / f"{stem}_rec.png", tag)), "task": "reconstruction",
                        "knowledge_id": "k0", "prompt_id": "rec", "prompt": f"my {name}",
                        "mask": mask(folder / f"m/{stem}_rec.png"),
                    }
                )  # fmt: skip
                for at, text in enumerate(prompts):
                    items.append(
                        {
                            **common, "image": str(picture(folder / f"{stem}_{at}.png", tag + 1 + at)),
                            "task": "generation", "knowledge_id": "k1", "prompt_id": f"p{at}",
                            "prompt_template": "{} " + text, "mask": mask(folder / f"m/{stem}_{at}.png"),
                        }
                    )  # fmt: skip
    return {"version": 1, "name": "made", "concepts": concepts, "items": items}


def run(data: Any, folder: Path, **settings: Any) -> Any:
    settings.setdefault("metrics", FAKES)
    return bench("knowcusbench", data, out=str(folder / "run"), **settings)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("knowcus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BEHOLDER_CACHE", str(folder / "cache"))
        return run(knowcus(folder, methods=("a", "b")), folder)


def test_the_protocol_scores_what_the_paper_says() -> None:
    uses = {use.name: use for use in make_protocol("knowcusbench").uses}
    assert list(uses) == ["clip_i", "clip_i_seg", "clip_t", "pick_score"]
    assert [name for name, use in uses.items() if not use.applies_to("reconstruction")] == ["clip_t", "pick_score"]
    assert all(use.applies_to("generation") for use in uses.values())


def test_the_segmenter_becomes_part_of_the_metrics_name() -> None:
    assert "clip_i_seg(segmenter=gdino+sam2)" in make_protocol("knowcusbench", {"segmenter": "gdino+sam2"}).metrics()
    assert "clip_i_seg" in make_protocol("knowcusbench").metrics()


def test_reconstructions_have_no_clip_t_and_no_pick_score(made: Any) -> None:
    rows = made.run.scores.to_pylist()
    for row in rows:
        wanted = "not_applicable" if row["task"] == "reconstruction" else "ok"
        assert {row["clip_t_status"], row["pick_score_status"]} == {wanted}
        assert {row["clip_i_status"], row["clip_i_seg_status"]} == {"ok"}
    paper = made.results.table("paper")
    assert paper.columns == ("Rec CLIP-I", "Rec CLIP-I-Seg", "Gen CLIP-I", "Gen CLIP-I-Seg", "Gen CLIP-T",
                             "Gen Pick Score")  # fmt: skip
    cells = made.results.table("cells")
    absent = cells.number("reconstruction", "a", "clip_t", column="macro")
    assert (absent.value, absent.n_missing, absent.aggregate) == (None, {"not_applicable": 4}, "macro")
    assert any("clip_t does not apply to the task reconstruction" in note for note in cells.notes)
    assert made.run.exit_code == 0


def test_macro_micro_and_pairs_are_the_means_of_the_runs_own_scores(made: Any) -> None:
    rows = [row for row in made.run.scores.to_pylist() if (row["task"], row["method"]) == ("generation", "a")]
    by_concept = {name: [row["clip_i"] for row in rows if row["concept"] == name] for name in ("mermaid", "rex")}
    references = {"mermaid": 2, "rex": 3}
    assert {name: len(values) for name, values in by_concept.items()} == {"mermaid": 2, "rex": 4}
    cells = made.results.table("cells")
    macro = np.mean([np.mean(values) for values in by_concept.values()])
    micro = np.mean([value for values in by_concept.values() for value in values])
    weights = {name: references[name] * len(values) for name, values in by_concept.items()}
    pairs = sum(weights[name] * np.mean(values) for name, values in by_concept.items()) / sum(weights.values())
    for name, value in (("macro", macro), ("micro", micro), ("pairs", pairs)):
        number = cells.number("generation", "a", "clip_i", column=name)
        assert number.value == pytest.approx(value, abs=1e-12), name
        assert number.n == 6
    assert made.results.table("paper").number("a", column="Gen CLIP-I").value == pytest.approx(macro, abs=1e-12)
    concept = made.results.table("concepts").number("generation", "a", "rex", column="clip_i")
    assert concept.value == pytest.approx(np.mean(by_concept["rex"]), abs=1e-12)


def test_the_sd_over_seeds_is_that_of_the_seeds_macro_means(made: Any) -> None:
    rows = [row for row in made.run.scores.to_pylist() if (row["task"], row["method"]) == ("generation", "b")]
    means = []
    for seed in (0, 1):
        of_seed = [row for row in rows if row["seed"] == seed]
        means.append(
            np.mean([np.mean([r["clip_i"] for r in of_seed if r["concept"] == c]) for c in ("mermaid", "rex")])
        )
    number = made.results.table("paper").number("b", column="Gen CLIP-I")
    assert number.sd == pytest.approx(np.std(means, ddof=1), abs=1e-12)
    assert number.sd_over == "seed"
    over = made.results.table("cells").number("generation", "b", "clip_i", column="over_seeds")
    assert over.value == pytest.approx(np.mean(means), abs=1e-12)
    assert over.n_units == 2


def test_the_worked_example_of_aggregation(tmp_path: Path) -> None:
    vectors, rows = {}, []
    for name, count, references, direction in (("A", 2, 3, (1.0, 0.0)), ("B", 6, 2, (0.0, 1.0))):
        shade = 10 if name == "A" else 130
        refs = [plain(tmp_path / f"{name}r{at}.png", (shade, at, 0)) for at in range(references)]
        vectors |= dict.fromkeys(refs, direction)
        for at in range(count):
            path = plain(tmp_path / f"{name}{at}.png", (shade, 50 + at, 0))
            vectors[path] = (1.0, 0.0)
            rows.append(
                {"output": path, "references": refs, "concept": name, "class_name": "x", "task": "generation",
                 "prompt": f"{name}{at}"}
            )  # fmt: skip
    package.register_encoder("worked", package.FakeEncoder("worked", dim=2, images=vectors))
    found = run(rows, tmp_path, metrics=["clip_i(model=worked)"], only=True)
    cells = found.results.table("cells")
    values = {name: cells.number("generation", "(all outputs)", "clip_i", column=name).value
              for name in ("macro", "micro", "pairs")}  # fmt: skip
    assert values == pytest.approx({"macro": 0.5, "micro": 0.25, "pairs": 1 / 3}, abs=1e-7)


def test_missing_masks_give_three_aggregates_and_the_detection_rate(tmp_path: Path) -> None:
    data = knowcus(tmp_path)
    gone = [at for at, item in enumerate(data["items"]) if item["concept_id"] == "rex" and item["prompt_id"] == "p0"]
    for at in gone:
        data["items"][at]["mask"] = mask(tmp_path / f"empty{at}.png", empty=True)
    found = run(data, tmp_path)
    cells = found.results.table("cells")
    rows = [row for row in found.run.scores.to_pylist() if row["task"] == "generation"]
    scored = {name: [r["clip_i_seg"] for r in rows if r["concept"] == name] for name in ("mermaid", "rex")}
    present = {name: [v for v in values if v is not None] for name, values in scored.items()}
    assert (len(scored["rex"]), len(present["rex"])) == (4, 2)
    row = ("generation", "a", "clip_i_seg")
    skip = np.mean([np.mean(values) for values in present.values()])
    zero = np.mean([np.mean(present["mermaid"]), sum(present["rex"]) / 4])
    assert cells.number(*row, column="macro").value == pytest.approx(skip, abs=1e-9)
    assert cells.number(*row, column="skip").value == pytest.approx(skip, abs=1e-9)
    assert cells.number(*row, column="zero").value == pytest.approx(zero, abs=1e-9)
    assert cells.number(*row, column="seg_found").value == pytest.approx((1 + 2 / 4) / 2)
    plain_rex = [r["clip_i"] if r["clip_i_seg"] is None else r["clip_i_seg"] for r in rows if r["concept"] == "rex"]
    unsegmented = np.mean([np.mean(present["mermaid"]), np.mean(plain_rex)])
    assert cells.number(*row, column="unsegmented").value == pytest.approx(unsegmented, abs=1e-6)
    assert cells.number(*row, column="macro").n_missing == {"no_mask": 2}
    assert found.run.exit_code == 0


def test_a_concept_without_any_mask_is_left_out_with_its_reason(tmp_path: Path) -> None:
    data = knowcus(tmp_path)
    for at, item in enumerate(data["items"]):
        if item["concept_id"] == "rex":
            item["mask"] = mask(tmp_path / f"empty{at}.png", empty=True)
    found = run(data, tmp_path)
    number = found.results.table("paper").number("a", column="Gen CLIP-I-Seg")
    assert number.n == 2
    assert "rex (no_mask 4)" in str(number.note)
    alone = found.results.table("concepts").number("generation", "a", "rex", column="clip_i_seg")
    assert (alone.value, alone.n_missing) == (None, {"no_mask": 4})


def test_published_rows_stand_beside_with_their_caveats(made: Any) -> None:
    paper = made.results.table("paper")
    theirs = [number for number in paper.numbers if number.is_published]
    assert len(theirs) == 18
    assert {number.source for number in theirs} == {SOURCE}
    assert paper.number("MoKus", column="Rec CLIP-I-Seg", published=True).value == 0.764
    assert paper.number("Naive-DB", column="Gen Pick Score", published=True).value == 20.80
    assert any("not a reproduction" in note for note in paper.notes)
    assert any("third-party notes" in note for note in paper.notes)
    assert set(PUBLISHED_METHODS) == {"Naive-DB", "Enc-FT", "MoKus"}


def test_published_columns_are_shown_for_metrics_of_this_run_only(tmp_path: Path) -> None:
    found = run(knowcus(tmp_path), tmp_path, metrics=["clip_i(model=fake)"], only=True)
    paper = found.results.table("paper")
    assert paper.columns == ("Rec CLIP-I", "Gen CLIP-I")
    assert {number.column for number in paper.numbers if number.is_published} == {"Rec CLIP-I", "Gen CLIP-I"}


@pytest.mark.parametrize(
    ("metric", "column"),
    [
        ("clip_i(model=fake, reduce=max)", "clip_i(reduce=max)"),
        ("clip_i(model=fake, reduce=first, as=front)", "front"),
        ("clip_i_seg(model=fake, segmenter=masks, segment=both)", "clip_i_seg(segment=both)"),
        ("clip_i_seg(model=fake, segmenter=masks, invert=true)", "clip_i_seg(invert=true)"),
        ("clip_i_seg(model=fake, segmenter=masks, fill=white)", "CLIP-I-Seg"),
    ],
)
def test_another_quantity_does_not_stand_under_the_papers_name(tmp_path: Path, metric: str, column: str) -> None:
    found = run(knowcus(tmp_path), tmp_path, metrics=[metric], only=True)
    paper = found.results.table("paper")
    assert paper.columns == (f"Rec {column}", f"Gen {column}")
    assert any(number.is_published for number in paper.numbers) == (column == "CLIP-I-Seg")


def test_counts_come_from_the_data_and_are_printed(made: Any) -> None:
    counts = made.results.counts
    assert counts["outputs"] == 20
    assert counts["tasks"]["generation"] == {"outputs": 12, "concepts": 2, "knowledge": 2, "prompts": 3, "seeds": 2}
    assert counts["tasks"]["reconstruction"] == {"outputs": 8, "concepts": 2, "knowledge": 2, "prompts": 2, "seeds": 2}
    from beholder.report.protocol import render_results

    text = render_results(made.results, "text")
    assert "Counted in the data: outputs 20, concepts 2" in text


def test_one_image_a_concept_is_enough_and_nothing_is_ever_nan(tmp_path: Path) -> None:
    rows = [
        {"output": str(picture(tmp_path / "a.png", 1)), "references": [str(picture(tmp_path / "r.png", 2))],
         "concept": "x", "class_name": "x", "task": "generation", "prompt": "p"},
        {"output": str(picture(tmp_path / "b.png", 3)), "concept": "y", "class_name": "y", "task": "generation",
         "prompt": "p"},
    ]  # fmt: skip
    found = run(rows, tmp_path, metrics=["clip_i(model=fake)"], only=True)
    paper = found.results.table("paper").number("(all outputs)", column="Gen CLIP-I")
    assert paper.value == pytest.approx(found.run.scores.column("clip_i").to_pylist()[0])
    assert "y (no_reference 1)" in str(paper.note)
    text = (found.run.path / "protocol.json").read_text()
    assert "NaN" not in text


def test_validate_lists_every_fault_with_its_row(tmp_path: Path) -> None:
    data = knowcus(tmp_path)
    data["concepts"][0]["references"] = []
    data["concepts"][0].pop("class_name")
    for item in data["items"]:
        if item["concept_id"] == "mermaid":
            del item["mask"]
    # Rows 1 to 4 are of the mermaid: rec, gen, rec, gen.
    data["items"][1].pop("prompt_template")
    data["items"][1]["prompt"] = " "
    data["items"][5]["image"] = data["items"][4]["image"]
    data["items"][6]["image"] = str(tmp_path / "gone.png")
    data["items"][7]["mask"] = mask(tmp_path / "big.png", size=20)
    data["items"][0]["prompt"] = ""
    data["items"][9].pop("prompt_template")
    del data["items"][7]["prompt"], data["items"][7]["knowledge_id"]
    report = check_data("knowcusbench", data)
    told = {(fault.row, fault.where): fault.message for fault in report.faults}
    assert told[1, "references"] == "concept 'mermaid' has no references"
    assert "neither seg_prompt nor class_name" in told[1, "seg_prompt"]
    assert (2, "prompt") in told
    assert (1, "prompt") not in told, "nothing of a reconstruction's prompt is scored"
    assert (10, "prompt") in told
    assert (8, "prompt") not in told, "nor of one that is not there"
    assert "row 5 names the same picture" in told[6, "output"]
    assert (7, "output") in told
    assert "20×20" in told[8, "masks"]
    assert report.exit_code == 2
    assert report.counts["tasks"]["generation"]["outputs"] == 6


def test_a_phrase_that_no_segmenter_takes_is_a_fault_where_there_is_no_mask(tmp_path: Path) -> None:
    data = knowcus(tmp_path)
    data["concepts"][1]["seg_prompt"] = "word " * 31
    assert check_data("knowcusbench", data).faults == ()
    for item in data["items"]:
        del item["mask"]
    (fault,) = check_data("knowcusbench", data).faults
    assert (fault.row, fault.where) == (5, "seg_prompt")
    assert "concept 'rex' has 31 words, more than 30" in fault.message


def test_generations_without_any_prompt_are_faults(tmp_path: Path) -> None:
    data = knowcus(tmp_path)
    for item in data["items"]:
        item.pop("prompt_template", None)
        item.pop("prompt", None)
        item.pop("knowledge_id")
    report = check_data("knowcusbench", data)
    assert {fault.row for fault in report.faults} == {2, 4, 6, 7, 9, 10}
    assert {str(fault.message) for fault in report.faults} == {"the output has no prompt"}


def test_a_manifest_in_a_folder_goes_before_its_layout(tmp_path: Path) -> None:
    path = "generated/generation/mermaid/p0_s0.png"
    plain(tmp_path / path, (1, 2, 3))
    plain(tmp_path / "references/mermaid/0.png", (3, 2, 1))
    concept = {"concept_id": "mermaid", "class_name": "statue", "references": ["references/mermaid/0.png"]}
    item = {"image": path, "concept_id": "mermaid", "task": "generation", "prompt": "a statue", "seed": 7}
    (tmp_path / "manifest.json").write_text(json.dumps({"concepts": [concept], "items": [item]}))
    (sample,) = make_protocol("knowcusbench").source(str(tmp_path))
    assert (sample.prompt, sample.seed, sample.class_name) == ("a statue", 7, "statue")


def test_validate_accepts_a_sound_set_and_counts_it(tmp_path: Path) -> None:
    report = check_data("knowcusbench", knowcus(tmp_path, methods=("a", "b")))
    assert [str(fault) for fault in report.faults] == []
    assert not [text for text in report.warnings if "seeds" in text], "concepts share prompts and seeds"
    assert report.counts["tasks"]["generation"] == {
        "outputs": 12, "concepts": 2, "knowledge": 2, "prompts": 3, "seeds": 2, "methods": 2,
    }  # fmt: skip
    assert report.counts["references_per_concept"] == {2: 1, 3: 1}
    lines = report.lines()
    assert "task generation: 12 outputs, 2 concepts, 2 knowledge items, 3 prompts, 2 seeds, 2 methods" in lines
    assert "references per concept: 2 (1 concept), 3 (1 concept)" in lines


def test_validate_warns_of_leaks_unequal_seeds_and_phrases_like_sentences(tmp_path: Path) -> None:
    data = knowcus(tmp_path)
    data["items"][0]["image"] = data["concepts"][0]["references"][0]
    del data["items"][-1]
    data["concepts"][1]["seg_prompt"] = "the button in the bottom-left corner of the box"
    warnings = "\n".join(check_data("knowcusbench", data).warnings)
    assert "byte for byte a reference" in warnings
    assert "seeds are not those of most prompts" in warnings
    assert "looks like a sentence" in warnings


@pytest.mark.parametrize(
    ("phrase", "is_one"),
    [("dog", False), ("red running shoe", False), ("the dog left of the tree", True), ("a b c d e f", True)],
)
def test_what_looks_like_a_sentence(phrase: str, is_one: bool) -> None:
    assert is_long_winded([phrase]) is is_one


def test_form_faults_stop_a_run_before_anything_is_computed(tmp_path: Path) -> None:
    data = knowcus(tmp_path)
    data["items"][2]["concept_id"] = "mermade"
    data["items"][3]["knowledge_id"] = "k9"
    data["concepts"].append({"class_name": "x"})
    data["concepts"].append(dict(data["concepts"][0]))
    with pytest.raises(package.InputError) as error:
        run(data, tmp_path)
    said = str(error.value)
    assert "unknown concept 'mermade'; listed are 'mermaid', 'rex'" in said
    assert "row 4, knowledge_id: unknown knowledge 'k9' of 'mermaid'" in said
    assert "a concept needs a concept_id" in said
    assert "listed twice" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["dreambench", "dreambench++", "customconcept101"])
def test_the_kin_share_the_adapter_and_show_no_published_rows(tmp_path: Path, name: str) -> None:
    data = knowcus(tmp_path)
    found = bench(name, data, metrics=["clip_i(model=fake)", "clip_t(model=fake)", "dino_i(model=fake)"],
                  out=str(tmp_path / "run"))  # fmt: skip
    paper = found.results.table("paper")
    assert not any(number.is_published for number in paper.numbers)
    assert found.results.counts["tasks"]["generation"]["outputs"] == 6


def test_the_text_of_clip_t_is_chosen_on_the_command_line(beholder: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(knowcus(tmp_path)))
    call = ("bench", "knowcusbench", path, "--only", "-m", "clip_t(model=fake)", "-q")
    assert beholder(*call, "--text", "class", "-o", tmp_path / "run").exit_code == 0
    rows = package.open_run_folder(tmp_path / "run").scores.to_pylist()
    assert "a dog at sea" in {row["eval_prompt"] for row in rows}
    wrong = beholder(*call, "--text", "all", "-o", tmp_path / "other")
    assert wrong.exit_code == 2
    assert "given, prompt, class" in wrong.stderr
    with pytest.raises(package.UserError, match="takes no text"):
        bench("tifa", str(path), text="class")


def test_model_sets_the_encoder_of_the_protocols_metrics() -> None:
    protocol = make_protocol("dreambench")
    assert "clip_i(model=openai:ViT-B-32)" in protocol.metrics()
    assert protocol.metrics(model="fake") == ("dino_i", "clip_i", "clip_t")
    plus = make_protocol("dreambench++").metrics(model="fake")
    assert "dino_i(model=hf:facebook/dino-vits8)" in plus, "--model names an encoder of images and texts"


def test_a_jsonl_of_rows_and_the_command(beholder: Callable[..., Any], tmp_path: Path) -> None:
    data = knowcus(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(data))
    flags = [part for spec in FAKES for part in ("-m", spec)]
    done = beholder("bench", "knowcusbench", path, *flags, "-o", tmp_path / "run")
    assert done.exit_code == 0, done.stderr
    assert "MoKus" in done.stdout
    assert "Rec CLIP-I-Seg" in done.stdout
    assert beholder("show", tmp_path / "run", "--as", "md").stdout.count("| published |") == 3
    checked = beholder("validate", path, "--protocol", "knowcusbench", "--json")
    assert checked.exit_code == 0, checked.stdout
