"""Tables and records as text, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from beholder._errors import OptionError
from beholder.report.numbers import DASH
from beholder.report.ranking import BEST, MARK, SECOND
from beholder.report.tables import Table
from beholder.report.visible import visible

FORMATS = ("text", "md", "latex", "csv", "json")
"""What `beholder show --as` takes."""

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "[": "{[}", "↑": r"$\uparrow$", "↓": r"$\downarrow$",
    DASH: "---", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}", "·": r"$\cdot$", "±": r"$\pm$", "*": r"\textasteriskcentered{}", "≤": r"$\le$",
    "≥": r"$\ge$", "≠": r"$\ne$", "≈": r"$\approx$", "×": r"$\times$", "→": r"$\rightarrow$", "−": r"$-$",
    "∞": r"$\infty$", "√": r"$\surd$", "°": r"$^{\circ}$", "²": r"$^{2}$", "…": r"\ldots{}", "Δ": r"$\Delta$",
    "ε": r"$\varepsilon$", "σ": r"$\sigma$", "τ": r"$\tau$", "α": r"$\alpha$", "ρ": r"$\rho$",
}  # fmt: skip
"""Signs that a plain LaTeX document has other words for; letters of other alphabets stand as they are."""
_LATEX_MARK = r"$^{*}$"
_MINUS = re.compile(r"(?<![^\s\[(/])-(?=[\d.])")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f]+")
_MARKDOWN = re.compile(r"[|\\*<`$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\](?=[(\[:])|~(?=~)|(?<=~)~|&(?=#?\w+;)")
"""What would start something in Markdown: a link needs `](`, an entity a semicolon."""


def check_form(form: str) -> None:
    """Refuses a form that `--as` does not take.

    Raises:
        OptionError: it is none of `FORMATS`.
    """
    if form not in FORMATS:
        raise OptionError(f"--as must be one of: {', '.join(FORMATS)}", got=repr(form))


def rendered(table: Table, found: Sequence[Mapping[str, Any]], form: str, *, width: int | None = None) -> str:
    """A table in one of the forms; CSV has the records instead, unrounded.

    Args:
        table: what is shown.
        found: the records behind it, each with "run" first and "group".
        form: "text", "md", "latex" or "csv".
        width: columns of the terminal for "text".
    """
    if form == "csv":
        return to_csv(found)
    if form == "md":
        return to_markdown(table)
    return to_latex(table) if form == "latex" else to_text(table, width=width)


def to_text(table: Table, *, width: int | None = None) -> str:
    """Plain text with aligned columns. No number is ever cut or folded: half a number is another number.

    Args:
        table: what to print.
        width: columns of the terminal, into which long texts are folded, or rows become blocks where the numbers
            alone are wider; None for as wide as it needs.
    """
    from rich.cells import cell_len
    from rich.console import Console

    notes = [*([""] if table.notes else []), *map(visible, table.notes)]
    if not fits(table, width):
        return "\n".join([*_blocks(table), *notes]) + "\n"
    widths = [max(map(cell_len, column)) for column in _columns_of_text(table)]
    gaps = 3 * len(widths) + 1
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=width or sum(widths) + gaps,
        color_system=None,
        force_terminal=False,
        legacy_windows=False,
    )
    console.print(to_rich(table), soft_wrap=False)
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    body = [line for line in lines if line]
    return "\n".join([*body, *notes]) + "\n"


def fits(table: Table, width: int | None) -> bool:
    """Whether `to_text` prints a table of this width, and not a block for each row."""
    from rich.cells import cell_len

    if width is None or not table.rows or not any(column.numeric for column in table.columns):
        return True
    widths = [max(map(cell_len, column)) for column in _columns_of_text(table)]
    least = [
        full if column.numeric else min(full, max(_LEAST_TEXT, cell_len(column.title)))
        for full, column in zip(widths, table.columns)
    ]
    return sum(least) + 3 * len(widths) + 1 <= width


_LEAST_TEXT = 8
"""Columns that a text is given at least before a table becomes blocks."""


def _blocks(table: Table) -> list[str]:
    """Each row as lines of a title and its cell, with an empty line between rows."""
    from rich.cells import cell_len

    titles = [visible(column.title) for column in table.columns]
    indent = max(map(cell_len, titles)) + 3
    blocks = []
    for row in table.rows:
        lines = [
            title + " " * (indent - cell_len(title)) + visible(cell).strip().replace("\n", "\n" + " " * indent)
            for title, cell in zip(titles, row)
            if cell.strip()
        ]
        blocks.append("\n".join(lines))
    return ["\n\n".join(blocks)]


def to_rich(table: Table) -> Any:
    """The cells as a `rich.table.Table`, without the notes."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in table.columns:
        drawn.add_column(
            Text(visible(column.title)),
            justify="right" if column.numeric else "left",
            no_wrap=column.numeric,
            overflow="fold",
        )
    for row in table.rows:
        drawn.add_row(*(Text(visible(cell)) for cell in row))
    return drawn


