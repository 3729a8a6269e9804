"""`beholder demo`: draws a small data set, scores it and prints the table."""

from __future__ import annotations

from typing import Annotated

import typer

from beholder.cli import options
from beholder.cli.guard import INTERRUPTED
from beholder.cli.output import say
from beholder.cli.progress import progress_display

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="DIR", help="Folder for the data set and its run.")
    ] = "beholder-demo",
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the drawn scenes.")] = 0,
    model: Annotated[
        str, typer.Option(metavar="NAME", help="Encoder; the embedded one knows emoji scenes and nothing else.")
    ] = "demo:emoji",
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Draw a small data set, score it and print the table.

    Three "generators" of known quality draw scenes of emoji. Needs no network and no weights beside those in the
    package. The data set has prompts, references, masks and a
    manifest, so that everything else can be tried on it.

    Example: beholder demo -o demo
    """
    from beholder.cli.tables import finish_run
    from beholder.demo.build import run_demo

    try:
        with progress_display(quiet=quiet) as progress:
            run = run_demo(out, seed=seed, model=model, progress=progress)
    except KeyboardInterrupt:
        say("Interrupted. What was scored is kept: the same command goes on from here.")
        raise typer.Exit(INTERRUPTED) from None
    finish_run(run, as_json=as_json, quiet=quiet)
