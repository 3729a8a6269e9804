"""natural_score: how real a video looks to a judge, in several passes (OpenS2V's NaturalScore)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from beholder._errors import OptionError
from beholder._hashing import hash_bytes
from beholder.functional.judging import read_mark
from beholder.manifest.schema import Sample
from beholder.metrics.base import FeatureBatch, Pair, SampleMetric, ScoreColumns, Selection, Slot
from beholder.metrics.natural_prompt import OWN, prompt_text
from beholder.metrics.outcome import make_scores
from beholder.metrics.text_image import output_of
from beholder.records import MetricInfo, OptionInfo, Status

DEFAULT_MODEL = "api:openai/gpt-4o-2024-11-20;resize=area;side=512"
_ORDER = (Status.REFUSED, Status.UNPARSABLE)


class NaturalScore(SampleMetric):
    """`natural_score`: see its card."""

    info = MetricInfo(
        name="natural_score",
        family="opens2v",
        kind="sample",
        summary="How real the output looks to a judge, from 1 (certainly generated) to 5 (certainly real).",
        inputs=("output",),
        formula="mean over the passes that gave one of the judge's mark",
        unit="mark",
        range=(1.0, 5.0),
        higher_is_better=True,
        degenerate=(
            "A pass without one clear mark from 1 to 5 is left out and counted; where no pass has one: refused, "
            "unparsable or failed."
        ),
        paper="Yuan et al., OpenS2V-Nexus, arXiv 2505.20292",
        reference_code="https://github.com/PKU-YuanGroup/OpenS2V-Nexus",
        version="2",
        capability="Judge",
        default_model=DEFAULT_MODEL,
        options=(
            OptionInfo("model", DEFAULT_MODEL, "Judge that takes all frames together; --model keeps off."),
            OptionInfo("runs", 3, "Independent passes, 1 to 9; 3 is official.", kind="int"),
            OptionInfo(
                "frames",
                "stride:16",
                "Which frames are sent: stride:16 is official and may never see the end; uniform:16 spreads them out.",
            ),
            OptionInfo(
                "prompt",
                OWN,
                f"{OWN} (our wording of the published criteria), or a text file: with the published text the number "
                "is the official one.",
            ),
            OptionInfo(
                "temperature", "server", "A number from 0 to 2, or server for the server's own choice (official)."
            ),
            OptionInfo(
                "seed", -1, "Seed of the first pass, the next ones count on; -1 sends none (official).", kind="int"
            ),
        ),
        notes=(
            "The prompt and the references are not shown to the judge, so a copied reference costs nothing.",
            "With the prompt beholder-1 the value is not OpenS2V's own: only the published text gives that.",
            "Frames are sent with the longer side at 512 by OpenCV's area filter, as JPEG of quality 95 (official); a "
            "judge named with other options of its own is sent what those say.",
            "OpenS2V's authors found agreement with people in about 75 % of cases.",
        ),
    )  # fmt: skip

    @classmethod
    def takes_model(cls) -> bool:
        """`--model` names an encoder of images and texts; a judge is another kind of model."""
        return False

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(
            Slot(
                f"run{run}",
                str(self.options["model"]),
                "reply",
                many=True,
                params=self._params(run),
                frames=str(self.options["frames"]),
                may_fail=True,
            )
            for run in range(1, min(max(1, self._runs), 9) + 1)
        )

    def select(self, sample: Sample) -> Selection:
        pair = Pair(output_of(sample), prompt_text(str(self.options["prompt"])))
        return {slot.name: [pair] for slot in self.slots}

    def score(self, batch: FeatureBatch) -> ScoreColumns:
        values = np.zeros(batch.n)
        statuses: dict[int, tuple[Status, str]] = {}
        evidence: dict[int, Mapping[str, Any]] = {}
        for row in range(batch.n):
            passes = [self._pass(batch, slot.name, row) for slot in self.slots]
            marks = [item["mark"] for item in passes if item["mark"] is not None]
            evidence[row] = _evidence(passes, marks)
            if marks:
                values[row] = float(np.mean(marks))
            else:
                statuses[row] = _verdict(passes)
        return make_scores(values, degenerate={}, within=self.value_range, statuses=statuses, evidence=evidence)

    def describe(self) -> dict[str, Any]:
        self._check()
        text = prompt_text(str(self.options["prompt"]))
        return {"scale": 1.0, "clamp": "none", "prompt": text, "prompt_sha256": hash_bytes(text.encode())}

    def _params(self, run: int) -> tuple[tuple[str, Any], ...]:
        told = str(self.options["temperature"])
        temperature: Any = told
        with contextlib.suppress(ValueError):  # `describe` says what is wrong, before anything is asked
            temperature = told if told == "server" else float(told)
        seed = int(str(self.options["seed"]))
        extra = (("seed", seed + run - 1),) if seed >= 0 else ()
        return (("run", run), ("temperature", temperature), ("max_tokens", 0), *extra)

    @property
    def _runs(self) -> int:
        return int(str(self.options["runs"]))

    def _check(self) -> None:
        if not 1 <= self._runs <= 9:
            raise OptionError("runs of natural_score must be a number from 1 to 9", got=str(self._runs))
        temperature = dict(self._params(1))["temperature"]
        if temperature != "server" and not (
            isinstance(temperature, float) and math.isfinite(temperature) and 0 <= temperature <= 2
        ):
            raise OptionError(
                "temperature of natural_score must be a number from 0 to 2, or server",
                got=repr(self.options["temperature"]),
            )

    def _pass(self, batch: FeatureBatch, slot: str, row: int) -> dict[str, Any]:
        """What one pass gave: its mark or None, the raw reply, and why there is no mark."""
        rows = batch.many(slot)
        start, end = int(rows.offsets[row]), int(rows.offsets[row + 1])
        lost = batch.lost[slot][row] if slot in batch.lost else {}
        if lost:
            status, reason = next(iter(lost.values()))
            return {"mark": None, "reply": None, "status": Status(status), "reason": reason}
        if end - start != 1:
            reason = f"the judge {self.options['model']} looks at frames one by one; it must take them together"
            return {"mark": None, "reply": None, "status": Status.FAILED, "reason": reason}
        reply = str(rows.columns["text"][start])
        mark = read_mark(reply)
        status = Status.OK if mark.value is not None else Status.UNPARSABLE
        told = {name: str(rows.columns[name][start]) for name in ("model", "finish") if name in rows.columns}
        return {"mark": mark.value, "reply": reply, "status": status, "reason": mark.reason, **told}


def _evidence(passes: list[dict[str, Any]], marks: list[float]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "runs": [item["mark"] for item in passes],
        "n_runs": len(marks),
        "std": float(np.std(marks, ddof=1)) if len(marks) > 1 else None,
        "replies": [item["reply"] for item in passes],
        "statuses": [str(item["status"]) for item in passes],
    }
    reasons = [item["reason"] for item in passes]
    if any(reasons):
        facts["reasons"] = reasons
    models = sorted({item["model"] for item in passes if item.get("model")})
    return {**facts, "model": models} if models else facts


def _verdict(passes: list[dict[str, Any]]) -> tuple[Status, str]:
    """The status of a row none of whose passes has a mark."""
    found = [item["status"] for item in passes]
    status = next((status for status in _ORDER if status in found), found[0])
    reasons = list(dict.fromkeys(item["reason"] for item in passes if item["status"] == status))
    return status, f"no pass of {len(passes)} has a mark: " + "; ".join(reasons)
