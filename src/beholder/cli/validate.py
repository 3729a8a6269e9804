"""`beholder validate`: every fault of an input, before anything is computed."""

from __future__ import annotations

import typer

from beholder.cli import options
from beholder.cli.guard import WRONG_USE
from beholder.cli.output import put, put_json

app = typer.Typer(add_completion=False)


@app.command()
def validate(
    data: options.Data = None,
    prompts: options.Prompts = None,
    outputs: options.Outputs = None,
    mapping: options.Mapping = None,
    allow_extra: options.AllowExtra = None,
    as_json: options.AsJson = False,
) -> None:
    """Check an input and report all its faults.

    Needs no model. Faults of form (double ids, no output column …) stop a run before it computes anything. Faults of
    a row (missing
    or unreadable file, blank prompt …) cost that row its value. Exit code 2 when there is any fault.

    Example: beholder validate samples.jsonl
    """
    from beholder.cli.settings import input_settings
    from beholder.manifest import open_source
    from beholder.manifest.validate import validate as check

    settings = input_settings(data, prompts, outputs, mapping, allow_extra)
    source = open_source(
        settings["data"],
        prompts=settings["prompts"],
        outputs=settings["outputs"],
        mapping=settings["mapping"],
        allow_extra=bool(settings["allow_extra"]),
    )
    report = check(source)
    if as_json:
        put_json(report.to_dict())
    else:
        put("".join(f"{line}\n" for line in report.lines()))
    if report.faults:
        raise typer.Exit(WRONG_USE)
