"""The media behind a run's rows: read from the run's own input again, else looked for by their names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from beholder._errors import BeholderError
from beholder.manifest.schema import Sample, is_written_mask
from beholder.media.base import Medium
from beholder.media.sources import as_medium
from beholder.report.html.data import Visuals
from beholder.runs.results import Run


class RunMedia:
    """Finds the media of a run's rows.

    Args:
        run: the run.
        data: where its input lies now; what the run's header says when None.
    """

    def __init__(self, run: Run, *, data: str | None = None) -> None:
        self._places = _input_places(run, data)
        self._samples = _samples(run, self._places)
        self._bases = _bases(self._places)

    @property
    def has_input(self) -> bool:
        """Whether the run's input was found and read."""
        return bool(self._samples)

    def visuals(self, row_id: str, output: str | None, references: Sequence[str] | None) -> Visuals:
        """The media of one row."""
        sample = self._samples.get(row_id)
        if sample is not None:
            return Visuals(sample.output, sample.references, _masks(sample))
        found = None if output is None else self._by_name(output)
        return Visuals(found, [m for name in references or () if (m := self._by_name(name)) is not None])

    def _by_name(self, name: str) -> Medium | None:
        for base in self._bases:
            try:
                medium = as_medium(name, base=base)
                medium.fingerprint()
                return medium
            except BeholderError:
                continue
        return None


def _input_places(run: Run, data: str | None) -> dict[str, Any]:
    """The settings of the run's input, with places that are there now."""
    asked = run.header["asked"]
    settings = {name: asked.get(name) for name in ("data", "prompts", "outputs", "mapping")}
    settings["allow_extra"] = True
    places = run.header.get("input") or {}
    named = [name for name in ("data", "prompts", "outputs") if settings[name]]
    if data is not None:
        return settings | {"data": data, "prompts": None, "outputs": None}
    if not isinstance(places.get("absolute"), list) or len(places["absolute"]) != len(named):
        return settings
    for at, name in enumerate(named):
        settings[name] = _there(places["absolute"][at], os.path.join(run.path, places["from_run"][at]), name)
    return settings


def _there(absolute: str, from_run: str, name: str) -> str:
    """A folder that was moved together with its input is known by the latter's place as seen from it."""
    probe = os.path.dirname(absolute.split("{")[0]) if name == "outputs" else absolute
    return absolute if "://" in absolute or os.path.exists(probe) else os.path.normpath(from_run)


def _samples(run: Run, places: Mapping[str, Any]) -> dict[str, Sample]:
    """The input's rows by id; none where it is gone or was data in memory."""
    from beholder.manifest import open_source

    if not (places["data"] or places["prompts"]):
        return {}
    found: dict[str, Sample] = {}
    try:
        source = open_source(
            places["data"],
            prompts=places["prompts"],
            outputs=places["outputs"],
            mapping=places["mapping"] or None,
            allow_extra=places["allow_extra"],
        )
        for sample in source:
            found[sample.id] = sample
    except BeholderError:
        pass  # rows that were read before a fault are as good as any
    return found


def _bases(places: Mapping[str, Any]) -> list[str]:
    data = places["data"]
    bases = [""]
    if isinstance(data, str) and "://" not in data:
        bases.insert(0, data if os.path.isdir(data) else os.path.dirname(data))
    return bases


def _masks(sample: Sample) -> dict[str, Any]:
    masks = sample.masks
    if masks is None:
        return {}
    if isinstance(masks, Mapping) and not is_written_mask(masks):
        return {str(name): mask for name, mask in masks.items()}
    return {"mask": masks}
