"""The house's import rules R1 to R6 (docs/design/architecture.md), kept by walking every import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import beholder

ROOT = Path(beholder.__file__).parent
LEVELS = {
    "_errors": 0, "_registry": 0, "_hashing": 0, "_identity": 0, "_file_names": 0,
    "records": 1, "functional": 1, "stats": 1,
    "media": 2, "manifest": 2, "scenes": 2, "pyiqa_facts": 2,
    "backends": 3,
    "metrics": 4,
    "protocols": 5,
    "runs": 6, "report": 6, "lab": 6,
    "api": 7, "attributing": 7, "comparing": 7, "demo": 7, "knowcusbench": 7, "protocol_runs": 7, "reporting": 7,
    "score_table": 7, "verifying": 7, "experiments": 7, "helpers": 7, "scorers": 7, "tensors": 7,
    "cli": 8, "__init__": 8, "__main__": 8,
}  # fmt: skip
HEAVY = {"torch", "transformers", "open_clip", "torchvision", "av", "openai", "ray", "timm", "datasets"}
STDLIB = set(sys.stdlib_module_names)

# Small facts that live a level up and are read from below only inside a function, each with its reason.
LAZY_UPWARD: dict[tuple[str, str], str] = {}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, bool, bool]]:
    """(imported module, at module level, for type checkers only) of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield from _walk(tree, top=True, typing_only=False)


def _walk(node: ast.AST, *, top: bool, typing_only: bool) -> Iterator[tuple[str, bool, bool]]:
    for child in ast.iter_child_nodes(node):
        inner_top = top and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        only = typing_only or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test))
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield alias.name, top, typing_only
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            yield child.module or "", top, typing_only
            if child.module == "beholder":
                for alias in child.names:
                    yield f"beholder.{alias.name}", top, typing_only
        yield from _walk(child, top=inner_top, typing_only=only)


def test_every_room_has_a_level() -> None:
    assert {room(path) for path in modules()} <= set(LEVELS)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down_only(path: Path) -> None:
    for name, _, typing_only in imports(path):
        if not name.startswith("beholder.") or typing_only:
            continue
        target = name.split(".")[1]
        if target not in LEVELS:
            continue  # a public name of the package itself
        assert LEVELS[target] <= LEVELS[room(path)], f"{room(path)} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_outside_imports_keep_to_their_rooms(path: Path) -> None:
    level, home = LEVELS[room(path)], room(path)
    for name, top, typing_only in imports(path):
        package = name.split(".")[0]
        if typing_only or package in STDLIB or package == "beholder":
            continue
        if level <= 1:
            allowed = {"numpy", "scipy"} | ({"pydantic"} if home == "records" else set())
            assert package in allowed or (home == "stats" and not top), f"{home} imports {name}"
        if package in HEAVY:
            assert home in {"backends", "media", "tensors"} or path.name == "ray.py", f"{home} imports {name}"


def test_metrics_use_no_concrete_backend() -> None:
    for path in (ROOT / "metrics").rglob("*.py"):
        found = {name for name, _, _ in imports(path) if name.startswith("beholder.backends")}
        assert found <= {"beholder.backends.base"}, f"{path.name}: {found}"


def test_report_and_stats_know_no_models() -> None:
    for home in ("report", "stats"):
        for path in (ROOT / home).rglob("*.py"):
            found = {name.split(".")[1] for name, _, _ in imports(path) if name.startswith("beholder.")}
            assert not found & {"backends", "metrics"}, f"{path.name}: {found}"
            assert "beholder.runs.engine" not in {name for name, _, _ in imports(path)}


def test_nothing_imports_the_command_line() -> None:
    for path in modules():
        if room(path) in {"cli", "__main__"}:
            continue
        assert not any(name.startswith("beholder.cli") for name, _, _ in imports(path)), path


def test_the_walk_sees_what_it_should(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text(
        "import torch\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import av\n"
        "def f():\n    import ray\nclass A:\n    import openai\n"
    )
    assert list(imports(source)) == [
        ("torch", True, False),
        ("typing", True, False),
        ("av", True, True),
        ("ray", False, False),
        ("openai", True, False),
    ]
