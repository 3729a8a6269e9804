"""The calls behind `import beholder`: thin helpers over manifest, plan and engine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Union

from beholder._errors import OptionError, UserError
from beholder._identity import MetricSpec
from beholder.manifest.schema import Sample
from beholder.metrics.base import SampleMetric
from beholder.records import MetricInfo, ModelCard
from beholder.runs.config import make_config
from beholder.runs.progress import Progress
from beholder.runs.results import Run
from beholder.runs.session import OpenRun, Session, execute
from beholder.score_table import ScoreTable, checked_texts, mask_list, media_list, pairs_error, score_table

if TYPE_CHECKING:
    pass

AskedMetric = Union[str, MetricSpec, SampleMetric]
_WHITE = (255, 255, 255)


def evaluate(
    data: Any = None,
    *,
    metrics: AskedMetric | Sequence[AskedMetric],
    out: str | None = None,
    prompts: str | None = None,
    outputs: str | None = None,
    mapping: Mapping[str, str] | None = None,
    allow_extra: bool = False,
    root: str | None = None,
    model: str | None = None,
    segmenter: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    by: str | Sequence[str] = (),
    max_failed: float = 0.0,
    background: tuple[int, int, int] = _WHITE,
    max_pixels: int = 180_000_000,
    first_frame: bool = False,
    truncation: str = "truncate",
    value_range: tuple[float, float] | None = None,
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
    batch_size: int | str | None = None,
    workers: int | None = None,
    store: str | None = None,
    cache_dir: str | None = None,
    offline: bool | None = None,
    overwrite: bool = False,
    commercial_only: bool = False,
    real: Any = None,
    n: int | None = None,
    shard: str | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    max_calls: int | None = None,
    max_cost: float | None = None,
    prices: Mapping[str, Mapping[str, float]] | None = None,
    requests_per_minute: float | None = None,
    concurrency: int = 8,
    progress: Progress | None = None,
) -> Run:
    """Scores a data set; the call behind `beholder run`.

    Args:
        data: a manifest path, folder, tar file or URL; a DataFrame, Dataset, list of dicts or generator of dicts.
        metrics: one metric or several, as printed ("clip_score", "clip_i(reduce=max)") or as objects.
        out: run folder; `runs/<input>-<key>` when None, so that the same call finds its own folder again.
        prompts: prompt file, together with `outputs` and instead of `data`.
        outputs: template of output paths, like "out/{method}/{prompt_id}_{seed}.png".
        mapping: own column name → canonical name.
        allow_extra: accept files that no prompt names.
        root: folder that every file which the data names must lie in, links followed (for data of others).
        model: encoder of the image-text metrics that name none.
        segmenter: segmenter of the metrics that segment and name none (docs/segmentation.md).
        device: "auto", "cpu", "cuda", "cuda:1", "mps"; "cuda:all" starts a process a GPU, "cpu:4" four processes.
        dtype: "auto" (float32), "float32", "bfloat16", "float16".
        by: column, or columns whose combinations are summarised apart.
        max_failed: share of samples that may have a fault before `Run.exit_code` is 3.
        background: RGB behind transparency.
        max_pixels: pictures with more pixels get the status `too_large`.
        first_frame: take an animation as a still picture, its first frame; without it, it is a video.
        truncation: "truncate" marks rows whose text was cut, "error" gives them the status `failed`.
        value_range: (low, high) of float arrays and tensors in `data`: which value is black, which white.
        seed: seed of the bootstrap.
        resamples: resamples of the bootstrap.
        level: level of the confidence intervals.
        batch_size: visuals in a batch; None and "auto" take the model's own, halved where the device's memory does not
            hold it (a notice says so).
        workers: decode threads; the number of processors when None.
        store: feature store folder; below BEHOLDER_CACHE or the user's cache folder when None.
        cache_dir: folder to look for weights in first.
        offline: True never fetches anything.
        overwrite: replace a run of another identity in `out`.
        commercial_only: refuse models whose card does not say that commercial use is allowed.
        real: the real set that metrics of whole sets compare with: folder, manifest, table, or an .npz of its mean and
            covariance (`beholder.make_stats`).
        n: how many pictures of each set such metrics look at, drawn with `seed`; None takes all.
        shard: "0/3", "1/3" …: score that part of the rows only, into `parts/` of the run folder; "auto" reads the
            variables of a scheduler's array job. `beholder.merge` joins the parts.
        engine: "ray" lets Ray make the features (extra "ray"); "local" makes them in this process.
        ray_address: a Ray cluster ("auto", "ray://host:10001"); one on this machine when None.
        base_url: server of API models (docs/api_models.md); the environment's or the public one when None.
        api_key: its key; the environment's when None. Written nowhere.
        max_calls: most requests to API models; rows that were not asked have the status `failed`.
        max_cost: most money for them; needs `prices` for models without a list price.
        prices: model → {"input": …, "output": …} a million tokens, {"per_call": …} a request.
        requests_per_minute: requests to one server in a minute.
        concurrency: requests under way at once.
        progress: who is told of the progress.

    Returns:
        The finished run; of a shard its part, with the scores of its rows alone. Rows without a value have a status and
        a reason; nothing is raised for them.

    Raises:
        UserError: wrong settings, faults of the input's form, missing weights: before anything is computed.
    """
    chosen, data = _many(metrics), _path(data)
    if data is not None and (prompts is not None or outputs is not None):
        raise OptionError("the input must be named once", got="data, and prompts with outputs")
    config = make_config(
        {
            "data": data if isinstance(data, str) else None,
            "prompts": _path(prompts), "outputs": _path(outputs), "mapping": mapping or {}, "allow_extra": allow_extra,
            "root": _path(root),
            "metrics": tuple(_asked(item) for item in chosen), "model": model, "segmenter": segmenter, "dtype": dtype,
            "background": background, "max_pixels": max_pixels, "first_frame": first_frame,
            "truncation": truncation, "seed": seed, "resamples": resamples, "level": level,
            "out": _path(out), "by": () if by is None else by,
            "max_failed": max_failed, "device": device, "batch_size": batch_size, "workers": workers,
            "store": _path(store), "cache_dir": _path(cache_dir), "offline": offline, "overwrite": overwrite,
            "commercial_only": commercial_only, "real": _path(real) if isinstance(_path(real), str) else None, "n": n,
            "shard": shard, "engine": engine, "ray_address": ray_address,
            "base_url": base_url, "api_key": api_key, "max_calls": max_calls, "max_cost": max_cost, "prices": prices,
            "requests_per_minute": requests_per_minute, "concurrency": concurrency,
        },
        source="the call",
    )  # fmt: skip
    source = None
    if data is not None and not isinstance(data, str):
        from beholder.manifest import open_source

        source = open_source(
            data, mapping=config.mapping or None, allow_extra=allow_extra, root=config.root, value_range=value_range
        )
    elif value_range is not None:
        raise OptionError("value_range is for data in memory", got="a file or folder", fix="Leave it out")
    return execute(config, metrics=chosen, source=source, progress=progress, real=None if config.real else real)


run = evaluate


def open_run(
    out: str,
    *,
    metrics: AskedMetric | Sequence[AskedMetric],
    model: str | None = None,
    segmenter: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    by: str | Sequence[str] = (),
    max_failed: float = 0.0,
    value_range: tuple[float, float] | None = None,
    store: str | None = None,
    overwrite: bool = False,
    real: Any = None,
    n: int | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    max_calls: int | None = None,
    max_cost: float | None = None,
) -> OpenRun:
    """A run to feed from a generation loop.

    >>> with beholder.open_run("runs/live", metrics=["clip_score"]) as r:        # doctest: +SKIP
    ...     r.add(output=image, prompt="a red car", seed=0)
    >>> r.run.summary                                                            # doctest: +SKIP

    Args:
        out: run folder.
        metrics: as in `evaluate`; so are the others.
        value_range: (low, high) of the float arrays and tensors that are added, for example (0, 1) or (-1, 1).

    Returns:
        A context manager with `add(output=…, prompt=…, …)`; its `run` is set when the block ends.
    """
    from beholder.manifest.rows import make_sample
    from beholder.runs.plan import make_plan
    from beholder.runs.real import open_real

    chosen = _many(metrics)
    config = make_config(
        {
            "metrics": tuple(_asked(item) for item in chosen), "model": model, "segmenter": segmenter, "dtype": dtype,
            "device": device, "by": () if by is None else by, "max_failed": max_failed, "out": _path(out),
            "store": _path(store), "overwrite": overwrite, "n": n,
            "base_url": base_url, "api_key": api_key, "max_calls": max_calls, "max_cost": max_cost,
        },
        source="the call",
    )  # fmt: skip
    plan = make_plan(config, metrics=chosen)
    opened = open_real(config, plan, _path(real))
    return OpenRun(
        Session(config, plan, source_name="open_run", real=opened), partial(make_sample, value_range=value_range)
    )


def score(
    metric: AskedMetric,
    *,
    images: Any,
    texts: str | Sequence[str] | None = None,
    references: Any = None,
    reference_texts: Sequence[str] | None = None,
    masks: Any = None,
    seg_prompt: str | Sequence[str] | None = None,
    pairs: bool = False,
    model: str | None = None,
    segmenter: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    background: tuple[int, int, int] = _WHITE,
    max_pixels: int = 180_000_000,
    first_frame: bool = False,
    truncation: str = "truncate",
    value_range: tuple[float, float] | None = None,
    cache_dir: str | None = None,
    offline: bool | None = None,
    commercial_only: bool = False,
    base_url: str | None = None,
    api_key: str | None = None,
    max_calls: int | None = None,
    max_cost: float | None = None,
    prices: Mapping[str, Any] | None = None,
    requests_per_minute: float | None = None,
    concurrency: int = 8,
) -> ScoreTable:
    """Scores single images; nothing is written anywhere.

    Args:
        metric: as in `evaluate`.
        images: one image or video, or a list: paths, bytes, PIL images, arrays, tensors; a list in the list is a video
            of frames. An array of four axes is refused: list(array) is its pictures, [array] one video.
        texts: one text or a list; every image is scored with every text.
        references: reference images of every image.
        reference_texts: reference captions of every image, for `clip_score(variant=ref_hessel)`.
        masks: one mask an image, for metrics of the segmented subject: files, arrays, run lengths, polygons.
        seg_prompt: the phrase, or phrases tried in order, that a segmenter finds the subject by.
        pairs: score image i with text i only; the lists must be equally long.
        model: encoder, when the metric names none.
        segmenter: segmenter of a metric that masks the subject, when the metric names none.
        device: as in `evaluate`; so are the others.
        value_range: (low, high) of float arrays.

    Returns:
        A table of (images × texts) scores; the same type whatever the input.
    """
    config = make_config(
        {
            "metrics": (_asked(metric),), "model": model, "segmenter": segmenter, "dtype": dtype, "device": device,
            "background": background, "max_pixels": max_pixels, "first_frame": first_frame, "truncation": truncation,
            "offline": offline, "cache_dir": _path(cache_dir), "commercial_only": commercial_only,
            "base_url": base_url, "api_key": api_key, "max_calls": max_calls, "max_cost": max_cost, "prices": prices,
            "requests_per_minute": requests_per_minute, "concurrency": concurrency,
        },
        source="the call",
    )  # fmt: skip
    media = media_list(images, value_range=value_range)
    captions = [None] if texts is None else checked_texts(texts, "texts")
    if pairs and len(media) != len(captions):
        raise pairs_error(len(media), len(captions))
    couples = list(zip(media, captions)) if pairs else [(medium, text) for medium in media for text in captions]
    extras = {} if reference_texts is None else {"reference_texts": checked_texts(reference_texts, "reference_texts")}
    samples = _samples(
        couples,
        references=tuple(media_list(references, value_range=value_range)),
        extras=extras,
        masks=dict(zip(map(id, media), mask_list(masks, len(media)))),
        seg_prompt=seg_prompt,
    )
    if not samples:
        raise OptionError(f"score needs at least one {'text' if media else 'image'}", got="none")
    from beholder.runs.engine import chunks
    from beholder.runs.plan import make_plan
    from beholder.runs.quick import score_in_memory

    plan = make_plan(config, metrics=[metric], samples=samples)
    table, notices = score_in_memory(plan, config, chunks(samples))
    return score_table(table, plan, couples, media, captions, notices, pairs=pairs)


def _samples(
    couples: Sequence[tuple[Any, str | None]],
    *,
    references: tuple[Any, ...],
    extras: Mapping[str, Any],
    masks: Mapping[int, Any],
    seg_prompt: str | Sequence[str] | None,
) -> list[Sample]:
    """A sample for each pair of a medium and a text; masks stand under the identity of their medium."""
    return [
        Sample(
            str(at), medium, row=at + 1, prompt=text, references=references, extras=extras, seg_prompt=seg_prompt,
            masks=masks[id(medium)],
        )
        for at, (medium, text) in enumerate(couples)
    ]  # fmt: skip


def list_metrics(family: str | None = None) -> list[MetricInfo]:
    """Cards of all metrics that load, by name; of one family when it is named."""
    from beholder.metrics.catalog import METRICS

    cards = []
    for name in METRICS.names():
        try:
            cards.append(METRICS.get(name).info)
        except UserError:
            continue  # a broken plug-in; `METRICS.broken()` and `beholder list` tell of it
    families = sorted({card.family for card in cards})
    if family is not None and family not in families:
        raise OptionError(f"a family must be one of: {', '.join(families)}", got=repr(family))
    return [card for card in cards if family in (None, card.family)]


def list_models() -> list[ModelCard]:
    """Cards of all models that are known by name."""
    from beholder.backends.pool import list_models as cards

    return list(cards())


def _many(metrics: Any) -> list[AskedMetric]:
    """One metric or several as a list."""
    if isinstance(metrics, (str, MetricSpec, SampleMetric)):
        return [metrics]
    if not isinstance(metrics, Iterable) or isinstance(metrics, (Mapping, type)):
        _asked(metrics)
    chosen = list(metrics)
    for item in chosen:
        _asked(item)
    return chosen


def _asked(item: Any) -> str:
    """A metric as it is written."""
    if isinstance(item, SampleMetric):
        return item.identity
    if isinstance(item, (str, MetricSpec)):
        return str(item)
    kind = f"the class {item.__name__}" if isinstance(item, type) else type(item).__name__
    raise OptionError(
        "a metric must be its name, a MetricSpec or a SampleMetric object", got=kind, fix='Like "clip_score"'
    )


def _path(value: Any) -> Any:
    """A path object as text; anything else as it is, for the settings' own check."""
    return os.fsdecode(value) if isinstance(value, os.PathLike) else value
