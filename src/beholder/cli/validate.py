"""`beholder validate`: every fault of an input, before anything is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.cli import options
from beholder.cli.guard import WRONG_USE
from beholder.cli.output import put, put_json
from beholder.report.visible import visible

if TYPE_CHECKING:
    from beholder.manifest.validate import ValidationReport

app = typer.Typer(add_completion=False)


@app.command()
def validate(
    data: options.Data = None,
    prompts: options.Prompts = None,
    outputs: options.Outputs = None,
    mapping: options.Mapping = None,
    allow_extra: options.AllowExtra = None,
    root: options.Root = None,
    protocol: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Check the data of a protocol, in its own form. See: beholder bench."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check an input and report all its faults.

    Needs no model. Faults of form (double ids, no output column …) stop a run before it computes anything. Faults of
    a row (missing
    or unreadable file, blank prompt …) cost that row its value. Exit code 2 when there is any fault.

    With --protocol it also checks what the benchmark needs: questions that can be asked, references of every concept …

    Example: beholder validate samples.jsonl

    Example: beholder validate GenAI-Image-527 --protocol genai-bench
    """
    from beholder.cli.settings import input_settings

    settings = input_settings(data, prompts, outputs, mapping, allow_extra, root)
    report = _protocol_report(protocol, settings) if protocol is not None else _report(settings)
    if as_json:
        put_json(report.to_dict())
    else:
        put("".join(f"{visible(line)}\n" for line in report.lines()))
    if report.faults:
        raise typer.Exit(WRONG_USE)


def _report(settings: dict[str, Any]) -> ValidationReport:
    from beholder.manifest import open_source
    from beholder.manifest.validate import validate as check

    source = open_source(
        settings["data"],
        prompts=settings["prompts"],
        outputs=settings["outputs"],
        mapping=settings["mapping"],
        allow_extra=bool(settings["allow_extra"]),
        root=settings["root"],
    )
    return check(source)


def _protocol_report(protocol: str, settings: dict[str, Any]) -> ValidationReport:
    from beholder._errors import OptionError
    from beholder.protocol_runs import check_data

    if settings["data"] is None:
        raise OptionError("--protocol goes with DATA", got="--prompts and --outputs")
    if settings["root"] is not None:
        raise OptionError("--root goes with data in beholder's own forms", got=f"--protocol {protocol}")
    return check_data(
        protocol, settings["data"], mapping=settings["mapping"], allow_extra=bool(settings["allow_extra"])
    )
