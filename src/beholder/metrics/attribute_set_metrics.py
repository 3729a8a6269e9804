"""Attributes of whole sets as metrics of a run: `sad`, `pad`, `dependence`, `r_sad`, `placement`, `regional_kl`.

Each is a mean over a list of attributes; a list of one gives that attribute's value. `beholder attributes` gives every
attribute and pair by itself, maps and figures.
"""

from __future__ import annotations

from typing import Any, cast, get_args

import numpy as np

from beholder._errors import NoValue, OptionError
from beholder.functional.divergence import Direction
from beholder.functional.placement import MASS_FLOOR, Background
from beholder.functional.relevance import PREVALENCE_FLOOR, SPREAD_FLOOR, relevance
from beholder.metrics.attribute_sets import MapSetMetric, ScoredSet, ScoreSetMetric, mean_value, name_largest, tell_null
from beholder.metrics.attributes import DEFAULT_MODEL, NEGATIVE, POSITIVE, RA_OPTIONS
from beholder.metrics.sets import FRAMES, Memo, SetSettings, SetValue, model_option
from beholder.records import MetricInfo, OptionInfo, Status
from beholder.stats.region_sets import judge_regions
from beholder.stats.resample import judge
from beholder.stats.score_sets import Density

_MODEL = model_option(DEFAULT_MODEL, "Encoder: a CLIP vision transformer with a global token.")
_OPTIONS = (
    _MODEL,
    OptionInfo(
        "attributes", (), "The list: texts, or faces, animals or scenes; 'open eyes|closed eyes' names a counterpart.",
        kind="list",
    ),
    OptionInfo("positive", POSITIVE, "Prompt of an image that shows it; {} stands for the attribute."),
    OptionInfo("negative", NEGATIVE, "Prompt of an image that does not, where there is no counterpart."),
    *RA_OPTIONS,
    FRAMES,
)  # fmt: skip
_DIRECTION = OptionInfo("direction", "gen||ref", "Which set stands first in the KL.", choices=get_args(Direction))
_DENSITY = OptionInfo(
    "density", "gaussian", "How scores become densities; kde_legacy: as the public code, ref||gen, on its scale.",
    choices=get_args(Density),
)  # fmt: skip
_SCORES = (*_OPTIONS, _DIRECTION, _DENSITY)
_BY_EACH = "beholder attributes gives every attribute and pair by itself, maps, and several sets ranked."
_CARD: dict[str, Any] = {
    "family": "attributes", "kind": "set", "inputs": ("output",), "reference_code": None, "version": "1",
    "capability": "PatchEncoder", "default_model": DEFAULT_MODEL,
    "licence_note": "The encoder's licence stands in its card.",
}  # fmt: skip
_PAPER = "Lu et al., RA-CLIPScore and R-SaD, arXiv 2608.12088"
_FEW = "Fewer than 3 pictures in a set, or no attributes, are an error; a token without direction leaves the set."
_POSITIVE = "Positive even when nothing differs: read it beside the null level in its note."


class Sad(ScoreSetMetric):
    """`sad`: see its card."""

    statistic = "sad"
    info = MetricInfo(
        name="sad",
        summary="Single-attribute divergence: how far the scores of attributes are from those of a real set.",
        formula="mean over attributes of KL(N(μ_gen, s²_gen) ‖ N(μ_real, s²_real)) of RA-CLIPScores, variances + 1e-6; "
        "or by kernels",
        unit="nats",
        range=(0.0, None),
        higher_is_better=False,
        degenerate=_FEW + " No relevant attribute, with over=relevant, has the status not_applicable.",
        paper=_PAPER + ", eqs. 10 and 12",
        options=(
            *_SCORES,
            OptionInfo(
                "over", "all", "all attributes, or the relevant ones: those that are not below both floors in both "
                "sets.", choices=("all", "relevant"),
            ),
            OptionInfo("prevalence_floor", PREVALENCE_FLOOR, "Least share of scores above one half.", kind="float"),
            OptionInfo("spread_floor", SPREAD_FLOOR, "Least standard deviation of scores.", kind="float"),
        ),
        notes=(_POSITIVE, "A single normal can miss changes of shape, and is huge for attributes that no image has.",
               "Attributes below both floors in both sets are flagged in the note, not dropped.", _BY_EACH),
        **_CARD,
    )  # fmt: skip

    def chosen(self, real: ScoredSet, gen: ScoredSet) -> list[int]:
        flags = self._irrelevant(real, gen)
        if self.options["over"] == "all":
            return list(range(len(flags)))
        if flags.all():
            raise NoValue(Status.NOT_APPLICABLE, "no attribute of the list is relevant: all are below both floors")
        found: list[int] = np.flatnonzero(~flags).tolist()
        return found

    def remarks(self, real: ScoredSet, gen: ScoredSet) -> list[str]:
        names = [self.attributes[at].name for at in np.flatnonzero(self._irrelevant(real, gen))]
        return ["irrelevant: " + ", ".join(names)] if names else []

    def _irrelevant(self, real: ScoredSet, gen: ScoredSet) -> np.ndarray:
        return relevance(
            real.scores, gen.scores, prevalence_floor=float(cast("float", self.options["prevalence_floor"])),
            spread_floor=float(cast("float", self.options["spread_floor"])),
        ).irrelevant  # fmt: skip


