"""Scores generated images and videos, and says how far each number can be trusted.

>>> import beholder
>>> run = beholder.evaluate("samples.jsonl", metrics=["clip_score", "clip_i"])     # doctest: +SKIP
>>> run.summary, run.scores                                                        # doctest: +SKIP

Importing this package loads no model library; names are looked up when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_TARGETS = {
    "BeholderError": "beholder._errors",
    "CLIPScore": "beholder.scorers",
    "FakeEncoder": "beholder.backends.fake",
    "FakeModel": "beholder.backends.fake_models",
    "ITMScore": "beholder.scorers",
    "InputError": "beholder._errors",
    "MetricInfo": "beholder.records",
    "ModelCard": "beholder.records",
    "NoValue": "beholder._errors",
    "Run": "beholder.runs.results",
    "SampleMetric": "beholder.metrics.base",
    "Score": "beholder.records",
    "ScoreTable": "beholder.score_table",
    "Status": "beholder.records",
    "Summary": "beholder.records",
    "UserError": "beholder._errors",
    "VQAScore": "beholder.scorers",
    "agree": "beholder.comparing.agree",
    "attributes": "beholder.attributing.call",
    "bench": "beholder.protocol_runs",
    "compare": "beholder.comparing.compare",
    "compute_artscore": "beholder.helpers.artness",
    "compute_facescore": "beholder.helpers.faces",
    "compute_facesim_cur": "beholder.helpers.faces",
    "compute_facesim_cur_videos": "beholder.helpers.video_faces",
    "compute_gme_score": "beholder.helpers.opens2v",
    "compute_natural_score": "beholder.helpers.opens2v",
    "compute_nexus_score": "beholder.helpers.opens2v",
    "evaluate": "beholder.api",
    "get_score_model": "beholder.scorers",
    "grid": "beholder.reporting.grids",
    "history": "beholder.reporting.histories",
    "knowcusbench": "",
    "list_all_clipscore_models": "beholder.scorers",
    "list_all_itmscore_models": "beholder.scorers",
    "list_all_models": "beholder.scorers",
    "list_all_vqascore_models": "beholder.scorers",
    "list_metrics": "beholder.api",
    "list_models": "beholder.api",
    "list_protocols": "beholder.protocol_runs",
    "load_artscore_model": "beholder.helpers.artness",
    "make_stats": "beholder.runs.set_stats",
    "merge": "beholder.runs.merge",
    "open_run": "beholder.api",
    "open_run_folder": "beholder.runs.results",
    "register_encoder": "beholder.backends.pool",
    "register_model": "beholder.backends.pool",
    "register_segmenter": "beholder.backends.segment.plain",
    "run": "beholder.api",
    "run_lab": "beholder.experiments",
    "score": "beholder.api",
    "verify": "beholder.verifying",
    "write_report": "beholder.reporting.make",
}

if TYPE_CHECKING:
    from beholder import knowcusbench
    from beholder._errors import BeholderError, InputError, NoValue, UserError
    from beholder.api import evaluate, list_metrics, list_models, open_run, run, score
    from beholder.attributing.call import attributes
    from beholder.backends.fake import FakeEncoder
    from beholder.backends.fake_models import FakeModel
    from beholder.backends.pool import register_encoder, register_model
    from beholder.backends.segment.plain import register_segmenter
    from beholder.comparing.agree import agree
    from beholder.comparing.compare import compare
    from beholder.experiments import run_lab
    from beholder.helpers.artness import compute_artscore, load_artscore_model
    from beholder.helpers.faces import compute_facescore, compute_facesim_cur
    from beholder.helpers.opens2v import compute_gme_score, compute_natural_score, compute_nexus_score
    from beholder.helpers.video_faces import compute_facesim_cur_videos
    from beholder.metrics.base import SampleMetric
    from beholder.protocol_runs import bench, list_protocols
    from beholder.records import MetricInfo, ModelCard, Score, Status, Summary
    from beholder.reporting.grids import grid
    from beholder.reporting.histories import history
    from beholder.reporting.make import write_report
    from beholder.runs.merge import merge
    from beholder.runs.results import Run, open_run_folder
    from beholder.runs.set_stats import make_stats
    from beholder.score_table import ScoreTable
    from beholder.scorers import (
        CLIPScore,
        ITMScore,
        VQAScore,
        get_score_model,
        list_all_clipscore_models,
        list_all_itmscore_models,
        list_all_models,
        list_all_vqascore_models,
    )
    from beholder.verifying import verify

__all__ = [
    "BeholderError",
    "CLIPScore",
    "FakeEncoder",
    "FakeModel",
    "ITMScore",
    "InputError",
    "MetricInfo",
    "ModelCard",
    "NoValue",
    "Run",
    "SampleMetric",
    "Score",
    "ScoreTable",
    "Status",
    "Summary",
    "UserError",
    "VQAScore",
    "agree",
    "attributes",
    "bench",
    "compare",
    "compute_artscore",
    "compute_facescore",
    "compute_facesim_cur",
    "compute_facesim_cur_videos",
    "compute_gme_score",
    "compute_natural_score",
    "compute_nexus_score",
    "evaluate",
    "get_score_model",
    "grid",
    "history",
    "knowcusbench",
    "list_all_clipscore_models",
    "list_all_itmscore_models",
    "list_all_models",
    "list_all_vqascore_models",
    "list_metrics",
    "list_models",
    "list_protocols",
    "load_artscore_model",
    "make_stats",
    "merge",
    "open_run",
    "open_run_folder",
    "register_encoder",
    "register_model",
    "register_segmenter",
    "run",
    "run_lab",
    "score",
    "verify",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _TARGETS:
        raise AttributeError(f"module 'beholder' has no attribute {name!r}")
    home = _TARGETS[name]
    value: Any = getattr(importlib.import_module(home), name) if home else importlib.import_module(f"beholder.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
