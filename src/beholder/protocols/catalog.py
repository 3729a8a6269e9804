"""All protocols by name. Strings only: nothing is imported until a protocol is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beholder._registry import Registry

if TYPE_CHECKING:
    from beholder.protocols.base import Protocol


def _check(name: str, value: object) -> None:
    """A plug-in must give a protocol's class, under the name that stands in its card."""
    from beholder.protocols.base import Protocol, ProtocolInfo

    if not isinstance(value, type) or not issubclass(value, Protocol):
        raise TypeError(f"a protocol must be a class derived from Protocol; got {value!r}")
    info = getattr(value, "info", None)
    if not isinstance(info, ProtocolInfo):
        raise TypeError(f"a protocol's class must have a card, info = ProtocolInfo(…); got {info!r}")
    if info.name != name:
        raise ValueError(f"a protocol must be registered under the name in its card; got {name!r} and {info.name!r}")


PROTOCOLS: Registry[type[Protocol]] = Registry("protocol", group="beholder.protocols", check=_check)

PROTOCOLS.add("genai-bench", "beholder.protocols.genai_bench:GenAIBench")
PROTOCOLS.add("dsg", "beholder.protocols.checklists:Dsg")
PROTOCOLS.add("tifa", "beholder.protocols.checklists:Tifa")
PROTOCOLS.add("knowcusbench", "beholder.protocols.subjects:KnowCusBench")
PROTOCOLS.add("dreambench", "beholder.protocols.subjects:DreamBench")
PROTOCOLS.add("dreambench++", "beholder.protocols.subjects:DreamBenchPlus")
PROTOCOLS.add("customconcept101", "beholder.protocols.subjects:CustomConcept101")
PROTOCOLS.add("opens2v", "beholder.protocols.opens2v.protocol:OpenS2V")
