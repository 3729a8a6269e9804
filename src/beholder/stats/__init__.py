"""Statistics: exact means that merge, confidence intervals over sampled units, summaries by group."""

from __future__ import annotations

from beholder.stats.aggregate import summarise
from beholder.stats.bootstrap import Interval, mean_interval
from beholder.stats.exact import ExactSum, Moments, weighted_mean

__all__ = ["ExactSum", "Interval", "Moments", "mean_interval", "summarise", "weighted_mean"]
