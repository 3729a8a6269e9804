"""Items to encode, and features that they need, as plain text and bytes: how work travels to other machines.

An item is written as JSON: texts and numbers as they are, everything else with a mark of what it is. Only beholder's
own records and functions are written and read, so a file of work holds no code. Pixels in memory are never written,
nor are URLs that hold a secret: such items are encoded where the run was started.
"""

from __future__ import annotations

import base64
import dataclasses
import importlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from beholder._errors import NoValue
from beholder.backends.base import Columns
from beholder.backends.columns import flatten, object_column, unflatten
from beholder.records import Status

_OWN = "beholder."
_PATHS = {("LocalFile", "path"), ("TarMember", "tar")}


class NotWritten(ValueError):
    """An item that cannot be written down."""


def write_item(item: Any) -> str:
    """An item as JSON text.

    Raises:
        NotWritten: it holds pixels, a secret, or a function of somebody else.
    """
    return json.dumps(_write(item), ensure_ascii=True)


def read_item(text: str) -> Any:
    """The item that `write_item` was given; its files are known by absolute paths."""
    return _read(json.loads(text))


def _write(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, (list, tuple)):
        return {"tuple" if isinstance(value, tuple) else "list": [_write(item) for item in value]}
    if isinstance(value, Mapping):
        return {"map": [[_write(key), _write(item)] for key, item in value.items()]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _write_record(value)
    name = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', '')}"
    if callable(value) and name.startswith(_OWN) and "<" not in name and _named(name) is value:
        return {"function": name}
    raise NotWritten(f"{type(value).__name__} cannot be written")


def _write_record(value: Any) -> Any:
    kind = type(value)
    if not kind.__module__.startswith(_OWN):
        raise NotWritten(f"{kind.__name__} is not one of beholder's records")
    if kind.__name__ == "RemoteFile" and value.url != value.name:
        raise NotWritten("a URL that holds a secret")
    fields = {}
    for item in dataclasses.fields(value):
        if item.init:
            part = getattr(value, item.name)
            fields[item.name] = _write(os.path.abspath(part) if (kind.__name__, item.name) in _PATHS else part)
    return {"record": f"{kind.__module__}:{kind.__qualname__}", "fields": fields}


def _read(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    if "tuple" in value:
        return tuple(_read(item) for item in value["tuple"])
    if "list" in value:
        return [_read(item) for item in value["list"]]
    if "map" in value:
        return {_read(key): _read(item) for key, item in value["map"]}
    if "function" in value:
        return _named(value["function"])
    kind = _named(value["record"])
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise ValueError(f"{value['record']} is no record")
    return kind(**{name: _read(part) for name, part in value["fields"].items()})


def _named(name: str) -> Any:
    module, _, qualname = name.partition(":")
    if not module.startswith(_OWN):
        raise ValueError(f"{name} is not beholder's own")
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def write_columns(columns: Columns) -> bytes:
    """Columns of features as the bytes of a safetensors file."""
    from safetensors.numpy import save

    data: bytes = save(flatten(columns))
    return data


def read_columns(data: bytes) -> dict[str, np.ndarray]:
    """The columns that `write_columns` was given."""
    from safetensors.numpy import load

    return unflatten(load(data))


def write_source(found: Any) -> bytes:
    """A feature that an item needs: its row of each column, or the `NoValue` that there is instead."""
    if isinstance(found, NoValue):
        return b"N" + json.dumps([str(Status(found.status).value), found.reason]).encode()
    plain = {name: _column(row) for name, row in found.items()}
    return b"C" + write_columns(plain)


def read_source(data: bytes) -> Any:
    """What `write_source` was given."""
    if data[:1] == b"N":
        status, reason = json.loads(data[1:])
        return NoValue(Status(status), reason)
    return {name: array[0] for name, array in read_columns(data[1:]).items()}


def _column(row: Any) -> np.ndarray:
    return object_column([row]) if isinstance(row, str) else np.asarray(row)[None]
