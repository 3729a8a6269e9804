"""Where the tokenizer of `bert-base-uncased` lies: BLIP's checkpoints use it and do not bring it along."""

from __future__ import annotations

from pathlib import Path

from beholder.backends import hub
from beholder.backends.base import LoadOptions
from beholder.backends.files import Choice, choose_tokenizer, find_fault, list_files

REPO, OLD_REPO = "google-bert/bert-base-uncased", "bert-base-uncased"
"""The hub repository, and the name under which older tools cached it."""


def wanted_tokenizer(name: str) -> hub.Wanted:
    """The tokenizer's files, asked for by the model `name`."""
    return hub.Wanted(name, REPO, None, choose_tokenizer, what="tokenizer files (bert-base-uncased)")


def find_tokenizer(name: str, options: LoadOptions, *, beside: Path) -> hub.Found:
    """The tokenizer: beside the weights when it is there, else from the usual places, else fetched.

    Args:
        name: the model that needs it, for messages.
        options: where to look.
        beside: folder of the model's weights.

    Raises:
        WeightsMissingError: nowhere to be found.
    """
    own = choose_tokenizer(list_files(beside))
    if find_fault(beside, own) is None:
        return hub.Found(beside, _without_config(own), place="beside the weights")
    old = hub.Wanted(name, OLD_REPO, None, choose_tokenizer, what="tokenizer files (bert-base-uncased)")
    for item in hub.look(old, options):
        if item.found is not None:
            return item.found
    return hub.find(wanted_tokenizer(name), options)


def _without_config(choice: Choice) -> Choice:
    """A `config.json` beside the weights is not the tokenizer's."""
    return Choice((), tuple(item for item in choice.others if item != "config.json"), choice.missing)
