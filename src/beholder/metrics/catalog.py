"""All metrics by name. Strings only: nothing is imported until a metric is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beholder._registry import Registry

if TYPE_CHECKING:
    from beholder.metrics.base import SampleMetric


def _check(name: str, value: object) -> None:
    """A plug-in must give a metric's class, under the name that stands in its card."""
    from beholder.metrics.base import SampleMetric
    from beholder.records import MetricInfo

    if not isinstance(value, type) or not issubclass(value, SampleMetric):
        raise TypeError(f"a metric must be a class derived from SampleMetric; got {value!r}")
    info = getattr(value, "info", None)
    if not isinstance(info, MetricInfo):
        raise TypeError(f"a metric's class must have a card, info = MetricInfo(…); got {info!r}")
    if info.name != name:
        raise ValueError(f"a metric must be registered under the name in its card; got {name!r} and {info.name!r}")


METRICS: Registry[type[SampleMetric]] = Registry("metric", group="beholder.metrics", check=_check)

METRICS.add("clip_score", "beholder.metrics.clip:ClipScore")
METRICS.add("clip_t", "beholder.metrics.clip:ClipT")
METRICS.add("clip_i", "beholder.metrics.clip_image:ClipI")
METRICS.add("pick_score", "beholder.metrics.preference:PickScore")
METRICS.add("itm_score", "beholder.metrics.matching:ItmScore")
METRICS.add("image_reward", "beholder.metrics.matching:ImageReward")
METRICS.add("vqa_score", "beholder.metrics.questions:VqaScore")
METRICS.add("vqa_checklist", "beholder.metrics.checklist:VqaChecklist")
METRICS.add("facesim_cur", "beholder.metrics.face_identity:FaceSimCur")
METRICS.add("facescore", "beholder.metrics.face_quality:FaceScore")
METRICS.add("clip_i_seg", "beholder.metrics.subject:ClipISeg")
METRICS.add("dino_i", "beholder.metrics.subject:DinoI")
METRICS.add("dino_i_seg", "beholder.metrics.subject:DinoISeg")
METRICS.add("background_share", "beholder.metrics.background:BackgroundShare")
METRICS.add("gme_score", "beholder.metrics.gme:GmeScore")
METRICS.add("hpsv2", "beholder.metrics.preference:HpsV2")
METRICS.add("hpsv2.1", "beholder.metrics.preference:HpsV21")
METRICS.add("laion_aesthetic", "beholder.metrics.image_scores:LaionAesthetic")
METRICS.add("laion_aesthetic_v2.5", "beholder.metrics.image_scores:LaionAestheticV25")
METRICS.add("artscore", "beholder.metrics.image_scores:ArtScore")
METRICS.add("copy_check", "beholder.metrics.copy_check:CopyCheck")
METRICS.add("ra_clip_score", "beholder.metrics.attributes:RaClipScore")
METRICS.add("hcs", "beholder.metrics.attributes:Hcs")
METRICS.add("natural_score", "beholder.metrics.natural:NaturalScore")
METRICS.add("nexus_score", "beholder.metrics.nexus:NexusScore")
METRICS.add("motion_amplitude", "beholder.metrics.motion:MotionAmplitude")
METRICS.add("motion_smoothness", "beholder.metrics.motion:MotionSmoothness")
METRICS.add("temporal_flickering", "beholder.metrics.motion:TemporalFlickering")
METRICS.add("subject_consistency", "beholder.metrics.motion:SubjectConsistency")
METRICS.add("background_consistency", "beholder.metrics.motion:BackgroundConsistency")
METRICS.add("fid", "beholder.metrics.set_distances:Fid")
METRICS.add("fd", "beholder.metrics.set_distances:Fd")
METRICS.add("kid", "beholder.metrics.set_distances:Kid")
METRICS.add("cmmd", "beholder.metrics.set_distances:Cmmd")
METRICS.add("precision", "beholder.metrics.set_neighbours:Precision")
METRICS.add("recall", "beholder.metrics.set_neighbours:Recall")
METRICS.add("density", "beholder.metrics.set_neighbours:Density")
METRICS.add("coverage", "beholder.metrics.set_neighbours:Coverage")
METRICS.add("vendi", "beholder.metrics.set_diversity:Vendi")
METRICS.add("diversity", "beholder.metrics.set_diversity:Diversity")
METRICS.add("sad", "beholder.metrics.attribute_set_metrics:Sad")
METRICS.add("pad", "beholder.metrics.attribute_set_metrics:Pad")
METRICS.add("dependence", "beholder.metrics.attribute_set_metrics:DependenceTerm")
METRICS.add("r_sad", "beholder.metrics.attribute_set_metrics:RSad")
METRICS.add("placement", "beholder.metrics.attribute_set_metrics:PlacementShift")
METRICS.add("regional_kl", "beholder.metrics.attribute_set_metrics:RegionalKl")
METRICS.add_family("pyiqa", "beholder.metrics.pyiqa:metric_class")
