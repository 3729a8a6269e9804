"""Engine "lavis" for `Matcher`: BLIP-2 with CLIP's ViT-L, from the original checkpoints.

`blip2-itm-vitL` and `blip2-itc-vitL` exist in LAVIS' layout only: no repository of the hub holds them in transformers'.
Two files make up the model, since LAVIS left the frozen image tower out of the first:

    blip2_pretrained_vitL.pth   Q-Former, queries, heads
    clip_vit_L.pth              CLIP ViT-L/14's image tower, of which the first 23 blocks are used

Both are looked for in every place for weights, in a folder `blip2_pretrained_vitL` or directly, and else fetched from
the authors' address; they publish no hashes. Values are read as for BLIP-2 in `hf_blip.py`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from beholder._errors import WeightsMissingError
from beholder.backends import hub
from beholder.backends.base import LoadOptions, Matcher, ResolvedModel
from beholder.backends.bert_files import find_tokenizer, wanted_tokenizer
from beholder.backends.cards import card_of
from beholder.backends.describing import CardEngine, describe_files, local_folder, paths_of, whole_files
from beholder.backends.files import Choice, find_fault, list_files
from beholder.backends.hashes import beholder_cache
from beholder.backends.matching import MAX_TOKENS, PairMatcher, describe_text
from beholder.backends.names import ModelName, parse_name
from beholder.backends.places import places
from beholder.backends.preprocess import OPENAI_MEAN, OPENAI_STD, Preprocessing
from beholder.backends.torch_io import fill_module, read_state, read_states
from beholder.records import ModelCard

QFORMER, TOWER = "blip2_pretrained_vitL.pth", "clip_vit_L.pth"
ADDRESS = "https://storage.googleapis.com/sfr-vision-language-research/LAVIS/models/BLIP2/"
FOLDER = "lavis/blip2_pretrained_vitL"
SIDE = 224
ADDED_TOKENS = ("[DEC]",)
"""What BLIP-2 adds to BERT's vocabulary; id 30522."""

_PIXELS = Preprocessing("squash", (SIDE, SIDE), None, "even", "bicubic", 1 / 255, OPENAI_MEAN, OPENAI_STD)
_CAPTIONING = re.compile(r"^(Qformer\.cls\.|temp$)")
"""The captioning head and the contrastive temperature, which no matching value depends on."""

_TOWER_END = re.compile(r"^(ln_post\.|proj$|transformer\.resblocks\.(\d+)\.)")


class LavisEngine(CardEngine):
    """BLIP-2's first stage in LAVIS' layout."""

    name = "lavis"

    def wanted(self, parsed: ModelName) -> list[hub.Wanted]:
        """The sets of files to look for; the weights themselves are not on the hub."""
        return [] if parsed.path is not None else [_wanted(parsed), wanted_tokenizer(parsed.asked)]

    def local(self, parsed: ModelName) -> hub.Found:
        """The files of a local model: a folder with both, or the Q-Former's file with the tower's beside it."""
        folder = local_folder(parsed)
        must = f"{parsed.asked} must be a folder with {QFORMER} and {TOWER}"
        return whole_files(folder, choose(list_files(folder)), must=must)

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(self.name,))
        found = self.local(parsed) if parsed.path is not None else _find(parsed, options)
        tokenizer = find_tokenizer(parsed.asked, options, beside=found.folder)
        preprocessing = {
            **_PIXELS.as_json(),
            "text": {**describe_text(MAX_TOKENS), "added_tokens": list(ADDED_TOKENS)},
        }
        plain = ModelCard(id=parsed.id, engine=self.name, family="blip-2", arch="ViT-L", weights=parsed.weights)
        return describe_files(
            parsed,
            dataclasses.replace(card_of(parsed.id) or plain, input_size=(SIDE, SIDE), context_length=MAX_TOKENS),
            found,
            capability="Matcher",
            dtype=dtype,
            preprocessing=preprocessing,
            paths={**paths_of(found), **paths_of(tokenizer, "tokenizer")},
            locations={"processor": str(tokenizer.folder)},
        )

    def load(self, model: ResolvedModel, *, device: str) -> Matcher:
        network = _Blip2(model)
        return PairMatcher(model, network, device=device, extra_tokens=ADDED_TOKENS, tokenizer="BertTokenizer")


