"""The end of a run: from scored frames to tables, summary and the header that tells of them."""

from __future__ import annotations

from collections.abc import Sequence

from beholder._errors import StoreError
from beholder.records import Summary
from beholder.runs.finish import FrameReader, write_tables
from beholder.runs.folder import RunFolder
from beholder.runs.journal import Frame
from beholder.runs.notices import lacking_columns, notice_lines
from beholder.runs.plan import PlannedMetric, is_registered
from beholder.runs.results import Run, write_sets


def write_results(
    folder: RunFolder,
    reader: FrameReader,
    frames: Sequence[Frame],
    metrics: Sequence[PlannedMetric],
    *,
    by: Sequence[str],
    notices: Sequence[str] = (),
    sets: Sequence[Summary] = (),
) -> Run:
    """Writes tables and summary of scored frames, and marks the folder as finished.

    Args:
        folder: the run folder.
        reader: reads a frame's rows.
        frames: in the order of the input's rows.
        metrics: what was scored.
        by: columns to group the summary by.
        notices: what is said beside what the frames counted.
        sets: values of the metrics of whole sets.

    Raises:
        StoreError: the disk does not take them.
    """
    try:
        return _write(folder, reader, frames, metrics, by, notices, sets)
    except OSError as error:
        raise StoreError(
            f"the run folder {folder.path} must take the tables of the run",
            got=str(error),
            fix="Free some disk space, then run the same command again: nothing that was written is lost",
        ) from error


def _write(
    folder: RunFolder,
    reader: FrameReader,
    frames: Sequence[Frame],
    metrics: Sequence[PlannedMetric],
    by: Sequence[str],
    notices: Sequence[str],
    sets: Sequence[Summary],
) -> Run:
    # A summary of older tables must not be taken for one of these; without one it is made from the tables.
    (folder.path / "summary.json").unlink(missing_ok=True)
    write_sets(folder.path, sets)
    write_tables(folder.path, reader, frames, metrics)
    folder.finish("finished")
    folder.header["notices"] = [*notice_lines(frame.header for frame in frames), *notices]
    own = {item.label: item.metric for item in metrics if not is_registered(item.metric)}
    run = Run(folder.path, metrics=own)
    found = [name for name in by if name in run.columns]
    if len(found) < len(by):
        gone = ", ".join(sorted(set(by) - set(found)))
        folder.header["notices"].append(f"no row has the column {gone}: the summary is not grouped by it")
    summary = run.summarise(by=found)
    run.save_summary(summary)
    folder.header["notices"] += lacking_columns(summary, metrics)
    folder.header["n"], folder.header["n_faults"] = run.n, run.n_faults
    folder.finish("finished")
    return Run(folder.path, metrics=own)
