"""Engines "image_reward" and "facescore" for `Matcher`: BLIP with a reward head.

    image_reward   THUDM/ImageReward: reward = (head([CLS]) − mean) / standard deviation, the two published constants
    facescore      FaceScore's network, the same one trained on faces: head([CLS]) as it is; the text is "A face."

The column "logit" is the reward: unbounded, no probability. Pictures: short side to 224 (bicubic), centre crop.
Texts: bert-base-uncased with two added tokens, [CLS] … [SEP], padded to 35.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from beholder.backends import hub
from beholder.backends.base import LoadOptions, Matcher, ResolvedModel
from beholder.backends.bert_files import find_tokenizer, wanted_tokenizer
from beholder.backends.cards import card_of
from beholder.backends.describing import CardEngine, describe_files, local_folder, paths_of, whole_files
from beholder.backends.files import Choice, list_files, read_json
from beholder.backends.matching import MAX_TOKENS, PairMatcher, describe_text
from beholder.backends.names import ModelName, parse_name
from beholder.backends.preprocess import OPENAI_MEAN, OPENAI_STD, Preprocessing
from beholder.backends.torch_io import fill_module, read_states
from beholder.records import ModelCard

IMAGE_REWARD_MEAN, IMAGE_REWARD_STD = 0.16717362830052426, 1.0333394966054072
"""What ImageReward's raw values have as mean and standard deviation, by its authors."""

ADDED_TOKENS = ("[DEC]", "[ENC]")
"""What BLIP adds to BERT's vocabulary; ids 30522 and 30523."""

SIDE = 224
CONFIG = "med_config.json"
_PIXELS = Preprocessing("shortest", (SIDE, SIDE), (SIDE, SIDE), "even", "bicubic", 1 / 255, OPENAI_MEAN, OPENAI_STD)


class RewardEngine(CardEngine):
    """Reward models in ImageReward's layout.

    Args:
        name: the engine's name.
        weights: name of the published weight file.
        repos: hub repositories that hold it; the first is the one that is fetched from.
        folders: folders inside a repository where the files may lie ("" for its top).
        mean: subtracted from the head's output.
        std: divided by after that.
    """

    def __init__(
        self,
        name: str,
        *,
        weights: str,
        repos: Sequence[str],
        folders: Sequence[str] = ("",),
        mean: float = 0.0,
        std: float = 1.0,
    ) -> None:
        self.name, self.weights, self.repos, self.folders = name, weights, tuple(repos), tuple(folders)
        self.mean, self.std = mean, std

    def wanted(self, parsed: ModelName) -> list[hub.Wanted]:
        """The sets of hub files that a model needs; none for a local one."""
        return [] if parsed.path is not None else [self._wanted(parsed), wanted_tokenizer(parsed.asked)]

    def local(self, parsed: ModelName) -> hub.Found:
        """The files of a local model."""
        path, folder = parsed.path or Path(), local_folder(parsed)
        choice = self.choose(list_files(folder))
        if path.is_file():
            choice = Choice((path.name,), (CONFIG,), () if (folder / CONFIG).is_file() else (CONFIG,))
        return whole_files(folder, choice, must=f"{parsed.asked} must be a folder with {self.weights} and {CONFIG}")

    def choose(self, names: Iterable[str]) -> Choice:
        """The weight file and its configuration, from the first of the folders that has them."""
        have = set(names)
        for folder in self.folders:
            place = f"{folder}/" if folder else ""
            if place + self.weights in have and place + CONFIG in have:
                return Choice((place + self.weights,), (place + CONFIG,), ())
        missing = [name for name in (self.weights, CONFIG) if name not in have]
        return Choice((), (), tuple(missing))

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(self.name,))
        found = self._find(parsed, options)
        tokenizer = find_tokenizer(parsed.asked, options, beside=found.folder)
        paths = {Path(item).name: found.folder / item for item in found.files.all}
        return self._describe(parsed, found, tokenizer, {**paths, **paths_of(tokenizer, "tokenizer")}, dtype)

    def load(self, model: ResolvedModel, *, device: str) -> Matcher:
        network = _Reward(model, self.mean, self.std)
        return PairMatcher(model, network, device=device, extra_tokens=ADDED_TOKENS, tokenizer="BertTokenizer")

    def _find(self, parsed: ModelName, options: LoadOptions) -> hub.Found:
        if parsed.path is not None:
            return self.local(parsed)
        wanted = self._wanted(parsed)
        for other in self.repos[1:]:
            for item in hub.look(dataclasses.replace(wanted, repo=other), options):
                if item.found is not None:
                    hub.check_card_hashes(wanted, item.found)
                    return item.found
        return hub.find(wanted, options)

    def _wanted(self, parsed: ModelName) -> hub.Wanted:
        repo = parsed.weights if parsed.weights not in ("", *self.repos) else self.repos[0]
        return hub.Wanted(parsed.asked, repo, parsed.revision, self.choose, card_of(parsed.id))

    def _describe(
        self, parsed: ModelName, found: hub.Found, tokenizer: hub.Found, paths: Mapping[str, Path], dtype: str
    ) -> ResolvedModel:
        preprocessing = {
            **_PIXELS.as_json(),
            "text": {**describe_text(MAX_TOKENS), "added_tokens": list(ADDED_TOKENS)},
            "head": {"mean": self.mean, "std": self.std},
        }
        plain = ModelCard(
            id=parsed.id, engine=self.name, family="blip", arch="BLIP ViT-L", weights=parsed.id.partition(":")[2],
            source=None if parsed.path is not None else parsed.weights,
        )  # fmt: skip
        return describe_files(
            parsed,
            dataclasses.replace(card_of(parsed.id) or plain, input_size=(SIDE, SIDE), context_length=MAX_TOKENS),
            found,
            capability="Matcher",
            dtype=dtype,
            preprocessing=preprocessing,
            paths=paths,
            details={"config": found.files.others[0]},
            locations={"processor": str(tokenizer.folder)},
        )


