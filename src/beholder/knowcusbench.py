"""KnowCusBench-style scores of images in memory, under the names that the benchmark's page uses.

>>> import beholder
>>> beholder.knowcusbench.compute_metrics(
...     predictions, {"cat": real_cats}, prompts, concepts=["cat"] * len(predictions)
... )                                                                                    # doctest: +SKIP
{'CLIP-I': 0.78, 'CLIP-I-Seg': 0.72, 'CLIP-T': 0.29, 'Pick Score': 20.9}
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from beholder._errors import Fault, InputError, OptionError
from beholder._identity import format_spec
from beholder.records import Status

if TYPE_CHECKING:
    import pyarrow as pa

KEYS: Mapping[str, str] = {
    "CLIP-I": "clip_i",
    "CLIP-I-Seg": "clip_i_seg",
    "CLIP-T": "clip_t",
    "Pick Score": "pick_score",
}
"""The four keys, and the metrics behind them."""


def compute_metrics(
    predictions: Sequence[Any],
    gold_images: Mapping[str, Sequence[Any]] | Sequence[Any],
    prompts: Sequence[str],
    *,
    concepts: Sequence[str],
    seg_prompts: Mapping[str, str] | None = None,
    tasks: Sequence[str] | None = None,
    masks: Sequence[Any] | None = None,
    pairing: Literal["all", "zip"] = "all",
    segmenter: str | None = None,
    model: str | None = None,
    pick_model: str | None = None,
    metrics: Sequence[str] = tuple(KEYS),
    device: str = "auto",
    dtype: str = "auto",
    cache_dir: str | None = None,
    offline: bool | None = None,
) -> dict[str, float | None]:
    """The four scores of a set of generated images.

    Each is the unweighted mean over concepts of the concept's mean over its images. CLIP-I of an image is its mean
    cosine with all real images of its concept ("average pairwise"); CLIP-I-Seg the same with the background of the
    generated image blacked out; CLIP-T the cosine with the prompt; Pick Score exp(logit_scale)·cos by PickScore.

    Args:
        predictions: generated images: paths, PIL images, arrays.
        gold_images: real images by concept; one list where there is one concept, or for `pairing="zip"` one image a
            prediction.
        prompts: one prompt a prediction.
        concepts: the concept of each prediction.
        seg_prompts: concept → the short noun phrase that finds it; the concept itself where it has none.
        tasks: task of each prediction; a "reconstruction" counts for neither CLIP-T nor Pick Score.
        masks: mask of each prediction (path or picture), instead of a segmenter; None where it has none.
        pairing: "all" compares with every real image of the concept, "zip" prediction i with image i alone.
        segmenter: what finds the subject; the masks where they are given, else SAM 3.
        model: encoder; CLIP ViT-L/14 by default.
        pick_model: PickScore's checkpoint, where it is another than the published one.
        metrics: keys to compute; all four by default.
        device: "auto", "cpu", "cuda" …
        dtype: "auto", "float32" …
        cache_dir: folder to look for weights in first.
        offline: True never fetches anything.

    Returns:
        Key → score in its own range: cosines in [-1, 1], Pick Score in [-exp(logit_scale), exp(logit_scale)]. None
        where no image has a value; never NaN.

    Raises:
        OptionError: lists of unequal length, one text in the place of a list, a concept without real images, an unknown
            key.
        InputError: pictures or masks that are missing, unreadable or do not fit, all listed: a mean without them would
            hide it. A prediction in which no mask was found, or with a blank prompt, is left out instead.
        UserError: weights that are missing.

    Differs: from the page's recipe, which pairs lists by `zip`, segments by an undefined name, scores all tasks with
    all metrics and calls every range [0, 1].
    """
    unknown = [key for key in metrics if key not in KEYS]
    if unknown or not metrics:
        raise OptionError(f"metrics must be some of: {', '.join(KEYS)}", got=", ".join(unknown) or "none")
    predictions = _list(predictions, "predictions")
    columns = {"prompts": prompts, "concepts": concepts, "tasks": tasks, "masks": masks}
    lists = {name: _list(items, name) for name, items in columns.items() if items is not None}
    for name, items in lists.items():
        if len(items) != len(predictions):
            raise OptionError(f"{name} must have one entry a prediction", got=f"{len(predictions)} vs {len(items)}")
    if not predictions:
        raise OptionError("there must be a prediction", got="none")
    references = _references(gold_images, lists["concepts"], len(predictions), pairing)
    rows = _rows(predictions, references, lists, seg_prompts or {})
    specs = _specs(metrics, segmenter or ("masks" if masks is not None else None), pick_model)
    settings = {
        "model": model if any(key != "Pick Score" for key in metrics) else None,
        "device": device, "dtype": dtype, "cache_dir": cache_dir, "offline": offline,
    }  # fmt: skip
    found = _headlines(rows, specs, settings)
    return {key: found[KEYS[key]] for key in metrics}


def _rows(
    predictions: Sequence[Any], references: Sequence[Any], lists: Mapping[str, list[Any]], phrases: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The rows of a manifest; a prediction whose mask is None has none."""
    names = {"prompts": "prompt", "concepts": "concept", "tasks": "task", "masks": "masks"}
    rows = []
    for at, (image, real) in enumerate(zip(predictions, references)):
        row = {"id": str(at), "output": image, "references": real}
        row |= {names[name]: items[at] for name, items in lists.items() if items[at] is not None}
        rows.append({**row, "seg_prompt": phrases.get(row["concept"], row["concept"])})
    return rows


