"""Attribute evaluations (`beholder attributes`) that a report shows beside its runs, or alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from beholder._errors import UserError
from beholder.attributing.files import HEADER, AttributeRun
from beholder.comparing.sides import RunLike
from beholder.report.html.data import Report, Samples, View
from beholder.reporting.warnings import is_stand_in
from beholder.runs.results import Run


def split_evaluations(folders: Sequence[RunLike]) -> tuple[list[RunLike], list[Path]]:
    """Runs of samples, and the folders of evaluations of whole sets."""
    runs: list[RunLike] = []
    found: list[Path] = []
    for folder in folders:
        if (
            not isinstance(folder, Run)
            and (Path(folder) / HEADER).exists()
            and not (Path(folder) / "run.json").exists()
        ):
            found.append(Path(folder))
        else:
            runs.append(folder)
    return runs, found


def attribute_blockers(path: Path) -> list[str]:
    """What forbids to use an evaluation's numbers: a stand-in for an encoder."""
    model = AttributeRun(path).header["model"]
    if not is_stand_in(model.get("id"), model.get("card")):
        return []
    return [
        f"{path.resolve().name}: scored with {model['id']}, a stand-in for trying things out, whose numbers mean "
        "nothing on other pictures."
    ]


def only_evaluations(views: Sequence[View], blockers: Sequence[str], command: str) -> Report:
    """A report of evaluations of whole sets alone: there are no samples and nothing is compared.

    Raises:
        UserError: there is nothing at all.
    """
    if not views:
        raise UserError("a report needs a run", got="none", fix="Name a folder that `beholder run` made")
    found = [(view, one) for view in views for one in view.data["sets"]]
    return Report(
        title=" · ".join(view.title for view in views),
        facts=[fact for view in views for fact in view.data["facts"]],
        command=command,
        sides=(),
        metrics=(),
        set_metrics=(),
        blockers=blockers,
        warnings=(),
        verdicts=[_verdict(one) for _, one in found],
        cells={},
        deltas={},
        against={},
        latex="",
        markdown="",
        slices=(),
        slices_note="",
        picks=(),
        histograms=(),
        groups={},
        group_tables={},
        views=views,
        identity={view.title: view.data["identity"] for view in views},
        samples=Samples((), (), (), (), (), {}, {}, {}, {}, {}, (), ()),
    )


def _verdict(one: dict[str, object]) -> str:
    rows = one["attributes"]
    assert isinstance(rows, list)
    sure = [row["name"] for row in rows if row["sure"]]
    told = f"{', '.join(sure[:4])}{' and others' if len(sure) > 4 else ''}" if sure else "none"
    return f"{one['name']}: {len(sure)} of {len(rows)} attributes differ from the reference ({told})."
