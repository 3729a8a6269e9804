"""The rates of this machine, stage by stage, on the user's own data; and what they say of a million samples.

Nothing is written. Features are made anew, whatever the feature store holds.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from beholder._errors import OptionError, UserError
from beholder.backends.kinds import kind_of
from beholder.manifest.schema import SampleSource
from beholder.runs.batching import BatchSize
from beholder.runs.chunk import Chunk
from beholder.runs.config import RunConfig
from beholder.runs.engine import Scorer
from beholder.runs.journal import Journal
from beholder.runs.looking import still_pictures
from beholder.runs.make import attempt
from beholder.runs.maker import FeatureMaker
from beholder.runs.plan import AskedMetric
from beholder.runs.store import FeatureStore


@dataclass(frozen=True)
class StageRate:
    """How fast one stage is here.

    Args:
        stage: what was measured ("read rows", "hash files", "encode image_embedding with …").
        items: how many.
        seconds: the time that they took.
        per_sample: items that one sample needs, as measured: what samples share counts once.
        in_total: False for a part of another stage that goes on at the same time (decoding beside encoding).
    """

    stage: str
    items: int
    seconds: float
    per_sample: float
    in_total: bool = True

    @property
    def rate(self) -> float:
        """Items a second."""
        return self.items / self.seconds if self.seconds else float("inf")

    @property
    def seconds_per_sample(self) -> float:
        return self.seconds / self.items * self.per_sample if self.items else 0.0


@dataclass(frozen=True)
class Speed:
    """The rates of a run on this machine.

    Args:
        samples: how many were measured.
        stages: one rate a stage, in the order of a run.
        load_seconds: time to load all models.
        device: where the models ran.
    """

    samples: int
    stages: tuple[StageRate, ...]
    load_seconds: float
    device: str

    @property
    def seconds_per_sample(self) -> float:
        """Of one process like this one, all stages one behind the other."""
        return sum(stage.seconds_per_sample for stage in self.stages if stage.in_total)

    def estimate(self, samples: int, workers: int, *, price: float | None = None) -> Estimate:
        """Time and money for so many samples on so many workers, each like this machine.

        hours = (samples · seconds a sample / workers + loading) / 3600; money = hours · workers · price.

        Args:
            samples: samples.
            workers: workers that are like what was measured, each with its own processors, disk and device.
            price: money an hour of one worker; None for no money.

        Raises:
            OptionError: no samples, or no workers.
        """
        if samples < 1 or workers < 1:
            raise OptionError("an estimate needs samples and workers", got=f"{samples} and {workers}")
        hours = (samples * self.seconds_per_sample / workers + self.load_seconds) / 3600
        return Estimate(samples, workers, hours, None if price is None else hours * workers * price)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        stages = [{**asdict(stage), "rate": stage.rate} for stage in self.stages]
        return {**asdict(self), "stages": stages, "seconds_per_sample": self.seconds_per_sample}


@dataclass(frozen=True)
class Estimate:
    """What a run of that size would take; `money` is None where no price was given."""

    samples: int
    workers: int
    hours: float
    money: float | None


def measure_speed(
    config: RunConfig,
    *,
    most: int = 256,
    metrics: Sequence[AskedMetric] | None = None,
    source: SampleSource | None = None,
) -> Speed:
    """Measures every stage on the first `most` samples.

    Raises:
        UserError: as `execute`, and for an input without samples.
    """
    from beholder.runs.session import preflight

    config, plan, source = preflight(config, metrics=metrics, source=source)
    store = FeatureStore(None)
    scorer = Scorer(plan, config, store)
    try:
        began = time.perf_counter()
        samples = list(itertools.islice(source, most))
        reading = time.perf_counter() - began
        if not samples:
            raise UserError(f"{source.name} must hold at least one sample", got="none")
        began = time.perf_counter()
        chunk, columns = scorer.prepare(samples)
        hashing = time.perf_counter() - began
        stages = [
            StageRate("read rows", len(samples), reading, 1.0),
            StageRate("select and hash files", len(samples), hashing, 1.0),
        ]
        began = time.perf_counter()
        backends = {key: scorer.load(model) for key, model in plan.models.items()}
        loading = time.perf_counter() - began
        for name in sorted(chunk.wanted, key=lambda name: name not in scorer.gives):
            wanted = scorer.missing(name, chunk.wanted[name])
            if wanted:
                stages += _encoding(scorer, name, wanted, backends, len(samples))
        stages.append(StageRate("score and write rows", len(samples), _scoring(scorer, chunk, columns), 1.0))
        device = ", ".join(dict.fromkeys(str(ran.get("device") or "cpu") for ran in scorer.used.values()))
        return Speed(len(samples), tuple(stages), loading, device or "cpu")
    finally:
        scorer.close()
        store.close()


def _encoding(
    scorer: Scorer, name: str, wanted: Mapping[bytes, Any], backends: Mapping[str, Any], samples: int
) -> list[StageRate]:
    """The rate of a space: everything as in a run, and decoding alone where that can be told apart."""
    space, model = scorer.plan.spaces()[name]
    kind = kind_of(space.feature)
    maker = FeatureMaker(kind, backends[model.key], space.params, scorer.config.decode, scorer.pool)
    share, stages = len(wanted) / samples, []
    if kind.name == "image_embedding" and "frames" not in space.params:
        prepare = backends[model.key].prepare_image
        seconds = _timed(
            lambda: list(
                scorer.pool.map(
                    lambda item: attempt(lambda still: prepare(still_pictures(still, scorer.config.decode)[0]), item),
                    wanted.values(),
                )
            )
        )
        stages.append(StageRate(f"decode and prepare for {model.id}", len(wanted), seconds, share, in_total=False))
    size = BatchSize(scorer.config.batch_size or maker.batch_size())
    # A first batch warms up what is made once: kernels, buffers, threads.
    first = dict(itertools.islice(wanted.items(), size.size))
    maker.make(first, size=size, sources=scorer.sources(first), done=lambda keys, columns: None)
    seconds = _timed(lambda: scorer.make(name, wanted))
    return [*stages, StageRate(f"make {space.feature} with {model.id}", len(wanted), seconds, share)]


def _scoring(scorer: Scorer, chunk: Chunk, columns: dict[str, Any]) -> float:
    """Seconds to score a chunk whose features are there, and to write it."""
    with TemporaryDirectory() as folder, Journal(Path(folder) / "journal.bin") as journal:

        def score() -> None:
            journal.append(*scorer.score(chunk, columns))

        return _timed(score)


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
