"""Subject-driven data in its forms: manifests, two files, our directories, and three published layouts."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.protocols.bench_data import picture

import beholder as package
from beholder.protocol_runs import bench, check_data, make_protocol
from beholder.protocols.subject_folders import dreambench_classes, dreambench_prompts
from beholder.protocols.subject_rows import Concept, Joiner, fill_template, remove_identifiers, with_class


def samples(data: Any, name: str = "knowcusbench", **options: Any) -> dict[str, Any]:
    """Samples by id."""
    source = make_protocol(name, options).source(data)
    source.check()
    return {sample.id: sample for sample in source}


def joined(item: dict[str, Any], concept: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    """One item joined with one concept `c`."""
    fields = dict(concept or {})
    knowledge = fields.pop("knowledge", {})
    ((_, row),) = Joiner({"c": Concept("c", fields, knowledge)}, **settings).rows(1, {"concept_id": "c", **item})
    assert isinstance(row, dict), row
    return row


def test_a_template_takes_the_knowledge_the_identifier_or_the_class() -> None:
    assert fill_template("{} at sea", knowledge="my gift", identifier="<sks>", kind="dog") == "my gift at sea"
    assert fill_template("{} at sea", knowledge=None, identifier="<sks>", kind="dog") == "<sks> dog at sea"
    assert fill_template("a {0} {1} at sea", knowledge=None, identifier=None, kind="dog") == "a dog at sea"
    assert fill_template("{} at sea", knowledge=None, identifier=None, kind="") is None
    assert fill_template("a {0} {1} at sea", knowledge=None, identifier="<sks>", kind="") is None


@pytest.mark.parametrize(
    ("text", "tokens", "left"),
    [
        ("a <sks> dog in the jungle", ["<sks>"], "a dog in the jungle"),
        ("<new1> cat and <new2> dog", ["<new1>", "<new2>"], "cat and dog"),
        ("she asks a sks dog", ["sks"], "she asks a dog"),
        ("a photo of <sks>, at sea", ["<sks>"], "a photo of, at sea"),
        ("a  dog", ["<sks>"], "a  dog"),
        ("a dog", [], "a dog"),
    ],
)
def test_identifiers_are_removed_and_spaces_closed(text: str, tokens: list[str], left: str) -> None:
    assert remove_identifiers(text, tokens) == left


def test_the_scored_text_has_no_identifier_and_the_raw_prompt_is_kept() -> None:
    row = joined({"prompt": "a <sks> dog in the jungle"}, {"identifier": "<sks>", "class_name": "dog"})
    assert row["prompt"] == "a dog in the jungle"
    assert row["raw_prompt"] == "a <sks> dog in the jungle"
    other = joined({"prompt": "a dog"}, {"identifier": "<sks>"})
    assert "raw_prompt" not in other


def test_what_clip_t_scores_is_an_option() -> None:
    concept = {"class_name": "statue", "knowledge": {"k0": "my birthday present"}}
    item = {"prompt_template": "{} in snowy ice", "knowledge_id": "k0", "task": "generation"}
    given = {**item, "eval_prompt": "one statue in snowy ice"}
    assert joined(item, concept)["prompt"] == "my birthday present in snowy ice"
    assert "eval_prompt" not in joined(item, concept)
    assert joined(given, concept)["eval_prompt"] == "one statue in snowy ice"
    assert "eval_prompt" not in joined(given, concept, text="prompt")
    assert joined(item, concept, text="class")["eval_prompt"] == "a statue in snowy ice"
    assert joined(given, concept, text="class")["eval_prompt"] == "one statue in snowy ice"
    assert with_class("a photo of my cup", "cup", knowledge="my cup") == "a photo of a cup"
    assert with_class("the thing at sea", "cup", knowledge="thing") == "the cup at sea"


def test_a_reconstruction_without_a_prompt_takes_the_knowledge() -> None:
    concept = {"knowledge": {"k0": "my gift"}}
    assert joined({"task": "reconstruction", "knowledge_id": "k0"}, concept)["prompt"] == "my gift"
    assert "prompt" not in joined({"task": "generation", "knowledge_id": "k0"}, concept)


def test_own_references_take_the_place_of_the_concepts() -> None:
    concept = {"references": ["r.png"], "reference_masks": ["m.png"], "class_name": "dog"}
    row = joined({"refs": ["own.png"]}, concept)
    assert row["refs"] == ["own.png"]
    assert "references" not in row
    assert "reference_masks" not in row
    assert joined({}, concept)["references"] == ["r.png"]


def test_an_output_of_several_concepts_is_scored_once_a_concept(tmp_path: Path) -> None:
    refs = {name: str(picture(tmp_path / f"{name}.png", at)) for at, name in enumerate(("cat", "dog"))}
    data = {
        "concepts": [{"concept_id": name, "class_name": name, "references": [ref]} for name, ref in refs.items()],
        "items": [
            {"id": "both", "image": str(picture(tmp_path / "o.png", 9)), "concept_ids": ["cat", "dog"],
             "task": "generation", "prompt": "a cat and a dog"}
        ],
    }  # fmt: skip
    found = samples(data, "customconcept101")
    assert {key: (s.concept, s.class_name) for key, s in found.items()} == {
        "both#cat": ("cat", "cat"), "both#dog": ("dog", "dog"),
    }  # fmt: skip
    run = bench("customconcept101", data, metrics=["clip_i(model=fake)"], only=True, out=str(tmp_path / "run"))
    table = run.results.table("concepts")
    assert {row[2] for row, _ in table.rows} == {"cat", "dog"}


def test_several_concepts_need_no_id_and_may_stand_in_a_cell(tmp_path: Path) -> None:
    concepts = [{"concept_id": name, "references": [str(picture(tmp_path / f"{name}.png", 1))]} for name in "ab"]
    output = str(picture(tmp_path / "o.png", 9))
    for cell in (["a", "b"], '["a", "b"]', "a|b"):
        items = [{"image": output, "concept_ids": cell, "prompt": "both"}]
        found = samples({"concepts": concepts, "items": items}, "customconcept101")
        assert {key: s.concept for key, s in found.items()} == {f"{output}#a": "a", f"{output}#b": "b"}
    piped = [{"concept_id": "a|b", "references": concepts[0]["references"]}]
    (sample,) = samples({"concepts": piped, "items": [{"image": output, "concept_ids": "a|b"}]}, "dreambench").values()
    assert sample.concept == "a|b"


def manifest(folder: Path) -> dict[str, Any]:
    picture(folder / "ref/a.png", 1)
    picture(folder / "ref/b.png", 2)
    picture(folder / "gen/x.png", 3)
    return {
        "defaults": {"task": "generation"},
        "concepts": [{"concept_id": "mermaid", "class_name": "statue", "seg_prompt": ["statue", "figure"],
                      "references": ["ref/a.png", "ref/b.png"]}],
        "items": [{"image": "gen/x.png", "concept_id": "mermaid", "prompt": "p", "prompt_id": "p0", "seed": 0}],
    }  # fmt: skip


def check_mermaid(found: dict[str, Any]) -> None:
    (sample,) = found.values()
    assert (sample.concept, sample.class_name, sample.task) == ("mermaid", "statue", "generation")
    assert sample.seg_prompt == ("statue", "figure")
    assert [Path(item.name).name for item in sample.references] == ["a.png", "b.png"]
    assert check_names(sample)


def check_names(sample: Any) -> bool:
    from beholder.media.base import DecodeOptions

    return all(item.decode(DecodeOptions()).size == (16, 16) for item in (sample.output, *sample.references))


def test_a_json_manifest_is_read_from_its_own_folder(tmp_path: Path) -> None:
    path = tmp_path / "data" / "manifest.json"
    content = manifest(tmp_path / "data")
    path.write_text(json.dumps(content))
    check_mermaid(samples(path))
    check_mermaid(samples(tmp_path / "data"))


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_concepts_and_items_in_two_files(tmp_path: Path, kind: str) -> None:
    content = manifest(tmp_path)
    content["items"][0]["task"] = "generation"
    for name in ("concepts", "items"):
        with (tmp_path / f"{name}.{kind}").open("w", newline="") as handle:
            if kind == "jsonl":
                handle.writelines(json.dumps(row) + "\n" for row in content[name])
                continue
            writer = csv.DictWriter(handle, list(content[name][0]))
            writer.writeheader()
            for row in content[name]:
                writer.writerow({k: "|".join(v) if isinstance(v, list) else v for k, v in row.items()})
    check_mermaid(samples(tmp_path))


def test_our_directories(tmp_path: Path) -> None:
    for name in ("rex", "mermaid"):
        for at in (10, 2, 1):
            picture(tmp_path / f"references/{name}/{at}.JPG", at)
    paths = (
        "generated/reconstruction/mermaid/rec_k0_s1.png", "generated/gen/mermaid/snow_k1_s0.png",
        "generated/ours/generation/rex/sea_s10.webp",
    )  # fmt: skip
    for at, path in enumerate(paths):
        picture(tmp_path / path, at)
    picture(tmp_path / "masks/gen/mermaid/snow_k1_s0.png", 7)
    (tmp_path / "prompts.json").write_text(json.dumps({"snow": "in snow", "sea_s10": "at sea", "rec": "my thing"}))
    (tmp_path / "classes.csv").write_text("concept,class,seg_prompt\nmermaid,statue,bronze statue\nrex,dog\n")
    found = {Path(s.output.name).name: s for s in samples(tmp_path).values()}
    snow, sea, rec = found["snow_k1_s0.png"], found["sea_s10.webp"], found["rec_k0_s1.png"]
    assert (snow.task, snow.concept, snow.knowledge_id, snow.seed, snow.method) == (
        "generation", "mermaid", "k1", 0, None,
    )  # fmt: skip
    assert (snow.prompt, snow.prompt_id, snow.class_name, snow.seg_prompt) == (
        "in snow", "snow", "statue", "bronze statue",
    )  # fmt: skip
    assert snow.masks is not None
    assert (sea.method, sea.prompt, sea.seed, sea.class_name) == ("ours", "at sea", 10, "dog")
    assert (rec.task, rec.prompt, rec.seed) == ("reconstruction", "my thing", 1)
    assert [Path(item.name).name for item in sea.references] == ["1.JPG", "2.JPG", "10.JPG"], "natural order"
    assert check_names(sea)


def test_directories_name_what_lies_elsewhere_and_what_has_no_output(tmp_path: Path) -> None:
    picture(tmp_path / "references/rex/1.png", 1)
    picture(tmp_path / "references/mermaid/1.png", 1)
    picture(tmp_path / "generated/generation/rex/sea.png", 2)
    assert any("without an output: 1 (mermaid)" in text for text in check_data("knowcusbench", tmp_path).notices)
    picture(tmp_path / "generated/generation/unicorn/sea.png", 2)
    picture(tmp_path / "generated/lost.png", 3)
    with pytest.raises(package.InputError) as error:
        samples(tmp_path)
    assert "unknown concept 'unicorn'" in str(error.value)
    assert "must lie in generated/TASK/CONCEPT/" in str(error.value)


def test_a_folder_of_a_concept_without_references_names_the_concept(tmp_path: Path) -> None:
    (tmp_path / "references" / "rex").mkdir(parents=True)
    picture(tmp_path / "generated/generation/rex/sea.png", 2)
    (fault,) = [f for f in check_data("knowcusbench", tmp_path).faults if f.where == "references"]
    assert fault.message == "concept 'rex' has no references"


DREAMBENCH = """Classes

