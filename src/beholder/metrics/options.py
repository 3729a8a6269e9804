"""Options of metrics: what was given against what the card allows, defaults filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping

from beholder._errors import OptionError, UnknownNameError
from beholder._identity import OptionValue
from beholder.records import MetricInfo, OptionInfo


def check_options(info: MetricInfo, given: Mapping[str, OptionValue | None]) -> dict[str, OptionValue]:
    """All options of a metric, defaults filled in; every wrong one is an error that says what is allowed."""
    known = {option.name: option for option in info.options}
    result: dict[str, OptionValue] = {option.name: option.default for option in info.options}
    for key, value in given.items():
        if key not in known:
            raise UnknownNameError(f"option of {info.name}", key, known, fix=f"See: beholder info {info.name}")
        if value is None:
            continue
        result[key] = _check_value(info.name, known[key], value)
    return result


def _check_value(metric: str, option: OptionInfo, value: OptionValue) -> OptionValue:
    if option.kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if option.kind == "str" and isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if option.kind == "bool" and value in ("True", "False"):  # as the manual and Python print it
        value = value == "True"
    types: dict[str, type | tuple[type, ...]] = {
        "str": str, "int": int, "float": float, "bool": bool, "list": tuple,
    }  # fmt: skip
    right = isinstance(value, types[option.kind]) and (option.kind == "bool" or not isinstance(value, bool))
    if not right:
        raise OptionError(f"option {option.name} of {metric} must be of type {option.kind}", got=repr(value))
    if option.choices and value not in option.choices:
        allowed = ", ".join(str(choice) for choice in option.choices)
        raise OptionError(f"option {option.name} of {metric} must be one of: {allowed}", got=repr(value))
    return value


_SLASHED_ARCH = re.compile(r"(?<=:)(ViT-[A-Za-z]+)/(?=[0-9])")


def plain_model_name(name: str) -> str:
    """A model's name with the architecture's slash as a dash, so that both spellings are one identity.

    >>> plain_model_name("openai:ViT-L/14")
    'openai:ViT-L-14'
    """
    return _SLASHED_ARCH.sub(r"\1-", name)
