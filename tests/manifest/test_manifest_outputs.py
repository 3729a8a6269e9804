"""A prompt file and an output template: joined by fields, never by position."""

from __future__ import annotations

import json
import random

import pytest

from beholder._errors import InputError, OptionError, UserError
from beholder.manifest import open_source
from beholder.manifest.template import parse_template


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def messages(source):
    with pytest.raises(InputError) as caught:
        source.check()
    return [(fault.where, fault.message) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("template", "path", "readings"),
    [
        ("out/{prompt_id}_{seed}.png", "a_b_3.png", [{"prompt_id": "a_b", "seed": "3"}]),
        ("out/{prompt_id}_{seed:04d}.png", "7_-2.png", [{"prompt_id": "7", "seed": "-2"}]),
        (
            "out/{method}_{prompt_id}.png",
            "a_b_c.png",
            [{"method": "a", "prompt_id": "b_c"}, {"method": "a_b", "prompt_id": "c"}],
        ),
        ("out/{method}/*/{id}.{ext}", "sdxl/x/3.png", [{"method": "sdxl", "prompt_id": "3"}]),
        ("out/{method}/{prompt_id}.png", "sdxl/x/3.png", []),
        ("out/{concept}/{concept}_{seed}.png", "dog/dog_1.png", [{"concept": "dog", "seed": "1"}]),
        ("out/{concept}/{concept}_{seed}.png", "dog/cat_1.png", []),
        ("out/img{{x}}{prompt_id}.png", "img{x}4.png", [{"prompt_id": "4"}]),
        ("{prompt_id}.png", "4.png", [{"prompt_id": "4"}]),
        ("out/pre-{prompt_id}.png", "pre-4.png", [{"prompt_id": "4"}]),
        ("out", "a.b.png", [{"prompt_id": "a.b"}]),
    ],
)
def test_readings_of_a_template(template, path, readings):
    assert parse_template(template).readings(path) == readings


def test_template_root_and_faults():
    assert parse_template("out/run-{seed}/{prompt_id}.png").root == "out/"
    assert parse_template("{prompt_id}.png").root == ""
    assert parse_template("/abs/{prompt_id}.png").root == "/abs/"
    with pytest.raises(OptionError, match="matching braces"):
        parse_template("out/{prompt_id.png")
    with pytest.raises(OptionError, match="must have a name"):
        parse_template("out/{}.png")


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "txt", "rows", "strings", "mapping", "no_id"])
def test_forms_of_prompts(write, draw, form):
    order = list(range(12))
    random.Random(3).shuffle(order)
    for number in order:
        for seed in (0, 1):
            draw(f"out/sdxl/{number:04d}_{seed}.png")
    texts = [f"prompt, {number}" for number in range(12)]
    if form == "csv":
        rows = [f'{number},"{texts[number]}",m{number % 2}' for number in order]
        prompts = write("p.csv", "\n".join(["id,text,mood", *rows]))
    elif form == "jsonl":
        prompts = write("p.jsonl", [{"prompt_id": number, "prompt": texts[number]} for number in order])
    elif form == "json":
        prompts = write("p.json", json.dumps({str(number): texts[number] for number in order}))
    elif form == "txt":
        prompts = write("p.txt", "\ufeff" + "\r\n".join(texts) + "\r\n\r\n")
    elif form == "rows":
        prompts = [{"prompt_id": str(number), "prompt": texts[number]} for number in order]
    elif form == "mapping":
        prompts = {str(number): texts[number] for number in order}
    elif form == "no_id":
        prompts = write("p.csv", "\n".join(["prompt", *(f'"{text}"' for text in texts)]))
    else:
        prompts = texts
    source = open_source(prompts=prompts, outputs="out/{method}/{prompt_id}_{seed}.png")
    source.check()
    samples = list(source)
    assert source.count() == len(samples) == 24
    for sample in samples:
        number = int(sample.output.name[-10:-6])
        assert sample.prompt == f"prompt, {number}"
        assert (sample.method, sample.prompt_id) == ("sdxl", str(number))
        assert sample.id == f"sdxl/{number}/{sample.seed}"
        if form == "csv":
            assert sample.extras == {"mood": f"m{number % 2}"}
    assert [sample.output.name for sample in samples[:3]] == [
        "out/sdxl/0000_0.png",
        "out/sdxl/0000_1.png",
        "out/sdxl/0001_0.png",
    ]


def test_references_start_from_the_prompts_and_outputs_from_the_working_folder(write, draw, tmp_path):
    draw("out/1.png")
    prompts = write("lists/p.jsonl", [{"prompt_id": "1", "prompt": "x", "refs": ["r.png"]}])
    (sample,) = open_source(prompts=prompts, outputs="out/{prompt_id}.png")
    assert sample.id == "out/1.png"
    assert sample.output.path == "out/1.png"
    assert sample.references[0].path == str(tmp_path / "lists/r.png")


def test_folders_beside_those_of_the_template_are_no_leftovers(write, draw):
    """`ck{method}/…` in a project's folder: its other pictures are none of the template's."""
    write("prompts.csv", "prompt_id,prompt\n1,one\n")
    for path in ("ck1/1_0.png", "ck2/1_0.png", "figures/a.png", "logo.png"):
        draw(path)
    source = open_source(prompts="prompts.csv", outputs="ck{method}/{prompt_id}_{seed}.png")
    assert [sample.method for sample in source] == ["1", "2"]
    draw("ck2/notes.png")
    source = open_source(prompts="prompts.csv", outputs="ck{method}/{prompt_id}_{seed}.png")
    assert messages(source) == [("ck2/notes.png", "this file does not fit the output template")]
    draw("out/imx.png")
    draw("out/img1.png")
    source = open_source(prompts="prompts.csv", outputs="out/img{prompt_id}.png")
    assert messages(source) == [("out/imx.png", "this file does not fit the output template")]


