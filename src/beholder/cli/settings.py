"""From the command line, a TOML file, another run and a preset to one checked config, with all faults at once.

What wins: command line, then TOML file, then `--like`, then `--preset`, then the default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beholder._errors import BeholderError, Fault, InputError, UserError
from beholder._identity import format_spec, parse_spec
from beholder.runs.config import RunConfig, make_config, preset_settings, read_toml, settings_like

_COLOURS = {"white": (255, 255, 255), "black": (0, 0, 0), "gray": (128, 128, 128), "grey": (128, 128, 128)}
_FLAGS = {"metrics": "--metric", "mapping": "--map", "data": "DATA"}


@dataclass(frozen=True)
class Gathered:
    """A checked config, and remarks about where its settings come from."""

    config: RunConfig
    remarks: tuple[str, ...]


def gather(given: Mapping[str, Any], *, like: str | None = None, preset: str | None = None) -> Gathered:
    """Merges all layers and checks the result.

    Args:
        given: settings of the command line; None where an option was not given. `data` may be a TOML file.
        like: run folder whose identity is taken over.
        preset: name of a published setting.

    Raises:
        UserError: the one fault that was found.
        InputError: all faults, when there are several.
    """
    faults: list[UserError | Fault] = []
    line = {name: value for name, value in given.items() if value not in (None, [], {})}
    file = _from_file(line, faults)
    like, preset = (_of_file(file, name, value, faults) for name, value in (("like", like), ("preset", preset)))
    layers: list[Mapping[str, Any]] = []
    remarks: list[str] = []
    winners = {**file, **line}
    for name, value, read in (("like", like, _read_like), ("preset", preset, preset_settings)):
        if value is None:
            continue
        try:
            settings, about = read(value)
        except UserError as error:
            faults.append(error)
            continue
        layers.insert(0, settings)
        remarks.insert(0, _remark(f"--{name} {value}", settings, about, overridden=winners))
        winners = {**settings, **winners}
    # What a file, run or preset that cannot be read would have set is not missed a second time.
    lost = bool(faults)
    line = _parsed(line, faults)
    merged = {key: value for layer in (*layers, file, line) for key, value in layer.items()}
    config = _config(merged, line, faults)
    if not lost or merged.get("metrics"):
        _check_metrics(merged, config, faults)
    if not lost or merged.get("data") or merged.get("prompts"):
        _check_input(merged, faults)
    if faults or config is None:
        raise _error(faults)
    return Gathered(config, tuple(remarks))


def score_settings(given: Mapping[str, Any], metric: str, *, more: Sequence[UserError] = ()) -> RunConfig:
    """Checked settings of `beholder score`.

    Args:
        given: settings of the command line; None where an option was not given.
        metric: the metric that was asked for.
        more: faults that were found before.

    Raises:
        UserError: or `InputError` with all faults.
    """
    faults: list[UserError | Fault] = list(more)
    line = _parsed({name: value for name, value in given.items() if value is not None}, faults)
    merged = {**line, "metrics": (metric,)}
    config = _config(merged, line, faults)
    _check_metrics(merged, config, faults)
    if faults or config is None:
        raise _error(faults)
    return config


def input_settings(
    data: str | None,
    prompts: str | None,
    outputs: str | None,
    mapping: Sequence[str] | None,
    allow_extra: bool | None,
    root: str | None,
) -> dict[str, Any]:
    """Checked input settings of the commands that score nothing (`validate`, `manifest`).

    Raises:
        UserError: or `InputError` with all faults.
    """
    faults: list[UserError | Fault] = []
    given = {
        "data": data, "prompts": prompts, "outputs": outputs, "mapping": mapping, "allow_extra": allow_extra,
        "root": root,
    }  # fmt: skip
    line = {name: value for name, value in given.items() if value not in (None, [])}
    settings = _from_file(line, faults) | _parsed(line, faults)
    _check_input(settings, faults)
    if faults:
        raise _error(faults)
    return {name: settings.get(name) for name in given}


def with_attributes(metrics: Sequence[str], asked: str) -> list[str]:
    """Metrics with a list of attributes, where they take one and name none.

    Args:
        metrics: as they were asked for.
        asked: a file, or a list that comes with the package.

    Raises:
        UserError: a list that cannot be read, or no metric that takes one.
    """
    from beholder.metrics.attribute_lists import as_option, listed_attributes
    from beholder.metrics.catalog import METRICS

    listed = as_option(asked)
    taken = False
    found = []
    for text in metrics:
        spec = parse_spec(text)
        info = METRICS.get(spec.name).info
        if any(option.name == "attributes" for option in info.options):
            taken = True
            if "attributes" not in spec.options:
                # A metric of samples centres by what is looked for alone.
                plain = tuple(item.positive for item in listed_attributes(listed))
                options = {**spec.options, "attributes": listed if info.kind == "set" else plain}
                text = format_spec(spec.name, options | ({} if spec.label is None else {"as": spec.label}))
        found.append(text)
    if not taken:
        raise UserError(
            "--attributes goes with a metric that takes a list of attributes",
            got=", ".join(metrics) or "no -m",
            fix="Like: -m sad, -m pad, -m r_sad, -m placement",
        )
    return found


def parse_colour(text: str) -> tuple[int, int, int]:
    """`255,255,255`, `#ffffff` or a few names, as RGB.

    >>> parse_colour("#80ff00")
    (128, 255, 0)
    """
    if text.lower() in _COLOURS:
        return _COLOURS[text.lower()]
    if re.fullmatch(r"#[0-9A-Fa-f]{6}", text):
        return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 3 and all(part.isdigit() and int(part) <= 255 for part in parts):
        return int(parts[0]), int(parts[1]), int(parts[2])
    raise UserError("a colour must be R,G,B with numbers from 0 to 255, or #RRGGBB", got=repr(text))


def parse_mapping(items: Sequence[str]) -> dict[str, str]:
    """`COLUMN=NAME` items as a dict."""
    mapping: dict[str, str] = {}
    for item in items:
        column, equals, name = item.rpartition("=")
        if not equals or not column or not name:
            raise UserError(
                "--map must be COLUMN=NAME, your column first", got=repr(item), fix="Like: --map text=prompt"
            )
        if column in mapping and mapping[column] != name:
            raise UserError("--map must give a column one name", got=f"{column!r} twice")
        mapping[column] = name
    return mapping


def _from_file(line: dict[str, Any], faults: list[UserError | Fault]) -> dict[str, Any]:
    """Settings of the TOML file that `data` names; `data` is then left to the file."""
    data = line.get("data")
    if not isinstance(data, str) or not data.lower().endswith(".toml"):
        return {}
    del line["data"]
    try:
        return read_toml(data)
    except UserError as error:
        faults.append(error)
        return {}


def _of_file(file: dict[str, Any], name: str, given: str | None, faults: list[UserError | Fault]) -> str | None:
    """`like` or `preset`: of the command line, else of the TOML file."""
    value = file.pop(name, None)
    if given is not None or value is None:
        return given
    if isinstance(value, str):
        return value
    faults.append(Fault(f"must be text; got {value!r}", where=name))
    return None


def _read_like(run: str) -> tuple[dict[str, Any], str]:
    return settings_like(run), ""


def _remark(source: str, settings: Mapping[str, Any], about: str, *, overridden: Mapping[str, Any]) -> str:
    """What a preset or another run sets, in words."""
    defaults = RunConfig.model_construct()
    lines = [f"{source} sets" + (f" ({about.rstrip('.')})" if about else "") + ":"]
    for name, value in settings.items():
        if name != "metrics" and _plain(value) == _plain(getattr(defaults, name)):
            continue
        shown = "; ".join(value) if name == "metrics" else json.dumps(_plain(value))
        lines.append(f"  {name} = {shown}" + (" (overridden)" if name in overridden else ""))
    return "\n".join(lines)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else value


def _parsed(line: dict[str, Any], faults: list[UserError | Fault]) -> dict[str, Any]:
    """The command line's settings in the types that the config takes."""
    readers = {"background": parse_colour, "mapping": parse_mapping}
    parsed = dict(line)
    for name, read in readers.items():
        if name in parsed:
            try:
                parsed[name] = read(parsed[name])
            except UserError as error:
                faults.append(error)
                del parsed[name]
    return parsed