def _list(items: Any, name: str) -> list[Any]:
    """The items of a list, array or generator; one text or path is no list of its letters."""
    if isinstance(items, (str, bytes, os.PathLike)):
        raise OptionError(f"{name} must be a list", got=repr(items))
    return list(items)


def _references(gold: Any, concepts: Sequence[str], count: int, pairing: str) -> list[list[Any]]:
    """The real images that each prediction is compared with."""
    if pairing not in ("all", "zip"):
        raise OptionError("pairing must be all or zip", got=repr(pairing))
    gold = (
        {name: _list(images, f"the real images of {name!r}") for name, images in gold.items()}
        if isinstance(gold, Mapping)
        else _list(gold, "gold_images")
    )
    if pairing == "zip":
        if isinstance(gold, Mapping) or len(gold) != count:
            got = "images by concept" if isinstance(gold, Mapping) else f"{count} vs {len(gold)}"
            raise OptionError("pairing=zip needs one real image a prediction", got=got)
        return [[image] for image in gold]
    distinct = list(dict.fromkeys(concepts))
    if not isinstance(gold, Mapping):
        if len(distinct) > 1:
            raise OptionError(
                "real images of several concepts must be given by concept", got=f"one list for {', '.join(distinct)}",
                fix="Give a dict of lists, or pairing='zip'",
            )  # fmt: skip
        gold = {distinct[0]: gold}
    lacking = [name for name in distinct if not len(gold.get(name, ()))]
    if lacking:
        raise OptionError("every concept must have real images", got=f"none of {', '.join(map(repr, lacking))}")
    return [list(gold[name]) for name in concepts]


def _specs(keys: Sequence[str], segmenter: str | None, pick_model: str | None) -> list[str]:
    """The metrics behind the keys, as they are printed."""
    options: dict[str, dict[str, Any]] = {
        "clip_i_seg": {} if segmenter is None else {"segmenter": segmenter},
        "pick_score": {} if pick_model is None else {"model": pick_model},
    }
    return [format_spec(KEYS[key], options.get(KEYS[key], {})) for key in keys]


def _headlines(rows: list[dict[str, Any]], specs: list[str], settings: dict[str, Any]) -> dict[str, float | None]:
    """By metric: the headline value over all rows; nothing is written anywhere.

    Raises:
        InputError: rows with a fault.
    """
    from beholder.manifest import open_source
    from beholder.runs.config import make_config
    from beholder.runs.engine import chunks
    from beholder.runs.plan import make_plan
    from beholder.runs.quick import score_in_memory
    from beholder.runs.summarising import summarise_table

    source = open_source(rows)
    try:
        source.check()
    except InputError as error:
        raise OptionError("the images must be readable as one data set", got=str(error)) from error
    config = make_config({**settings, "metrics": tuple(specs)}, source="the call")
    plan = make_plan(config)
    table, _ = score_in_memory(plan, config, chunks(source))
    faults = _faults(table, [planned.label for planned in plan.metrics])
    if faults:
        raise InputError("the call", faults)
    metrics = [(planned.metric.identity, planned.label) for planned in plan.metrics]
    finish = {planned.label: planned.metric.finish_aggregate for planned in plan.metrics}
    found = {}
    for item in summarise_table(table, metrics, finish, resamples=0):
        if item.headline and not item.group:
            found[item.label] = item.value
    return found


def _faults(table: pa.Table, labels: Sequence[str]) -> list[Fault]:
    """What is wrong with rows, each once though several metrics meet it."""
    found: dict[tuple[str, str], Fault] = {}
    for row in table.to_pylist():
        for label in labels:
            status, reason = row[f"{label}_status"], row.get(f"{label}_reason") or ""
            if Status(status).is_fault:
                found.setdefault(
                    (row["id"], reason), Fault(f"{status}: {reason}", where=f"prediction {row['id']}", form=False)
                )
    return list(found.values())
