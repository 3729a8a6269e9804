"""A whole source through the engine: a pass a model, scores into the journal; chunks that are done are left alone."""

from __future__ import annotations

from collections.abc import Sequence

from beholder._errors import UserError
from beholder.manifest.schema import Sample, SampleSource
from beholder.runs.chunk import Chunk
from beholder.runs.engine import Scorer, chunk_size, chunks
from beholder.runs.journal import Frame, Journal
from beholder.runs.progress import Progress


def stream(scorer: Scorer, source: SampleSource, journal: Journal, progress: Progress) -> list[Frame]:
    """Scores a whole source; the frames in the order of its rows."""
    total = source.count()
    size = chunk_size(scorer.plan)
    models = list(scorer.plan.models.values())
    # The last model's pass scores too. A source that can be read only once gets that one pass, with all models.
    for model in models[:-1] if source.replayable else []:
        progress.stage(f"encoding with {model.id}", total)
        for samples in chunks(source, size):
            chunk, _ = scorer.prepare(samples)
            if scored_frame(journal, chunk) is None:
                scorer.ensure(chunk, model.key)
            progress.advance(len(samples))
        scorer.store.flush()
        scorer.release()
    progress.stage("scoring", total)
    frames = []
    for samples in chunks(source, size):
        frames.append(score_samples(scorer, samples, journal))
        progress.advance(len(samples))
    if not frames:
        raise UserError(f"{source.name} must hold at least one sample", got="none")
    return frames


def scored_frame(journal: Journal, chunk: Chunk) -> Frame | None:
    """The frame of a chunk that was scored before; None too when a row of it failed and deserves another try."""
    frame = journal.find(chunk.key)
    return None if frame is None or frame.header["retry"] else frame


def score_samples(scorer: Scorer, samples: Sequence[Sample], journal: Journal) -> Frame:
    """Scores one chunk, or finds it in the journal."""
    chunk, columns = scorer.prepare(samples)
    frame = scored_frame(journal, chunk)
    if frame is not None:
        return frame
    header, batch = scorer.score(chunk, columns)
    return journal.append(header, batch)