class Pad(ScoreSetMetric):
    """`pad`: see its card."""

    statistic = "pad"
    least_attributes = 2
    info = MetricInfo(
        name="pad",
        summary="Paired-attribute divergence: how far the joint scores of two attributes are from those of a real set.",
        formula="mean over pairs of KL(N₂(μ_gen, S_gen) ‖ N₂(μ_real, S_real)) of RA-CLIPScores, S + 1e-6·I; or by "
        "kernels",
        unit="nats",
        range=(0.0, None),
        higher_is_better=False,
        degenerate=_FEW + " A list of one attribute is an error, too.",
        paper=_PAPER + ", eqs. 11 and 13",
        options=_SCORES,
        notes=(_POSITIVE, "Holds the divergence of each attribute too: see dependence.", _BY_EACH),
        **_CARD,
    )


class DependenceTerm(ScoreSetMetric):
    """`dependence`: see its card."""

    statistic = "dependence"
    least_attributes = 2
    info = MetricInfo(
        name="dependence",
        summary="The part of PaD that is a change of coupling: attributes that come together when they should not.",
        formula="mean over pairs (p, q) of PaD(p, q) − SaD(p) − SaD(q)",
        unit="nats",
        range=(None, None),
        higher_is_better=None,
        degenerate=_FEW + " A list of one attribute is an error, too.",
        paper=None,
        options=_SCORES,
        notes=("Signed: below 0 where the real set's attributes are themselves correlated.",
               "Pairs of both signs cancel in the mean: ask for one pair, as in dependence(attributes=[…, …]).",
               _BY_EACH),
        **_CARD,
    )  # fmt: skip


class RSad(MapSetMetric):
    """`r_sad`: see its card."""

    info = MetricInfo(
        name="r_sad",
        summary="Where in the picture attributes are more or less prominent than in a real set: size of R-SaD maps.",
        formula="mean over attributes and patches of |mean_real r~_j − mean_gen r~_j|, r~ the refined patch scores",
        unit="probability",
        range=(0.0, 1.0),
        higher_is_better=False,
        degenerate=_FEW,
        paper=_PAPER + ", eqs. 14 and 20",
        options=_OPTIONS,
        notes=(_POSITIVE, "Mixes how often with where: see placement.", _BY_EACH),
        **_CARD,
    )

    def compare(self, real: ScoredSet, gen: ScoredSet, settings: SetSettings, memo: Memo) -> SetValue:
        found = self.judged_maps(real, gen, settings, memo)
        values = np.asarray([float(one.sizes["mar"].value) for one in found])
        boot, null = (np.mean([one.mar_draws[k] for one in found], axis=0) for k in (0, 1))
        mean = judge(values.mean(), boot=boot, null=null, level=settings.level)
        level = float(np.mean([float(one.sizes["level"].value) for one in found]))
        names = [item.name for item in self.attributes]
        told = f"level {level:+.4g} (real minus generated)"
        return mean_value(mean, len(found), [tell_null(mean, settings.level), told, name_largest(names, values)])


