"""Sends runs to experiment trackers: the summary, the table of samples, the worst samples with their pictures.

Each tracker is asked in its own words and left with its own settings: WANDB_MODE=offline, MLFLOW_TRACKING_URI (a local
file or database), trackio and TensorBoard keep everything on this machine by themselves.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from beholder._errors import MissingExtraError, OptionError, UserError
from beholder.comparing.sides import RunLike, make_sides, opened, run_names
from beholder.report.html.data import Samples
from beholder.report.html.thumbs import Wish, make
from beholder.reporting.collect import sample_metrics, sides_of
from beholder.reporting.picks import worst
from beholder.reporting.samples import make_samples, side_rows
from beholder.runs.results import Run

PROJECT = "beholder"
FOLDER = "tensorboard"
"""Folder in a run that TensorBoard's events are written to."""

_ROWS_OF_TEXT = 1000


@dataclass(frozen=True)
class Logged:
    """What is sent of one run.

    Args:
        name: the run's name.
        folder: its folder.
        config: what its numbers depend on, flat.
        numbers: headline values, ends of intervals, n and missing by status: "clip_score", "clip_score.low",
            "clip_score.n", "clip_score.missing", "clip_score.missing.unreadable", "clip_score.method=a".
        columns: columns of the table of samples.
        rows: its rows.
        pictures: (caption, picture) of the worst samples by each metric.
    """

    name: str
    folder: str
    config: Mapping[str, str]
    numbers: Mapping[str, float]
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    pictures: Sequence[tuple[str, Image.Image]]


def log_runs(target: str, *runs: RunLike, project: str = PROJECT) -> None:
    """Sends runs to a tracker; each becomes one run there.

    Args:
        target: one of `TARGETS`.
        runs: run folders or runs.
        project: the tracker's project or experiment; TensorBoard has none and writes into the run's folder.

    Raises:
        OptionError: another target.
        MissingExtraError: the tracker's package is not installed.
        UserError: the tracker refuses what is sent.
    """
    if target not in TARGETS:
        raise OptionError(f"--log-to must be one of: {', '.join(TARGETS)}", got=repr(target))
    package, send = TARGETS[target]
    try:
        tracker = importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(f"sending runs to {target}", package, target) from error
    found = opened(runs)
    for run, name in zip(found, run_names(found)):
        logged = collect_log(run, name)
        try:
            send(tracker, logged, project)
        # Trackers raise errors of their own for what is wrong with an account, an address or a folder.
        except Exception as error:
            raise UserError(
                f"{target} must take what is sent to it",
                got=f"{type(error).__name__}: {error}",
                fix=f"Look at the settings of {target}",
            ) from error


def collect_log(run: Run, name: str) -> Logged:
    """What is sent of a run."""
    sides = make_sides([run], least=1)
    _, places = sides_of([run], sides)
    labels = list(dict.fromkeys(label for side in sides for label in side.labels))
    samples = make_samples([run], side_rows([run], sides, places), labels)
    pictures = []
    for metric in sample_metrics([run], samples):
        pick = worst(samples, metric)
        pictures += [found for (row,) in pick.rows if (found := _picture(samples, row, metric.label)) is not None]
    config = {item["label"]: str(item["identity"]) for item in run.header["metrics"]}
    config |= {
        f"model {model['id']}": str(model.get("weights_sha256"))
        for model in run.header["models"].values()
        if "id" in model
    }
    config |= {f"version {name}": str(version) for name, version in run.header["versions"].items()}
    columns = ["id", "method", "prompt", "output", *(part for label in labels for part in (label, f"{label}_status"))]
    methods = samples.columns.get("method", [None] * samples.n)
    rows = [
        [samples.ids[at], methods[at], samples.prompts[at], samples.outputs[at]]
        + [part for label in labels for part in (samples.values[label][at], samples.statuses[label][at])]
        for at in range(samples.n)
    ]
    return Logged(name, str(run.path), config, _numbers(run), columns, rows, pictures)


def _numbers(run: Run) -> dict[str, float]:
    found: dict[str, float] = {}
    for item in run.summary:
        if not item.headline:
            continue
        # No slash: stores of files make folders of it, and a number cannot be both a file and a folder.
        name = ".".join([item.label, *(f"{column}={value}" for column, value in item.group.items())])
        missing = {f"missing.{status}": float(count) for status, count in item.n_missing.items() if count}
        facts = {"low": item.low, "high": item.high, "n": float(item.n), "missing": sum(missing.values()), **missing}
        # A metric without a value still has its counts.
        found |= {} if item.value is None else {name: item.value}
        found |= {f"{name}.{fact}": value for fact, value in facts.items() if value is not None}
    return found