def _config(merged: Mapping[str, Any], line: Mapping[str, Any], faults: list[UserError | Fault]) -> RunConfig | None:
    try:
        return make_config(merged)
    except InputError as error:
        for fault in error.faults:
            name = (fault.where or "").partition(".")[0]
            where = _flag(name) if name in line else fault.where
            faults.append(Fault(fault.message, where=where))
        return None


def _flag(name: str) -> str:
    return _FLAGS.get(name, "--" + name.replace("_", "-"))


def _check_metrics(merged: Mapping[str, Any], config: RunConfig | None, faults: list[UserError | Fault]) -> None:
    """Every metric that cannot be made is a fault; what only all together tell (labels, --model) comes after."""
    from beholder.metrics.base import make_metric
    from beholder.runs.plan import make_labels, make_metrics

    asked: Any = config.metrics if config is not None else merged.get("metrics", ())
    if not isinstance(asked, (str, list, tuple)):
        return  # the settings' own check tells of it
    known = len(faults)
    for text in (asked,) if isinstance(asked, str) else asked:
        try:
            make_metric(parse_spec(str(text)))
        except BeholderError as error:
            faults.append(Fault(str(error), where=f"--metric {text}"))
    if config is not None and len(faults) == known:
        try:
            make_labels(make_metrics(config.metrics, model=config.model, segmenter=config.segmenter))
        except UserError as error:
            faults.append(error)


def _check_input(settings: Mapping[str, Any], faults: list[UserError | Fault]) -> None:
    data, prompts, outputs = (settings.get(name) for name in ("data", "prompts", "outputs"))
    if (prompts is None) != (outputs is None):
        lacking = "--outputs" if outputs is None else "--prompts"
        faults.append(UserError("--prompts and --outputs must be given together", got=f"no {lacking}"))
    elif data is None and prompts is None:
        faults.append(
            UserError(
                "the input must be named",
                got="none",
                fix="Give DATA (a manifest, folder or tar file), or --prompts FILE with --outputs TEMPLATE",
            )
        )
    elif data is not None and prompts is not None:
        faults.append(UserError("the input must be named once", got="both DATA and --prompts"))
    for name, path in (("DATA", data), ("--prompts", prompts)):
        if isinstance(path, str) and "://" not in path and "::" not in path and not Path(path).exists():
            faults.append(Fault(f"there is no such file or folder as {path}", where=name))


def _error(faults: Sequence[UserError | Fault]) -> UserError:
    if len(faults) == 1 and isinstance(faults[0], UserError):
        return faults[0]
    return InputError("the command", [item if isinstance(item, Fault) else Fault(str(item)) for item in faults])
