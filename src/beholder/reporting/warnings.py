"""What a reader must know first: blockers, which forbid to use or compare numbers as they stand, and warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beholder.comparing.sides import Side
from beholder.report.identity import metric_differences, run_differences
from beholder.runs.results import Run

_STAND_INS = {"demo", "fake", "stand-in"}


def run_blockers(run: Run, name: str) -> list[str]:
    """What forbids to use a run's numbers: a stand-in model, a run that is not finished, too many faults."""
    standing = _stand_ins(run.header)
    told = "; ".join(f"{', '.join(labels)} with {model}" for model, labels in standing.items())
    found = [
        f"{name}: scored with stand-ins for trying things out, whose numbers mean nothing on other pictures: {told}."
    ]
    found = found if standing else []
    if not run.finished:
        found.append(f"{name} is not finished ({run.header['status']}): its numbers are of the {run.n} samples so far.")
    if run.exit_code:
        allowed = run.header["asked"]["max_failed"]
        found.append(
            f"{name}: {run.n_faults} of {run.n} samples have a fault, more than the {allowed * 100:.3g} % that "
            "--max-failed allows."
        )
    return found


def is_stand_in(model: Any, card: Mapping[str, Any] | None) -> bool:
    """Whether a model only tries things out: by its engine, by its name, or because its card says so."""
    card = card or {}
    notes = " ".join(map(str, card.get("notes") or ()))
    return card.get("engine") in _STAND_INS or str(model).split(":")[0] in _STAND_INS or "stand-in" in notes.lower()


def _stand_ins(header: Mapping[str, Any]) -> dict[str, list[str]]:
    """Labels of the metrics that used a stand-in, by its name."""
    models = {key: (model.get("id"), model.get("card")) for key, model in (header.get("models") or {}).items()}
    found: dict[str, list[str]] = {}
    for entry in header["metrics"]:
        for slot in entry.get("slots", {}).values():
            named, card = models.get(slot.get("model_key"), (slot.get("model"), None))
            if is_stand_in(named, card):
                labels = found.setdefault(str(named), [])
                if entry["label"] not in labels:
                    labels.append(entry["label"])
    return found


def run_warnings(run: Run, name: str) -> list[str]:
    """What else to know of a run: its notices, and which metrics do not cover all samples."""
    found = [f"{name}: {text}" for text in run.notices]
    for item in run.summary:
        if item.headline and not item.group and item.note and item.label not in run.sample_labels:
            found.append(f"{name}: {item.label}: {item.note}.")
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
