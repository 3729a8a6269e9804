"""Every command has help with an example, every option an explanation; unknown names get suggestions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from beholder.cli.lazy import LazyCommands, flow
from beholder.cli.main import COMMANDS

NESTED = [("models", name) for name in ("list", "where", "pull", "verify")] + [("cache", n) for n in ("info", "prune")]
ALL = [(name,) for name in COMMANDS] + NESTED


def commands() -> dict[tuple[str, ...], Any]:
    loaded = LazyCommands(COMMANDS)
    found = {(name,): loaded[name] for name in COMMANDS}
    return found | {path: loaded[path[0]].commands[path[1]] for path in NESTED}


def test_help_lists_every_command_in_its_panel(beholder: Callable[..., Any]) -> None:
    result = beholder("--help")
    assert result.exit_code == 0
    panels = re.split(r"╭─ (.+?) ─+╮", result.stdout)
    shown = {panels[at]: re.findall(r"^│ (\w+) ", panels[at + 1], re.MULTILINE) for at in range(3, len(panels), 2)}
    wanted: dict[str, list[str]] = {}
    for name, (panel, _) in COMMANDS.items():
        wanted.setdefault(panel, []).append(name)
    assert shown == wanted


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_an_example(beholder: Callable[..., Any], path: tuple[str, ...]) -> None:
    result = beholder(*path, "--help")
    assert result.exit_code == 0
    assert f"Example: beholder {path[0]}" in result.stdout
    assert "completion" not in result.stdout
    assert "…" not in re.sub(r" …[ )]", "", result.stdout), "a text is cut off"


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_option_has_help(path: tuple[str, ...]) -> None:
    for parameter in commands()[path].params:
        assert parameter.help, f"{path} {parameter.name}"
        assert parameter.help.rstrip().endswith("."), f"{path} {parameter.name}: a sentence ends with a full stop"


def test_the_example_of_every_command_parses() -> None:
    import shlex

    for path, command in commands().items():
        for line in re.findall(r"^Example: beholder (.+)$", command.help, re.MULTILINE):
            words = shlex.split(line)[1:]
            target = command
            if hasattr(command, "commands"):
                target, words = command.commands[words[0]], words[1:]
            elif len(path) == 2:
                words = words[1:]
            with target.make_context(path[-1], words):
                pass


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("rnu",), "Did you mean 'run'?"),
        (("run", "x.jsonl", "--modle", "x"), "--model"),
        (("models", "pul", "x"), "Did you mean 'pull'?"),
        (("show",), "RUN"),
    ],
)
def test_wrong_use_exits_2_and_suggests(beholder: Callable[..., Any], args: tuple[str, ...], said: str) -> None:
    result = beholder(*args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_version(beholder: Callable[..., Any]) -> None:
    from beholder import __version__

    assert beholder("--version").stdout == f"{__version__}\n"


def test_paragraphs_of_docstrings_flow() -> None:
    assert flow("One\n    two.\n\n    Three\n    four.\n") == "One two.\n\nThree four."


def test_lazy_commands_are_a_mapping_that_loads_on_look_up() -> None:
    lazy = LazyCommands({"list": ("Set up", "beholder.cli.list"), "gone": ("Set up", "beholder.cli.gone")})
    assert list(lazy) == ["list", "gone"]
    assert len(lazy) == 2
    assert "gone" in lazy
    assert lazy["list"] is lazy["list"]
    with pytest.raises(ModuleNotFoundError):
        lazy["gone"]
    lazy["mine"] = lazy["list"]
    del lazy["gone"]
    assert list(lazy) == ["list", "mine"]


def test_the_help_of_preset_names_every_preset() -> None:
    from beholder.cli.run import PRESET_NAMES
    from beholder.runs.config import PRESETS

    assert re.findall(r"[\w-]+", PRESET_NAMES.replace(" or ", " ")) == sorted(PRESETS)
