"""A whole source through the engine: in passes of models, scores into the journal; what is done is left alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from beholder._errors import UserError
from beholder.manifest.schema import Sample, SampleSource
from beholder.runs.chunk import Chunk
from beholder.runs.engine import Scorer, chunk_size, chunks
from beholder.runs.journal import Frame, Journal
from beholder.runs.passes import passes_of
from beholder.runs.plan import key_name, of_sets, score_names
from beholder.runs.progress import Progress
from beholder.runs.real import set_spaces


def stream(scorer: Scorer, source: SampleSource, journal: Journal, progress: Progress) -> list[Frame]:
    """Scores a whole source; the frames in the order of its rows."""
    scorer.check()
    total = source.count()
    size = chunk_size(scorer.plan)
    # The last pass scores too. A source that can be read only once gets that one pass, with all models.
    passes = passes_of(scorer.plan, scorer.config.device) if source.replayable else [list(scorer.plan.models.values())]
    for models in passes[:-1]:
        progress.stage(f"encoding with {', '.join(model.id for model in models)}", total)
        keys = {model.key for model in models}
        for samples in chunks(source, size):
            chunk, _ = scorer.prepare(samples)
            frame = scored_frame(journal, chunk)
            if frame is None:
                scorer.ensure(chunk, keys)
            else:
                _make_lost(scorer, chunk, journal, frame, keys)
            progress.advance(len(samples))
        scorer.store.flush()
        scorer.release()
    progress.stage("scoring", total)
    last = {model.key for model in passes[-1]} if passes else set()
    frames = []
    for samples in chunks(source, size):
        frames.append(score_samples(scorer, samples, journal, last))
        progress.advance(len(samples))
    if not frames:
        raise UserError(f"{source.name} must hold at least one sample", got="none")
    return frames


def scored_frame(journal: Journal, chunk: Chunk) -> Frame | None:
    """The frame of a chunk that was scored before; None too when a row of it failed and deserves another try."""
    frame = journal.find(chunk.key)
    return None if frame is None or frame.header["retry"] else frame


def score_samples(
    scorer: Scorer, samples: Sequence[Sample], journal: Journal, models: Collection[str] | None = None
) -> Frame:
    """Scores one chunk, or finds it in the journal.

    Args:
        scorer: the scorer.
        samples: the chunk's samples.
        journal: where scored chunks are.
        models: keys of the models whose features are made anew where a scored chunk has lost them; None for all.
    """
    chunk, columns = scorer.prepare(samples)
    frame = scored_frame(journal, chunk)
    if frame is not None:
        _make_lost(scorer, chunk, journal, frame, scorer.plan.models.keys() if models is None else models)
        return frame
    header, batch = scorer.score(chunk, columns)
    return journal.append(header, batch)


def _make_lost(scorer: Scorer, chunk: Chunk, journal: Journal, frame: Frame, models: Collection[str]) -> None:
    """Makes features that sets are measured from and that left the store after their chunk was scored."""
    found = [planned for planned in of_sets(scorer.plan.metrics) if planned.slots[0].model.key in models]
    if not found:
        return
    table = journal.read(frame)
    for planned in found:
        keys = table.column(key_name(planned.label)).to_pylist()
        statuses = table.column(score_names(planned.label)[1]).to_pylist()
        wanted: dict[str, dict[bytes, Any]] = {}
        for key, status in zip(keys, statuses):
            if key is not None and status == "ok":
                space, own = set_spaces(planned).of(key)
                wanted.setdefault(space.hash, {})[own] = chunk.wanted[space.hash][own]
        spaces = {space.hash: space for space in set_spaces(planned)}
        if set_spaces(planned).has_texts:
            wanted[set_spaces(planned).texts.hash] = dict(chunk.wanted[set_spaces(planned).texts.hash])
        for name, items in wanted.items():
            # Reading finds shards that are damaged or gone; the index alone does not know.
            there, _ = scorer.store.get(scorer.store.space(spaces[name]), list(items))
            lost = {key: item for key, item in items.items() if key not in there}
            if lost:
                scorer.make(name, lost)
