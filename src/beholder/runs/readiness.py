"""What keeps a run's models from being used, told before anything is computed: all of it in one message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from beholder._errors import ModelError, UserError, WeightsMissingError
from beholder.backends.base import ResolvedModel
from beholder.metrics.base import Slot


def resolve_all(slots: Iterable[Slot], find: Callable[[Slot], ResolvedModel]) -> None:
    """Finds the model of every slot, so that all whose weights are missing are told of at once.

    Args:
        slots: the slots of all metrics.
        find: finds a slot's model, and remembers it.

    Raises:
        WeightsMissingError: weights are nowhere to be found; of several models, with what is said of each.
        ModelError: keys are missing besides.
        UserError: what else is wrong with a model, at once.
    """
    faults: list[UserError] = []
    found: list[ResolvedModel] = []
    for slot in slots:
        try:
            found.append(find(slot))
        except WeightsMissingError as error:
            faults.append(error)
    if faults:
        _refuse([*faults, *_unready(found)])


def refuse_unready(models: Iterable[ResolvedModel]) -> None:
    """Refuses models that would not load, as far as that shows without loading them: a key that is missing.

    Raises:
        UserError: one cannot be used; of several, a `ModelError` that names all of them.
    """
    faults = _unready(models)
    if faults:
        _refuse(faults)


def _unready(models: Iterable[ResolvedModel]) -> list[UserError]:
    from beholder.backends.pool import not_ready

    distinct = {model.key: model for model in models}.values()
    return [fault for model in distinct if (fault := not_ready(model)) is not None]


def _refuse(faults: Sequence[UserError]) -> None:
    told = list(dict.fromkeys(str(fault) for fault in faults))
    if len(told) == 1:
        raise faults[0]
    weights = all(isinstance(fault, WeightsMissingError) for fault in faults)
    kind, what = (WeightsMissingError, "without weights") if weights else (ModelError, "that cannot be used")
    raise kind("the run needs all its models", got=f"{len(told)} {what}", fix="\n\n" + "\n\n".join(told))
