"""`beholder attributes`: which attributes a generator makes too often, too rarely, together, and where."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from beholder.cli import options
from beholder.cli.guard import TOO_MANY_FAULTS
from beholder.cli.interrupts import keeping
from beholder.cli.output import put, put_json, say, stdout_width
from beholder.cli.progress import progress_display

app = typer.Typer(add_completion=False)

METHOD = "Method"
STATISTICS = "Statistics"


def _method(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel=METHOD)


@app.command()
def attributes(
    real: Annotated[str, typer.Option(metavar="DATA", help="Reference set: folder or manifest.")],
    gen: Annotated[
        list[str],
        typer.Option(metavar="[NAME=]DATA", help="Generated set: folder or manifest. Repeatable: sets are ranked."),
    ],
    attribute_list: Annotated[
        str,
        typer.Option(
            "--attributes", metavar="FILE", help="One a line, JSON or CSV; or faces, animals, scenes (built in)."
        ),
    ],
    out: Annotated[str | None, typer.Option("--out", "-o", metavar="RUN", help="Run folder.")] = None,
    by_class: Annotated[
        bool, typer.Option("--by-class", help="Attribute t from the images whose class_name is t.")
    ] = False,
    pictures: Annotated[bool, typer.Option("--pictures", help="Draw the figures (PNG and SVG; extra plots).")] = False,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Encoder. Default: openai:ViT-B-16.")] = None,
    score: Annotated[str | None, _method("ra_clip_score, hcs or clip_score. Default: ra_clip_score.")] = None,
    density: Annotated[str | None, _method("gaussian, kde or kde_legacy. Default: gaussian.")] = None,
    direction: Annotated[
        str | None, _method("gen||ref or ref||gen. Default: gen||ref; of kde_legacy always ref||gen.")
    ] = None,
    legacy_scale: Annotated[
        bool, typer.Option("--legacy-scale", help="Divergences times 1000, as old code prints.", rich_help_panel=METHOD)
    ] = False,
    counter_template: Annotated[
        str | None, typer.Option("--negative", help="Negative prompt, {} for the attribute.", rich_help_panel=METHOD)
    ] = None,
    template: Annotated[
        str | None, typer.Option("--positive", help="Positive prompt, {} for the attribute.", rich_help_panel=METHOD)
    ] = None,
    maps: Annotated[bool, typer.Option("--maps/--no-maps", help="Look at places too.", rich_help_panel=METHOD)] = True,
    map_images: Annotated[
        int | None,
        _method("Images of a set whose maps are kept one by one, for an exact null; of more, sums. Default: 1024."),
    ] = None,
    regions: Annotated[
        int | None, _method("Regions along each side of the regional map. Default: 7, or the patches themselves.")
    ] = None,
    mass_floor: Annotated[float | None, _method("Least mean of a heat map whose place is told.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all draws.", rich_help_panel=STATISTICS)] = 0,
    resamples: Annotated[int, typer.Option(help="Bootstrap draws.", rich_help_panel=STATISTICS)] = 1000,
    permutations: Annotated[int, typer.Option(help="Reshuffles for nulls.", rich_help_panel=STATISTICS)] = 1000,
    level: Annotated[float, typer.Option(help="Level of intervals and nulls.", rich_help_panel=STATISTICS)] = 0.95,
    device: options.Device = None,
    dtype: options.Dtype = None,
    cache_dir: options.CacheDir = None,
    offline: options.Offline = None,
    store: Annotated[
        str | None, typer.Option(metavar="DIR", help="Feature store folder.", rich_help_panel=options.MODEL)
    ] = None,
    max_failed: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            rich_help_panel=options.OUTPUT,
            help="Share of images that may have a fault before the exit code is 3.",
        ),
    ] = 0.0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is in the run folder.", rich_help_panel=options.OUTPUT)
    ] = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare the attributes of generated images with those of a reference set.

    For each attribute: how far the two score distributions are apart (SaD), for each pair their joint distributions
    (PaD), and where in the picture the attribute moved (R-SaD, placement). Every value has an interval and the level
    that it stays under by chance. The run folder gets Parquet tables, maps as arrays and, with --pictures, figures.
    Images that cannot be read are left out and counted; more of them than --max-failed allows give the exit code 3.

    Example: beholder attributes --real photos/ --gen sdxl=out/sdxl --gen flux=out/flux --attributes faces -o runs/faces
    """
    from beholder.attributing.call import attributes as call
    from beholder.report.attributes import attributes_json, attributes_text

    with keeping("What was encoded"), progress_display(quiet=quiet) as progress:
        run = call(
            real=real, gen=_named(gen), attributes=attribute_list, out=out, pictures=pictures, overwrite=overwrite,
            device=device or "auto", dtype=dtype or "auto", store=store, cache_dir=cache_dir, offline=offline,
            progress=progress, model=model, score=score, density=density, direction=direction, by_class=by_class,
            maps=maps, map_images=map_images, legacy_scale=legacy_scale, regions=regions, mass_floor=mass_floor,
            positive=template, negative=counter_template, seed=seed,
            resamples=resamples, permutations=permutations, level=level,
        )  # fmt: skip
    sets, rows = run.sets.to_pylist(), run.attributes.to_pylist()
    if as_json:
        put_json(attributes_json(run.header, sets, rows))
    else:
        put(attributes_text(run.header, sets, rows, width=stdout_width()))
    if not quiet:
        for text in run.header["truncated_prompts"]:
            say(f"Warning: the prompt {text!r} is longer than the model takes, and was cut.")
        say(f"Run folder: {run.path}")
    if run.fault_share > max_failed:
        say(
            f"{run.n_faults} of {run.n} images have a fault, more than the {max_failed * 100:.3g} % that --max-failed "
            f"allows; they are named in {run.path / 'scores.parquet'}"
        )
        raise typer.Exit(TOO_MANY_FAULTS)


def _named(asked: list[str]) -> Any:
    """Sets by name where one has a name; a plain list else."""
    if not any("=" in item for item in asked):
        return asked
    return {name if data else item: data or item for item in asked for name, _, data in [item.partition("=")]}