LAVIS = LavisEngine()


def choose(names: Iterable[str]) -> Choice:
    """The two weight files among `names`."""
    have = set(names)
    missing = tuple(name for name in (QFORMER, TOWER) if name not in have)
    return Choice(() if missing else (QFORMER, TOWER), (), missing)


def _wanted(parsed: ModelName) -> hub.Wanted:
    return hub.Wanted(parsed.asked, FOLDER, None, choose, card_of(parsed.id))


def _find(parsed: ModelName, options: LoadOptions) -> hub.Found:
    """The two files on this machine, from the first place that has both; else fetched, when that is allowed."""
    wanted = _wanted(parsed)
    looks = hub.look(wanted, options)
    flat = [*(place.path for place in places(options)), beholder_cache()]
    found = next((item.found for item in looks if item.found is not None), None) or _find_flat(flat)
    if found is not None:
        hub.check_card_hashes(wanted, found)
        return found
    if hub.is_offline(options):
        raise _missing(parsed, looks)
    paths = [hub.fetch_url(ADDRESS + name, name, options, name=parsed.asked) for name in (QFORMER, TOWER)]
    fetched = _find_flat([paths[0].parent])
    if fetched is None:
        raise _missing(parsed, looks)
    return fetched


def _find_flat(folders: Iterable[Path]) -> hub.Found | None:
    """The first of the folders that holds both files whole, beside whatever else."""
    for folder in folders:
        choice = choose(list_files(folder)) if folder.is_dir() else None
        if choice is not None and find_fault(folder, choice) is None:
            return hub.Found(folder, choice)
    return None


def _missing(parsed: ModelName, looks: Sequence[hub.Look]) -> WeightsMissingError:
    seen = "\n".join(f"  {item.path} ({item.place}): {item.reason}" for item in looks)
    return WeightsMissingError(
        f"the weights of {parsed.asked} must be on this machine ({QFORMER} and {TOWER}, licence BSD-3-Clause)",
        got="none, and fetching is switched off (offline)",
        fix=f"On a machine with a network: curl -O {ADDRESS}{QFORMER} -O {ADDRESS}{TOWER}\n"
        "  then put both into a folder blip2_pretrained_vitL in a place below, or name it: lavis:/path/to/folder\n"
        f"Looked in:\n{seen}",
    )


class _Blip2:
    """The loaded network as `PairMatcher` uses it."""

    heads = ("itm", "itc")

    def __init__(self, model: ResolvedModel) -> None:
        import torch

        from beholder.backends.qformer import build

        folder = Path(model.location)
        state = {key: value for key, value in read_states([folder / QFORMER]).items() if not _CAPTIONING.match(key)}
        state |= {f"visual_encoder.{key}": value for key, value in _tower(folder / TOWER).items()}
        with torch.device("meta"):
            network = build(state, name=model.asked)
        fill_module(network, state, name=model.asked, dtype=model.dtype)
        self.network = network
        self.dtype = getattr(torch, model.dtype)
        self.vocabulary = network.Qformer.bert.embeddings.word_embeddings.num_embeddings

    def to(self, device: Any) -> _Blip2:
        self.network = self.network.to(device)
        return self

    def look(self, pixels: Any) -> Any:
        return self.network.look(pixels)

    def logits(self, image: Any, ids: Any, mask: Any) -> Any:
        pair = self.network.match_logits(image, ids, mask).float()
        return pair[:, 1] - pair[:, 0]

    def image_vectors(self, image: Any) -> Any:
        return self.network.image_vectors(image)

    def text_vectors(self, ids: Any, mask: Any) -> Any:
        return self.network.text_vectors(ids, mask)


def _tower(path: Path) -> dict[str, Any]:
    """The image tower without the end that BLIP-2 leaves out: last block, last norm, projection."""
    from beholder.backends.qformer import CLIP_BLOCKS

    kept = {}
    for key, value in read_state(path).items():
        end = _TOWER_END.match(key)
        if end is None or (end[2] is not None and int(end[2]) < CLIP_BLOCKS):
            kept[key] = value.clone()
    return kept