class PlacementShift(MapSetMetric):
    """`placement`: see its card."""

    info = MetricInfo(
        name="placement",
        summary="Whether attributes stand elsewhere in the picture than in a real set, however often they occur.",
        formula="mean over attributes of JSD(p_real, p_gen), p a mean map above its background, divided by its sum",
        unit="nats",
        range=(0.0, 0.6931471805599453),
        higher_is_better=False,
        degenerate=_FEW + " Attributes with too little mass in a set are left out; all of them: not_enough_evidence.",
        paper=None,
        options=(
            *_OPTIONS,
            OptionInfo("background", "min", "Level that a map is taken above.", choices=get_args(Background)),
            OptionInfo("mass_floor", MASS_FLOOR, "Least mean of a map above its background.", kind="float"),
        ),
        notes=(_POSITIVE, "Of a list of one, the note tells the shift of the centroid.", _BY_EACH),
        **_CARD,
    )

    def compare(self, real: ScoredSet, gen: ScoredSet, settings: SetSettings, memo: Memo) -> SetValue:
        names = [item.name for item in self.attributes]
        judged = self.judged_maps(real, gen, settings, memo)
        found = [(name, one) for name, one in zip(names, judged) if one.placement]
        if not found:
            reason = "no attribute has enough mass in both sets for its place to be told"
            raise NoValue(Status.NOT_ENOUGH_EVIDENCE, reason)
        values = np.asarray([float(one.placement["jsd"].value) for _, one in found])
        left = [name for name, one in zip(names, judged) if not one.placement]
        remark = "not enough evidence of: " + ", ".join(left) if left else ""
        if len(found) == 1:
            mean, place = found[0][1].placement["jsd"], found[0][1].placement
            shift = ", ".join(f"{float(place[name].value):+.3g} {way}" for name, way in
                              (("shift_x", "right"), ("shift_y", "down")))  # fmt: skip
            return mean_value(mean, 1, [tell_null(mean, settings.level), f"centroid moved {shift}", remark])
        # Null draws of two attributes are made apart, so only the bootstrap can be averaged.
        boot = np.mean([one.jsd_draws for _, one in found], axis=0)
        mean = judge(values.mean(), boot=boot, level=settings.level)
        nulls = [one.placement["jsd"].null_mean for _, one in found]
        told = f"null mean {float(np.mean(nulls)):.4g}" if all(one is not None for one in nulls) else ""  # type: ignore[arg-type]
        return mean_value(mean, len(found), [told, name_largest([name for name, _ in found], values), remark])


class RegionalKl(MapSetMetric):
    """`regional_kl`: see its card."""

    info = MetricInfo(
        name="regional_kl",
        summary="How far the distributions of patch scores are from a real set's, region by region.",
        formula="mean over attributes and regions of KL(N(μ_gen, s²_gen) ‖ N(μ_real, s²_real)) of refined patch scores "
        "averaged over the region, variances + 1e-6",
        unit="nats",
        range=(0.0, None),
        higher_is_better=False,
        degenerate=_FEW,
        paper=None,
        options=(
            *_OPTIONS,
            _DIRECTION,
            OptionInfo("regions", 7, "Regions along each side; the patches themselves where that does not divide them.",
                       kind="int"),
        ),
        notes=(_POSITIVE, "Not the paper's R-SaD, which is a signed difference of means.", _BY_EACH),
        **_CARD,
    )  # fmt: skip

    @property
    def least(self) -> int:
        if int(cast("int", self.options["regions"])) < 1:
            raise OptionError("regions must be at least 1", got=str(self.options["regions"]))
        return super().least

    def compare(self, real: ScoredSet, gen: ScoredSet, settings: SetSettings, memo: Memo) -> SetValue:
        found = judge_regions(
            real.regions, gen.regions, self.map_settings(real, settings), direction=str(self.options["direction"])
        )
        values = np.asarray([float(one.mean.value) for one in found])
        boot, null = (np.mean([getattr(one, name) for one in found], axis=0) for name in ("boot", "null"))
        mean = judge(values.mean(), boot=boot, null=null, level=settings.level)
        return mean_value(
            mean, len(found), [tell_null(mean, settings.level), name_largest([a.name for a in self.attributes], values)]
        )
