"""Published rows of OpenS2V's board v1.1, in percent: context for reports, and test data; never results of ours."""

from __future__ import annotations

from collections.abc import Mapping

SOURCE = "OpenS2V-Nexus board v1.1, October 2025"

_OPEN = {
    "BindWeave": (57.61, 45.55, 95.90, 13.91, 53.71, 67.79, 46.84, 66.85),
    "VACE-14B": (57.55, 47.21, 94.97, 15.02, 55.09, 67.27, 44.08, 67.04),
    "Phantom-14B": (56.77, 46.39, 96.31, 33.42, 51.46, 70.65, 37.43, 69.35),
    "Kling1.6": (56.23, 44.59, 86.93, 41.60, 40.10, 66.20, 45.89, 74.59),
    "Phantom-1.3B": (54.89, 46.67, 93.30, 14.29, 48.56, 69.43, 42.48, 62.50),
    "MAGREF-480P": (52.51, 45.02, 93.17, 21.81, 30.83, 70.47, 43.04, 66.90),
    "SkyReels-A2-P14B": (52.25, 39.41, 87.93, 25.60, 45.95, 64.54, 43.75, 60.32),
    "Vidu2.0": (51.95, 41.48, 90.45, 13.52, 35.11, 67.57, 43.37, 65.88),
    "Pika2.1": (51.88, 46.88, 87.06, 24.71, 30.38, 69.19, 45.40, 63.32),
    "VACE-1.3B": (49.89, 48.24, 97.20, 18.83, 20.57, 71.26, 37.91, 65.46),
    "VACE-P1.3B": (48.98, 47.34, 96.80, 12.03, 16.59, 71.38, 40.19, 64.31),
}
_HUMAN = {
    "VACE-14B": (65.78, 52.78, 94.96, 11.76, 64.65, 69.53, 69.31),
    "Hailuo": (65.26, 52.75, 99.10, 31.80, 57.69, 71.42, 69.20),
    "Phantom-14B": (64.22, 49.14, 94.81, 41.24, 55.04, 72.55, 69.86),
    "Stand-In": (62.08, 51.25, 97.90, 5.03, 47.99, 69.91, 71.39),
    "HunyuanCustom": (61.22, 49.67, 84.73, 15.13, 62.25, 69.78, 60.56),
    "ID-Animator": (49.75, 42.03, 94.69, 33.54, 31.56, 52.91, 56.11),
}
_COLUMNS = ("total", "aes", "smooth", "ampl", "face", "gme", "nexus", "natural")


def published(version: str, track: str) -> Mapping[str, Mapping[str, float]]:
    """Rows of a board by model: total and parts in percent; none where none are at hand."""
    if version != "1.1" or track == "single":
        return {}
    columns = tuple(name for name in _COLUMNS if track == "open" or name != "nexus")
    rows = _OPEN if track == "open" else _HUMAN
    return {model: dict(zip(columns, row, strict=True)) for model, row in rows.items()}
