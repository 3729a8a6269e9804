"""Whatever somebody hands in as an image becomes a medium."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from PIL import Image

from beholder._errors import OptionError
from beholder.media.archives import TarMember, split_member
from beholder.media.arrays import PilMedium, array_medium, tensor_array
from beholder.media.base import Medium
from beholder.media.canonical import ValueRange
from beholder.media.files import BytesMedium, HashMemory, LocalFile, StatKey, set_hash_memory
from beholder.media.remote import is_url, remote_file

__all__ = ["HashMemory", "StatKey", "as_medium", "set_hash_memory"]


def as_medium(
    value: object, *, base: str | os.PathLike[str] | None = None, value_range: ValueRange | None = None
) -> Medium:
    """The medium of a path, URL, tar member, bytes, cell, PIL image, array or tensor. A file with a path is read later.

    Args:
        value: one of
            a local path;
            an fsspec URL ("s3://…", "memory://…", "file://…");
            "shards.tar::a.png" (also .tar.gz and .tgz);
            the bytes of an encoded file, or an open file, which is read from where it stands;
            a cell {"bytes": …, "path": …}, where bytes win;
            a PIL image;
            a numpy array (H, W), (H, W, C) or (C, H, W) with C of 1, 3 or 4;
            a torch tensor of such a shape, where exactly one end can be the channels;
            a medium, which comes back as it is.
        base: folder that relative paths start from; None for the current one.
        value_range: (low, high) that map to black and white. Needed for float arrays and for integers other than
            uint8, uint16 and bool; for arrays it always holds when stated. Files and PIL images use it only where
            their samples are floats or 32-bit integers.

    Raises:
        OptionError: a value of another type or shape, or a float array without a range.
        UserError: a URL whose protocol needs a package that is not installed.
    """
    if value_range is not None:
        value_range = _checked_range(value_range)
    if isinstance(value, np.ndarray):
        return array_medium(value, value_range)
    if isinstance(value, str):
        return _from_text(value, base, value_range)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return BytesMedium(bytes(value), f"bytes[{len(value)}]", value_range)
    if isinstance(value, Image.Image):
        return PilMedium(value, f"image({value.width}×{value.height})", value_range)
    if isinstance(value, os.PathLike):
        return _from_path(os.fspath(value), base, value_range)
    if isinstance(value, Mapping):
        return _from_cell(value, base, value_range)
    if (array := tensor_array(value)) is not None:
        return array_medium(array, value_range, strict=True)
    if isinstance(value, Medium):
        return value
    if callable(read := getattr(value, "read", None)):
        return _from_open_file(read(), value_range)
    raise OptionError(
        "an image must be a path, a URL, bytes, a PIL image, a numpy array or a torch tensor",
        got=type(value).__name__,
    )


def _from_text(text: str, base: str | os.PathLike[str] | None, value_range: ValueRange | None) -> Medium:
    if is_url(text):
        if text.startswith("file://") and "::" not in text:
            return LocalFile(unquote(urlsplit(text).path), text, value_range)
        return remote_file(_chained(text), value_range)
    member = split_member(text)
    if member is not None:
        tar, inside = member
        return TarMember(_joined(tar, base), tar, inside, value_range)
    return _from_path(text, base, value_range)


def _chained(url: str) -> str:
    """`s3://…/shards.tar::a.png` in fsspec's own order, `tar://a.png::s3://…/shards.tar`."""
    member = split_member(url)
    if member is None or "://" in member[1]:
        return url
    return f"tar://{member[1]}::{member[0]}"


def _from_path(path: Any, base: str | os.PathLike[str] | None, value_range: ValueRange | None) -> Medium:
    if not isinstance(path, str):
        path = os.fsdecode(path)
    if not path.strip():
        raise OptionError("the path of an image must not be blank", got=repr(path))
    return LocalFile(_joined(path, base), path, value_range)


def _joined(path: str, base: str | os.PathLike[str] | None) -> str:
    path = os.path.expanduser(path) if path.startswith("~") else path
    return path if base is None else os.path.join(base, path)


def _from_cell(cell: Mapping[Any, Any], base: str | os.PathLike[str] | None, value_range: ValueRange | None) -> Medium:
    data, path = cell.get("bytes"), cell.get("path")
    if isinstance(data, (bytes, bytearray, memoryview)):
        return BytesMedium(bytes(data), path or f"bytes[{len(data)}]", value_range)
    if data is None and isinstance(path, (str, os.PathLike)):
        return as_medium(path, base=base, value_range=value_range)
    raise OptionError(
        'an image cell must hold "bytes" (of an encoded file) or "path"',
        got="keys " + ", ".join(repr(key) for key in cell) if cell else "an empty cell",
    )


def _from_open_file(data: Any, value_range: ValueRange | None) -> Medium:
    if not isinstance(data, (bytes, bytearray)):
        raise OptionError("an open file of an image must give bytes", got=type(data).__name__, fix='Open it with "rb"')
    return BytesMedium(bytes(data), f"bytes[{len(data)}]", value_range)


def _checked_range(value_range: ValueRange) -> ValueRange:
    try:
        low, high = (float(end) for end in value_range)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise OptionError(
            "value_range must be two finite numbers (low, high) with low < high",
            got=repr(value_range),
            fix="For example value_range=(0, 1)",
        )
    return low, high
