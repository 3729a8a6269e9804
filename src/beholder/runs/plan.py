"""Who needs what: from metric specifications to slots, resolved models and feature spaces."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from beholder._errors import OptionError
from beholder._hashing import hash_json
from beholder._identity import MetricSpec, format_value, parse_spec
from beholder.backends.base import LoadOptions, ResolvedModel
from beholder.backends.devices import require_device
from beholder.backends.kinds import Kind, kind_of
from beholder.manifest.columns import canonical_name
from beholder.manifest.schema import Sample
from beholder.media.sampling import FramePolicy
from beholder.metrics.base import SampleMetric, Slot, make_metric
from beholder.records import MetricInfo
from beholder.runs.config import RunConfig
from beholder.runs.licences import check_commercial
from beholder.runs.readiness import resolve_all
from beholder.runs.store import Space

Resolver = Callable[..., ResolvedModel]
"""Finds a model by name and by the capability that is asked of it."""
AskedMetric = Union[str, MetricSpec, SampleMetric]


@dataclass(frozen=True)
class PlannedSlot:
    """A metric's slot with the model that fills it and the spaces its features live in.

    Args:
        slot: the slot; of a model that takes videos whole, its feature is the one that the model makes.
        model: the model.
        space: where features of still pictures, of texts and of pairs with still pictures lie.
        several: where those of visuals of several pictures lie; None where there are no pixels.
    """

    slot: Slot
    model: ResolvedModel
    space: Space
    several: Space | None = None

    @property
    def kind(self) -> Kind:
        """The kind of its feature."""
        return kind_of(self.slot.feature)


@dataclass(frozen=True)
class PlannedMetric:
    """A metric with its column label and its slots."""

    metric: SampleMetric
    label: str
    slots: tuple[PlannedSlot, ...]


@dataclass(frozen=True)
class Plan:
    """Everything that a run's numbers depend on, apart from the samples.

    Args:
        metrics: metrics in the order asked for.
        models: resolved models by key, in the order of first use.
        truncation: what happens to a text that is too long.
        first_frame: True looks at an animation's first frame as at a still picture.
    """

    metrics: tuple[PlannedMetric, ...]
    models: dict[str, ResolvedModel]
    truncation: str
    first_frame: bool = False

    @property
    def key(self) -> str:
        """Hash of the plan: two runs with equal keys give equal numbers on equal samples."""
        return hash_json(self.describe())

    def describe(self) -> dict[str, Any]:
        """The plan as JSON: metrics, labels, spaces."""
        return {
            "metrics": [
                {
                    "identity": planned.metric.identity,
                    "label": planned.label,
                    "version": planned.metric.info.version,
                    "settings": planned.metric.describe(),
                    "spaces": {
                        item.slot.name: [space.hash for space in (item.space, item.several) if space is not None]
                        for item in planned.slots
                    },
                }
                for planned in self.metrics
            ],
            "truncation": self.truncation,
        }

    def spaces(self) -> dict[str, tuple[Space, ResolvedModel]]:
        """All distinct spaces by hash, with their models."""
        slots = [item for planned in self.metrics for item in planned.slots]
        several = {item.several.hash: (item.several, item.model) for item in slots if item.several is not None}
        return {item.space.hash: (item.space, item.model) for item in slots} | several


def make_metrics(
    asked: Sequence[AskedMetric], *, model: str | None = None, segmenter: str | None = None
) -> list[tuple[SampleMetric, str | None]]:
    """Metrics and their labels from what was asked for.

    Raises:
        OptionError: nothing was asked for, one metric stands twice, two labels are equal, or `model` or `segmenter` was
            given and no metric takes it.
    """
    if not asked:
        raise OptionError("a run needs at least one metric", fix="Name one with -m, for example: -m clip_score")
    made: list[tuple[SampleMetric, str | None]] = []
    for item in asked:
        if isinstance(item, SampleMetric):
            _check_own(item)
            made.append((item, None))
            continue
        spec = _with_segmenter(parse_spec(item) if isinstance(item, str) else item, segmenter)
        made.append((make_metric(spec, default_model=model), spec.label))
    _check_distinct(made)
    if model is not None and not any(metric.takes_model() for metric, _ in made):
        own = next((m.info.name for m, _ in made if any(item.name == "model" for item in m.info.options)), None)
        raise OptionError(
            "--model needs a metric that takes the model from it, a general encoder of pictures and texts",
            got=", ".join(m.identity for m, _ in made),
            fix=f"Name another model in the metric: -m {own},model=NAME" if own else None,
        )
    if segmenter is not None and not any(_segments(metric.info) for metric, _ in made):
        raise OptionError("--segmenter needs a metric that segments", got=", ".join(m.identity for m, _ in made))
    return made


def _asked_metrics(config: RunConfig, metrics: Sequence[AskedMetric] | None) -> list[tuple[SampleMetric, str | None]]:
    """The metrics of the settings, or those given instead, with the settings' model and segmenter."""
    asked = metrics if metrics is not None else config.metrics
    return make_metrics(asked, model=config.model, segmenter=config.segmenter)


