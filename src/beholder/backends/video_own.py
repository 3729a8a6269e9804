"""Video-text models that have no stock class: how their checkpoints are found, and the two things they can do.

One checkpoint encodes (videos and texts to one space) and matches (a video with a text). Which of both is asked for is
the slot's capability; a name that says one of them (`umt-b16-25m-itm`) is held to it.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import OptionError, UnknownNameError, WeightsMismatchError, WeightsMissingError
from beholder.backends import hub
from beholder.backends.base import Columns, LoadOptions, Made, ResolvedModel
from beholder.backends.bert_files import find_tokenizer, wanted_tokenizer
from beholder.backends.cards import aliases, card_of, refuse_planned
from beholder.backends.describing import CardEngine, describe_files, paths_of, whole_files
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.files import Choice
from beholder.backends.forward import forward_pass
from beholder.backends.hashes import file_sha256, remembered_constants
from beholder.backends.hf_text import HFTokenizer, Tokens
from beholder.backends.names import BUILT_IN, ModelName, parse_name
from beholder.backends.preprocess import Preprocessing
from beholder.backends.tensors import on_device, to_numpy
from beholder.backends.torch_io import read_states
from beholder.backends.video_clips import clip_tensor, prepare_clip
from beholder.media.base import Picture
from beholder.records import ModelCard

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
PIXELS = Preprocessing("squash", (224, 224), None, "floor", "bicubic", 1 / 255, IMAGENET_MEAN, IMAGENET_STD)

_ENDINGS = {"-clip": "VideoTextEncoder", "-itm": "Matcher"}


@dataclass(frozen=True)
class Family:
    """What a family of checkpoints has in common.

    Args:
        engine: name of its engine.
        network: module with `SIZES`, `EXTRAS`, `rename` and `make`.
        models: name → hub repository and the file names that may hold the weights there, the first one preferred.
        frames: frames of a clip.
        text_length: tokens of a text.
        by_frame: True when a video is compared frame by frame and the cosines are averaged.
    """

    engine: str
    network: str
    models: Mapping[str, tuple[str, tuple[str, ...]]]
    frames: int
    text_length: int
    by_frame: bool


class OwnVideoEngine(CardEngine):
    """An engine of one family for one capability ("VideoTextEncoder" or "Matcher")."""

    def __init__(self, family: Family, capability: str) -> None:
        self.name = family.engine
        self._family, self._capability = family, capability

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(*BUILT_IN, self.name))
        self._check_ending(name)
        card = card_of(parsed.id)
        refuse_planned(parsed.asked, card)
        found = self.local(parsed) if parsed.path is not None else hub.find(self._wanted(parsed), options)
        tokenizer = find_tokenizer(parsed.asked, options, beside=found.folder)
        return self._describe(parsed, card, found, tokenizer, dtype)

    def load(self, model: ResolvedModel, *, device: str) -> OwnVideoModel:
        return OwnVideoModel(model, self._family, device=device)

    def wanted(self, parsed: ModelName) -> list[hub.Wanted]:
        """The sets of hub files that a model needs; none for a local one, whose tokenizer may lie beside it."""
        return [] if parsed.path is not None else [self._wanted(parsed), wanted_tokenizer(parsed.asked)]

    def local(self, parsed: ModelName) -> hub.Found:
        """The files of a local checkpoint.

        Raises:
            WeightsMissingError: not a file, or one that is cut short.
        """
        path = parsed.path
        if path is None or not path.is_file():
            raise WeightsMissingError(f"{parsed.asked} must be a checkpoint file", got=f"{path}")
        return whole_files(path.parent, Choice((path.name,), (), ()), must=f"{parsed.asked} must be a whole checkpoint")

    def _wanted(self, parsed: ModelName) -> hub.Wanted:
        if parsed.weights not in self._family.models:
            known = [f"{self.name}:{model}" for model in self._family.models]
            raise UnknownNameError("model", parsed.asked, known, fix=f"A local checkpoint is {self.name}:./FILE")
        repo, names = self._family.models[parsed.weights]
        return hub.Wanted(parsed.asked, repo, parsed.revision, chooser(names), card_of(parsed.id))

    def _check_ending(self, name: str) -> None:
        plain = name.strip()
        ending = next((item for item in _ENDINGS if plain.endswith(item) and plain in aliases()), None)
        if ending is not None and _ENDINGS[ending] != self._capability:
            other = next(key for key, value in _ENDINGS.items() if value == self._capability)
            raise OptionError(
                f"a model that serves {self._capability} is needed",
                got=f"{name!r}, which is named for {_ENDINGS[ending]}",
                fix=f"The same weights are {plain.removesuffix(ending)}{other}",
            )

    def _describe(
        self, parsed: ModelName, card: ModelCard | None, found: hub.Found, tokenizer: hub.Found, dtype: str
    ) -> ResolvedModel:
        file = found.folder / found.files.weights[0]
        preprocessing = {
            **PIXELS.as_json(),
            "frames": self._family.frames,
            "text": {"context_length": self._family.text_length, "padding": "max_length"},
        }
        if self._capability == "VideoTextEncoder" and self._family.by_frame:
            preprocessing["similarity"] = "mean over frames"
        plain = ModelCard(id=parsed.id, engine=self.name, family=self.name, arch=self.name, weights=file.name)
        full = dataclasses.replace(card or plain, input_size=PIXELS.input_size, context_length=self._family.text_length)
        return describe_files(
            parsed,
            full,
            found,
            capability=self._capability,
            dtype=dtype,
            preprocessing=preprocessing,
            paths={"weights": file, **paths_of(tokenizer, "tokenizer")},
            locations={"tokenizer": str(tokenizer.folder)},
            constants=remembered_constants(file_sha256(file), lambda: _read_scale(file)),
        )


def chooser(names: Sequence[str]) -> Any:
    """A chooser of one file: the first of `names` that a folder has."""

    def choose(have: Iterable[str]) -> Choice:
        there = set(have)
        found = next((name for name in names if name in there), None)
        return Choice((found,), (), ()) if found else Choice((), (), (" or ".join(names),))

    return choose


def _read_scale(file: Path) -> dict[str, float]:
    from beholder.backends.video_weights import read_scale

    return read_scale(file)


class OwnVideoModel:
    """A loaded checkpoint: a `VideoTextEncoder` and a `Matcher`."""

    takes_video = True

    def __init__(self, model: ResolvedModel, family: Family, *, device: str) -> None:
        import torch

        from beholder.backends.video_weights import fit_state

        self.model, self.frames = model, family.frames
        self.constants: Mapping[str, float] = dict(model.constants)
        self._by_frame = family.by_frame
        self._device = choose_device(device, dtype=model.dtype)
        self._dtype = getattr(torch, model.dtype)
        on_cpu = self._device.type == "cpu"
        self.batch, self.pair_batch, self.text_batch = (4, 8, 64) if on_cpu else (16, 32, 256)
        folder = Path(model.locations["tokenizer"])
        self._tokenizer = HFTokenizer(folder, length=family.text_length, kind="BertTokenizer")
        self._table = on_device(PIXELS.table(), self._device)
        part = importlib.import_module(family.network)
        state = read_states(Path(model.location) / str(name) for name in model.details["weights"])
        kept, sizes = fit_state(state, part.SIZES.of, rename=part.rename, extras=part.EXTRAS, name=model.asked)
        del state
        weights = {name: tensor.to(self._device, self._dtype) for name, tensor in kept.items()}
        self._network: Any = part.make(weights, sizes)

    def prepare(self, pictures: Sequence[Picture]) -> np.ndarray:
        """(frames, 3, 224, 224) uint8; see `prepare_clip`."""
        return prepare_clip(pictures, PIXELS, self.frames)

    def encode_videos(self, visuals: Sequence[Any]) -> Made:
        """Clips from `prepare` to the column "embedding", (n, d) float32.

        Where the family compares frame by frame, the embedding is the mean m of the frames' unit vectors and one more
        number, √(1 − |m|²), which stands against 0 in texts: so the cosine with a text is the mean of the frames'
        cosines. Two videos are not to be compared by it.
        """
        with forward_pass():
            parts = self._see(visuals).projected.float()
            embedding = _lifted_frames(parts) if self._by_frame else parts[:, 0]
        return Made({"embedding": to_numpy(embedding)})

    def encode_texts(self, texts: Sequence[str]) -> Columns:
        """Columns "embedding" (n, d), "n_tokens" and "truncated"."""
        import torch

        tokens = self._tokenizer(texts)
        with forward_pass():
            embedding = self._network.project_text(self._read(tokens)[0]).float()
            if self._by_frame:
                embedding = torch.nn.functional.pad(embedding, (0, 1))
        return {"embedding": to_numpy(embedding), "n_tokens": tokens.n_tokens, "truncated": tokens.truncated}

    def match(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], *, head: str = "itm") -> Made:
        """Matching values of pairs; each clip is seen and each text read once.

        Args:
            visuals: clips from `prepare`.
            pairs: (number of the clip, text).
            head: "itm" gives the column "logit", the logit of match less that of no match; "itc" gives "cosine", the
                cosine in the shared space (where the family compares frame by frame, the mean of the frames').

        Returns:
            That column, (n,) float32, "n_tokens" (n,) int32 and "truncated" (n,) bool.

        Raises:
            OptionError: another head.
        """
        import torch

        if head not in ("itm", "itc"):
            raise OptionError(f"head of {self.model.asked} must be 'itm' or 'itc'", got=repr(head))
        texts = list(dict.fromkeys(text for _, text in pairs))
        row = {text: at for at, text in enumerate(texts)}
        rows = np.asarray([row[text] for _, text in pairs], dtype=np.int64)
        numbers = np.asarray([number for number, _ in pairs], dtype=np.int64)
        tokens = self._tokenizer(texts)
        with forward_pass():
            hidden, mask = self._read(tokens)
            seen = [self._see(visuals[at : at + self.batch]) for at in range(0, len(visuals), self.batch)]
            if head == "itc":
                column = self._cosines(hidden, torch.cat([item.projected for item in seen]), rows, numbers)
            else:
                column = self._logits(hidden, mask, torch.cat([item.tokens for item in seen]), rows, numbers)
        named = {"logit" if head == "itm" else "cosine": to_numpy(column)}
        return Made(named | {"n_tokens": tokens.n_tokens[rows], "truncated": tokens.truncated[rows]})

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)

    def _logits(self, hidden: Any, mask: Any, clips: Any, rows: np.ndarray, numbers: np.ndarray) -> Any:
        import torch

        logits = []
        for start in range(0, len(rows), self.pair_batch):
            some = slice(start, start + self.pair_batch)
            text, clip = (on_device(part[some], self._device) for part in (rows, numbers))
            logits.append(self._network.match(hidden[text], mask[text], clips[clip]).float())
        both = torch.cat(logits)
        return both[:, 1] - both[:, 0]

    def _cosines(self, hidden: Any, parts: Any, rows: np.ndarray, numbers: np.ndarray) -> Any:
        from torch.nn.functional import cosine_similarity

        texts = self._network.project_text(hidden).float()[on_device(rows, self._device)]
        clips = parts.float()[on_device(numbers, self._device)]
        return cosine_similarity(clips, texts[:, None], dim=-1).mean(1)

    def _see(self, visuals: Sequence[Any]) -> Any:
        clips = clip_tensor(visuals, self._table).to(self._dtype)
        return self._network.see(clips.transpose(1, 2))

    def _read(self, tokens: Tokens) -> tuple[Any, Any]:
        largest, known = int(tokens.ids.max()), self._network.vocabulary
        if largest >= known:
            raise WeightsMismatchError(
                f"the tokenizer of {self.model.asked} must belong to its weights",
                got=f"token {largest} where there are {known} embeddings",
            )
        ids, mask = (on_device(part, self._device) for part in (tokens.ids, tokens.mask))
        return self._network.read(ids, mask), mask


def _lifted_frames(parts: Any) -> Any:
    """(n, frames, d) to (n, d + 1): see `OwnVideoModel.encode_videos`; zeros where a frame has no direction."""
    import torch

    lengths = parts.norm(dim=-1, keepdim=True)
    mean = (parts / lengths.clamp_min(1e-12)).mean(1)
    spread = (1 - mean.square().sum(-1, keepdim=True)).clamp_min(0).sqrt()
    lifted = torch.cat([mean, spread], dim=-1)
    return torch.where((lengths > 0).all(1), lifted, torch.zeros_like(lifted))
