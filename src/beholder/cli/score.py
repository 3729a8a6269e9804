"""`beholder score`: a quick look at a few files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.cli import options
from beholder.cli.guard import TOO_MANY_FAULTS
from beholder.cli.output import put, put_json, say, stdout_width
from beholder.report.numbers import DASH, format_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from beholder._errors import OptionError
    from beholder.report.tables import Column, Table
    from beholder.score_table import ScoreTable

app = typer.Typer(add_completion=False)


@app.command()
def score(
    images: Annotated[list[str], typer.Argument(metavar="IMAGES...", help="Pictures to score.", show_default=False)],
    text: Annotated[
        list[str] | None,
        typer.Option("--text", "-t", metavar="TEXT", help="Text to score every picture against. Repeatable."),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option("--reference", "-r", metavar="FILE", help="Real picture of the same subject. Repeatable."),
    ] = None,
    reference_text: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Reference caption of every picture, for variant=ref_hessel. Repeatable."),
    ] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Mask of the subject in each picture, in their order. Repeatable."),
    ] = None,
    seg_prompt: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Phrase that a segmenter finds the subject by; several are tried in order."),
    ] = None,
    metric: Annotated[
        str, typer.Option("--metric", "-m", metavar="METRIC", help="Metric to score. See: beholder list.")
    ] = "clip_score",
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Score the first picture with the first text only, and so on.")
    ] = False,
    model: options.Model = None,
    segmenter: options.Segmenter = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    cache_dir: options.CacheDir = None,
    offline: options.Offline = None,
    background: options.Background = None,
    max_pixels: options.MaxPixels = None,
    first_frame: options.FirstFrame = None,
    truncation: options.Truncation = None,
    commercial_only: options.CommercialOnly = None,
    base_url: options.BaseUrl = None,
    max_calls: options.MaxCalls = None,
    max_cost: options.MaxCost = None,
    requests_per_minute: options.RequestsPerMinute = None,
    concurrency: options.Concurrency = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Score a few pictures at once; writes nothing.

    Prints a table with one row a picture and one column a text. Exit code 3 when a picture has a fault.

    Example: beholder score cat.png dog.png --text "a photo of a cat"

    Example: beholder score out/*.png -m clip_i --reference cat1.jpg --reference cat2.jpg

    Example: beholder score a.png b.png -m clip_i_seg -r cat1.jpg --seg-prompt "a cat" --segmenter clipseg
    """
    import beholder.api
    from beholder.cli.settings import score_settings

    given = {
        "model": model, "segmenter": segmenter, "device": device, "dtype": dtype, "cache_dir": cache_dir,
        "offline": offline, "background": background, "max_pixels": max_pixels, "first_frame": first_frame,
        "truncation": truncation, "commercial_only": commercial_only, "base_url": base_url, "max_calls": max_calls,
        "max_cost": max_cost, "requests_per_minute": requests_per_minute, "concurrency": concurrency,
    }  # fmt: skip
    config = score_settings(given, metric, more=list(_missing_inputs(metric, text, reference)))
    table = beholder.api.score(
        metric,
        images=images,
        texts=text or None,
        references=reference or None,
        reference_texts=reference_text or None,
        masks=mask or None,
        seg_prompt=seg_prompt or None,
        pairs=pairs,
        model=config.model,
        segmenter=config.segmenter,
        device=config.device,
        dtype=config.dtype,
        background=config.background,
        max_pixels=config.max_pixels,
        first_frame=config.first_frame,
        truncation=config.truncation,
        cache_dir=config.cache_dir,
        offline=config.offline,
        commercial_only=config.commercial_only,
        base_url=config.base_url,
        max_calls=config.max_calls,
        max_cost=config.max_cost,
        requests_per_minute=config.requests_per_minute,
        concurrency=config.concurrency,
    )
    if as_json:
        put_json(score_json(table))
    else:
        from beholder.report.render import to_text

        put(to_text(score_table(table), width=stdout_width()))
    if not quiet:
        for notice in [*table.notices, *_folder_notices(images)]:
            say(f"Note: {notice}")
    if any(row.score.status.is_fault for row in table.rows):
        raise typer.Exit(TOO_MANY_FAULTS)


def _folder_notices(images: Sequence[str]) -> list[str]:
    """A folder is a video; who meant its pictures one by one must not take the value for theirs."""
    return [
        f"{image} is a folder: one video, its pictures the frames. To score each picture: beholder run {image}"
        for image in images
        if os.path.isdir(image)
    ]


def _missing_inputs(
    metric: str, texts: Sequence[str] | None, references: Sequence[str] | None
) -> Iterator[OptionError]:
    """A metric without what it reads would give a table of dashes."""
    from beholder._errors import OptionError, UserError
    from beholder._identity import parse_spec
    from beholder.metrics.base import make_metric

    try:
        made = make_metric(parse_spec(metric))
    except UserError:
        return  # the check of the metric tells of it
    if made.info.kind == "set":
        real = " --real DIR" if getattr(made, "needs_real", False) else ""
        yield OptionError(
            "a score takes metrics of samples",
            got=f"{metric}, of whole sets",
            fix=f"Give it a set: beholder run DATA -m {metric}{real}",
        )
        return
    for column, given, option in (("prompt", texts, "--text"), ("references", references, "--reference")):
        if column in made.info.inputs and not given:
            yield OptionError(f"{metric} needs {option}", got="none", fix=f"Give {option}, once or several times")


def score_table(found: ScoreTable) -> Table:
    """Pictures in rows, texts in columns; one row a pair when pictures and texts go in pairs."""
    from beholder.report.tables import Table

    paired = found.texts == (None,) and any(row.text is not None for row in found.rows)
    notes = tuple(
        dict.fromkeys(
            f"{row.image}{'' if row.text is None else f', {row.text!r}'}: {row.score.status}: {row.score.reason}."
            for row in found.rows
            if row.score.value is None
        )
    )
    titles, cells = _pair_cells(found) if paired else _matrix_cells(found)
    if found.texts != (None,):
        notes = (*notes, f"{found.metric}: one column a text; {DASH} where there is no value.")
    return Table(titles, cells, notes)


def _pair_cells(found: ScoreTable) -> tuple[tuple[Column, ...], tuple[tuple[str, ...], ...]]:
    from beholder.report.tables import Column

    titles = (Column("image"), Column("text"), Column(found.metric, True))
    return titles, tuple((row.image, row.text or "", format_value(row.score.value)) for row in found.rows)


def _matrix_cells(found: ScoreTable) -> tuple[tuple[Column, ...], tuple[tuple[str, ...], ...]]:
    from beholder.report.tables import Column

    width = len(found.texts)
    heads = (Column(found.metric if text is None else text, True) for text in found.texts)
    rows = [found.rows[start : start + width] for start in range(0, len(found.rows), width)]
    cells = [(name, *(format_value(row.score.value) for row in part)) for name, part in zip(found.images, rows)]
    return (Column("image"), *heads), tuple(cells)


def score_json(found: ScoreTable) -> dict[str, Any]:
    """All scores as one JSON value."""
    rows = [
        {
            "image": row.image,
            "text": row.text,
            "value": row.score.value,
            "status": str(row.score.status),
            "reason": row.score.reason,
            "evidence": None if row.score.evidence is None else dict(row.score.evidence),
        }
        for row in found.rows
    ]
    return {"metric": found.metric, "rows": rows, "notices": list(found.notices)}
