"""Which models of a run are loaded together: each pass reads and decodes the samples once for all of its models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from beholder.backends.base import ResolvedModel
from beholder.backends.devices import device_memory
from beholder.runs.plan import Plan

SHARE = 0.5
"""Share of the device's memory that the weights of a pass may take; batches need the rest."""


def passes(plan: Plan, memory: Callable[[], int]) -> list[list[ResolvedModel]]:
    """The models in passes, each model in or behind the passes of those whose features it needs.

    A model joins the first pass in which its weights have room beside the others'. One that is larger than that has a
    pass with none but models without weights: two big models are never in memory together.

    Args:
        plan: the plan.
        memory: bytes of the device's memory; asked only where a model has weights.
    """
    needs = _needs(plan)
    sizes = {key: weight_bytes(model) for key, model in plan.models.items()}
    room = SHARE * memory() if sum(size > 0 for size in sizes.values()) > 1 else 0.0
    made: list[list[ResolvedModel]] = []
    held: list[float] = []
    place: dict[str, int] = {}
    for key, model in plan.models.items():
        at = max((place[other] for other in needs.get(key, ()) if other in place), default=0)
        while at < len(made) and sizes[key] and held[at] and held[at] + sizes[key] > room:
            at += 1
        if at == len(made):
            made.append([])
            held.append(0.0)
        made[at].append(model)
        held[at] += sizes[key]
        place[key] = at
    return made


def passes_of(plan: Plan, device: str) -> list[list[ResolvedModel]]:
    """The models of a plan in passes on a device of this machine."""
    return passes(plan, lambda: device_memory(device))


def weight_bytes(model: ResolvedModel) -> float:
    """Bytes of a model's weights as they lie on disk; 0 for one without weights, or that is in memory anyhow."""
    if not model.location:
        return 0.0
    if model.card.size_bytes is not None:
        return float(model.card.size_bytes)
    path = Path(model.location)
    try:
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        return float(sum(file.stat().st_size for file in files)) or float("inf")
    except OSError:
        return float("inf")


def _needs(plan: Plan) -> dict[str, set[str]]:
    """Models by key, with those whose features they need."""
    needs: dict[str, set[str]] = {}
    for planned in plan.metrics:
        models = {item.slot.name: item.model.key for item in planned.slots}
        for item in planned.slots:
            needs.setdefault(item.model.key, set()).update(models[name] for name in item.slot.after)
    return needs
