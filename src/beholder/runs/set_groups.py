"""Values of metrics of whole sets by columns that the run was not asked to group by: measured from what it keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from beholder._errors import UserError
from beholder._identity import parse_spec
from beholder.metrics.base import SampleMetric, make_metric
from beholder.records import Summary
from beholder.runs.journal import Journal
from beholder.runs.merge import measure_joined
from beholder.runs.plan import PlannedMetric
from beholder.runs.set_parts import SetPart, measure_parts
from beholder.runs.set_values import SetAsk


def measure_groups(
    path: Path, header: Mapping[str, Any], by: Sequence[str], own: Mapping[str, SampleMetric]
) -> list[Summary]:
    """Values of a finished run's set metrics for each group of some columns. Nothing is encoded.

    Args:
        path: the run folder.
        header: its header.
        by: the columns.
        own: by label: metric objects that no registry knows.

    Returns:
        One summary a metric and group; a group that has no value says why in its note.

    Raises:
        UserError: the run does not keep what is needed, or its features are no longer there.
    """
    kept = header.get("sets")
    if kept is None and not header.get("parts"):
        raise UserError("the run must keep where its features are", got="one that an older version made")
    metrics = [
        PlannedMetric(own.get(item["label"]) or make_metric(parse_spec(item["identity"])), item["label"], ())
        for item in header["metrics"]
        if item["info"].get("kind") == "set"
    ]
    asked = dataclasses.replace(SetAsk.of({**header["asked"], "by": list(by)}), alone=True)
    if kept is None:
        return measure_joined(path, header, metrics, asked).summaries
    try:
        journal = Journal(path / "journal.bin", write=False)
    except OSError as error:
        raise UserError("the run's journal must be readable", got=str(error)) from error
    with closing(journal):
        frames = [frame for frame in map(journal.find, kept["frames"]) if frame is not None]
        if len(frames) < len(kept["frames"]):
            raise UserError("the run's journal must be whole", got=f"{len(frames)} of {len(kept['frames'])} frames")
        part = SetPart(path, {"count": 1, "sets": kept})
        return measure_parts([part], asked, journal, frames, metrics).summaries