def test_n2_what_is_unmatched_on_both_sides(write, draw):
    for name in ("a/1", "a/2", "b/1", "a/9", "a/odd/3"):
        draw(f"out/{name}.png")
    prompts = write("p.csv", "prompt_id,prompt\n1,x\n2,y\n3,z\n")
    arguments = {"prompts": prompts, "outputs": "out/{method}/{prompt_id}.png"}
    assert messages(open_source(**arguments)) == [
        ("out/a/9.png", "no prompt for this file"),
        ("out/a/odd/3.png", "this file does not fit the output template"),
        ("prompt_id='2'", "no output of method 'b' for this prompt"),
        ("prompt_id='3'", "no output for this prompt"),
    ]
    source = open_source(**arguments, allow_extra=True)
    source.check()
    assert [sample.prompt for sample in source] == ["x", "y", "x"]
    assert len(source.notices) == 4


def test_n3_nothing_matched(write, draw):
    draw("out/a.png")
    source = open_source(prompts=write("p.csv", "prompt_id,prompt\n1,x\n"), outputs="out/{prompt_id}.png")
    assert (None, "nothing matched: no file is an output of any of the 1 prompts") in messages(source)


def test_n2_two_files_for_one_prompt(write, draw):
    draw("out/1.png")
    draw("out/1.jpg")
    draw("out/01.png")
    found = messages(open_source(prompts={"1": "x"}, outputs="out/{prompt_id}.{ext}"))
    assert len(found) == 2
    assert all("outputs of one prompt and seed" in message for _, message in found)


def test_padding_counts_where_the_table_tells_numbers_apart(draw):
    for name in ("1", "01", "001"):
        draw(f"out/{name}.png")
    source = open_source(prompts={"1": "one", "01": "other"}, outputs="out/{prompt_id}.png", allow_extra=True)
    assert {sample.output.name: sample.prompt for sample in source} == {"out/1.png": "one", "out/01.png": "other"}


def test_an_ambiguous_name_is_settled_by_the_table_or_is_a_fault(draw):
    draw("out/a_b_c.png")
    source = open_source(prompts={"b_c": "x"}, outputs="out/{method}_{prompt_id}.png")
    source.check()
    (sample,) = source
    assert (sample.method, sample.prompt_id) == ("a", "b_c")
    source = open_source(prompts={"b_c": "x", "c": "y"}, outputs="out/{method}_{prompt_id}.png")
    assert messages(source)[0][1].startswith("the file's name can be read in several ways")


def test_faults_of_the_prompts(write, draw):
    draw("out/1.png")
    prompts = write("p.csv", "prompt_id,prompt\n1,x\n1,y\n2\n,z\n")
    found = messages(open_source(prompts=prompts, outputs="out/{prompt_id}.png"))
    assert any("rows 1 and 2 of the prompts have one prompt_id, '1'" in message for _, message in found)
    assert any("1 cells and the header 2" in message for _, message in found)
    prompts = write("q.csv", "concept,prompt\n1,x\n")
    found = messages(open_source(prompts=prompts, outputs="out/{method}.png"))
    assert "must have one in common" in found[0][1]


def test_join_on_the_prompt_itself_keeps_case_apart(write, draw):
    draw("out/A cat-0.png")
    draw("out/a cat-0.png")
    source = open_source(prompts=["A cat", "a cat"], outputs="out/{prompt}-{seed}.png")
    source.check()
    assert [sample.prompt for sample in source] == ["A cat", "a cat"]


def test_without_prompts_and_several_templates(draw):
    draw("one/3_0.png")
    draw("two/3_0.png")
    source = open_source(outputs=["one/{prompt_id}_{seed}.png", "two/{prompt_id}_{seed}.png"])
    assert "one prompt and seed" in messages(source)[0][1]
    source = open_source(outputs="{method}/{prompt_id}_{seed}.png")
    source.check()
    assert [sample.id for sample in source] == ["one/3/0", "two/3/0"]


def test_ids_of_templates_with_other_fields_are_paths(draw):
    draw("out/7.5/3_0.png")
    draw("out/9.0/3_0.png")
    source = open_source(prompts={"3": "x"}, outputs="out/{guidance}/{prompt_id}_{seed}.png")
    source.check()
    assert [(sample.id, sample.extras) for sample in source] == [
        ("out/7.5/3_0.png", {"guidance": "7.5"}),
        ("out/9.0/3_0.png", {"guidance": "9.0"}),
    ]


def test_wrong_use(write, draw):
    with pytest.raises(OptionError, match="without data"):
        open_source([], prompts={"a": "x"}, outputs="out/{prompt_id}.png")
    with pytest.raises(OptionError, match="goes with outputs="):
        open_source(prompts={"a": "x"})
    with pytest.raises(UserError, match="must start with a folder that exists; got 'nowhere/'"):
        open_source(prompts={"a": "x"}, outputs="nowhere/{prompt_id}.png").check()
    with pytest.raises(UserError, match="the prompts must be a"):
        open_source(prompts="p.xlsx", outputs="out/{prompt_id}.png")
    draw("out/a.png")
    (sample,) = open_source("out", prompts=[{"prompt_id": "a", "prompt": "x"}])
    assert sample.prompt == "x"
