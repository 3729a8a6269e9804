"""Columns of an attribute run's tables: the settings decide them, so that what sets lack makes no column disappear."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beholder.attributing.settings import AttributeSettings

PARTS = ("low", "high", "null_mean", "null_level", "p", "corrected")
LYING_HIGH = ("sad", "pad", "sad_mean", "pad_mean", "sad_mean_relevant")
"""Statistics whose corrected value has an interval of its own."""
SINGLE = ("sad", "mean_difference", "w1", "jsd")
SIZES = ("mar", "level", "mar_shape")
PLACES = ("jsd", "w1_x", "w1_y", "shift_x", "shift_y", "spread_ratio")
CORRECTED = ("sad", "mar", "placement_jsd", "regional_kl")
"""Statistics whose p-values are adjusted over attributes (Benjamini-Hochberg), as `<name>_q`."""
PAIRED = ("pad", "dependence")
MEANS = ("sad_mean", "pad_mean", "sad_mean_relevant", "mar_mean", "regional_kl_mean", "placement_jsd_mean")
RELEVANCE = ("prevalence_ref", "prevalence_gen", "spread_ref", "spread_gen")

_TEXT = "string"
_NUMBER = "float64"
_COUNT = "int64"
_FLAG = "bool"

Columns = dict[str, str]
"""Arrow's name of a column's type, by the column's name."""


def table_columns(settings: AttributeSettings) -> dict[str, Columns]:
    """Columns of "attributes", "pairs" and "sets", in their order."""
    own = dict.fromkeys(("set", "attribute", "group", "positive", "counterpart"), _TEXT)
    own |= {"n_ref": _COUNT, "n_gen": _COUNT, "status": _TEXT, "reason": _TEXT} | _judged(SINGLE)
    if settings.score == "ra_clip_score":
        own |= dict.fromkeys(RELEVANCE, _NUMBER) | {"irrelevant": _FLAG}
    if settings.maps:
        own |= {"map_status": _TEXT, "map_null": _TEXT, "significant_cells": _COUNT, "t_threshold": _NUMBER}
        own |= _judged(SIZES) | {"mass_ref": _NUMBER, "mass_gen": _NUMBER, "placement_status": _TEXT}
        own |= _judged(tuple(f"placement_{name}" for name in PLACES)) | _judged(("regional_kl",))
    own |= {f"{name}_q": _NUMBER for name in CORRECTED if name in own}
    paired = {"set": _TEXT, "first": _TEXT, "second": _TEXT} | _judged(PAIRED)
    paired |= {"condition_number": _NUMBER} | {f"{name}_q": _NUMBER for name in PAIRED}
    whole = {"rank": _COUNT, "set": _TEXT, "n_ref": _COUNT, "n_gen": _COUNT} | _judged(MEANS)
    whole |= dict.fromkeys(("n_attributes", "n_relevant", "significant_attributes"), _COUNT)
    whole |= dict.fromkeys(("n_missing_ref", "n_missing"), _TEXT)
    return {"attributes": own, "pairs": paired, "sets": whole}


def _judged(names: tuple[str, ...]) -> Columns:
    """A statistic and everything about it, as `analyse` puts them."""
    return {column: _NUMBER for name in names for column in (name, *(f"{name}_{part}" for part in parts_of(name)))}


def parts_of(name: str) -> tuple[str, ...]:
    """What is told of a statistic, by the ends of its columns' names.

    >>> parts_of("sad")[-3:]
    ('corrected', 'corrected_low', 'corrected_high')
    """
    return (*PARTS, "corrected_low", "corrected_high") if name in LYING_HIGH else PARTS
