"""`beholder.attributes`: a reference set, generated sets, a list of attributes; tables, maps and pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Union

from beholder._errors import OptionError
from beholder._hashing import hash_json
from beholder.attributing.analyse import SetReport, compare_sets
from beholder.attributing.columns import table_columns
from beholder.attributing.encode import ImageFeatures, Prompts, SetEncoder, TextFeatures, content_digest, encode_prompts
from beholder.attributing.files import AttributeRun, claim, write_run
from beholder.attributing.settings import AttributeSettings, make_settings
from beholder.manifest import open_source
from beholder.manifest.schema import SampleSource
from beholder.metrics.attribute_lists import Asked, Attribute, read_attributes
from beholder.records import SCHEMA_VERSION
from beholder.runs.config import RunConfig, make_config
from beholder.runs.engine import Scorer
from beholder.runs.hash_memory import remembered_hashes
from beholder.runs.plan import make_plan
from beholder.runs.progress import NoProgress, Progress
from beholder.runs.store import FeatureStore, default_store

Data = Any
Generated = Union[Data, Mapping[str, Data]]
REFERENCE = "reference"


def attributes(
    *,
    real: Data,
    gen: Generated,
    attributes: Asked,
    out: str | None = None,
    pictures: bool = False,
    overwrite: bool = False,
    device: str = "auto",
    dtype: str = "auto",
    batch_size: int | None = None,
    workers: int | None = None,
    store: str | None = None,
    cache_dir: str | None = None,
    offline: bool | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> AttributeRun:
    """Which attributes a generator makes too often, too rarely, together when it should not, and where.

    Args:
        real: the reference set: folder, manifest, DataFrame, list of dicts.
        gen: a generated set, or several: a mapping of names to sets, or a list of folders and manifests.
        attributes: a file, a built-in list ("faces", "animals", "scenes"), or a list (see `read_attributes`).
        out: run folder; `runs/attributes-<key>` when None.
        pictures: also draw the figures (extra `plots`).
        overwrite: replace what is in `out`.
        device, dtype, batch_size, workers, store, cache_dir, offline: as in `evaluate`.
        progress: who is told.
        settings: see `AttributeSettings`: model, score, density, direction, by_class, seed, resamples and the others.

    Returns:
        The run. A second call with the same inputs and settings computes nothing.

    Raises:
        UserError: wrong settings, an input that cannot be read, a model without patch tokens, a folder of another run.
    """
    chosen = make_settings(settings)
    listed = read_attributes(attributes)
    sources = {REFERENCE: open_source(real), **_generated(gen)}
    for name, source in sources.items():
        if not source.replayable:
            raise OptionError(
                "a set must be readable twice: a folder, manifest, table or list", got=f"{name}: a stream"
            )
        source.check()
    config = make_config(
        {
            "device": device, "dtype": dtype, "batch_size": batch_size, "workers": workers, "store": store,
            "cache_dir": cache_dir, "offline": offline, "metrics": ("attribute_images",),
        }
    )  # fmt: skip
    return _Evaluation(chosen, listed, sources, config, progress or NoProgress()).run(
        out, pictures=pictures, overwrite=overwrite
    )


def _generated(gen: Generated) -> dict[str, SampleSource]:
    """Generated sets by name."""
    if isinstance(gen, Mapping):
        named = {str(name): open_source(data) for name, data in gen.items()}
    elif isinstance(gen, (list, tuple)) and gen and all(isinstance(item, (str, Path)) for item in gen):
        named = {}
        for item in gen:
            name = stem = re.sub(r"\.[A-Za-z]+$", "", Path(str(item).rstrip("/")).name) or "generated"
            number = 2
            while name in named:
                name, number = f"{stem}-{number}", number + 1
            named[name] = open_source(str(item))
    else:
        named = {"generated": open_source(gen)}
    if not named:
        raise OptionError("at least one generated set is needed", got="none")
    if REFERENCE in named:
        raise OptionError(f"a generated set must not be called {REFERENCE!r}", got=REFERENCE)
    return named


class _Evaluation:
    """One evaluation on its way."""

    def __init__(
        self,
        settings: AttributeSettings,
        listed: Sequence[Attribute],
        sources: Mapping[str, SampleSource],
        config: RunConfig,
        progress: Progress,
    ) -> None:
        self.settings, self.listed, self.sources = settings, listed, sources
        self.config, self.progress = config, progress
        options = {"model": settings.model, "kind": settings.feature}
        self.images = make_plan(config, metrics=[ImageFeatures(options)])
        self.texts = make_plan(config, metrics=[TextFeatures({"model": settings.model})])

    def run(self, out: str | None, *, pictures: bool, overwrite: bool) -> AttributeRun:
        loaded: dict[str, Any] = {}
        with ExitStack() as stack:
            store = FeatureStore(self.config.store or default_store())
            stack.callback(store.close)
            scorers = []
            for plan in (self.images, self.texts):
                scorers.append(Scorer(plan, self.config, store, loaded=loaded))
                stack.callback(scorers[-1].close)
            stack.enter_context(remembered_hashes(store))
            key = self._key(scorers[0])
            path = Path(out) if out else Path("runs") / f"attributes-{key[:8]}"
            done = claim(path, key, overwrite=overwrite)
            if done and not pictures:
                return AttributeRun(path)
            prompts = encode_prompts(scorers[1], self.listed, self.settings)
            encoder = SetEncoder(scorers[0], self.listed, self.settings, prompts, self.progress)
            run = AttributeRun(path) if done else self._compute(path, key, encoder, prompts)
            if pictures:
                from beholder.attributing.pictures import draw

                self.progress.stage("drawing", None)
                draw(run, self.sources, encoder)
            return run

    def _key(self, scorer: Scorer) -> str:
        self.progress.stage("reading the sets", None)
        return hash_json(
            {
                "settings": self.settings.as_json(),
                "attributes": [item.as_json() for item in self.listed],
                "sets": {name: content_digest(scorer, source) for name, source in self.sources.items()},
                "order": list(self.sources),
                "plans": [self.images.key, self.texts.key],
                "schema": SCHEMA_VERSION,
            }
        )

    def _compute(self, path: Path, key: str, encoder: SetEncoder, prompts: Prompts) -> AttributeRun:
        encoded = [encoder.encode(name, source) for name, source in self.sources.items()]
        self.progress.stage("statistics", len(encoded) - 1)
        reports: list[SetReport] = []
        for gen in encoded[1:]:
            reports.append(compare_sets(encoded[0], gen, self.listed, self.settings))
            self.progress.advance(1)
        summaries = sorted(
            (report.summary for report in reports),
            key=lambda row: (row["sad_mean"] is None, row["sad_mean"] or 0.0),
        )
        tables = {
            "attributes": [row for report in reports for row in report.attributes],
            "pairs": [row for report in reports for row in report.pairs],
            "sets": [{"rank": at, **row} for at, row in enumerate(summaries, start=1)],
        }
        header = self._header(key, encoded[0].grid) | {
            "truncated_prompts": prompts.truncated, "logit_scale": prompts.logit_scale,
        }  # fmt: skip
        names = [item.name for item in self.listed]
        columns = table_columns(self.settings)
        return write_run(path, header, encoded, names, tables, columns, [report.maps for report in reports])

    def _header(self, key: str, grid: tuple[int, int] | None) -> dict[str, Any]:
        from beholder import __version__

        model = next(iter(self.images.models.values()))
        return {
            "key": key, "schema": SCHEMA_VERSION, "beholder": __version__, "settings": self.settings.as_json(),
            "attributes": [item.as_json() for item in self.listed], "reference": REFERENCE,
            "generated": [name for name in self.sources if name != REFERENCE],
            "inputs": {name: source.name for name, source in self.sources.items()},
            "grid": None if grid is None else list(grid), "unit": self.settings.kl_unit,
            "signs": "differences are generated minus reference, R-SaD and its level reference minus generated",
            "model": {"id": model.id, "asked": model.asked, "weights": model.weights_sha256, "dtype": model.dtype,
                      "preprocessing": dict(model.preprocessing)},
        }  # fmt: skip
