"""How the engine tells of its progress; the command line draws it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Gets told of stages and of samples done. Called from the engine's own thread only."""

    def stage(self, text: str, total: int | None) -> None:
        """A new stage begins: what it does, and how many samples it will see (None when not known)."""
        ...

    def advance(self, samples: int) -> None:
        """So many more samples are done in this stage."""
        ...

    def notice(self, text: str) -> None:
        """Something that the user should know."""
        ...


class NoProgress:
    """Says nothing."""

    def stage(self, text: str, total: int | None) -> None: ...

    def advance(self, samples: int) -> None: ...

    def notice(self, text: str) -> None: ...
