"""No file can run code: nothing is unpickled without bounds, and models' own code is never asked for."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.models import write_clip_tokenizer

import beholder
from beholder._errors import BeholderError
from beholder.backends.hf_text import load_tokenizer

ROOT = Path(beholder.__file__).parent
REPO = ROOT.parent.parent
SOURCES = sorted(ROOT.rglob("*.py"))

ALLOWED = {
    "runs/worker_process.py": "a process reads what its own parent made, from a socket that only the two have",
    "runs/worker_messages.py": "a parent reads what its own process made, from that socket",
}
"""Files that may unpickle, each with its reason."""

_UNPICKLES = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def name_of(call: ast.Call) -> str:
    return ast.unparse(call.func)


def calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield node


def setting(call: ast.Call, name: str) -> object:
    return next((ast.unparse(item.value) for item in call.keywords if item.arg == name), None)


def unbounded(call: ast.Call) -> str | None:
    """What is wrong with a call that reads a file, or None."""
    name = name_of(call)
    module, _, function = name.rpartition(".")
    if module in _UNPICKLES and function in ("load", "loads", "Unpickler", "open"):
        return f"{name} runs code of the file"
    if name == "torch.load" and setting(call, "weights_only") != "True":
        return "torch.load needs weights_only=True"
    if name in ("np.load", "numpy.load") and setting(call, "allow_pickle") != "False":
        return "np.load needs allow_pickle=False"
    if name in ("yaml.load", "yaml.unsafe_load", "pd.read_pickle", "eval", "exec", "torch.hub.load", "runpy.run_path"):
        return f"{name} may run code"
    if function == "from_pretrained" and "Auto" in module and setting(call, "trust_remote_code") != "False":
        return f"{name} needs trust_remote_code=False"
    return f"{name} trusts remote code" if setting(call, "trust_remote_code") not in (None, "False") else None


def test_nothing_in_the_package_reads_files_that_can_run_code() -> None:
    found = []
    for path in SOURCES:
        place = path.relative_to(ROOT).as_posix()
        found += [f"{place}:{call.lineno}: {fault}" for call in calls(path) if (fault := unbounded(call))]
    assert [line for line in found if line.split(":")[0] not in ALLOWED] == []
    assert {line.split(":")[0] for line in found} == set(ALLOWED)  # the list names nothing that is gone


@pytest.mark.parametrize(
    "line",
    [
        "torch.load(p)", "torch.load(p, weights_only=False)", "np.load(p)", "pickle.load(f)", "joblib.load(p)",
        "eval(text)", "AutoModel.from_pretrained(p)", "f(p, trust_remote_code=True)", "yaml.load(t)",
    ],
)  # fmt: skip
def test_the_search_sees_what_it_looks_for(line: str) -> None:
    call = ast.parse(line).body[0].value  # type: ignore[attr-defined]
    assert unbounded(call) is not None


def test_the_code_of_a_model_folder_is_not_run(tmp_path: Path) -> None:
    folder, trap = tmp_path / "model", tmp_path / "trap"
    folder.mkdir()
    write_clip_tokenizer(folder)
    (folder / "evil.py").write_text(f"open({str(trap)!r}, 'w').close()\nclass Evil: pass\n")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    for name in ("Evil", "EvilFast"):
        settings |= {"auto_map": {"AutoTokenizer": [f"evil.{name}", None]}, "tokenizer_class": name}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        (folder / "config.json").write_text(json.dumps({"model_type": "evil", "auto_map": {"AutoConfig": "evil.Evil"}}))
        with pytest.raises(BeholderError):
            load_tokenizer(folder)
    assert not trap.exists()


@pytest.mark.parametrize("name", ["picture", "mask", "manifest", "archive", "container", "journal"])
def test_the_fuzz_targets_take_what_they_begin_with(name: str) -> None:
    """tools/fuzz.py needs atheris to look for more; here its targets only must hold for their own seeds."""
    script = f"import sys; sys.path.insert(0, {str(REPO / 'tools')!r}); import fuzz\n"
    script += f"for data in [*fuzz.seeds({name!r}), b'', b'{{', bytes(40)]: fuzz.TARGETS[{name!r}](data)\n"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=REPO)
