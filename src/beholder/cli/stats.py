"""`beholder stats`: mean and covariance of a real set, for `beholder run --real stats.npz`."""

from __future__ import annotations

from typing import Annotated

import typer

from beholder.cli import options
from beholder.cli.output import put, put_json, say
from beholder.cli.progress import progress_display

app = typer.Typer(add_completion=False)


@app.command()
def stats(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Folder or manifest of the real set.", show_default=False)
    ],
    out: Annotated[
        str,
        typer.Option("--out", "-o", metavar="FILE", help="The .npz to write (mu, sigma, n).", show_default=False),
    ],
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Encoder. Default: that of fid.", rich_help_panel=options.MODEL),
    ] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    cache_dir: options.CacheDir = None,
    offline: options.Offline = None,
    store: Annotated[
        str | None, typer.Option(metavar="DIR", help="Feature store folder.", rich_help_panel=options.MODEL)
    ] = None,
    max_failed: Annotated[float, typer.Option(metavar="SHARE", help="Share of pictures that may be left out.")] = 0.0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the mean and the covariance of a set's features.

    The file holds mu and sigma as the field's other tools read them, the number of pictures, and which encoder made it.

    Give it to `beholder run out/sdxl -m fid --real photos.npz`.

    Example: beholder stats photos/ -o photos.npz
    """
    from beholder.runs.set_stats import make_stats

    with progress_display(quiet=quiet) as progress:
        found = make_stats(
            data, out=out, model=model, device=device or "auto", dtype=dtype or "auto", store=store,
            cache_dir=cache_dir, offline=offline, max_failed=max_failed, progress=progress,
        )  # fmt: skip
    width = len(found.fit.mean)
    if as_json:
        put_json({"path": out, "n": found.n, "dimensions": width})
    else:
        put(f"{out}: {found.n} pictures, {width} dimensions\n")
    if found.n is not None and found.n < width and not quiet:
        say(f"Note: {found.n} pictures are fewer than {width} dimensions: the covariance is singular.")
