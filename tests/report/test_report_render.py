"""Golden outputs, written by hand from the same summaries."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from tests.report.report_helpers import header, metric, summary

from beholder.report.render import escape_latex, escape_markdown, to_csv, to_json, to_latex, to_markdown, to_text
from beholder.report.tables import Column, RunView, Table, long_table, records

VIEW = RunView(
    "sdxl_1",
    header(metric("clip_score")),
    [
        summary(group={"method": "a|b"}),
        summary(value=None, group={"method": None}, n=0, n_missing={"unreadable": 2}),
    ],
)
NOTE = (
    "clip_score: unit cosine, model hf:openai/clip-vit-large-patch14, micro aggregate, "
    "95 % interval by bootstrap-percentile over prompts."
)


def test_text() -> None:
    assert to_text(long_table(VIEW)) == (
        "metric         method    value            95 % CI     n   missing\n"
        "──────────────────────────────────────────────────────────────────────────\n"
        "clip_score ↑   a|b      0.2753   [0.2701, 0.2804]   240   0\n"
        "clip_score ↑   (none)        —                  —     0   2 (2 unreadable)\n"
        "\n"
        "method=(none), clip_score: no sample has a value: missing 2 (2 unreadable).\n"
        f"{NOTE}\n"
    )


def test_markdown() -> None:
    assert to_markdown(long_table(VIEW)) == (
        "| metric | method | value | 95 % CI | n | missing |\n"
        "|---|---|---:|---:|---:|---|\n"
        "| clip_score ↑ | a\\|b | 0.2753 | [0.2701, 0.2804] | 240 | 0 |\n"
        "| clip_score ↑ | (none) | — | — | 0 | 2 (2 unreadable) |\n"
        "\n"
        "- method=(none), clip_score: no sample has a value: missing 2 (2 unreadable).\n"
        f"- {NOTE}\n"
    )


def test_latex() -> None:
    assert to_latex(long_table(VIEW)) == (
        "% needs \\usepackage{booktabs}\n"
        "\\begin{tabular}{llrrrl}\n"
        "\\toprule\n"
        "metric & method & value & 95 \\% CI & n & missing \\\\\n"
        "\\midrule\n"
        "clip\\_score $\\uparrow$ & a\\textbar{}b & 0.2753 & {[}0.2701, 0.2804] & 240 & 0 \\\\\n"
        "clip\\_score $\\uparrow$ & (none) & --- & --- & 0 & 2 (2 unreadable) \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\n"
        "{\\footnotesize\n"
        "method=(none), clip\\_score: no sample has a value: missing 2 (2 unreadable).\\par\n"
        + NOTE.replace("clip_score", "clip\\_score").replace("%", "\\%")
        + "\\par\n}\n"
    )


def test_csv() -> None:
    text = to_csv(records([VIEW]))
    assert text.splitlines()[0] == (
        "run,method,label,metric,aggregate,value,low,high,level,ci_method,n,n_units,unit,sd,n_missing,"
        "higher_is_better,value_unit,headline,note"
    )
    first, second = csv.DictReader(io.StringIO(text))
    assert (first["value"], first["method"], first["n_missing"]) == ("0.27527", "a|b", "")
    assert (second["value"], second["low"], second["method"], second["n_missing"]) == ("", "", "", "2 unreadable")
    assert "nan" not in text.lower()


def test_csv_keeps_a_group_column_apart_from_its_own_columns() -> None:
    text = to_csv(records([RunView("r", header(), [summary(group={"n": 3})])]))
    row = next(csv.DictReader(io.StringIO(text)))
    assert (row["by_n"], row["n"]) == ("3", "240")


def test_csv_without_rows_is_an_empty_line() -> None:
    assert to_csv([]) == "\n"


def test_json_refuses_nan() -> None:
    assert json.loads(to_json(records([VIEW])))[1]["value"] is None
    with pytest.raises(ValueError, match="JSON"):
        to_json({"value": float("nan")})


def test_text_folds_into_a_terminal_and_never_loses_a_number() -> None:
    table = Table((Column("metric"), Column("value", True)), (("a very long name of a metric", "0.2753"),))
    lines = to_text(table, width=24).splitlines()
    assert max(map(len, lines)) <= 24
    assert any("0.2753" in line for line in lines)
    assert "".join(line[:15].strip() for line in lines[2:]).replace(" ", "") == "averylongnameofametric"


@pytest.mark.parametrize("width", [*range(12, 90, 3), 120, 200])
def test_no_width_cuts_a_number(width: int) -> None:
    """On a terminal of 80 columns a cell of 0.292 once stood as 0.2."""
    titles = ("metric", "side", "baseline", "value", "Δ", "95 % CI", "p")
    cells = ("clip_score ↑", "run:swapper", "0.4534 ± 0.0098", "0.386 ± 0.027", "-0.068", "[-0.097, -0.045]", "0.0001")
    rows = (cells, (*cells[:2], "0.71", "0.72", "0.0100", "[0.0099, 0.0101]", "< 0.0001"))
    table = Table(tuple(Column(title, at > 1) for at, title in enumerate(titles)), rows, ("a note.",))
    text = to_text(table, width=width)
    for row in rows:
        assert all(re.search(rf"(^|\s){re.escape(cell)}(\s|$)", text) for cell in row[2:]), text
    assert text.endswith("\n\na note.\n")
    if width < 60:
        assert f"metric     {cells[0]}\nside       {cells[1]}\nbaseline   {cells[2]}\n" in text


def test_wide_characters_keep_columns_aligned() -> None:
    table = Table((Column("concept"), Column("n")), (("猫", "1"), ("dog", "2")))
    lines = to_text(table).splitlines()
    assert lines[2] == "猫        1"
    assert lines[3] == "dog       2"


def test_escapes() -> None:
    assert escape_latex(r"50% & a_b ~ {x} #1 $ ^ \ <") == (
        r"50\% \& a\_b \textasciitilde{} \{x\} \#1 \$ \textasciicircum{} \textbackslash{} \textless{}"
    )
    assert escape_markdown("_a_b_ *x*\n<y>") == "\\_a_b\\_ \\*x\\* \\<y>"


def test_every_sign_of_our_tables_has_a_word_in_latex() -> None:
    # A plain LaTeX document (pdflatex) stops at letters that it has no font for.
    assert escape_latex("Δ ε σ τ ≠ ≥ → − … × `") == (
        r"$\Delta$ $\varepsilon$ $\sigma$ $\tau$ $\ne$ $\ge$ $\rightarrow$ $-$ \ldots{} $\times$ \textasciigrave{}"
    )
    assert escape_latex("-0.07 [-0.1, 0.2] ViT-B-16 3e-02") == "$-$0.07 {[}$-$0.1, 0.2] ViT-B-16 3e-02"
    assert escape_latex("two\n\nlines\x00") == "two lines "


def test_names_cannot_start_anything_in_markdown() -> None:
    assert escape_markdown("[x](http://e)") == "[x\\](http://e)"
    assert escape_markdown("~~s~~ &lt; $x$ ![i][j]") == "\\~\\~s\\~\\~ \\&lt; \\$x\\$ ![i\\][j]"
    assert escape_markdown("[0.1, 0.2] a & b ~5") == "[0.1, 0.2] a & b ~5"


def test_csv_of_records_without_runs_or_groups() -> None:
    text = to_csv([{"metric": "m", "missing": {"no_face": 2}, "different": ["a", "b"]}])
    assert text == "metric,missing,different\nm,2 no_face,a; b\n"
