"""`beholder demo`: draws a small data set, scores it and prints the table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from beholder.cli import options
from beholder.cli.interrupts import keeping
from beholder.cli.output import put, put_json, say, stdout_width
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
    protocol: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Draw a protocol's worked data set instead: knowcusbench, opens2v."),
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Draw a small data set, score it and print the table.

    Three "generators" of known quality draw scenes of emoji. Needs no network and no weights beside those in the
    package. The data set has prompts, references, masks and a
    manifest, so that everything else can be tried on it.

    With --protocol knowcusbench: subjects with references and masks, both tasks, three methods of known quality. One
    of them copies the references' surroundings and draws the wrong subject: CLIP-I puts it first, CLIP-I-Seg last. A
    control before plain backgrounds shows no such reversal.

    With --protocol opens2v: short videos of moving subjects with references, scored with small stand-ins for
    OpenS2V's models; every line of the output says so. One model flickers: the official NexusScore puts it first.

    Example: beholder demo -o demo

    Example: beholder demo --protocol knowcusbench -o subjects
    """
    from beholder._errors import UnknownNameError
    from beholder.cli.tables import finish_run
    from beholder.demo.build import run_demo

    worked = {"knowcusbench": _put_subjects, "opens2v": _put_opens2v}
    if protocol is not None and protocol not in worked:
        raise UnknownNameError(
            "protocol with a worked data set", protocol, worked, fix=f"There are: {', '.join(worked)}"
        )
    with keeping("What was scored"), progress_display(quiet=quiet) as progress:
        if protocol is not None:
            worked[protocol](out, seed, model, progress, as_json=as_json)
            return
        run = run_demo(out, seed=seed, model=model, progress=progress)
    finish_run(run, as_json=as_json, quiet=quiet)


def _put_subjects(out: str, seed: int, model: str, progress: Any, *, as_json: bool) -> None:
    """Runs the worked data set of knowcusbench and its control, and prints the table of both."""
    from dataclasses import replace

    from beholder.cli.bench import bench_json
    from beholder.demo.subjects import run_subject_demo
    from beholder.report.protocol import result_table
    from beholder.report.render import to_text

    found = run_subject_demo(out, seed=seed, model=model, progress=progress)
    parts = {"copied surroundings": found.flattering, "control": found.control}
    if as_json:
        put_json({name: bench_json(run) for name, run in parts.items()})
        return
    for name, run in parts.items():
        paper = run.results.table("paper")
        # Published numbers say nothing beside those of drawn scenes.
        table = result_table(replace(paper, numbers=tuple(n for n in paper.numbers if not n.is_published), notes=()))
        put(f"{name}\n\n{to_text(table, width=stdout_width())}\n")
        say(f"Run folder: {run.run.path}")


def _put_opens2v(out: str, seed: int, model: str, progress: Any, *, as_json: bool) -> None:
    """Runs the worked data set of opens2v, and prints its tables; every line says that stand-ins made it."""
    from dataclasses import replace

    from beholder.cli.bench import bench_json
    from beholder.demo.opens2v import MARK, run_opens2v_demo
    from beholder.report.protocol import result_table
    from beholder.report.render import to_text

    found = run_opens2v_demo(out, seed=seed, model=model, progress=progress)
    if as_json:
        put_json({"stand_ins": True, **bench_json(found)})
        return
    wide = stdout_width()
    width = None if wide is None else wide - len(MARK)
    for table in found.results.tables:
        # Published numbers say nothing beside those of stand-ins.
        own = replace(table, numbers=tuple(number for number in table.numbers if not number.is_published))
        text = f"{table.title}\n\n{to_text(result_table(own), width=width)}"
        put("".join(f"{MARK}{line}".rstrip() + "\n" for line in [*text.splitlines(), ""]))
    say(f"{MARK}Run folder: {found.run.path}")
