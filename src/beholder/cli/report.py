"""`beholder report`: runs as a page for a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from beholder.cli import options
from beholder.cli.output import put, say

app = typer.Typer(add_completion=False)


@app.command()
def report(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders; the first is the baseline.", show_default=False),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "-o", "--out", metavar="PLACE", help="Folder, or FILE.html for one file. Default: report, in the first run."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Run or method that the others are compared with.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Compare the groups of a column of the manifest; repeat for more."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of resamples and of the random draw.")] = 0,
    quiet: options.Quiet = False,
) -> None:
    """Make a page of one or more runs that a browser opens without network.

    First what forbids to use the numbers, the verdict in words and the table; then the slices and prompts that changed
    most, distributions, groups, a scatter plot, every number's identity, and a gallery of all samples with prompt,
    references, masks, scores and evidence. Benchmarks (KnowCusBench, OpenS2V …) have their own views, and so have
    folders of beholder attributes that are named among the runs. Prints the page's path.

    Example: beholder report runs/sdxl runs/flux -o report

    Example: beholder report runs/all-methods --baseline sdxl --by category -o report.html
    """
    from beholder.reporting import write_report

    page = write_report(*runs, out=out, baseline=baseline, by=by or (), seed=seed)
    if not quiet:
        say("The report; open it in a browser:")
    put(f"{page}\n")
