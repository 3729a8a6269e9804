"""Models that may not be used commercially, or of which nobody checked it: refused where a run asks for that."""

from __future__ import annotations

from collections.abc import Iterable

from beholder._errors import OptionError
from beholder.metrics.base import SampleMetric
from beholder.records import ModelCard


def check_commercial(metrics: Iterable[SampleMetric]) -> None:
    """Refuses models whose cards do not say that commercial use is allowed; nothing is looked for or fetched.

    A licence that was not checked is refused too, "not known" being no permission; so is a model without a card (a
    local folder, any hub repository, one of your own).

    Raises:
        OptionError: naming every such model with its licence, and the metrics that ask for it.
        UnknownNameError: no such model.
    """
    from beholder.backends.pool import find_card

    asked: dict[str, list[str]] = {}
    for metric in metrics:
        for slot in metric.slots:
            users = asked.setdefault(slot.model, [])
            if metric.info.name not in users:
                users.append(metric.info.name)
    refused = []
    for name, users in asked.items():
        card = find_card(name)
        if card is None or card.commercial is not True:
            refused.append(f"{name} ({_why(card)}; for {', '.join(users)})")
    if refused:
        raise OptionError(
            "with commercial_only every model's card must say that commercial use is allowed",
            got="; ".join(refused),
            fix="Name other models, leave these metrics away, or read the licences yourself and run without it. "
            "See: beholder info NAME",
        )


def _why(card: ModelCard | None) -> str:
    if card is None:
        return "it has no card, so its licence was not checked"
    licence = f"licence: {card.licence}" if card.licence else "licence not checked"
    return licence + ("; no commercial use" if card.commercial is False else "; commercial use not checked")
