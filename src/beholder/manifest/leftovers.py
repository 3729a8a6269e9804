"""Files and prompts that found no partner: faults, or a remark where leftovers are accepted."""

from __future__ import annotations

from collections.abc import Iterator

from beholder._errors import Fault
from beholder.manifest.source import Row

_SHOWN = 5
_ACCEPT = "Accept leftovers with --allow-extra (allow_extra=True)"


class Leftovers:
    """Collects what found no partner.

    Args:
        accept: True makes one remark of them, False a fault of each.
    """

    def __init__(self, *, accept: bool) -> None:
        self._accept = accept
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}

    def add(self, message: str, where: str) -> Iterator[Row]:
        """One thing without partner: a fault, or nothing yet."""
        if not self._accept:
            yield 0, Fault(message, where=where, fix=_ACCEPT)
            return
        self._counts[message] = self._counts.get(message, 0) + 1
        shown = self._examples.setdefault(message, [])
        if len(shown) < _SHOWN:
            shown.append(where)

    def remarks(self) -> list[str]:
        """One remark a kind, with the count and the first few."""
        return [
            f"{message}: {count} ({', '.join(self._examples[message])}{', …' if count > _SHOWN else ''})"
            for message, count in self._counts.items()
        ]
