"""`beholder manifest`: any input as a JSONL manifest."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from beholder.cli import options
from beholder.cli.output import say

app = typer.Typer(add_completion=False)


@app.command()
def manifest(
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="JSONL file to write.", show_default=False)],
    data: options.Data = None,
    prompts: options.Prompts = None,
    outputs: options.Outputs = None,
    mapping: options.Mapping = None,
    allow_extra: options.AllowExtra = None,
    root: options.Root = None,
    quiet: options.Quiet = False,
) -> None:
    """Write any input as a JSONL manifest.

    An input is a folder, a prompt file with a template of outputs, a CSV … Takes the same input options as `beholder
    run`.

    Example: beholder manifest --prompts prompts.csv --outputs 'out/{method}/{prompt_id}_{seed}.png' -o samples.jsonl
    """
    from beholder._errors import OptionError
    from beholder.cli.settings import input_settings
    from beholder.manifest import open_source
    from beholder.manifest.writer import write_manifest

    settings = input_settings(data, prompts, outputs, mapping, allow_extra, root)
    source = open_source(
        settings["data"],
        prompts=settings["prompts"],
        outputs=settings["outputs"],
        mapping=settings["mapping"],
        allow_extra=bool(settings["allow_extra"]),
        root=settings["root"],
    )
    source.check()
    for name in ("data", "prompts"):
        if (
            settings[name]
            and os.path.exists(out)
            and os.path.exists(settings[name])
            and os.path.samefile(settings[name], out)
        ):
            raise OptionError(
                "the manifest must not take the place of its own input", got=out, fix="Name another file with -o"
            )
    rows = write_manifest(source, out)
    if not quiet:
        for text in source.notices:
            say(f"Note: {text}")
        say(f"Wrote {rows} rows to {out}.")
