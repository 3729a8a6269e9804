"""`beholder grid`: a figure of samples."""

from __future__ import annotations

from typing import Annotated

import typer

from beholder.cli.output import put

app = typer.Typer(add_completion=False)


@app.command()
def grid(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders; the first stands first.", show_default=False),
    ],
    out: Annotated[str, typer.Option("-o", "--out", metavar="FILE", help="Figure: .pdf, .png or .svg.")] = "grid.pdf",
    pick: Annotated[
        str, typer.Option(metavar="WHICH", help="worst, best, median, random, or changed (from the first side).")
    ] = "worst",
    n: Annotated[int, typer.Option("--n", "-n", metavar="N", help="Samples, or prompts where sides are compared.")] = 8,
    metric: Annotated[
        str | None, typer.Option("--metric", "-m", metavar="LABEL", help="Metric to choose by. Default: the first.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(metavar="NAME", help="Run or method that stands first.")] = None,
    references: Annotated[bool, typer.Option("--references", help="The first reference before each row.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the random draw.")] = 0,
) -> None:
    """Draw a figure of samples for a paper (extra plots).

    One run: a grid of its samples. Several runs or methods: a row a prompt, a column a side. Prints the figure's path.

    Example: beholder grid runs/sdxl --pick worst --n 8 -o worst.pdf

    Example: beholder grid runs/sdxl runs/flux --pick random --n 4 --references -o fig.png
    """
    from beholder.reporting import grid as call

    path = call(*runs, out=out, pick=pick, n=n, metric=metric, baseline=baseline, references=references, seed=seed)
    put(f"{path}\n")
