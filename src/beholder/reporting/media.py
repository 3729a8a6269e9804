"""The media behind a run's rows: read from the run's own input again, else looked for by their names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from beholder._errors import BeholderError
from beholder.manifest.root import Root
from beholder.manifest.schema import Sample, SampleSource, is_written_mask
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
        self._root = None
        if self._places["root"] is not None:
            # Where that folder is gone, nothing is known to be inside.
            self._root = Root(self._places["root"]) if os.path.isdir(self._places["root"]) else None
            self._bases = self._bases if self._root is not None else []

    def visuals(self, row_id: str, output: str | None, references: Sequence[str] | None) -> Visuals:
        """The media of one row."""
        sample = self._samples.get(row_id)
        # An input that names another file than the run scored has changed since; what it names now is no sample of it.
        if sample is not None and (None if sample.output is None else sample.output.name) == output:
            scored = None if references is None else set(references)
            kept = [at for at, medium in enumerate(sample.references) if scored is None or medium.name in scored]
            masks = [sample.reference_masks[at] for at in kept if at < len(sample.reference_masks)]
            return Visuals(sample.output, [sample.references[at] for at in kept], _masks(sample), masks)
        found = None if output is None else self._by_name(output)
        return Visuals(found, [m for name in references or () if (m := self._by_name(name)) is not None])

    def _by_name(self, name: str) -> Medium | None:
        for base in self._bases:
            try:
                medium = as_medium(name, base=base)
                if self._root is not None and not self._root.holds(medium):
                    continue
                medium.fingerprint()
                return medium
            except BeholderError:
                continue
        return None


def _input_places(run: Run, data: str | None) -> dict[str, Any]:
    """The settings of the run's input, with places that are there now."""
    asked = run.header["asked"]
    settings = {name: asked.get(name) for name in ("data", "prompts", "outputs", "mapping", "root")}
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
    if not (places["data"] or places["prompts"]):
        return {}
    found: dict[str, Sample] = {}
    try:
        for sample in _source(run, places):
            found[sample.id] = sample
    except BeholderError:
        pass  # rows that were read before a fault are as good as any
    return found


def _source(run: Run, places: Mapping[str, Any]) -> SampleSource:
    """The run's input; a protocol reads its data in its own way."""
    from beholder.manifest import open_source
    from beholder.protocol_runs import make_protocol, read_results

    mapping = places["mapping"] or None
    results = read_results(run) if run.finished else None
    if results is not None and places["data"]:
        return make_protocol(results.protocol).source(places["data"], mapping=mapping, allow_extra=True)
    return open_source(
        places["data"],
        prompts=places["prompts"],
        outputs=places["outputs"],
        mapping=mapping,
        allow_extra=places["allow_extra"],
        root=places["root"],
    )


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
