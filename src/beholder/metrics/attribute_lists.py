"""Lists of attributes: what is asked of every image, in which words, and what an image without it shows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from beholder._errors import OptionError

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "attributes"
BUILT_IN = ("animals", "faces", "scenes")
"""Lists that come with the package."""
_KNOWN = frozenset({"positive", "counterpart", "group", "name"})
_TOLD = 20
"""So many faults of a list are told."""

Placed = tuple[str, Any]
"""Where an attribute stands ("line 3", "number 3"), and what stands there."""


@dataclass(frozen=True)
class Attribute:
    """One attribute.

    Args:
        positive: words that fill the positive prompt ("a person wearing a hat").
        counterpart: what an image shows instead ("a person with a bare head"); None takes the negative prompt.
        group: what tables are ordered by, or None.
        name: how tables call it; `positive` by default.
    """

    positive: str
    counterpart: str | None = None
    group: str | None = None
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.positive)

    def as_json(self) -> dict[str, Any]:
        """The attribute as JSON."""
        return {"name": self.name, "positive": self.positive, "counterpart": self.counterpart, "group": self.group}


Asked = Union[str, Path, Sequence[Union[str, Mapping[str, Any], Attribute]]]


def read_attributes(asked: Asked) -> list[Attribute]:
    """Attributes from a file, a built-in list, or Python.

    A file holds one attribute a line (blank lines and lines with # in front are left out), or is JSON (a list of texts
    or of objects) or CSV (with a header), with the columns `positive`, and if wanted `counterpart`, `group`, `name`.

    Args:
        asked: a file, "faces", "animals" or "scenes", or a list of texts, mappings or `Attribute`.

    Raises:
        OptionError: no such file, one that cannot be read, or an empty list; or attributes without a text, with
            unknown columns or with one name: all of them at once, by line or number.
    """
    found, faults = [], []
    for place, item in _items(asked):
        try:
            found.append((place, _one(item)))
        except ValueError as fault:
            faults.append(f"{place}: {fault}")
    places: dict[str, list[str]] = {}
    for place, attribute in found:
        places.setdefault(attribute.name, []).append(place)
    faults += [f"{', '.join(at)}: the name {name!r} more than once" for name, at in places.items() if len(at) > 1]
    if faults:
        more = f"; and {len(faults) - _TOLD} more" if len(faults) > _TOLD else ""
        raise OptionError(
            "each attribute must be a text, or have a text in `positive`, and a name of its own",
            got="; ".join(faults[:_TOLD]) + more,
        )
    if not found:
        raise OptionError("a list of attributes must hold at least one", got="none")
    return [attribute for _, attribute in found]


def listed_attributes(items: Sequence[str]) -> list[Attribute]:
    """Attributes from a metric's option: texts, "positive|counterpart", or the names of built-in lists.

    >>> [(item.positive, item.counterpart) for item in listed_attributes(["a cat", "open eyes|closed eyes"])]
    [('a cat', None), ('open eyes', 'closed eyes')]
    """
    found: list[Attribute] = []
    for item in items:
        positive, _, counterpart = item.partition("|")
        found += (
            read_attributes(item) if item in BUILT_IN else [Attribute(positive.strip(), counterpart.strip() or None)]
        )
    return read_attributes(found)


def as_option(asked: Asked) -> tuple[str, ...]:
    """A list of attributes as `listed_attributes` reads it; a built-in list by its name.

    Raises:
        OptionError: see `read_attributes`.
    """
    if isinstance(asked, str) and asked in BUILT_IN and not Path(asked).exists():
        return (asked,)
    return tuple(
        item.positive if item.counterpart is None else f"{item.positive}|{item.counterpart}"
        for item in read_attributes(asked)
    )


def _items(asked: Asked) -> list[Placed]:
    if not isinstance(asked, (str, Path)):
        return _numbered(asked)
    path = Path(asked).expanduser()
    if str(asked) in BUILT_IN and not path.exists():
        path = FOLDER / f"{asked}.csv"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(
            "a list of attributes must be a readable text file, or one of " + ", ".join(BUILT_IN),
            got=f"{asked}: {error}",
        ) from error
    return _parse(path, text)


def _numbered(items: Sequence[Any]) -> list[Placed]:
    return [(f"number {at}", item) for at, item in enumerate(items, start=1)]


def _parse(path: Path, text: str) -> list[Placed]:
    if path.suffix == ".json":
        try:
            items = json.loads(text)
        except json.JSONDecodeError as error:
            raise OptionError("a JSON list of attributes must be valid JSON", got=f"{path.name}: {error}") from error
        if not isinstance(items, list):
            raise OptionError("a JSON file of attributes must hold a list", got=type(items).__name__)
        return _numbered(items)
    if path.suffix == ".csv":
        return _parse_csv(path, text)
    lines = [(f"line {at}", line.strip()) for at, line in enumerate(text.splitlines(), start=1)]
    return [(place, line) for place, line in lines if line and not line.startswith("#")]


def _parse_csv(path: Path, text: str) -> list[Placed]:
    reader = csv.DictReader(io.StringIO(text))
    columns = reader.fieldnames or []
    if columns and "positive" not in columns:
        raise OptionError(
            "a CSV file of attributes must have a column `positive` in its first line",
            got=f"{path.name}: {', '.join(columns)}",
        )
    rows: list[Placed] = []
    try:
        for row in reader:
            rows.append((f"line {reader.line_num}", row))
    except csv.Error as error:
        raise OptionError("a CSV list of attributes must be valid CSV", got=f"{path.name}: {error}") from error
    return rows


def _one(item: Any) -> Attribute:
    """One attribute.

    Raises:
        ValueError: what is wrong with it.
    """
    if isinstance(item, Attribute):
        return item
    if isinstance(item, str):
        item = {"positive": item}
    if not isinstance(item, Mapping):
        raise ValueError(f"neither a text nor an object, but {type(item).__name__}")
    if None in item:  # csv's key of cells beyond the header
        raise ValueError(f"more cells than columns ({', '.join(map(str, item[None]))})")
    extra = sorted(str(key) for key in set(item) - _KNOWN)
    if extra:
        raise ValueError(f"unknown {', '.join(extra)} (known: {', '.join(sorted(_KNOWN))})")
    values = {key: str(value).strip() for key, value in item.items() if value is not None and str(value).strip()}
    if "positive" not in values:
        raise ValueError("no text in `positive`")
    return Attribute(values["positive"], values.get("counterpart"), values.get("group"), values.get("name", ""))
