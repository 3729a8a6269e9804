"""The call behind `beholder lab`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from beholder._errors import OptionError
from beholder._identity import MetricSpec
from beholder.lab.experiment import experiment
from beholder.lab.records import LabReport
from beholder.metrics.base import SampleMetric
from beholder.runs.config import make_config
from beholder.runs.inputs import config_source
from beholder.runs.results import Run
from beholder.verifying import run_config


def run_lab(
    data: Any,
    *,
    metrics: str | MetricSpec | SampleMetric | Sequence[str | MetricSpec | SampleMetric] = (),
    model: str | None = None,
    n: int = 50,
    changes: Sequence[str] = (),
    seed: int = 0,
    level: float = 0.95,
    device: str = "auto",
    dtype: str = "auto",
    cache_dir: str | None = None,
    offline: bool | None = None,
) -> LabReport:
    """Shows what metrics react to: pictures and texts are changed in known ways, by known degrees, and scored again.

    Args:
        data: a run folder (its input is read again, and its metrics are the default), or a manifest, folder,
            DataFrame or list of rows.
        metrics: metrics as in `evaluate`; those of the run that have a value a sample when empty.
        model: encoder of the image-text metrics that name none.
        n: samples to draw at random.
        changes: names of the changes to try ("blur", "words swapped" …); all when empty.
        seed: seed of the drawing, of noise and of the intervals.
        level: level of the intervals.
        device: as in `evaluate`; so are the others.

    Returns:
        By metric and change: the mean change of the value at every degree with its interval, in the metric's unit and
        in standard deviations of its own values, and whether the metric moves with the change or is blind to it.

    Raises:
        UserError: wrong settings, or fewer than two still pictures that can be read.
    """
    chosen = [metrics] if isinstance(metrics, (str, MetricSpec, SampleMetric)) else list(metrics)
    settings: dict[str, Any] = {
        "model": model, "dtype": dtype, "device": device, "level": level, "offline": offline,
        "cache_dir": None if cache_dir is None else os.fspath(cache_dir),
    }  # fmt: skip
    is_run = isinstance(data, (str, os.PathLike)) and os.path.isfile(os.path.join(os.fspath(data), "run.json"))
    if is_run or isinstance(data, Run):
        run = data if isinstance(data, Run) else Run(os.fspath(data))
        config = run_config(run, data=None, device=None, cache_dir=settings["cache_dir"], offline=offline, level=level)
        source = config_source(config)
        # Metrics of whole sets have no value a sample that could change.
        own: list[Any] = [str(item["identity"]) for item in run.header["metrics"] if item["label"] in run.sample_labels]
        chosen = chosen or own
        if model is not None:
            config = config.model_copy(update={"model": model})
    else:
        from beholder.manifest import open_source

        config = make_config(settings, source="the call")
        source = open_source(os.fspath(data) if isinstance(data, os.PathLike) else data)
    if not chosen:
        raise OptionError("the lab needs at least one metric", got="none", fix="Name one with -m, like -m clip_score")
    source.check()
    return experiment(source, config, chosen, n=n, changes=changes, seed=seed)