def _with_segmenter(spec: MetricSpec, segmenter: str | None) -> MetricSpec:
    """The metric as it was asked for, with the run's segmenter where it takes one and names none."""
    from beholder.metrics.catalog import METRICS

    if segmenter is None or spec.options.get("segmenter") is not None or not _segments(METRICS.get(spec.name).info):
        return spec
    return dataclasses.replace(spec, options={**spec.options, "segmenter": segmenter})


def _segments(info: MetricInfo) -> bool:
    return any(option.name == "segmenter" for option in info.options)


def _check_distinct(made: Iterable[tuple[SampleMetric, str | None]]) -> None:
    seen: set[str] = set()
    for metric, _ in made:
        if metric.identity in seen:
            raise OptionError("each metric must be asked for once", got=f"{metric.identity} twice")
        seen.add(metric.identity)


def look_ahead(config: RunConfig, metrics: Sequence[AskedMetric] | None) -> bool:
    """True when a metric wants to look at the data set before the plan is made."""
    made = _asked_metrics(config, metrics)
    return any(metric.looks_ahead for metric, _ in made)


def is_registered(metric: SampleMetric) -> bool:
    """True when the metric's printed name makes the same metric again, in any process."""
    from beholder.metrics.catalog import METRICS

    return metric.info.name in METRICS and METRICS.get(metric.info.name) is type(metric)


def _check_own(metric: SampleMetric) -> None:
    """A user's own metric object needs a name that reads back and is no other metric's."""
    from beholder.metrics.catalog import METRICS

    identity = metric.identity
    if str(parse_spec(identity)) != identity:
        raise OptionError("a metric's printed name must read back as it is", got=repr(identity))
    if metric.info.name in METRICS and not is_registered(metric):
        raise OptionError(
            "a metric of your own must not have the name of another metric",
            got=repr(metric.info.name),
            fix="Give its card (MetricInfo) another name",
        )


def make_labels(metrics: Sequence[tuple[SampleMetric, str | None]]) -> list[str]:
    """Column labels: `as=`, else the name, else the name with the shortest option that tells it from its namesakes."""
    unnamed = [metric for metric, label in metrics if not label]
    short = [_short_label(metric, unnamed) for metric in unnamed]
    made = iter([m.identity if short.count(text) > 1 else text for m, text in zip(unnamed, short, strict=True)])
    labels = [label or next(made) for _, label in metrics]
    if len(set(labels)) != len(labels):
        twice = sorted({label for label in labels if labels.count(label) > 1})
        raise OptionError("labels must differ", got=", ".join(twice), fix="Give each its own with as=LABEL")
    for label in labels:
        _check_label(label, labels)
    return labels


def _check_label(label: str, labels: Sequence[str]) -> None:
    """A label names columns of the tables, so it must not name one that stands there already."""
    fix = "Give the metric another label with as=LABEL"
    if not label.isprintable() or not label.strip():
        raise OptionError("a label must be one line of printable text", got=repr(label), fix=fix)
    if canonical_name(label) == label:
        raise OptionError("a label must not be the name of an input column", got=repr(label), fix=fix)
    other = next(
        (one for one in labels if one != label and label in (*score_names(one), group_name(one), key_name(one))), None
    )
    if other is not None:
        raise OptionError(f"the label {label!r} must not name another column of {other!r}", got=label, fix=fix)


