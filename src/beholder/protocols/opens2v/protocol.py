"""`opens2v`: OpenS2V's evaluation of subject-to-video generation, from its data to its leaderboard.

Source: Yuan et al. 2025, OpenS2V-Nexus, arXiv 2505.20292; the arithmetic is that of its public code, release v1.1.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from beholder._errors import Fault, UserError
from beholder.manifest import open_source
from beholder.manifest.schema import Sample, SampleSource
from beholder.manifest.source import RowSource
from beholder.metrics.opens2v_pairs import labels_of
from beholder.protocols.base import DataCheck, Finished, MetricUse, Protocol, ProtocolInfo
from beholder.protocols.opens2v.board import TRACKS, VERSIONS, weights
from beholder.protocols.opens2v.columns import part_columns
from beholder.protocols.opens2v.data import OFFICIAL, EvaluationReader, find_manifest
from beholder.protocols.opens2v.official import official_bytes, read_official_folder
from beholder.protocols.opens2v.tables import (
    DEFAULTS,
    Rows,
    board_table,
    companion_table,
    official_tables,
    subtrack_table,
    why_table,
)
from beholder.protocols.results import Results, ResultTable
from beholder.records import OptionInfo

_FACES = "FaceSim is of one person: singlehuman, singleface, faceobj, humanobj"
_USES = {
    "aes": MetricUse(DEFAULTS["aes"]),
    "ampl": MetricUse("motion_amplitude"),
    "face": MetricUse(DEFAULTS["face"], ("singlehuman", "singleface", "faceobj", "humanobj"), _FACES),
    "gme": MetricUse("gme_score"),
    "nexus": MetricUse("nexus_score"),
    "natural": MetricUse("natural_score"),
}


class OpenS2V(Protocol):
    """`opens2v`: see its card."""

    info = ProtocolInfo(
        name="opens2v",
        summary="Subject-to-video generation: six measures of each video, and OpenS2V's weighted total.",
        data=(
            "A folder with the published evaluation file (Open-Domain_Eval.json, Human-Domain_Eval.json, "
            "Single-Domain_Eval.json, or eval.json), the references that it names, and videos/[MODEL/]STEM.mp4.",
            "The evaluation file itself; references and videos lie beside it.",
            "A manifest with the columns output, prompt, references, class_label and stem.",
        ),
        metrics=tuple(_USES.values()),
        tables={
            "board": "a row a model: total and parts in percent, beside published rows",
            "subtracks": "a row a model and sub-track",
            "companions": "what the official values hide: coverage, detection rates, spreads",
            "why": "each video that counts 0 or not at all, with its reason",
        },
        paper="Yuan et al., OpenS2V-Nexus, arXiv 2505.20292",
        reference_code="https://github.com/PKU-YuanGroup/OpenS2V-Nexus",
        version="1",
        options=(
            OptionInfo("track", "open", "Which track of the benchmark.", choices=TRACKS),
            OptionInfo("version", "1.1", "Which board: its weights, and whether smoothness counts.", choices=VERSIONS),
            OptionInfo("from_official", None, "Folder of OpenS2V's own JSON files, for parts not scored here."),
            OptionInfo("renormalised", False, "Also the partial sum by the weight that is there.", kind="bool"),
        ),
        caveats=(
            "Published rows are those of the board v1.1; totals of two boards or tracks are not comparable.",
            "Motion smoothness needs Q-Align, which is not built yet: without it, or OpenS2V's own file of it "
            "(--from-official), a board v1.1 has no total.",
            "NaturalScore with our prompt is not OpenS2V's own.",
            "OpenS2V's authors found NexusScore and NaturalScore to agree with people in about 75 % of cases.",
        ),
    )  # fmt: skip

    @property
    def version(self) -> str:
        """The board."""
        return str(self.options["version"])

    @property
    def track(self) -> str:
        """The track."""
        return str(self.options["track"])

    @property
    def uses(self) -> tuple[MetricUse, ...]:
        own = weights(self.version, self.track)
        return tuple(use for key, use in _USES.items() if key in own)

    def source(self, data: Any, *, mapping: Mapping[str, str] | None = None, allow_extra: bool = False) -> SampleSource:
        if self.options["from_official"] is not None:
            read_official_folder(str(self.options["from_official"]))  # faults are told before anything is scored
        manifest = find_manifest(data, self.track)
        if manifest is not None:
            return RowSource(EvaluationReader(manifest), mapping=mapping)
        return open_source(data, mapping=mapping, allow_extra=allow_extra)

    def counts(self, finished: Finished) -> Mapping[str, Any]:
        tasks, methods = finished.values_of("task", none="other"), finished.values_of("method", none="(all videos)")
        return {
            "videos": finished.n,
            "models": {name: methods.count(name) for name in dict.fromkeys(methods)},
            "sub-tracks": {name: tasks.count(name) for name in dict.fromkeys(tasks)},
        }

    def tables(self, finished: Finished) -> Iterable[ResultTable]:
        rows = self._rows(finished)
        yield board_table(rows, renormalised=bool(self.options["renormalised"]))
        yield subtrack_table(rows)
        yield companion_table(rows)
        yield why_table(rows)

    def examine(self, samples: Iterator[Sample]) -> DataCheck:
        found = DataCheck()
        tasks: dict[str, int] = {}
        for sample in samples:
            tasks[sample.task or "other"] = tasks.get(sample.task or "other", 0) + 1
            references, labels = len(sample.references), len(labels_of(sample))
            if references != labels:
                text = f"there must be a label for each reference; got {references} references and {labels} labels"
                found.faults.append(Fault(text, row=sample.row, where="class_label", form=False))
        found.counts = {"sub-tracks": tasks, "track": self.track}
        return found

    def official_results(self, *, seed: int = 0, resamples: int = 1000, level: float = 0.95) -> Results:
        """The tables of the folder `from_official` alone: no run, nothing is scored.

        Args:
            seed: seed of the intervals.
            resamples: their resamples.
            level: their level.

        Raises:
            UserError: no folder, or none of OpenS2V's files in it.
        """
        folder = str(self.options["from_official"])
        files = read_official_folder(folder)
        settings: dict[str, Any] = {
            "version": self.version, "track": self.track, "seed": seed, "resamples": resamples, "level": level,
        }  # fmt: skip
        tables = tuple(official_tables(files, renormalised=bool(self.options["renormalised"]), **settings))
        every = files.models.values()
        counts = {
            "files": sum(len(own.read) for own in every),
            "videos": sum(len({stem for found in own.values.values() for stem in found}) for own in every),
        }
        return Results(self.info.name, self.info.version, tables, counts)

    def export(self, finished: Finished, method: str | None = None) -> dict[str, bytes]:
        """OpenS2V's own files of one model's videos, by name; a video without an official value is left out.

        Parts that were taken from official files (`from_official`) are written again, so that the folder makes the
        totals of this run. Without a video in OpenS2V's container there are no files.

        Args:
            finished: the run.
            method: the model; the only one when None.

        Raises:
            UserError: several models, and none named.
        """
        rows = self._rows(finished)
        model = _one_of(rows.names, method)
        mine, files = rows.of(model), rows.files(model)
        outputs = finished.column("output")
        chosen = [int(at) for at in mine if os.path.splitext(str(outputs[at]))[1].lower() == OFFICIAL]
        if not chosen:
            return {}
        values: dict[str, dict[str, float]] = {}
        runs: dict[str, list[float | None]] = {}
        for key in weights(self.version, self.track):
            column = rows.columns.get(key)
            _, source = rows.values(key, mine)
            if source is not None and files is not None:
                stems = {rows.stems[at] for at in mine}
                if key == "natural":
                    runs = {stem: marks for stem, marks in files.runs.items() if stem in stems}
                else:
                    values[key] = {stem: v for stem, v in files.values[key].items() if stem in stems}
            elif column is not None and key == "natural":
                runs = {rows.stems[at]: list(column.runs[at]) for at in chosen if column.runs[at]}
            elif column is not None:
                told = {rows.stems[at]: float(column.values[at]) for at in chosen}
                values[key] = {stem: value for stem, value in told.items() if value == value}
        return official_bytes(values, runs)

    def _rows(self, finished: Finished) -> Rows:
        folder = self.options["from_official"]
        files = None if folder is None else read_official_folder(str(folder))
        columns = part_columns(finished, list(weights(self.version, self.track)))
        return Rows(finished, columns, files, version=self.version, track=self.track)


def _one_of(names: list[str], method: str | None) -> str:
    if method is not None or len(names) == 1:
        return method or names[0]
    raise UserError("OpenS2V's files are of one model", got=", ".join(names), fix="Name it")