def _picture(samples: Samples, row: int, label: str) -> tuple[str, Image.Image] | None:
    output = samples.visuals[row].output
    data = None if output is None else make(Wish(output))
    if data is None:
        return None
    caption = f"{label} {samples.values[label][row]:.6g}: {samples.prompts[row] or samples.ids[row]}"
    return caption, Image.open(io.BytesIO(data)).convert("RGB")


def _to_wandb(wandb: Any, logged: Logged, project: str) -> None:
    with wandb.init(project=project, name=logged.name, config=dict(logged.config), reinit="create_new") as run:
        run.summary.update(dict(logged.numbers))
        table = wandb.Table(columns=list(logged.columns), data=[list(row) for row in logged.rows])
        pictures = [wandb.Image(image, caption=caption) for caption, image in logged.pictures]
        run.log({"samples": table, **({"worst": pictures} if pictures else {})})


def _to_trackio(trackio: Any, logged: Logged, project: str) -> None:
    import pandas as pd

    trackio.init(project=project, name=logged.name, config=dict(logged.config), embed=False)
    try:
        table = trackio.Table(dataframe=pd.DataFrame(list(logged.rows), columns=list(logged.columns)))
        pictures = {
            f"worst/{at}": trackio.Image(image, caption=text) for at, (text, image) in enumerate(logged.pictures)
        }
        trackio.log({**logged.numbers, "samples": table, **pictures})
    finally:
        trackio.finish()


def _to_mlflow(mlflow: Any, logged: Logged, project: str) -> None:
    mlflow.set_experiment(project)
    with mlflow.start_run(run_name=logged.name):
        mlflow.log_dict(dict(logged.config), "identity.json")
        mlflow.log_metrics({_mlflow_name(name): value for name, value in logged.numbers.items()})
        # MLflow's own tables need pandas; a JSON file of the same form needs nothing.
        mlflow.log_dict({"columns": list(logged.columns), "data": [list(row) for row in logged.rows]}, "samples.json")
        for at, (caption, image) in enumerate(logged.pictures):
            mlflow.log_image(image, f"worst/{at}.png")
            mlflow.log_text(caption, f"worst/{at}.txt")


def _mlflow_name(name: str) -> str:
    """MLflow takes letters, digits, and a few signs."""
    return "".join(char if char.isalnum() or char in "_-. /" else "_" for char in name)


def _to_tensorboard(_: Any, logged: Logged, project: str) -> None:
    from pathlib import Path

    summaries = importlib.import_module("tensorboard.compat.proto.summary_pb2")
    events = importlib.import_module("tensorboard.compat.proto.event_pb2")
    files = importlib.import_module("tensorboard.summary.writer.event_file_writer")
    values = [summaries.Summary.Value(tag=name, simple_value=value) for name, value in logged.numbers.items()]
    for at, (caption, image) in enumerate(logged.pictures):
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        picture = summaries.Summary.Image(
            height=image.height, width=image.width, colorspace=3, encoded_image_string=buffer.getvalue()
        )
        values += [summaries.Summary.Value(tag=f"worst/{at}", image=picture), _text(summaries, f"worst/{at}", caption)]
    values.append(_text(summaries, "samples", _markdown(logged)))
    writer = files.EventFileWriter(str(Path(logged.folder) / FOLDER))
    writer.add_event(events.Event(step=0, summary=summaries.Summary(value=values)))
    writer.close()


def _text(summaries: Any, tag: str, text: str) -> Any:
    tensors = importlib.import_module("tensorboard.compat.proto.tensor_pb2")
    types = importlib.import_module("tensorboard.compat.proto.types_pb2")
    plugin = summaries.SummaryMetadata.PluginData(plugin_name="text")
    tensor = tensors.TensorProto(dtype=types.DT_STRING, string_val=[text.encode()])
    return summaries.Summary.Value(
        tag=f"{tag}/text", metadata=summaries.SummaryMetadata(plugin_data=plugin), tensor=tensor
    )


def _markdown(logged: Logged) -> str:
    """The table of samples as TensorBoard shows texts; the whole stands in the run's scores.csv."""
    from beholder.report.render import to_markdown
    from beholder.report.tables import Column, Table

    shown = [tuple("" if value is None else str(value) for value in row) for row in logged.rows[:_ROWS_OF_TEXT]]
    left = len(logged.rows) - len(shown)
    notes = (f"{left} more samples stand in scores.csv.",) if left else ()
    return to_markdown(Table(tuple(Column(name) for name in logged.columns), tuple(shown), notes))


TARGETS: dict[str, tuple[str, Callable[[Any, Logged, str], None]]] = {
    "wandb": ("wandb", _to_wandb),
    "mlflow": ("mlflow", _to_mlflow),
    "tensorboard": ("tensorboard", _to_tensorboard),
    "trackio": ("trackio", _to_trackio),
}
"""Tracker → (package, which is also the extra's name, how a run is sent)."""
