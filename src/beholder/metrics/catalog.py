"""All metrics by name. Strings only: nothing is imported until a metric is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beholder._registry import Registry

if TYPE_CHECKING:
    from beholder.metrics.base import SampleMetric

METRICS: Registry[type[SampleMetric]] = Registry("metric", group="beholder.metrics")

METRICS.add("clip_score", "beholder.metrics.clip:ClipScore")
METRICS.add("clip_t", "beholder.metrics.clip:ClipT")
METRICS.add("clip_i", "beholder.metrics.clip_image:ClipI")
METRICS.add("pick_score", "beholder.metrics.preference:PickScore")
