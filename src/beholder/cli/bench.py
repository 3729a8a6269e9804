"""`beholder bench`: a benchmark's protocol, from its data to its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.cli import options
from beholder.cli.guard import TOO_MANY_FAULTS
from beholder.cli.interrupts import keeping
from beholder.cli.output import put, put_json, say, stdout_width
from beholder.cli.progress import progress_display
from beholder.cli.run import BatchSize, Level, MaxFailed, Out, Overwrite, Resamples, Seed, Store, Workers

if TYPE_CHECKING:
    from beholder.protocol_runs import ProtocolRun

app = typer.Typer(add_completion=False)

PROTOCOL_NAMES = "customconcept101, dreambench, dreambench++, dsg, genai-bench, knowcusbench, opens2v or tifa"
"""Written out here so that `--help` need not import the protocols; a test compares the two."""

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help=f"Protocol: {PROTOCOL_NAMES}. See: beholder info NAME.", show_default=False),
]
Data = Annotated[
    str | None,
    typer.Argument(metavar="DATA", help="Its data: a folder, a table or a manifest.", show_default=False),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        metavar="METRIC",
        help="Score this too; it takes the place of the protocol's metric of the same name. Repeatable.",
    ),
]
Only = Annotated[bool, typer.Option("--only", help="Score the metrics of -m alone, not the protocol's own.")]
Text = Annotated[
    str | None,
    typer.Option(
        metavar="WHICH",
        help="Text of clip_t in subject-driven protocols: given (eval_prompt, else the prompt), prompt or class.",
    ),
]
Track = Annotated[str | None, typer.Option(metavar="NAME", help="opens2v: the track: open, human or single.")]
Board = Annotated[
    str | None, typer.Option("--version", metavar="N", help="opens2v: the board whose weights count: 1.1 or 1.0.")
]
FromOfficial = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="opens2v: the benchmark's own JSON files, for metrics not scored here; without DATA, nothing is scored.",
    ),
]
ExportOfficial = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="opens2v: write the benchmark's own JSON files; a folder a model where several."),
]
Form = Annotated[
    str, typer.Option("--as", metavar="FORM", help="text, md, latex, csv or json.", rich_help_panel=options.OUTPUT)
]


@app.command()
def bench(
    name: Name,
    data: Data = None,
    metric: Metrics = None,
    only: Only = False,
    out: Out = None,
    segmenter: options.Segmenter = None,
    text: Text = None,
    track: Track = None,
    version: Board = None,
    from_official: FromOfficial = None,
    export_official: ExportOfficial = None,
    mapping: options.Mapping = None,
    allow_extra: options.AllowExtra = None,
    model: options.Model = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: BatchSize = None,
    workers: Workers = None,
    store: Store = None,
    cache_dir: options.CacheDir = None,
    offline: options.Offline = None,
    max_failed: MaxFailed = None,
    seed: Seed = None,
    resamples: Resamples = None,
    level: Level = None,
    overwrite: Overwrite = None,
    base_url: options.BaseUrl = None,
    max_calls: options.MaxCalls = None,
    max_cost: options.MaxCost = None,
    requests_per_minute: options.RequestsPerMinute = None,
    concurrency: options.Concurrency = None,
    form: Form = "text",
    quiet: options.Quiet = False,
) -> None:
    """Run a benchmark's protocol over its data.

    Reads the data as it is published, scores it with the protocol's metrics, and prints the protocol's tables, with
    published numbers beside them, marked as such. The run folder is like any other, with the tables in protocol.json:
    `beholder show RUN` prints them again.

    Example: beholder bench genai-bench GenAI-Image-527 -o runs/genai

    Example: beholder bench dsg data/dsg -m vqa_checklist,model=gpt-4.1 -o runs/dsg

    Example: beholder bench opens2v --from-official results/model --track human
    """
    from beholder.cli.bench_official import check_export, put_official, write_official
    from beholder.protocol_runs import protocol_metrics, protocol_with, run_protocol
    from beholder.report.render import check_form

    check_form(form)
    own = {"track": track, "version": version, "from_official": from_official}
    protocol = protocol_with(name, {"segmenter": segmenter, "text": text, **own})
    check_export(protocol, export_official)
    if data is None:
        put_official(protocol, form, {"seed": seed, "resamples": resamples, "level": level})
        return
    metrics, _ = protocol_metrics(protocol, metric or [], only=only, model=model)
    given: dict[str, Any] = {
        "data": data, "metrics": metrics, "out": out, "mapping": mapping, "allow_extra": allow_extra, "model": model,
        "segmenter": segmenter, "device": device, "dtype": dtype, "batch_size": batch_size, "workers": workers,
        "store": store, "cache_dir": cache_dir, "offline": offline, "max_failed": max_failed, "seed": seed,
        "resamples": resamples, "level": level, "overwrite": overwrite, "base_url": base_url,
        "max_calls": max_calls, "max_cost": max_cost, "requests_per_minute": requests_per_minute,
        "concurrency": concurrency,
    }  # fmt: skip
    from beholder.cli.settings import gather

    config = gather(given).config
    with keeping("What was scored"), progress_display(quiet=quiet) as progress:
        finished = run_protocol(protocol, data, config, progress=progress)
    if export_official is not None:
        write_official(protocol, finished.run, export_official, quiet=quiet)
    finish_bench(finished, form=form, quiet=quiet)


def finish_bench(found: ProtocolRun, *, form: str, quiet: bool) -> None:
    """Prints a protocol's tables and ends the command with the run's exit code."""
    from beholder.cli.tables import say_faults

    run = found.run
    if form == "json":
        put_json(bench_json(found))
    else:
        from beholder.report.protocol import render_results

        put(render_results(found.results, form, width=stdout_width()))
    if not quiet:
        for text in run.notices:
            say(f"Note: {text}")
        say(f"Run folder: {run.path}")
    if run.n_faults and (not quiet or run.exit_code):
        say_faults(run)
    if run.exit_code:
        raise typer.Exit(TOO_MANY_FAULTS)


def bench_json(found: ProtocolRun) -> dict[str, Any]:
    """A protocol's run as one JSON value: the run as `beholder run --json` tells it, and every table, unrounded."""
    from beholder.cli.tables import run_json

    return {**run_json(found.run), "protocol": found.results.to_dict()}
