"""JSON, Parquet, tables, lists, generators."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beholder._errors import InputError, UserError
from beholder.manifest import Sample, open_source
from beholder.media.base import DecodeOptions


def png_bytes(level: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (3, 2), (level, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


ROWS = [{"output": "a.png", "prompt": "x"}, {"output": "b.png", "prompt": "y"}]


@pytest.mark.parametrize(
    "content",
    [ROWS, {"samples": ROWS}, {"items": ROWS, "version": 1}, {"a": ROWS[0], "b": ROWS[1]}],
    ids=["list", "samples", "items", "by_id"],
)
def test_json_forms(write, content):
    samples = list(open_source(write("m.json", json.dumps(content))))
    assert [sample.prompt for sample in samples] == ["x", "y"]
    assert [sample.row for sample in samples] == [1, 2]
    assert [sample.id for sample in samples] == (["a", "b"] if "a" in content else ["a.png", "b.png"])


def test_json_with_concepts(write):
    content = {
        "version": 1,
        "defaults": {"task": "generation"},
        "concepts": [{"concept_id": "m", "class_name": "statue", "references": ["r0.png", "r1.png"], "source": "x"}],
        "items": [
            {"image": "a.png", "concept_id": "m", "prompt": "p"},
            {"image": "b.png", "concept_id": "m", "refs": ["own.png"], "task": "reconstruction"},
            {"image": "c.png", "concept_id": "n"},
        ],
    }
    source = open_source(write("m.json", json.dumps(content)))
    with pytest.raises(InputError) as caught:
        source.check()
    (fault,) = caught.value.faults
    assert (fault.row, fault.where) == (3, "concept_id")
    assert "unknown concept 'n'; listed are 'm'" in fault.message
    content["items"].pop()
    a, b = open_source(write("m.json", json.dumps(content)))
    assert (a.class_name, a.task, [ref.name for ref in a.references]) == ("statue", "generation", ["r0.png", "r1.png"])
    assert (b.class_name, b.task, [ref.name for ref in b.references]) == ("statue", "reconstruction", ["own.png"])


def test_json_faults(write):
    with pytest.raises(UserError, match=r"must be valid JSON; got .* name the file \.jsonl"):
        open_source(write("m.json", '{"a": 1}\n{"a": 2}\n'))
    with pytest.raises(InputError) as caught:
        open_source(write("m.json", '[{"output": "a.png"}, 3, "just a prompt"]')).check()
    assert [fault.row for fault in caught.value.faults] == [2]
    with pytest.raises(InputError, match="must hold a list of rows"):
        open_source(write("m.json", "3")).check()


def test_parquet_paths_and_types(tmp_path):
    table = pa.table(
        {
            "image_path": ["a.png", "b.png"],
            "prompt": ["x", None],
            "refs": [["r.png", "s.png"], []],
            "seed": [1, 2],
            "masks": pa.array([[("dog", "m.png")], None], pa.map_(pa.string(), pa.string())),
            "score": [0.5, float("nan")],
        }
    )
    pq.write_table(table, tmp_path / "m.parquet", row_group_size=1)
    source = open_source(tmp_path / "m.parquet")
    assert source.count() == 2
    a, b = source
    assert (a.prompt, b.prompt, a.seed, a.extras, b.extras) == ("x", None, 1, {"score": 0.5}, {"score": None})
    assert [Path(ref.path) for ref in a.references] == [tmp_path / "r.png", tmp_path / "s.png"]
    assert b.references == ()
    assert list(a.masks) == ["dog"]


def test_parquet_with_embedded_pictures(tmp_path):
    cells = [{"bytes": png_bytes(9), "path": "a.png"}, {"bytes": png_bytes(8), "path": "a.png"}]
    table = pa.table({"image": cells, "text": ["x", "y"], "references": [cells, cells[:1]]})
    pq.write_table(table, tmp_path / "m.parquet")
    source = open_source(tmp_path / "m.parquet")
    source.check()
    a, b = source
    assert a.id != b.id, "embedded pictures may share a name"
    assert [sample.id for sample in source] == [a.id, b.id]
    assert a.output.decode(DecodeOptions()).pixels[0, 0, 0] == 9
    assert [len(sample.references) for sample in source] == [2, 1]
    assert a.references[1].fingerprint() == b.output.fingerprint()


def test_check_leaves_embedded_pictures_unread_when_ids_are_columns(tmp_path, monkeypatch):
    from beholder.manifest.data_files import ParquetReader

    cells = [{"bytes": png_bytes(i), "path": None} for i in range(3)]
    pq.write_table(pa.table({"id": ["a", "b", "c"], "image": cells}), tmp_path / "m.parquet")
    reader = ParquetReader(str(tmp_path / "m.parquet"))
    assert [row["image"] for _, row in reader.rows(light=True)] == [{"path": None}] * 3
    source = open_source(tmp_path / "m.parquet")
    source.check()
    assert [sample.output.decode(DecodeOptions()).pixels[0, 0, 0] for sample in source] == [0, 1, 2]


def test_not_parquet(write):
    with pytest.raises(UserError, match="must be a Parquet file"):
        open_source(write("m.parquet", "no")).check()


def test_pandas():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "file_name": ["a.png", "b.png", "c.png"],
            "prompt": ["x", None, float("nan")],
            "seed": [1, 2, None],
            "refs": ["r.png|s.png", None, float("nan")],
            "score": [1.5, float("nan"), 2.0],
        }
    )
    for _ in range(2):
        source = open_source(frame)
        source.check()
        a, b, c = source
        assert (a.prompt, b.prompt, c.prompt) == ("x", None, None)
        assert (a.seed, b.seed, c.seed) == (1, 2, None)
        assert [len(sample.references) for sample in (a, b, c)] == [2, 0, 0]
        assert [sample.extras["score"] for sample in (a, b, c)] == [1.5, None, 2.0]
        frame = frame.sample(frac=1.0, random_state=1).sort_index()
    assert source.count() == 3


def test_pandas_cells_that_are_arrays_and_missing_values():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "image": [np.zeros((2, 2, 3), np.uint8)],
            "references": [np.array(["r.png", "s.png"], dtype=object)],
            "prompt_id": pd.array([7], dtype="Int64"),
            "seed": pd.array([pd.NA], dtype="Int64"),
            "when": [pd.NaT],
        }
    )
    (sample,) = open_source(frame)
    assert (sample.prompt_id, sample.seed, sample.extras) == ("7", None, {"when": None})
    assert [ref.path for ref in sample.references] == ["r.png", "s.png"]
    assert sample.output.decode(DecodeOptions()).size == (2, 2)


def test_arrow_table():
    source = open_source(pa.table({"output": ["a.png"] * 600, "id": [f"{i}" for i in range(600)]}))
    assert [sample.id for sample in source] == [f"{i}" for i in range(600)]


class PolarsLike:
    columns = ("output", "prompt")

    def iter_rows(self, *, named: bool):
        assert named
        yield from ROWS

    def __len__(self) -> int:
        return 2


class DatasetLike:
    """What a Hugging Face dataset can do, as far as it is asked here."""

    def __init__(self, table: pa.Table, format: str | None = None) -> None:
        self._table, self._format = table, format
        self.features, self.column_names = {}, table.column_names

    def with_format(self, format: str) -> DatasetLike:
        return DatasetLike(self._table, format)

    def iter(self, *, batch_size: int):
        assert self._format == "arrow", "any other format decodes pictures"
        for start in range(0, len(self._table), batch_size):
            yield self._table.slice(start, batch_size)

    def __len__(self) -> int:
        return len(self._table)


def test_polars_like_and_dataset_like():
    assert [sample.prompt for sample in open_source(PolarsLike())] == ["x", "y"]
    cells = [{"bytes": png_bytes(i % 250), "path": None} for i in range(300)]
    source = open_source(DatasetLike(pa.table({"image": cells, "text": [f"p{i}" for i in range(300)]})))
    source.check()
    samples = list(source)
    assert source.count() == len(samples) == 300
    assert samples[7].output.decode(DecodeOptions()).pixels[0, 0, 0] == 7


def test_lists_of_rows_samples_and_pictures():
    samples = list(open_source(ROWS))
    assert [sample.output.path for sample in samples] == ["a.png", "b.png"]
    again = list(open_source(samples))
    assert again == samples
    assert [sample.id for sample in open_source(["a.png", Path("b.png")])] == ["a.png", "b.png"]
    (sample,) = open_source([Image.new("L", (2, 2))])
    assert sample.output.decode(DecodeOptions()).size == (2, 2)
    with pytest.raises(InputError) as caught:
        open_source([ROWS[0], 7, None]).check()
    assert [fault.row for fault in caught.value.faults] == [2, 3]


def test_float_arrays_need_a_range():
    array = np.full((2, 2, 3), 0.5, np.float32)
    with pytest.raises(InputError, match="range"):
        open_source([array]).check()
    (sample,) = open_source([array], value_range=(0.0, 1.0))
    assert sample.output.decode(DecodeOptions()).pixels[0, 0, 0] in (127, 128)


def test_a_source_is_given_back():
    source = open_source(ROWS)
    assert open_source(source) is source


def test_ids_from_content_do_not_depend_on_order_and_same_rows_are_numbered():
    black, white = np.zeros((2, 2, 3), np.uint8), np.full((2, 2, 3), 255, np.uint8)
    rows = [{"output": black, "prompt": "x"}, {"output": white, "prompt": "x"}, {"output": black, "prompt": "y"}]
    ids = [sample.id for sample in open_source(rows)]
    assert len(set(ids)) == 3
    assert [sample.id for sample in open_source(rows[::-1])] == ids[::-1]
    source = open_source([rows[0]] * 3)
    source.check()
    assert [sample.id for sample in source] == [ids[0], f"{ids[0]}~2", f"{ids[0]}~3"]


def test_generator_is_read_once_and_loses_nothing():
    def rows():
        yield {"id": "a", "output": "a.png"}
        yield {"id": "a", "output": "b.png"}
        yield 5
        yield {"id": "c", "output": "c.png"}

    source = open_source(rows())
    assert not source.replayable
    source.check()
    source.check()
    rows_of = iter(source)
    assert [next(rows_of).id, next(rows_of).id] == ["a", "c"]
    with pytest.raises(InputError) as caught:
        next(rows_of)
    assert [fault.row for fault in caught.value.faults] == [2, 3]
    assert "rows 1 and 2" in caught.value.faults[0].message
    with pytest.raises(UserError, match="can be read only once"):
        list(source)


def test_generator_of_samples_and_first_row_at_fault():
    given = Sample(id="s", output=None)
    (sample,) = open_source(iter([given]))
    assert (sample.id, sample.row) == ("s", 1)
    with pytest.raises(InputError, match="must be text"):
        open_source(iter([{"output": "a.png", "prompt": True}])).check()
    with pytest.raises(InputError, match="gave no rows"):
        open_source(iter([])).check()


def test_mapping_of_rows():
    samples = list(open_source({"p": ROWS[0], "q": ROWS[1]}))
    assert [(sample.id, sample.prompt) for sample in samples] == [("p", "x"), ("q", "y")]


def test_mapping_of_columns():
    source = open_source({"image": ["a.png", "b.png"], "prompt": ["x", "y"]})
    assert [(sample.id, sample.prompt) for sample in source] == [("a.png", "x"), ("b.png", "y")]
    with pytest.raises(InputError, match="columns must be of equal length; 'image' has 2, 'prompt' has 1"):
        open_source({"image": ["a.png", "b.png"], "prompt": ["x"]})


def test_a_json_object_that_is_one_row(write):
    (sample,) = open_source(write("m.json", '{"image": "a.png", "prompt": "x"}'))
    assert (sample.id, sample.prompt) == ("a.png", "x")


def test_keys_that_stand_twice_are_never_dropped_silently(write):
    with pytest.raises(UserError, match="keys must be unique in an object; more than once: 'a'"):
        open_source(write("m.json", '{"a": "x", "b": "y", "a": "z"}'))
    with pytest.raises(InputError, match="row 1: not valid JSON: keys must be unique"):
        open_source(write("m.jsonl", '{"output": "a.png", "output": "b.png"}\n')).check()


@pytest.mark.parametrize("column", ["output", "prompt", "id", "mood"])
def test_half_characters_are_faults(write, column):
    row = {"id": "i", "output": "a.png", "prompt": "x", "mood": "m", column: "\ud800.png"}
    with pytest.raises(InputError, match="must be Unicode text"):
        open_source([row]).check()
    with pytest.raises(InputError, match="must be Unicode text"):
        open_source(write("m.jsonl", [row])).check()


@pytest.mark.parametrize("size", [[4], "x", None, [4, "5"], [0, 3]])
def test_masks_need_a_size(size):
    with pytest.raises(InputError, match="a mask's size must be"):
        open_source([{"output": "a.png", "masks": {"size": size, "counts": "0"}}]).check()


def test_seeds_beyond_64_bits_are_text():
    rows = [{"output": f"{i}.png", "seed": seed} for i, seed in enumerate([2**63 - 1, 2**63, "9" * 5000])]
    assert [sample.seed for sample in open_source(rows)] == [2**63 - 1, str(2**63), "9" * 5000]


@pytest.mark.parametrize("name", ["m.parquet", "m.json", "m.jsonl.gz", "s.tar"])
def test_remote_files(name):
    import gzip
    import tarfile

    import fsspec

    buffer = io.BytesIO()
    if name == "m.parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), buffer)
    elif name == "s.tar":
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for member, data in (("a.png", png_bytes(4)), ("a.txt", b"x")):
                info = tarfile.TarInfo(member)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    else:
        text = json.dumps(ROWS) if name == "m.json" else "".join(json.dumps(row) + "\n" for row in ROWS)
        buffer.write(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    with fsspec.open(f"memory://far/{name}", "wb") as handle:
        handle.write(buffer.getvalue())
    try:
        source = open_source(f"memory://far/{name}")
        source.check()
        samples = list(source)
        if name == "s.tar":
            assert samples[0].output.decode(DecodeOptions()).pixels[0, 0, 0] == 4
        else:
            assert samples[1].output.name == "memory://far/b.png"
        assert samples[0].prompt == "x"
    finally:
        fsspec.filesystem("memory").rm("/far", recursive=True)
