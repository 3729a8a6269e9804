"""What moves the numbers of an attribute evaluation, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, get_args

from beholder._errors import OptionError, UnknownNameError
from beholder.functional.divergence import Direction
from beholder.functional.patches import global_column
from beholder.functional.placement import Background
from beholder.metrics.attributes import DEFAULT_MODEL, HCS_PROMPT, NEGATIVE, POSITIVE
from beholder.stats.map_sets import MOST_IMAGES
from beholder.stats.score_sets import Density

SCORES = ("ra_clip_score", "hcs", "clip_score")


@dataclass(frozen=True)
class AttributeSettings:
    """Settings under which numbers may be compared.

    Args:
        model: encoder.
        score: what divergences are made of: "ra_clip_score", "hcs" or "clip_score" (100·cosine).
        positive, negative: prompts of RA-CLIPScore.
        prompt: prompt of the other two scores.
        text_center: of HCS: "prompt" or "bare".
        tau, tau_agg, refine, renormalize_rows, include_cls, dual, local, global_layer: see `ra_clip_score`.
        density: "gaussian", "kde" or "kde_legacy".
        direction: "gen||ref" or "ref||gen"; None takes "ref||gen" for "kde_legacy", which has no other, else the first.
        legacy_scale: divergences times 1000, as the public code of HCS prints them; always so for "kde_legacy".
        background, mass_floor: see `functional.placement`.
        regions: cells along each side of the regional map; the grid's own where its sides do not divide by it.
        prevalence_floor, spread_floor: below both in both sets an attribute is flagged as irrelevant.
        by_class: statistics of attribute t from images whose `class_name` is t.
        maps: also look at where attributes are (R-SaD, placement).
        map_images: images of a set whose maps are kept one by one, for a null by reshuffled labels; of more, sums.
        seed, resamples, permutations, level: see `stats.score_sets`.
    """

    model: str = DEFAULT_MODEL
    score: str = "ra_clip_score"
    positive: str = POSITIVE
    negative: str = NEGATIVE
    prompt: str = HCS_PROMPT
    text_center: str = "prompt"
    tau: float = 0.0
    tau_agg: float = 0.0
    refine: str = "mean"
    renormalize_rows: bool = True
    include_cls: bool = True
    dual: bool = True
    local: bool = True
    global_layer: str = "L"
    density: str = "gaussian"
    direction: str | None = None
    legacy_scale: bool = False
    background: str = "min"
    mass_floor: float = 0.002
    regions: int = 7
    prevalence_floor: float = 0.01
    spread_floor: float = 0.02
    by_class: bool = False
    maps: bool = True
    map_images: int = MOST_IMAGES
    seed: int = 0
    resamples: int = 1000
    permutations: int = 1000
    level: float = 0.95

    def __post_init__(self) -> None:
        legacy = self.density == "kde_legacy"
        if self.direction is None:
            object.__setattr__(self, "direction", "ref||gen" if legacy else "gen||ref")
        elif legacy and self.direction == "gen||ref":
            raise OptionError("density kde_legacy has the direction ref||gen", got=self.direction)
        for name, allowed in (
            ("score", SCORES),
            ("density", get_args(Density)),
            ("direction", get_args(Direction)),
            ("background", get_args(Background)),
            ("refine", ("mean", "none")),
            ("text_center", ("prompt", "bare")),
        ):
            if getattr(self, name) not in allowed:
                raise OptionError(f"{name} must be one of: {', '.join(allowed)}", got=repr(getattr(self, name)))
        global_column(self.global_layer)
        if min(self.resamples, self.permutations, self.seed) < 0:
            raise OptionError("resamples, permutations and seed must be 0 or more", got="a negative number")
        if not 0 < self.level < 1:
            raise OptionError("a confidence level must lie between 0 and 1", got=repr(self.level))
        for name in ("regions", "map_images"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1", got=repr(getattr(self, name)))

    @property
    def feature(self) -> str:
        """The kind of feature that is needed."""
        return "patches" if self.maps or self.score == "ra_clip_score" else "image_embedding"

    @property
    def unit(self) -> float:
        """A power of two that no score exceeds."""
        return 1.0 if self.score == "ra_clip_score" else 128.0

    @property
    def floor(self) -> float:
        """Variance floor: 1e-6 of the square of the scores' scale."""
        return 1e-6 if self.score == "ra_clip_score" else 1e-2

    @property
    def kl_unit(self) -> str:
        """The unit of divergences."""
        return "1000 × nats" if self.legacy_scale or self.density == "kde_legacy" else "nats"

    def as_json(self) -> dict[str, Any]:
        """All settings, JSON-ready."""
        return asdict(self) | {"floor": self.floor}


def make_settings(given: Mapping[str, Any]) -> AttributeSettings:
    """Settings from keywords; None stands for the default.

    Raises:
        UnknownNameError: no such setting.
        OptionError: a value that is not allowed.
    """
    known = [field.name for field in fields(AttributeSettings)]
    for name in given:
        if name not in known:
            raise UnknownNameError("setting of attributes", name, known)
    return AttributeSettings(**{name: value for name, value in given.items() if value is not None})