def score_names(label: str) -> tuple[str, str, str, str, str]:
    """The columns of a metric: value, status, reason, evidence, and the number of pairs behind a value."""
    return label, f"{label}_status", f"{label}_reason", f"{label}_evidence", f"{label}_pairs"


def group_name(label: str) -> str:
    """The column that holds a metric's group keys in the journal."""
    return f"{label}_group"


def key_name(label: str) -> str:
    """The column that holds the keys of a set metric's features in the journal."""
    return f"{label}_key"


def of_sets(metrics: Iterable[PlannedMetric]) -> list[PlannedMetric]:
    """The metrics of whole sets among some."""
    return [planned for planned in metrics if planned.metric.info.kind == "set"]


def of_samples(metrics: Iterable[PlannedMetric]) -> list[PlannedMetric]:
    """The metrics that give a value a sample."""
    return [planned for planned in metrics if planned.metric.info.kind == "sample"]


def refuse_sets(plan: Plan, what: str, fix: str) -> None:
    """Says that metrics of whole sets have no place in a call.

    Raises:
        OptionError: the plan has one.
    """
    found = [planned.metric.identity for planned in of_sets(plan.metrics)]
    if found:
        raise OptionError(f"{what} takes metrics of samples", got=", ".join(found) + ", of whole sets", fix=fix)


def _short_label(metric: SampleMetric, all_metrics: Sequence[SampleMetric]) -> str:
    """The name with the shortest option that no namesake shares, or the name alone where each option is shared."""
    name = metric.info.name
    others = [m for m in all_metrics if m.info.name == name and m is not metric]
    if not others or metric.identity == name:
        return name
    shown = parse_spec(metric.identity).options
    candidates = [
        f"{name}({key}={format_value(value)})"
        for key, value in shown.items()
        if all(parse_spec(other.identity).options.get(key) != value for other in others)
    ]
    return min(candidates, key=lambda text: (len(text), text), default=name)


def make_plan(
    config: RunConfig,
    *,
    metrics: Sequence[AskedMetric] | None = None,
    resolve: Resolver | None = None,
    samples: Iterable[Sample] | None = None,
) -> Plan:
    """Resolves every model that the metrics need and lays out the feature spaces.

    Args:
        config: the run's settings.
        metrics: metrics to use instead of `config.metrics` (may be objects).
        resolve: finds a model by name; the backends' pool by default.
        samples: the data set, read once more for each metric that looks ahead; None leaves those as they were asked
            for.

    Raises:
        UserError: metrics that do not go together, or a model that cannot serve.
        DeviceError: a device that this machine does not have.
        WeightsMissingError: weights that are nowhere to be found, those of all models in one message.
    """
    if config.engine == "local":  # on a cluster its machines count
        require_device(config.device)  # also where every feature is stored, and before weights are fetched
    resolve = resolve or _pool_resolver(config)
    made = _asked_metrics(config, metrics)
    if samples is not None:
        made = [(metric.fitted(samples) if metric.looks_ahead else metric, label) for metric, label in made]
    if config.commercial_only:
        check_commercial(metric for metric, _ in made)
    labels = make_labels(made)
    resolved: dict[tuple[str, str], ResolvedModel] = {}

    def find(slot: Slot) -> ResolvedModel:
        asked = (slot.model, kind_of(slot.feature).capability)
        if asked not in resolved:
            resolved[asked] = resolve(*asked)
        return resolved[asked]

    resolve_all((slot for metric, _ in made for slot in metric.slots), find)
    planned = [_plan_metric(metric, label, find, config) for (metric, _), label in zip(made, labels, strict=True)]
    return Plan(tuple(planned), _in_order(planned), config.truncation, config.first_frame)