def to_markdown(table: Table) -> str:
    """A Markdown table; the notes follow as a list."""
    lines = [
        _md_row([column.title for column in table.columns]),
        "|" + "|".join("---:" if column.numeric else "---" for column in table.columns) + "|",
        *(_md_row(row, _styles(table, at)) for at, row in enumerate(table.rows)),
    ]
    if table.notes:
        lines += ["", *(f"- {escape_markdown(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def escape_markdown(text: str) -> str:
    r"""Text that Markdown shows as it stands, in one line; underscores inside a word need no escape.

    >>> escape_markdown("clip_score a|b")
    'clip_score a\\|b'
    """
    return _MARKDOWN.sub(lambda found: "\\" + found.group(), _UNSEEN.sub(" ", text))


def to_latex(table: Table) -> str:
    r"""A `tabular` with the rules of the package booktabs; the notes follow in \footnotesize."""
    numeric = [column.numeric for column in table.columns]
    layout = "".join("r" if number else "l" for number in numeric)
    lines = [
        "% needs \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{{layout}}}",
        "\\toprule",
        _latex_row([column.title for column in table.columns]),
        "\\midrule",
        *(_latex_row(row, _styles(table, at), numeric) for at, row in enumerate(table.rows)),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    if table.notes:
        lines += ["", "{\\footnotesize", *(f"{_latex_note(note)}\\par" for note in table.notes), "}"]
    return "\n".join(lines) + "\n"


def to_csv(found: Sequence[Mapping[str, Any]]) -> str:
    """Records as CSV: "run" first where there is one, then a column a group column; lists and counts as "3 a; 1 b"."""
    groups = list(dict.fromkeys(name for record in found for name in record.get("group", ())))
    names = [name for name in (found[0] if found else {}) if name != "group"]
    first = [name for name in names if name == "run"]
    plain = [name for name in names if name != "run"]
    heads = [f"by_{name}" if name in names else name for name in groups]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*first, *heads, *plain] if found else [])
    for record in found:
        row = [*(record[name] for name in first), *(record["group"].get(name) for name in groups)]
        writer.writerow([_csv_cell(value) for value in [*row, *(record[name] for name in plain)]])
    return buffer.getvalue()


def to_json(value: Any) -> str:
    """JSON without NaN, in plain Unicode."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def escape_latex(text: str) -> str:
    """Text that LaTeX sets as it stands, in one line; a minus before a number is a minus, not a hyphen.

    >>> escape_latex("clip_score ↑")
    'clip\\\\_score $\\\\uparrow$'
    """
    plain = _UNSEEN.sub(" ", text)
    return "".join(_LATEX.get(char, char) for char in _MINUS.sub("−", plain))


def _columns_of_text(table: Table) -> list[list[str]]:
    return [
        [visible(text) for text in (column.title, *(row[index] for row in table.rows))]
        for index, column in enumerate(table.columns)
    ]


def _styles(table: Table, row: int) -> list[str]:
    return [table.styles.get((row, column), "") for column in range(len(table.columns))]


_MD_STYLES = {BEST: "**{}**", SECOND: "<u>{}</u>", "": "{}"}
_LATEX_STYLES = {BEST: r"\textbf{{{}}}", SECOND: r"\underline{{{}}}", "": "{}"}


def _md_row(cells: Sequence[str], styles: Sequence[str] = ()) -> str:
    texts = [escape_markdown(cell) for cell in cells]
    return "| " + " | ".join(_styled(texts, styles, _MD_STYLES)) + " |"


def _latex_row(cells: Sequence[str], styles: Sequence[str] = (), numeric: Sequence[bool] = ()) -> str:
    texts = [
        _latex_number(cell) if number else escape_latex(cell)
        for cell, number in zip(cells, numeric or [False] * len(cells))
    ]
    return " & ".join(_styled(texts, styles, _LATEX_STYLES)) + r" \\"


def _latex_number(cell: str) -> str:
    """A cell of numbers; only there an asterisk at the end is a mark. In a name it is a letter like others."""
    number = cell.removesuffix(MARK)
    return escape_latex(number) + (_LATEX_MARK if number != cell else "")


def _latex_note(note: str) -> str:
    """A note; one that explains the mark begins with it."""
    rest = note.removeprefix(f"{MARK} differs from ")
    return escape_latex(note) if rest == note else f"{_LATEX_MARK} differs from {escape_latex(rest)}"


def _styled(texts: Sequence[str], styles: Sequence[str], forms: Mapping[str, str]) -> list[str]:
    return [forms[style].format(text) for text, style in zip(texts, styles or [""] * len(texts))]


def _csv_cell(value: Any) -> Any:
    if isinstance(value, Mapping):
        return "; ".join(f"{count} {status}" for status, count in value.items() if count)
    if isinstance(value, (list, tuple)):
        return "; ".join(map(str, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else value
