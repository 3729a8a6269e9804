"""`beholder speed`: this machine's rates, and the time and money that they mean for large runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.cli import options
from beholder.cli.output import put, put_json, say, stdout_width

if TYPE_CHECKING:
    from beholder.runs.speed import Estimate, Speed

app = typer.Typer(add_completion=False)

Metrics = Annotated[
    list[str] | None, typer.Option("--metric", "-m", metavar="METRIC", help="Metric to measure. Repeatable.")
]
Samples = Annotated[int, typer.Option(metavar="N", min=1, help="Samples to measure on, the first of the data.")]
Counts = Annotated[
    list[int] | None,
    typer.Option("--count", metavar="N", help="Size of a run to estimate. Repeatable. Default: 1 and 100 million."),
]
Machines = Annotated[
    list[int] | None,
    typer.Option("--machines", metavar="N", help="How many of these machines. Repeatable. Default: 1, 8 and 64."),
]
Price = Annotated[float | None, typer.Option("--price", metavar="MONEY", min=0, help="Price of one machine an hour.")]
BatchSize = Annotated[str | None, typer.Option(metavar="N", help="Visuals in a batch. Default: the model's own.")]
Workers = Annotated[str | None, typer.Option(metavar="N", help="Threads that decode. Default: one a processor.")]


@app.command()
def speed(
    data: options.Data = None,
    metric: Metrics = None,
    samples: Samples = 256,
    count: Counts = None,
    machines: Machines = None,
    price: Price = None,
    model: options.Model = None,
    segmenter: options.Segmenter = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: BatchSize = None,
    workers: Workers = None,
    cache_dir: options.CacheDir = None,
    offline: options.Offline = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure this machine's rates on your data, and estimate large runs.

    Every stage is measured by itself on the first samples; nothing is stored. The estimate is arithmetic: time a
    sample, times the samples, divided by the machines; a machine is one like this. What it does not know: how fast a
    disk or network is that all machines share.

    Example: beholder speed samples.jsonl -m clip_score --count 1000000 --machines 8 --price 2.5
    """
    from beholder.cli.settings import gather
    from beholder.runs.speed import measure_speed

    given: dict[str, Any] = {
        "data": data, "metrics": metric, "model": model, "segmenter": segmenter, "device": device, "dtype": dtype,
        "batch_size": batch_size, "workers": workers, "cache_dir": cache_dir, "offline": offline,
    }  # fmt: skip
    gathered = gather(given)
    found = measure_speed(gathered.config, most=samples)
    estimates = [
        found.estimate(size, many, price=price)
        for size in count or (1_000_000, 100_000_000)
        for many in machines or (1, 8, 64)
    ]
    if as_json:
        from dataclasses import asdict

        put_json({**found.to_dict(), "estimates": [asdict(item) for item in estimates]})
        return
    _put_rates(found)
    _put_estimates(estimates)
    say("Estimates, not measurements: what machines share (disk, network) is not in them.")


def _put_rates(found: Speed) -> None:
    from beholder.report.render import to_text
    from beholder.report.tables import Column, Table

    rows = tuple(
        (
            stage.stage + ("" if stage.in_total else " (at the same time)"),
            f"{stage.rate:,.0f} a second" if stage.rate >= 10 else f"{stage.rate:.2f} a second",
            f"{stage.per_sample:.2f}",
            f"{stage.seconds_per_sample * 1e3:.3f} ms",
        )
        for stage in found.stages
    )
    total = (
        f"{found.samples} samples on {found.device}: {found.seconds_per_sample * 1e3:.3f} ms a sample in one process"
    )
    note = f"{total}, {found.load_seconds:.1f} s to load."
    columns = (Column("stage"), Column("rate", True), Column("a sample", True), Column("time a sample", True))
    put(to_text(Table(columns, rows, (note,)), width=stdout_width()))


def _put_estimates(estimates: list[Estimate]) -> None:
    from beholder.report.render import to_text
    from beholder.report.tables import Column, Table

    columns = [Column("samples", True), Column("machines", True), Column("time", True)]
    priced = any(item.money is not None for item in estimates)
    rows = tuple(
        (
            f"{item.samples:,}",
            str(item.workers),
            _hours(item.hours),
            *([f"{item.money:,.2f}"] if item.money is not None else []),
        )
        for item in estimates
    )
    put(to_text(Table((*columns, *([Column("money", True)] if priced else [])), rows), width=stdout_width()))


def _hours(hours: float) -> str:
    if hours < 1:
        return f"{hours * 60:.1f} min"
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"