def _plan_metric(
    metric: SampleMetric, label: str, find: Callable[[Slot], ResolvedModel], config: RunConfig
) -> PlannedMetric:
    """A metric with its slots; one that compares embeddings is asked for pairs where the model gives only those."""
    models = [find(slot) for slot in metric.slots]
    if any(model.capability == "Matcher" for model in models) and not _asks_for(metric, "Matcher"):
        metric = metric.on_pairs()
        models = [find(dataclasses.replace(slot, feature="match")) for slot in metric.slots]
    slots = []
    for slot, model in zip(metric.slots, models, strict=True):
        if slot.frames is not None:
            FramePolicy.parse(slot.frames)
        if slot.feature == "text_embedding" and model.capability == "ImageEncoder":
            raise OptionError(
                f"{metric.info.name} needs a model that embeds texts", got=f"{slot.model}, which embeds pictures only"
            )
        if slot.feature == "image_embedding" and model.capability == "VideoTextEncoder":
            slot = dataclasses.replace(slot, feature="video_embedding")
        slot = _with_own_frames(metric, slot, model)
        several = _space(slot, model, config, several=True) if kind_of(slot.feature).has_visual else None
        slots.append(PlannedSlot(slot, model, _space(slot, model, config), several))
    return PlannedMetric(metric, label, tuple(slots))


def _with_own_frames(metric: SampleMetric, slot: Slot, model: ResolvedModel) -> Slot:
    """The slot with as many frames as the model's clips have, where the metric was not asked for a policy."""
    clip = model.preprocessing.get("frames")
    default = next((option.default for option in metric.info.options if option.name == "frames"), None)
    if clip is None or slot.frames is None or slot.frames != default:
        return slot
    return dataclasses.replace(slot, frames=f"uniform:{clip}")


def _asks_for(metric: SampleMetric, capability: str) -> bool:
    return any(kind_of(slot.feature).capability == capability for slot in metric.slots)


def _in_order(planned: Sequence[PlannedMetric]) -> dict[str, ResolvedModel]:
    """Models by key in the order of first use; one whose features others derive pictures from comes before those."""
    depth: dict[str, int] = {}
    models: dict[str, ResolvedModel] = {}
    for metric in planned:
        slots = {item.slot.name: item for item in metric.slots}
        for item in metric.slots:
            models.setdefault(item.model.key, item.model)
            depth[item.model.key] = max(depth.get(item.model.key, 0), _depth(item, slots))
    return {key: models[key] for key in sorted(models, key=lambda key: depth[key])}


def _depth(item: PlannedSlot, slots: Mapping[str, PlannedSlot]) -> int:
    return max((1 + _depth(slots[name], slots) for name in item.slot.after), default=0)


def _pool_resolver(config: RunConfig) -> Resolver:
    from beholder.backends.pool import resolve_model

    options = LoadOptions(config.cache_dir, config.offline, config.api_options())
    return lambda name, capability: resolve_model(name, dtype=config.dtype, options=options, capability=capability)


def _space(slot: Slot, model: ResolvedModel, config: RunConfig, *, several: bool = False) -> Space:
    params: dict[str, Any] = dict(slot.params)
    if kind_of(slot.feature).has_visual:
        params["background"] = list(config.background)
        params["first_frame"] = config.first_frame
        params["max_pixels"] = config.max_pixels
    if several:
        params["frames"] = slot.frames
    return Space(model.key, slot.feature, params, {"model": model.id, "dtype": model.dtype})


def spaces_filled_too(spaces: Mapping[str, tuple[Space, ResolvedModel]]) -> dict[str, str]:
    """Spaces of patch tokens → the space of plain embeddings of the same encoder and pixels that their pass fills."""

    def key(space: Space) -> str:
        return hash_json([space.model_key, dict(space.params)])

    plain = {key(space): name for name, (space, _) in spaces.items() if space.feature == "image_embedding"}
    patches = {name: key(space) for name, (space, _) in spaces.items() if space.feature == "patches"}
    # Of visuals of several pictures the store keeps one row with lists, so these are not shared.
    return {name: plain[at] for name, at in patches.items() if at in plain and "frames" not in spaces[name][0].params}
