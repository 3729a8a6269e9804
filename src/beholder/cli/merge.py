"""`beholder merge`: from the parts of a sharded run to the whole."""

from __future__ import annotations

from typing import Annotated

import typer

from beholder.cli import options
from beholder.cli.progress import progress_display

app = typer.Typer(add_completion=False)

Folders = Annotated[
    list[str],
    typer.Argument(
        metavar="FOLDER...", help="Run folder that holds parts, or the parts' own folders.", show_default=False
    ),
]
Out = Annotated[
    str | None,
    typer.Option("--out", "-o", metavar="DIR", help="Run folder of the whole. Default: where the parts lie."),
]
Store = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Feature store that takes over the parts' features, for later runs."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a run of another identity in the run folder.")]


@app.command()
def merge(
    folders: Folders,
    out: Out = None,
    store: Store = None,
    overwrite: Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Join the parts of a run that was made with --shard.

    Nothing is computed again. Parts of different runs are refused, and so are rows that no part has or several have.
    The result is, row by row, what one process would have made.

    Example: beholder merge runs/sdxl

    Example: beholder merge node1/parts/0-of-2 node2/parts/1-of-2 -o runs/sdxl
    """
    from beholder.cli.tables import finish_run
    from beholder.runs.merge import merge as join

    with progress_display(quiet=quiet) as progress:
        run = join(folders, out=out, store=store, overwrite=overwrite, progress=progress)
    finish_run(run, as_json=as_json, quiet=quiet)
