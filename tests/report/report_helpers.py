"""Summaries and headers made by hand."""

from __future__ import annotations

from typing import Any

from beholder.records import Summary


def summary(label: str = "clip_score", value: float | None = 0.27527, **changes: Any) -> Summary:
    """A summary of one metric with sensible facts; the interval is [0.2701, 0.2804] unless changed."""
    facts: dict[str, Any] = {
        "metric": label,
        "label": label,
        "aggregate": "micro",
        "value": value,
        "low": None if value is None else 0.2701,
        "high": None if value is None else 0.2804,
        "level": 0.95,
        "ci_method": None if value is None else "bootstrap-percentile",
        "unit": "prompt",
        "n": 240,
        "n_units": 80,
        "n_missing": {},
        "sd": 0.02,
    }
    return Summary(**{**facts, **changes})


def metric(label: str, **changes: Any) -> dict[str, Any]:
    """A metric's entry in a run's header."""
    facts: dict[str, Any] = {
        "label": label,
        "identity": label,
        "info": {"name": label, "unit": "cosine", "higher_is_better": True, "version": "1"},
        "settings": {},
        "slots": {"image": {"model": "hf:openai/clip-vit-large-patch14", "model_key": "k1"}},
    }
    return {**facts, **changes}


def header(*metrics: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A run's header."""
    facts: dict[str, Any] = {
        "metrics": list(metrics),
        "models": {"k1": {"weights_sha256": "a" * 64, "dtype": "float32", "preprocessing": {"size": 224}}},
        "decode": {"background": [255, 255, 255]},
        "truncation": "truncate",
        "versions": {"beholder": "0.1.0", "platform": "linux"},
    }
    return {**facts, **changes}
