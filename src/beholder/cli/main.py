"""The entry point `beholder`: which commands there are, and in which panel of `--help` each stands."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from beholder.cli.lazy import LazyCommands

COMMANDS = {
    "run": ("Score", "beholder.cli.run"),
    "score": ("Score", "beholder.cli.score"),
    "attributes": ("Score", "beholder.cli.attributes"),
    "bench": ("Score", "beholder.cli.bench"),
    "merge": ("Score", "beholder.cli.merge"),
    "stats": ("Score", "beholder.cli.stats"),
    "show": ("Look", "beholder.cli.show"),
    "report": ("Look", "beholder.cli.report"),
    "grid": ("Look", "beholder.cli.grid"),
    "compare": ("Compare", "beholder.cli.compare"),
    "gate": ("Compare", "beholder.cli.gate"),
    "agree": ("Compare", "beholder.cli.agree"),
    "lab": ("Compare", "beholder.cli.lab"),
    "plan": ("Compare", "beholder.cli.plan"),
    "history": ("Compare", "beholder.cli.history"),
    "list": ("Set up", "beholder.cli.list"),
    "info": ("Set up", "beholder.cli.info"),
    "validate": ("Set up", "beholder.cli.validate"),
    "manifest": ("Set up", "beholder.cli.manifest"),
    "models": ("Set up", "beholder.cli.models"),
    "cache": ("Set up", "beholder.cli.cache"),
    "doctor": ("Set up", "beholder.cli.doctor"),
    "cite": ("Set up", "beholder.cli.cite"),
    "verify": ("Set up", "beholder.cli.verify"),
    "speed": ("Set up", "beholder.cli.speed"),
    "demo": ("Set up", "beholder.cli.demo"),
}
"""Command → (panel of `--help`, module with its Typer app); a module is imported when its command is used."""


class Group(TyperGroup):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = LazyCommands(COMMANDS)


def _show_version(asked: bool) -> None:
    if asked:
        from beholder import __version__

        typer.echo(__version__)
        raise typer.Exit


app = typer.Typer(
    cls=Group,
    name="beholder",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Scores generated images and says how far each number can be trusted.

    With BEHOLDER_DEBUG=1 in the environment every error comes with its traceback.
    """


def main() -> None:
    """Runs the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        # A file name or prompt that the terminal's encoding lacks must not end a run.
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app()
