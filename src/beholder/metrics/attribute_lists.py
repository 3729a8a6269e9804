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
        OptionError: no such file, one that cannot be read, an empty list, or a name that stands twice.
    """
    found = [_one(item, at) for at, item in enumerate(_items(asked), start=1)]
    if not found:
        raise OptionError("a list of attributes must hold at least one", got="none")
    names = [attribute.name for attribute in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OptionError("the names of attributes must differ", got=", ".join(twice))
    return found


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


def _items(asked: Asked) -> Sequence[Any]:
    if not isinstance(asked, (str, Path)):
        return list(asked)
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


def _parse(path: Path, text: str) -> Sequence[Any]:
    if path.suffix == ".json":
        try:
            items = json.loads(text)
        except json.JSONDecodeError as error:
            raise OptionError("a JSON list of attributes must be valid JSON", got=f"{path.name}: {error}") from error
        if not isinstance(items, list):
            raise OptionError("a JSON file of attributes must hold a list", got=type(items).__name__)
        return items
    if path.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(text)))
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _one(item: Any, at: int) -> Attribute:
    if isinstance(item, Attribute):
        return item
    if isinstance(item, str):
        item = {"positive": item}
    if not isinstance(item, Mapping):
        raise OptionError("an attribute must be a text or an object", got=f"number {at}: {type(item).__name__}")
    known = {"positive", "counterpart", "group", "name"}
    extra = sorted(str(key) for key in set(item) - known)
    if extra:
        raise OptionError(f"an attribute may have: {', '.join(sorted(known))}", got=f"number {at}: {', '.join(extra)}")
    values = {key: str(value).strip() for key, value in item.items() if value is not None and str(value).strip()}
    if "positive" not in values:
        raise OptionError("an attribute must have a text in `positive`", got=f"number {at}: {dict(item)}")
    return Attribute(values["positive"], values.get("counterpart"), values.get("group"), values.get("name", ""))
