"""Files of rows that have nothing to score: one that is not there is a fault, which nothing else may hide."""

from __future__ import annotations

from collections.abc import Sequence

from beholder._errors import MediaError
from beholder.manifest.schema import Sample
from beholder.media.files import FileMedium
from beholder.records import Status

_ROW_LACKS = (Status.EMPTY_PROMPT, Status.NO_REFERENCE)
"""Said of a row that the metric would score; `not_applicable` rows are none of its business, whatever they hold."""


def put_faults_first(samples: Sequence[Sample], inputs: Sequence[str], verdicts: dict[int, tuple[Status, str]]) -> None:
    """Gives rows without a prompt or references the status of their missing file, where one is missing.

    No file is opened: one that is there but holds no picture is found by a metric that scores the row.

    Args:
        samples: the rows.
        inputs: the columns that the metric reads.
        verdicts: row → why it has no value; changed here.
    """
    for row, (status, _) in verdicts.items():
        if status in _ROW_LACKS:
            try:
                _check_files(samples[row], inputs)
            except MediaError as error:
                verdicts[row] = (Status(error.status), error.reason)


def _check_files(sample: Sample, inputs: Sequence[str]) -> None:
    """Raises `MediaError` where the row names no output, or a file that is not there."""
    if "output" in inputs and sample.output is None:
        raise MediaError(Status.MISSING, "the row names no output")
    media = [sample.output] if "output" in inputs else []
    media += sample.references if "references" in inputs else ()
    for medium in media:
        if isinstance(medium, FileMedium):
            medium.check_there()