subject_name,class
backpack,backpack
dog6,dog

Prompts

Object Prompts

prompt_list = [
'a {0} {1} in the jungle'.format(unique_token, class_token),
'a cube shaped {0} {1}'.format(unique_token, class_token)
]

Live Subject Prompts

prompt_list = [
'a {0} {1} in the snow'.format(unique_token, class_token),
'a {0} {1} wearing a red hat'.format(unique_token, class_token)
]
"""


def test_dreambenchs_own_folder(tmp_path: Path) -> None:
    assert dreambench_classes(DREAMBENCH) == {"backpack": "backpack", "dog6": "dog"}
    assert dreambench_prompts(DREAMBENCH)["live"][1] == "a {0} {1} wearing a red hat"
    for name in ("backpack", "dog6"):
        picture(tmp_path / f"dataset/{name}/00.jpg", 1)
    (tmp_path / "dataset" / "prompts_and_classes.txt").write_text(DREAMBENCH)
    picture(tmp_path / "generated/ours/dog6/1_s2.png", 5)
    picture(tmp_path / "generated/ours/backpack/0_s0.png", 6)
    found = {sample.concept: sample for sample in samples(tmp_path, "dreambench").values()}
    dog = found["dog6"]
    assert (dog.prompt, dog.prompt_id, dog.seed, dog.method) == ("a dog wearing a red hat", "1", 2, "ours")
    assert dog.extras["raw_prompt"] == "a <sks> dog wearing a red hat"
    assert (dog.class_name, dog.seg_prompt, dog.task) == ("dog", "dog", "generation")
    assert found["backpack"].prompt == "a backpack in the jungle"
    assert check_names(dog)
    picture(tmp_path / "generated/ours/dog6/7.png", 5)
    with pytest.raises(package.InputError, match="named after a prompt, 0 to 1"):
        samples(tmp_path, "dreambench")


def test_customconcept101s_own_folder(tmp_path: Path) -> None:
    entry = {
        "instance_prompt": "photo of a <new1> teddybear", "class_prompt": "teddybear",
        "instance_data_dir": "./benchmark_dataset/plushie_teddybear", "class_data_dir": "x",
        "prompt_filename": "prompts/plushie.txt",
    }  # fmt: skip
    (tmp_path / "dataset.json").write_text(json.dumps([entry]))
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "plushie.txt").write_text("a {} at sea\n\na painting of {}\n")
    picture(tmp_path / "benchmark_dataset/plushie_teddybear/1.jpg", 1)
    picture(tmp_path / "generated/plushie_teddybear/1_s0.png", 2)
    (sample,) = samples(tmp_path, "customconcept101").values()
    assert sample.prompt == "a painting of teddybear"
    assert sample.extras["raw_prompt"] == "a painting of <new1> teddybear"
    assert (sample.concept, sample.class_name) == ("plushie_teddybear", "teddybear")
    assert len(sample.references) == 1
    (tmp_path / "generated/plushie_teddybear/prompts.json").write_text(json.dumps({"1_s0.png": "a <new1> bear"}))
    (sample,) = samples(tmp_path, "customconcept101").values()
    assert sample.prompt == "a bear"


def test_dreambench_plus_own_folder(tmp_path: Path) -> None:
    for name in ("animal_03_red_panda", "style_01_ukiyoe"):
        for stem in ("0_1", "10_0"):
            picture(tmp_path / f"ours/tgt_image/{name}/{stem}.jpg", 1)
            picture(tmp_path / f"ours/src_image/{name}/{stem}.JPG", 2)
            text = tmp_path / f"ours/text/{name}/{stem}.txt"
            text.parent.mkdir(parents=True, exist_ok=True)
            text.write_text(f"prompt {stem}\n")
    found = samples(tmp_path, "dreambench++")
    assert len(found) == 4
    one = next(s for s in found.values() if s.concept == "animal_03_red_panda" and s.prompt_id == "10")
    assert (one.prompt, one.seed, one.method, one.class_name) == ("prompt 10_0", 0, "ours", "red panda")
    assert [Path(item.name).name for item in one.references] == ["10_0.JPG"], "one reference an output, by name"
    style = next(s for s in found.values() if s.concept == "style_01_ukiyoe")
    assert style.class_name is None
    assert style.extras["category"] == "style"
    assert check_names(one)


def test_rows_in_memory_and_tables_will_do(tmp_path: Path) -> None:
    import pandas as pd

    rows = [
        {"output": str(picture(tmp_path / "a.png", 1)), "prompt": "a <x> cat", "identifier": "<x>", "concept": "a|b"}
    ]
    for data in (rows, pd.DataFrame(rows)):
        (sample,) = samples(data).values()
        assert (sample.prompt, sample.task, sample.concept) == ("a cat", "generation", "a|b")


def test_a_bare_folder_of_pictures_is_read_like_any_other(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 1)
    (sample,) = samples(tmp_path).values()
    assert sample.prompt is None


def test_a_template_that_cannot_be_filled_is_a_fault(tmp_path: Path) -> None:
    rows = [{"output": str(picture(tmp_path / "a.png", 1)), "prompt_template": "{} at sea"}]
    with pytest.raises(package.InputError, match="needs a knowledge_id, an identifier or a class"):
        samples(rows)
