"""What the package pyiqa says of its metrics: facts that the metric and its backend both read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from beholder._errors import MissingExtraError, OptionError, UnknownNameError

LICENCE = "PolyForm-Noncommercial-1.0.0 and S-Lab (the package); weights: see their authors"
_NEED_CAPTIONS = ("clipscore",)


@dataclass(frozen=True)
class Facts:
    """What pyiqa says of one of its metrics.

    Args:
        name: its name.
        with_reference: True where it compares with a reference picture.
        lower_is_better: its direction.
        score_range: its range as pyiqa writes it ("~0, ~100"), a rough estimate; "" where it tells none.
        version: of pyiqa.
    """

    name: str
    with_reference: bool
    lower_is_better: bool
    score_range: str
    version: str

    @property
    def capability(self) -> str:
        return "ReferenceScorer" if self.with_reference else "ImageScorer"


def package() -> Any:
    """The package pyiqa.

    Raises:
        MissingExtraError: it is not installed.
        OptionError: it is installed and cannot be imported.
    """
    try:
        import pyiqa
        import pyiqa.default_model_configs
    except ModuleNotFoundError as error:
        if error.name == "pyiqa":
            raise MissingExtraError("pyiqa:NAME", "pyiqa", "pyiqa") from error
        raise OptionError("the package pyiqa must be whole", got=str(error), fix="Install what it lacks") from error
    return pyiqa


def facts_of(name: str) -> Facts:
    """What pyiqa says of a metric.

    Raises:
        MissingExtraError: pyiqa is not installed.
        UnknownNameError: it has no such metric; near names are suggested.
        OptionError: a metric of whole sets, or one that needs captions.
    """
    pyiqa = package()
    known: Mapping[str, Mapping[str, Any]] = pyiqa.default_model_configs.DEFAULT_CONFIGS
    if name not in known:
        raise UnknownNameError("metric of pyiqa", name, known, fix="All of them: pyiqa -ls")
    if "fid" in name or name == "inception_score":
        raise OptionError(
            "pyiqa:NAME takes metrics of single pictures", got=f"{name}, of whole sets", fix="See: -m fid, -m kid"
        )
    if name in _NEED_CAPTIONS:
        raise OptionError("pyiqa:NAME takes metrics without captions", got=name, fix="See: -m clip_score")
    found = known[name]
    mode = found.get("metric_mode")
    if mode not in ("NR", "FR"):
        raise OptionError(f"pyiqa must say whether {name} needs a reference", got=f"metric_mode {mode!r}")
    version = str(getattr(pyiqa, "__version__", "unknown"))
    return Facts(name, mode == "FR", bool(found.get("lower_better")), str(found.get("score_range") or ""), version)
