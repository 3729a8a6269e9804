"""What a reader must know first: blockers, which forbid to use or compare numbers as they stand, and warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beholder.comparing.sides import Side
from beholder.report.identity import metric_differences, run_differences
from beholder.runs.results import Run

_STAND_INS = {"demo", "fake"}


def run_blockers(run: Run, name: str) -> list[str]:
    """What forbids to use a run's numbers: a stand-in model, a run that is not finished, too many faults."""
    found = [
        f"{name}: {', '.join(labels)} was scored with {model}, a stand-in that is for trying things out; its numbers "
        "mean nothing on other pictures."
        for model, labels in _stand_ins(run.header).items()
    ]
    if not run.finished:
        found.append(f"{name} is not finished ({run.header['status']}): its numbers are of the {run.n} samples so far.")
    if run.exit_code:
        allowed = run.header["asked"]["max_failed"]
        found.append(
            f"{name}: {run.n_faults} of {run.n} samples have a fault, more than the {allowed * 100:.3g} % that "
            "--max-failed allows."
        )
    return found


def _stand_ins(header: Mapping[str, Any]) -> dict[str, list[str]]:
    engines = {
        key: (model.get("id"), (model.get("card") or {}).get("engine"))
        for key, model in (header.get("models") or {}).items()
    }
    found: dict[str, list[str]] = {}
    for entry in header["metrics"]:
        for slot in entry.get("slots", {}).values():
            named, engine = engines.get(slot.get("model_key"), (slot.get("model"), None))
            if engine in _STAND_INS or str(named).split(":")[0] in _STAND_INS:
                labels = found.setdefault(str(named), [])
                if entry["label"] not in labels:
                    labels.append(entry["label"])
    return found


def run_warnings(run: Run, name: str) -> list[str]:
    """What else to know of a run: its notices, and which metrics do not cover all samples."""
    found = [f"{name}: {text}" for text in run.notices]
    for item in run.summary:
        missing = {str(status): count for status, count in item.n_missing.items() if count}
        if item.headline and not item.group and missing:
            told = ", ".join(f"{count} {status}" for status, count in missing.items())
            found.append(f"{name}: {item.label} has a value for {item.n} of {item.n + sum(missing.values())}: {told}.")
    return found


def comparable(sides: Sequence[Side]) -> tuple[list[str], list[str]]:
    """Labels that all sides have and that are one number in all of them, and why others are not."""
    shared = [label for label in sides[0].labels if all(label in side.labels for side in sides)]
    good, blockers = [], []
    for label in shared:
        facts = [
            f"{label} cannot be compared: that of {side.name} is not the same number as that of {sides[0].name} "
            f"({fact})."
            for side in sides[1:]
            for fact in metric_differences(sides[0].header, side.header, label)
        ]
        blockers += facts
        good += [] if facts else [label]
    return good, blockers


def environment_warnings(sides: Sequence[Side]) -> list[str]:
    """In which ways the runs of the sides differ beside their metrics."""
    found = {
        f"{side.name} differs from {sides[0].name} in {fact}."
        for side in sides[1:]
        if side.header is not sides[0].header
        for fact in run_differences(sides[0].header, side.header)
    }
    return sorted(found)
