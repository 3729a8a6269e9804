"""Commands that are imported when they are used, so that `beholder --help` stays fast."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import typer.main

from beholder.cli.guard import guarded


class LazyCommands(MutableMapping[str, Any]):
    """Command names to commands; a command's module is imported when the command is looked up.

    Args:
        targets: name → (panel of `--help`, module with a Typer app called `app`).
    """

    def __init__(self, targets: Mapping[str, tuple[str, str]]) -> None:
        self._targets = dict(targets)
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            panel, module = self._targets[name]
            self._loaded[name] = _load(name, panel, module)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._targets.setdefault(name, ("", ""))
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._targets[name]
        self._loaded.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)

    def __contains__(self, name: object) -> bool:
        return name in self._targets


def _load(name: str, panel: str, module: str) -> Any:
    command: Any = typer.main.get_command(importlib.import_module(module).app)
    command.name = name
    command.rich_help_panel = panel
    _prepare(command)
    return command


def _prepare(command: Any) -> None:
    """Turns errors into messages and exit codes, and lets help paragraphs flow, also in subcommands."""
    if command.callback is not None:
        command.callback = guarded(command.callback)
    command.help = flow(command.help or "")
    for child in getattr(command, "commands", {}).values():
        _prepare(child)


def flow(text: str) -> str:
    """Joins the lines of each paragraph of a docstring; the terminal's width breaks them anew."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(line.strip() for line in paragraph.splitlines()) for paragraph in paragraphs)
