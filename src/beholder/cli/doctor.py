"""`beholder doctor`: what this machine and this installation can do."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from beholder.cli import options
from beholder.cli.guard import GATE_NOT_MET
from beholder.cli.output import put, put_json, stdout_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beholder.cli.checks import Check

app = typer.Typer(add_completion=False)


@app.command()
def doctor(as_json: options.AsJson = False) -> None:
    """Check this machine and this installation.

    Looks at packages, device, memory, cache folders, offline settings and plug-ins; changes nothing. Exit code 1 when
    something that beholder needs is missing.

    Example: beholder doctor
    """
    from beholder.cli.checks import all_checks

    checks = all_checks()
    if as_json:
        put_json([asdict(check) for check in checks])
    else:
        _put(checks)
    if any(check.verdict == "fail" for check in checks):
        raise typer.Exit(GATE_NOT_MET)


def _put(checks: Sequence[Check]) -> None:
    from beholder.report.render import to_text
    from beholder.report.tables import Column, Table

    rows = tuple((check.verdict, check.name, check.text) for check in checks)
    put(to_text(Table((Column(""), Column("what"), Column("found")), rows), width=stdout_width()))
