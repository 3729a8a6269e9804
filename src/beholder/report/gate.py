"""A gate's checks as a table, records and JUnit XML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from beholder.report.tables import Column, Table

if TYPE_CHECKING:
    from beholder.comparing.gate import Check, GateResult


_NO_XML = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")


def gate_table(found: GateResult) -> Table:
    """One row a check."""
    titles = (Column("check"), Column("rows"), Column("outcome"), Column("found"))
    rows = tuple((check.name, _group_text(check), check.outcome, check.text) for check in found.checks)
    return Table(titles, rows, (f"Gate {'met' if found.passed else 'not met'}.",))


def gate_records(found: GateResult) -> list[dict[str, Any]]:
    """One flat dict a check, unrounded."""
    return [
        {
            "run": check.name,
            "group": dict(check.group),
            "outcome": check.outcome,
            "value": check.value,
            "low": check.low,
            "high": check.high,
            "text": check.text,
        }
        for check in found.checks
    ]


def gate_junit(found: GateResult, *, inconclusive_passes: bool) -> str:
    """The checks as JUnit XML: one test case each; what counts as failed has a failure."""
    failed = [check for check in found.checks if _fails(check, inconclusive_passes)]
    suite = ElementTree.Element(
        "testsuite", name="beholder gate", tests=str(len(found.checks)), failures=str(len(failed)), errors="0"
    )
    for check in found.checks:
        name = check.name + (f" [{_group_text(check)}]" if check.group else "")
        case = ElementTree.SubElement(suite, "testcase", classname="beholder.gate", name=_printable(name))
        if check in failed:
            ElementTree.SubElement(case, "failure", message=_printable(f"{check.outcome}: {check.text}"))
        else:
            ElementTree.SubElement(case, "system-out").text = _printable(f"{check.outcome}: {check.text}")
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _fails(check: Check, inconclusive_passes: bool) -> bool:
    return check.outcome == "fail" or (check.outcome == "inconclusive" and not inconclusive_passes)


def _group_text(check: Check) -> str:
    return ", ".join(f"{name}={value}" for name, value in check.group.items()) or "all"


def _printable(text: str) -> str:
    """Text without the characters that XML has no form for: control characters, halves of pairs, U+FFFE and U+FFFF."""
    return _NO_XML.sub(" ", text)
