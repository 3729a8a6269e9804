"""`beholder run`: the main job."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from beholder.cli import options
from beholder.cli.interrupts import keeping
from beholder.cli.output import put, put_json, say
from beholder.cli.progress import progress_display

app = typer.Typer(add_completion=False)

PRESET_NAMES = "customconcept101, dreambooth, genai-bench, hessel or torchmetrics"
"""Written out here so that `--help` need not import the presets; a test compares the two."""

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        metavar="METRIC",
        help="Metric to score, like clip_score or clip_i,reduce=max,as=best. Repeatable. See: beholder list.",
    ),
]
Out = Annotated[
    str | None,
    typer.Option("--out", "-o", metavar="DIR", help="Run folder. Default: a folder in runs/ named after the input."),
]
Like = Annotated[
    str | None,
    typer.Option(metavar="RUN", help="Take over the metrics and settings that move numbers from another run."),
]
Preset = Annotated[
    str | None, typer.Option(metavar="NAME", help=f"Use a published setting, and print what it sets: {PRESET_NAMES}.")
]
BatchSize = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Visuals in a batch. Default: auto, the model's own, halved where memory does not hold it.",
        rich_help_panel=options.MODEL,
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        metavar="N", help="Threads that decode. Default: one for each processor.", rich_help_panel=options.MODEL
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Feature store. Default: below BEHOLDER_CACHE or the user's cache folder.",
        rich_help_panel=options.MODEL,
    ),
]
MaxFailed = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="Share of samples that may have a fault before the exit code is 3. Default: 0.",
        rich_help_panel=options.OUTPUT,
    ),
]
Seed = Annotated[
    str | None,
    typer.Option(metavar="N", help="Seed of the intervals' bootstrap. Default: 0.", rich_help_panel=options.OUTPUT),
]
Resamples = Annotated[
    str | None,
    typer.Option(metavar="N", help="Resamples of the bootstrap. Default: 1000.", rich_help_panel=options.OUTPUT),
]
Level = Annotated[
    str | None,
    typer.Option(metavar="P", help="Level of the intervals. Default: 0.95.", rich_help_panel=options.OUTPUT),
]
SHARING = "Several processes and machines"
ShardOption = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Score part I of N (from 0) only; auto: as a scheduler's array job says. Join with: beholder merge.",
        rich_help_panel=SHARING,
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="WHERE",
        help="Where features are made: local or ray. Default: local.",
        rich_help_panel=SHARING,
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Ray cluster, like auto or ray://head:10001. Default: one on this machine.",
        rich_help_panel=SHARING,
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be computed, fetched and needed; compute nothing.")
]
SETS = "Metrics of whole sets (fid, kid, recall …)"
Real = Annotated[
    str | None,
    typer.Option(
        metavar="DATA",
        help="Real set to compare with: folder, manifest, or stats.npz of beholder stats.",
        rich_help_panel=SETS,
    ),
]
Gen = Annotated[
    str | None,
    typer.Option(metavar="DATA", help="The generated set; another way to name DATA.", rich_help_panel=SETS),
]
Count = Annotated[
    str | None,
    typer.Option(
        "--n", metavar="N", help="Draw so many pictures of each set, by --seed. Default: all.", rich_help_panel=SETS
    ),
]
Attributes = Annotated[
    str | None,
    typer.Option(
        "--attributes",
        metavar="FILE",
        help="List of the attribute metrics (sad, pad, dependence, r_sad, placement, regional_kl, hcs) that name none: "
        "a file, or faces, animals, scenes.",
        rich_help_panel=SETS,
    ),
]
Overwrite = Annotated[
    bool | None,
    typer.Option(
        "--overwrite", help="Replace a run of another identity in the run folder.", rich_help_panel=options.OUTPUT
    ),
]


@app.command()
def run(
    data: options.Data = None,
    metric: Metrics = None,
    out: Out = None,
    like: Like = None,
    preset: Preset = None,
    dry_run: DryRun = False,
    prompts: options.Prompts = None,
    outputs: options.Outputs = None,
    mapping: options.Mapping = None,
    allow_extra: options.AllowExtra = None,
    root: options.Root = None,
    model: options.Model = None,
    segmenter: options.Segmenter = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: BatchSize = None,
    workers: Workers = None,
    store: Store = None,
    cache_dir: options.CacheDir = None,
    offline: options.Offline = None,
    background: options.Background = None,
    max_pixels: options.MaxPixels = None,
    first_frame: options.FirstFrame = None,
    truncation: options.Truncation = None,
    by: options.By = None,
    max_failed: MaxFailed = None,
    seed: Seed = None,
    resamples: Resamples = None,
    level: Level = None,
    overwrite: Overwrite = None,
    shard: ShardOption = None,
    engine: EngineOption = None,
    ray_address: RayAddress = None,
    commercial_only: options.CommercialOnly = None,
    real: Real = None,
    gen: Gen = None,
    n: Count = None,
    attributes: Attributes = None,
    base_url: options.BaseUrl = None,
    max_calls: options.MaxCalls = None,
    max_cost: options.MaxCost = None,
    requests_per_minute: options.RequestsPerMinute = None,
    concurrency: options.Concurrency = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Score a data set and write a run folder.

    DATA may also be a TOML file that holds these settings (`metrics = ["clip_score"]`, `batch_size = 32` …). What
    wins: the command line, then the TOML file, then --like, then --preset, then the default.

    A run that was interrupted goes on when the same command is given again. Exit codes: 0 fine, 2 wrong use or bad
    input, 3 more samples with a fault than --max-failed allows, 130 interrupted, 143 ended by SIGTERM.

    Example: beholder run samples.jsonl -m clip_score -m clip_i -o runs/sdxl

    Example: beholder run --prompts prompts.csv --outputs 'out/{method}/{prompt_id}_{seed}.png' -m clip_score

    Example: beholder run --gen out/sdxl --real photos/ -m fid -m kid -m recall --n 5000

    Example: beholder run --gen out/sdxl --real photos/ -m sad -m pad -m placement --attributes faces
    """
    from beholder._errors import OptionError
    from beholder.cli.settings import gather, with_attributes

    if gen is not None and data is not None:
        raise OptionError("the generated set must be named once", got="DATA and --gen")
    data = data if gen is None else gen
    if attributes is not None:
        metric = with_attributes(metric or [], attributes)
    given: dict[str, Any] = {
        "data": data, "metrics": metric, "out": out, "prompts": prompts, "outputs": outputs, "mapping": mapping,
        "root": root,
        "allow_extra": allow_extra, "model": model, "segmenter": segmenter, "device": device, "dtype": dtype,
        "batch_size": batch_size, "workers": workers, "store": store, "cache_dir": cache_dir, "offline": offline,
        "background": background, "max_pixels": max_pixels, "first_frame": first_frame, "truncation": truncation,
        "by": by, "max_failed": max_failed, "seed": seed, "resamples": resamples, "level": level,
        "overwrite": overwrite, "shard": shard, "engine": engine, "ray_address": ray_address,
        "commercial_only": commercial_only, "real": real, "n": n, "base_url": base_url, "max_calls": max_calls,
        "max_cost": max_cost, "requests_per_minute": requests_per_minute, "concurrency": concurrency,
    }  # fmt: skip
    gathered = gather(given, like=like, preset=preset)
    if not quiet:
        for text in gathered.remarks:
            say(text)
    if dry_run:
        _show_dry_run(gathered.config, as_json=as_json)
    else:
        _execute(gathered.config, quiet=quiet, as_json=as_json)


def _show_dry_run(config: Any, *, as_json: bool) -> None:
    from beholder.runs.dry_run import dry_run

    found = dry_run(config)
    if as_json:
        put_json(found.to_dict())
    else:
        put("".join(f"{line}\n" for line in found.lines()))


def _execute(config: Any, *, quiet: bool, as_json: bool) -> None:
    from beholder.cli.tables import finish_part, finish_run
    from beholder.runs.session import execute

    with keeping("What was scored"), progress_display(quiet=quiet) as progress:
        finished = execute(config, progress=progress)
    if config.shard is not None:
        finish_part(finished, as_json=as_json, quiet=quiet)
    else:
        finish_run(finished, as_json=as_json, quiet=quiet)
