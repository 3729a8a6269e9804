"""A quick look at whole columns says "sound" only where reading row by row finds no fault, and then the same count."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beholder._errors import Fault, InputError, UserError
from beholder.manifest import open_source
from beholder.manifest.source import RowSource

BOUNDED = settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
ROWS = [
    {
        "id": f"s{at}",
        "output": f"out/{at}.png",
        "prompt": f'a "red" cat, {at}',
        "method": "m",
        "prompt_id": at // 2,
        "seed": at % 2,
    }
    for at in range(50)
]


def rows_say(path: Path, **options: Any) -> int | None:
    """The count row by row; None where there is any fault."""
    source = open_source(str(path), **options)
    assert isinstance(source, RowSource)
    faults: list[Fault] = []
    count = sum(1 for _ in source._samples(source._reader.rows(check=True), faults))
    return None if faults else count


def quick(path: Path, **options: Any) -> int | None:
    source = open_source(str(path), **options)
    assert isinstance(source, RowSource)
    return source._quick_count()


def agrees(path: Path, **options: Any) -> None:
    found = quick(path, **options)
    assert found is None or found == rows_say(path, **options)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("left_out", [(), ("id",), ("id", "seed")])
def test_ordinary_manifests_are_seen_as_sound(tmp_path: Path, suffix: str, left_out: tuple[str, ...]) -> None:
    rows = [{name: value for name, value in row.items() if name not in left_out} for row in ROWS]
    path = write(tmp_path / f"rows.{suffix}", rows)
    assert quick(path) == rows_say(path) == len(ROWS)
    source = open_source(str(path))
    source.check()
    assert source.count() == len(ROWS)
    assert len({sample.id for sample in source}) == len(ROWS)


def test_lists_of_references_and_packed_files_are_seen_as_sound(tmp_path: Path) -> None:
    rows = [{**row, "references": ["a.png", "b.png"]} for row in ROWS]
    path = write(tmp_path / "rows.jsonl", rows)
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert quick(path) == quick(packed) == len(ROWS)
    assert quick(write(tmp_path / "rows.parquet", rows)) == len(ROWS)


def test_cells_over_several_lines_and_several_blocks_are_seen_as_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beholder.manifest.arrow_blocks._BLOCK", 100)
    rows = [{**row, "prompt": f'two\nlines, "quoted", {at}'} for at, row in enumerate(ROWS)]
    for suffix in ("csv", "jsonl"):
        path = write(tmp_path / f"rows.{suffix}", rows)
        assert quick(path) == rows_say(path) == len(ROWS)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_two_rows_with_one_id_are_named_by_their_rows(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"rows.{suffix}", [*ROWS, {**ROWS[3], "output": "other.png"}])
    assert quick(path) is None
    with pytest.raises(InputError, match="have one id, 's3'"):
        open_source(str(path)).check()


@pytest.mark.parametrize(
    "text",
    [
        'id,output\na,"x.png"y\n',
        'id,output\na,x"y.png\n',
        'id,output\na, "x.png"\n',
        "id,output\na,x.png\n\n ,\nb,y.png\n",
        "id,output\na,x.png,\n",
        "id,output\na,x.png\rb,y.png\n",
        "id,output\na,x.png\na ,y.png\n",
        "id,output\n\x1ca,x.png\na,y.png\n",
        "id,id,output\na,b,x.png\n",
        "image,path\na.png,b.png\n",
        "output,references\na.png,b.png| |c.png\n",
        "output,references\na.png,b.png|\u3000|c.png\n",
        "output,prompt_id,seed\na.png,1,007\nb.png,1,7\n",
        "output,prompt_id,seed\na.png,1,\u0661\nb.png,1,1\n",
        "output,prompt_id,seed\na.png,1,1\nb.png,,2\n",
        "output\n./a.png\na.png\n",
        "output\nbad://a.png\n",
        "output\n \nb.png\n",
        "output,masks\na.png,\"{'a'\"\n",
        "prompt\na\n",
    ],
)
def test_what_only_the_rows_can_tell_is_left_to_them(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode())
    agrees(path)


@pytest.mark.parametrize(
    "line",
    [
        b'{"output": "a.png"}{"output": "b.png"}',
        b'{"output": "a.png", "output": "b.png"}',
        b'{"output": "a.png", "prompt": true}',
        b'{"output": "a.png", "prompt": 1.5}',
        b'{"output": "a.png", "prompt": NaN}',
        b'{"output": "a.png", "prompt": {}}',
        b'{"output": "a.png", "x": ' + b"[" * 3000 + b"]" * 3000 + b"}",
        b'{"output": "a.png", "prompt": "\xff"}',
        b'{"output": "a.png", "prompt": "\\ud800"}',
        b'{"output": "a.png", "references": ["b.png", null]}',
        b'{"output": "a.png", "references": ["b.png", " "]}',
        b'{"output": "a.png", "references": [["b.png"]]}',
        b'{"output": 3}',
        b'{"output": "a.png"} trailing',
        b"[1]",
        b'{"output": "2020-01-01"}',
    ],
)
def test_lines_of_json_that_only_the_rows_can_tell(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    for content in (line + b"\n", b'{"output": "first.png", "prompt": "p"}\n' + line + b"\n"):
        path.write_bytes(content)
        agrees(path)


CELL = st.one_of(
    st.sampled_from(
        ["", " ", "a", "a ", "b.png", "./b.png", "1", "01", "-1", "|", "a|b", "[", "{", "s3://a", '"', "é", "\u3000"]
    ),
    st.none(),
    st.integers(-3, 3),
    st.booleans(),
    st.lists(st.sampled_from(["a", "", None, "b.png"]), max_size=2),
    st.floats(allow_nan=True, width=16),
)
NAME = st.sampled_from(
    ["id", "output", "image", "prompt", "seed", "prompt_id", "references", "masks", "method", "concept", "extra"]
)


@given(rows=st.lists(st.dictionaries(NAME, CELL, max_size=5), min_size=1, max_size=4))
@BOUNDED
def test_any_rows_of_json(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    agrees(write(tmp_path / "rows.jsonl", rows))
    agrees(tmp_path / "rows.jsonl", mapping={"extra": "prompt"})


@given(columns=st.dictionaries(NAME, st.lists(st.sampled_from(["", "a", " a", "1", "01", None, "é"]), max_size=3)))
@BOUNDED
def test_any_columns_of_parquet(tmp_path: Path, columns: dict[str, list[Any]]) -> None:
    length = max(map(len, columns.values()), default=0)
    table = pa.table({name: pa.array(cells + [None] * (length - len(cells))) for name, cells in columns.items()})
    pq.write_table(table, tmp_path / "rows.parquet")
    agrees(tmp_path / "rows.parquet")


@given(
    head=st.sampled_from(
        ["id,output\n", "output\n", "output,prompt_id,seed\n", 'id,"output",prompt\r\n', "id;output\n"]
    ),
    text=st.text(alphabet='ab1,;"\n\r |é', max_size=24),
    block=st.sampled_from([4, 16, 1 << 24]),
)
@example(head="id,output\n", text='a,"x\n"\n"b"",c",d\n', block=4)
@BOUNDED
def test_any_text_as_csv(tmp_path: Path, head: str, text: str, block: int) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes((head + text).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beholder.manifest.arrow_blocks._BLOCK", block)
        agrees(path)


def test_a_mark_at_the_head_of_a_block_belongs_to_its_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,output\n\ufeffa,1.png\n\ufeffa,2.png\n", "utf-8")
    assert quick(path) is None  # to Arrow the first id is "a"
    with pytest.raises(InputError, match="have one id"):
        open_source(str(path)).check()
    monkeypatch.setattr("beholder.manifest.arrow_blocks._BLOCK", 10)
    path.write_text("id,output\nb,1.png\n\ufeffa,2.png\n\ufeffa,3.png\n", "utf-8")
    assert quick(path) is None


def test_a_column_named_by_half_a_character_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a", "output": "1.png", "no\\ud800te": 1}\n')
    assert quick(path) is None
    with pytest.raises(InputError, match=r"column names must be text; got 'no\\ud800te'"):
        open_source(str(path)).check()


@pytest.mark.parametrize("cell", ['{"k": "\\ud800"}', '["a", ["\\udc00"]]', '{"\\ud800": 1}'])
@pytest.mark.parametrize("column", ["meta", "extras"])
def test_half_a_character_inside_a_cell_is_a_fault(tmp_path: Path, column: str, cell: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"id": "a", "output": "1.png", "{column}": {cell}}}\n')
    assert quick(path) is None
    with pytest.raises(InputError, match="row 1: must be Unicode text"):
        open_source(str(path)).check()


def test_a_date_that_python_does_not_have_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    late = pa.array([0, 10**13], pa.int64()).cast(pa.timestamp("s"))  # in the year 318,857
    pq.write_table(pa.table({"id": ["a", "b"], "output": ["1.png", "2.png"], "when": late}), path)
    assert quick(path) is None
    with pytest.raises(InputError, match=r"row 1: a value of this row, or of one soon after it, cannot be read"):
        open_source(str(path)).check()


def test_damaged_pages_of_a_parquet_file_are_a_fault(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.parquet", ROWS)
    whole = path.read_bytes()
    told = 0
    for at in range(4, len(whole) // 2, 7):
        path.write_bytes(whole[:at] + bytes(byte ^ 255 for byte in whole[at : at + 8]) + whole[at + 8 :])
        agrees(path)
        try:
            open_source(str(path)).check()
        except InputError as error:
            told += "cannot be read" in str(error)
    assert told > 0


def test_columns_of_a_parquet_file_that_are_not_named_in_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"output": ["1.png"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"output", b"outp\x80t"))
    with pytest.raises(UserError, match="must be named in UTF-8"):
        open_source(str(path)).check()
