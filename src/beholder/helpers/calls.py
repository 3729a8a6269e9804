"""What the helper calls have in common: plans and loaded models that are kept, and numbers out of scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from beholder._errors import OptionError, UserError
from beholder._identity import MetricSpec, OptionValue
from beholder.manifest.schema import Sample
from beholder.media.base import Medium
from beholder.records import Score
from beholder.runs.config import RunConfig, make_config
from beholder.runs.plan import Plan, make_plan
from beholder.runs.quick import QuickScorer
from beholder.score_table import media_list, score_table

_KEPT = 4
"""Sets of loaded models that are kept."""


def release_models() -> None:
    """Unloads the models that these calls keep."""
    from beholder.helpers.artness import forget

    _quick.cache_clear()
    forget()


def planned(
    metric: str,
    options: dict[str, OptionValue],
    device: str,
    cache_dir: str | None,
    offline: bool | None,
    *,
    dtype: str = "auto",
) -> tuple[RunConfig, Plan]:
    """A checked config and a plan of one metric; a device that is not there is told before weights are looked for."""
    from beholder.backends.devices import choose_device
    from beholder.metrics.base import make_metric

    made = make_metric(MetricSpec(metric, dict(options)))
    config = make_config(
        {"metrics": (made.identity,), "device": device, "dtype": dtype, "cache_dir": cache_dir, "offline": offline},
        source="the call",
    )
    choose_device(device, dtype=dtype)
    return config, make_plan(config, metrics=[made])


@lru_cache(maxsize=_KEPT)
def _quick(
    metric: str,
    options: tuple[tuple[str, OptionValue], ...],
    device: str,
    cache_dir: str | None,
    offline: bool | None,
) -> tuple[QuickScorer, Plan]:
    config, plan = planned(metric, dict(options), device, cache_dir, offline)
    return QuickScorer(plan, config), plan


def scores_of(
    metric: str,
    options: dict[str, OptionValue],
    items: Sequence[tuple[Medium, tuple[Medium, ...]]],
    device: str,
    cache_dir: str | None,
    offline: bool | None,
) -> list[Score]:
    """Scores of (output, references), with the models of the last calls where they fit."""
    quick, plan = _quick(metric, tuple(sorted(options.items())), device, cache_dir, offline)
    return score_media(quick, plan, items)


def score_media(quick: QuickScorer, plan: Plan, items: Sequence[tuple[Medium, tuple[Medium, ...]]]) -> list[Score]:
    """Scores of (output, references), in their order."""
    samples = [
        Sample(str(at), output, row=at + 1, references=references) for at, (output, references) in enumerate(items)
    ]
    table, notices = quick.score(samples)
    couples: list[tuple[Medium, str | None]] = [(output, None) for output, _ in items]
    found = score_table(table, plan, couples, [output for output, _ in items], [None], notices, pairs=True)
    return [row.score for row in found.rows]


def one_medium(picture: Any) -> Medium:
    """The one picture that is meant.

    Raises:
        OptionError: none, or several.
    """
    media = media_list(picture)
    if len(media) != 1:
        raise OptionError("one picture is needed", got=f"{len(media)}")
    return media[0]


def as_float(value: float | None, status: Any, reason: str | None) -> float:
    """The value; an error that says why there is none."""
    if value is None:
        raise UserError("float() needs a score with a value", got=f"status {status} ({reason})")
    return value


def printed(value: float | None, status: Any, reason: str | None) -> str:
    """The value as text, or the status and the reason."""
    return str(value) if value is not None else f"{status} ({reason})"
