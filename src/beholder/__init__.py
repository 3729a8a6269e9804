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
    "FakeEncoder": "beholder.backends.fake",
    "InputError": "beholder._errors",
    "MetricInfo": "beholder.records",
    "ModelCard": "beholder.records",
    "Run": "beholder.runs.results",
    "SampleMetric": "beholder.metrics.base",
    "Score": "beholder.records",
    "ScoreTable": "beholder.api",
    "Status": "beholder.records",
    "Summary": "beholder.records",
    "UserError": "beholder._errors",
    "agree": "beholder.comparing.agree",
    "compare": "beholder.comparing.compare",
    "evaluate": "beholder.api",
    "list_metrics": "beholder.api",
    "list_models": "beholder.api",
    "open_run": "beholder.api",
    "open_run_folder": "beholder.runs.results",
    "register_encoder": "beholder.backends.pool",
    "run": "beholder.api",
    "score": "beholder.api",
}

if TYPE_CHECKING:
    from beholder._errors import BeholderError, InputError, UserError
    from beholder.api import ScoreTable, evaluate, list_metrics, list_models, open_run, run, score
    from beholder.backends.fake import FakeEncoder
    from beholder.backends.pool import register_encoder
    from beholder.comparing.agree import agree
    from beholder.comparing.compare import compare
    from beholder.metrics.base import SampleMetric
    from beholder.records import MetricInfo, ModelCard, Score, Status, Summary
    from beholder.runs.results import Run, open_run_folder

__all__ = [
    "BeholderError",
    "FakeEncoder",
    "InputError",
    "MetricInfo",
    "ModelCard",
    "Run",
    "SampleMetric",
    "Score",
    "ScoreTable",
    "Status",
    "Summary",
    "UserError",
    "agree",
    "compare",
    "evaluate",
    "list_metrics",
    "list_models",
    "open_run",
    "open_run_folder",
    "register_encoder",
    "run",
    "score",
]


def __getattr__(name: str) -> Any:
    if name not in _TARGETS:
        raise AttributeError(f"module 'beholder' has no attribute {name!r}")
    value = getattr(importlib.import_module(_TARGETS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
