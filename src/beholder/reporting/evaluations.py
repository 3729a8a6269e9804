"""Attribute evaluations (`beholder attributes`) that a report shows beside its runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from beholder.attributing.files import HEADER, AttributeRun
from beholder.comparing.sides import RunLike
from beholder.report.attributes import attributes_text
from beholder.report.html.data import Evaluation
from beholder.runs.results import Run

MOST_FIGURES = 24
"""Figures of one evaluation that are shown; the others stay in its folder."""


def split_evaluations(folders: Sequence[RunLike]) -> tuple[list[RunLike], list[Evaluation]]:
    """Runs of samples, and the evaluations of whole sets among the folders."""
    runs: list[RunLike] = []
    found: list[Evaluation] = []
    for folder in folders:
        if (
            not isinstance(folder, Run)
            and (Path(folder) / HEADER).exists()
            and not (Path(folder) / "run.json").exists()
        ):
            found.append(attribute_evaluation(Path(folder)))
        else:
            runs.append(folder)
    return runs, found


def attribute_evaluation(path: Path) -> Evaluation:
    """An attribute evaluation with the figures that were drawn of it (`--pictures`)."""
    run = AttributeRun(path)
    text = attributes_text(run.header, run.sets.to_pylist(), run.attributes.to_pylist())
    home = path / "pictures"
    drawn = sorted(home.rglob("*.png")) if home.is_dir() else []
    figures = [(str(item.relative_to(home).with_suffix("")), item.read_bytes()) for item in drawn[:MOST_FIGURES]]
    return Evaluation(f"Attributes: {path.resolve().name}", text, figures)