class _Reward:
    """The loaded network as `PairMatcher` uses it."""

    heads = ("itm",)

    def __init__(self, model: ResolvedModel, mean: float, std: float) -> None:
        import torch

        from beholder.backends.reward_network import UNUSED, RewardNetwork, sizes_of

        folder = Path(model.location)
        state = read_states(folder / str(name) for name in model.details["weights"])
        vision, text = sizes_of(state, read_json(folder / str(model.details["config"])), name=model.asked)
        with torch.device("meta"):
            network = RewardNetwork(vision, text)
        fill_module(network, state, name=model.asked, dtype=model.dtype, may_be_extra=UNUSED)
        self.network = network
        self.network.mlp.float()  # as published: the head is small and decides the value
        self.dtype = getattr(torch, model.dtype)
        self.vocabulary, self._mean, self._std = text.words, mean, std

    def to(self, device: Any) -> _Reward:
        self.network = self.network.to(device)
        return self

    def look(self, pixels: Any) -> Any:
        return self.network.look(pixels)

    def logits(self, image: Any, ids: Any, mask: Any) -> Any:
        return (self.network.reward(image, ids, mask) - self._mean) / self._std

    def image_vectors(self, image: Any) -> Any:
        raise NotImplementedError("a reward model has no contrastive head")

    def text_vectors(self, ids: Any, mask: Any) -> Any:
        raise NotImplementedError("a reward model has no contrastive head")


IMAGE_REWARD = RewardEngine(
    "image_reward",
    weights="ImageReward.pt",
    repos=("THUDM/ImageReward", "zai-org/ImageReward"),
    mean=IMAGE_REWARD_MEAN,
    std=IMAGE_REWARD_STD,
)
FACESCORE = RewardEngine(
    "facescore",
    weights="FS_model.pt",
    repos=("AIGCer-OPPO/FaceScore", "OPPOer/FaceScore"),
    folders=("", "FaceScore_model"),
)
