"""Scorer objects: a model and its metric in one thing that is called with images and texts and gives a tensor.

    clip = CLIPScore(model="openai:ViT-L/14", device="cuda")
    clip.forward(images="sample.png", texts="a red sports car")        # tensor (1, 1)
    clip.pairs(images=["a.png", "b.mp4"], texts=["a cat", "a dog"])    # tensor (2,)

A visual is a path, bytes, a PIL image, an array or a tensor; a video's path, a folder of frames, a list of frames, or
an array of four axes is one visual too, inside the list of visuals. In the place of that list an array of four axes is
refused, since it could be a batch: list(array) is a batch of pictures, [array] one video. The model is loaded at the
first call and stays loaded until `close`; a pickled scorer leaves it behind and loads it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from beholder._errors import OptionError, UnknownNameError, UserError
from beholder.manifest.schema import Sample
from beholder.media.base import Medium
from beholder.metrics.base import SampleMetric
from beholder.runs.config import RunConfig, make_config
from beholder.runs.plan import Plan, make_plan
from beholder.runs.quick import QuickScorer
from beholder.score_table import ScoreTable, checked_texts, media_list, pairs_error, score_table
from beholder.tensors import to_tensor

if TYPE_CHECKING:
    import torch

_SHOWN, _SHOWN_LETTERS = 5, 80


class Scorer:
    """What the three scorer objects have in common.

    Args:
        model: name of the model, as metrics take it, or the path of a local one; the metric's default when None.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        dtype: "auto", "float32", "bfloat16", "float16".
        cache_dir: folder to look for weights in first.
        offline: True never fetches anything.
        batch_size: visuals in a batch; the model's own default when None.
        value_range: (low, high) of float arrays.
        base_url: server of an API model; the environment's or the public one when None.
        api_key: its key; the environment's when None. Written nowhere, but it is part of a pickled scorer.
        max_calls: most requests to it over the object's life; pairs that were not asked have no score.
        max_cost: most money for them.
        options: the metric's options (`beholder info NAME` lists them).

    Raises:
        UserError: an unknown model or option, missing weights, or a device that this machine does not have.
    """

    metric = ""
    default_model = ""

    def __init__(
        self,
        model: str | Path | None = None,
        device: str = "auto",
        *,
        dtype: str = "auto",
        cache_dir: str | None = None,
        offline: bool | None = None,
        batch_size: int | None = None,
        value_range: tuple[float, float] | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
        **options: Any,
    ) -> None:
        from beholder._identity import MetricSpec
        from beholder.backends.devices import choose_device
        from beholder.metrics.base import make_metric

        self._range = value_range
        if isinstance(model, Path):
            model = str(model) if model.is_absolute() else f"./{model}"
        made = make_metric(MetricSpec(self.metric, {"model": model or self.default_model, **options}))
        self._config: RunConfig = make_config(
            {"metrics": (made.identity,), "dtype": dtype, "device": device, "batch_size": batch_size,
             "cache_dir": None if cache_dir is None else str(cache_dir), "offline": offline,
             "base_url": base_url, "api_key": api_key, "max_calls": max_calls, "max_cost": max_cost},
            source="the call",
        )  # fmt: skip
        choose_device(device, dtype=dtype)
        self._plan: Plan = make_plan(self._config, metrics=[made])
        self._quick = QuickScorer(self._plan, self._config)

    @property
    def identity(self) -> str:
        """The printed name of what it computes."""
        return self._made.identity

    @property
    def _made(self) -> SampleMetric:
        return self._plan.metrics[0].metric

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity})"

    def __call__(self, images: Any, texts: str | Sequence[str]) -> torch.Tensor:
        """The same as `forward`."""
        return self.forward(images, texts)

    def forward(self, images: Any, texts: str | Sequence[str]) -> torch.Tensor:
        """Every visual with every text.

        Args:
            images: one visual or a list of m; list(batch) for a tensor that is a batch of pictures.
            texts: one text or a list of n.

        Returns:
            (m, n) float32 tensor on the CPU, whatever the input. Each visual and each text is encoded once where the
            model allows; a model of pairs does each visual's own work once.

        Raises:
            UserError: a pair without a score (an unreadable file, a blank text …), with the reasons; `table` gives
                what there is instead.
        """
        return to_tensor(self._values(self.table(images, texts)))

    def pairs(self, images: Any, texts: str | Sequence[str]) -> torch.Tensor:
        """Visual i with text i: (n,) float32 tensor. Raises as `forward` does, and where the lists differ in length."""
        return to_tensor(self._values(self.table(images, texts, pairs=True)).reshape(-1))

    def batch_forward(self, dataset: Iterable[Mapping[str, Any]], batch_size: int = 16) -> torch.Tensor:
        """Items of several visuals and texts each.

        Args:
            dataset: mappings with "images" (or "videos", or both) and "texts", one or a list of each.
            batch_size: items that are scored together.

        Returns:
            (N, V, T) float32 tensor: item, visual, text. Where items differ in their number of visuals or texts, V and
            T are the largest, and places that no item has hold NaN.

        Raises:
            UserError: as `forward`; an item without visuals or texts, with its number.
        """
        if batch_size < 1:
            raise OptionError("batch_size must be at least 1", got=str(batch_size))
        source = iter(enumerate(dataset))
        blocks: list[np.ndarray] = []
        for part in iter(lambda: list(islice(source, batch_size)), []):
            blocks += self._items([self._item(number, item) for number, item in part])
        if not blocks:
            raise OptionError("a data set must hold at least one item", got="none")
        shape = (len(blocks), max(block.shape[0] for block in blocks), max(block.shape[1] for block in blocks))
        scores = np.full(shape, np.nan)
        for at, block in enumerate(blocks):
            scores[at, : block.shape[0], : block.shape[1]] = block
        return to_tensor(scores)

    def table(self, images: Any, texts: str | Sequence[str], *, pairs: bool = False) -> ScoreTable:
        """Scores with their statuses, reasons and evidence; nothing is raised for a pair without a score."""
        media, captions = self._media(images), checked_texts(texts, "texts")
        if pairs and len(media) != len(captions):
            raise pairs_error(len(media), len(captions))
        if not media or not captions:
            raise OptionError(f"at least one {'text' if media else 'image'} is needed", got="none")
        couples = list(zip(media, captions)) if pairs else [(m, t) for m in media for t in captions]
        table, notices = self._quick.score(_samples(couples))
        return score_table(table, self._plan, couples, media, captions, notices, pairs=pairs)

    def close(self) -> None:
        """Unloads the model; the next call loads it again."""
        self._quick.release()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_quick"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._quick = QuickScorer(self._plan, self._config)

    def __enter__(self) -> Scorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _media(self, images: Any) -> list[Medium]:
        return media_list(images, value_range=self._range)

    def _item(self, number: int, item: Mapping[str, Any]) -> tuple[list[Medium], list[str]]:
        if not isinstance(item, Mapping) or not {"images", "videos"} & set(item) or "texts" not in item:
            raise OptionError(
                f'item {number} of the data set must be a mapping with "images" or "videos", and "texts"',
                got=", ".join(map(repr, item)) if isinstance(item, Mapping) else type(item).__name__,
            )
        given = {name: item[name] for name in ("images", "videos") if name in item}
        if getattr(given.get("videos"), "ndim", None) == 4:
            given["videos"] = [given["videos"]]
        visuals = [medium for value in given.values() for medium in self._media(value)]
        texts = checked_texts(item["texts"], f"texts of item {number}")
        if not visuals or not texts:
            raise OptionError(f"item {number} of the data set must hold visuals and texts", got="none of one of them")
        return visuals, texts

    def _items(self, items: Sequence[tuple[list[Medium], list[str]]]) -> list[np.ndarray]:
        couples = [(medium, text) for media, texts in items for medium in media for text in texts]
        table, _ = self._quick.score(_samples(couples))
        found = score_table(table, self._plan, couples, [medium for medium, _ in couples], [], [], pairs=True)
        values = self._values(found).reshape(-1)
        edges = np.cumsum([len(media) * len(texts) for media, texts in items])[:-1]
        parts = np.split(values, edges)
        return [part.reshape(len(media), len(texts)) for part, (media, texts) in zip(parts, items, strict=True)]

    def _values(self, table: ScoreTable) -> np.ndarray:
        lost = [row for row in table.rows if row.score.value is None]
        if lost:
            shown = "; ".join(
                f"{row.image} with {_short(row.text)!r}: {row.score.status} ({row.score.reason})"
                for row in lost[:_SHOWN]
            )
            raise UserError(
                "every pair must have a score",
                got=f"{len(lost)} of {len(table)} without: {shown}{' …' if len(lost) > _SHOWN else ''}",
                fix="Call table(...) for a status a pair",
            )
        return np.asarray(table.matrix.filled(np.nan))


class CLIPScore(Scorer):
    """CLIPScore: the cosine of image and text embeddings (see `beholder info clip_score` for its options).

    The default variant is `raw`: the cosine, in [-1, 1]. `variant="x100"`, `"hessel"` and so on are other scales.
    """

    metric = "clip_score"
    default_model = "openai:ViT-L-14"


class VQAScore(Scorer):
    """VQAScore: the probability that a model answers "Yes" when asked about the text, in [0, 1].

    See `beholder info vqa_score` for its options (`question_template`, `answer_template`, `variant`, `calibrate` …).
    """

    metric = "vqa_score"
    default_model = "clip-flant5-xxl"


class ITMScore(Scorer):
    """ITMScore: the probability that image and text belong together; `output="logit"` gives the logit."""

    metric = "itm_score"
    default_model = "blip2-itm"


_CLASSES: dict[str, type[Scorer]] = {"clip": CLIPScore, "vqa": VQAScore, "itm": ITMScore}


def get_score_model(model: str, device: str = "auto", **options: Any) -> Scorer:
    """The scorer object for a model, its family found by the model's name.

    Args:
        model: a name of one of the `list_all_*` functions, or with its family in front: `clip:…`, `vqa:…`, `itm:…`
            (any name that the family's metric takes may follow, a folder too).
        device: as in `CLIPScore`; so are the other options.

    Raises:
        UnknownNameError: no such model; near names are suggested.
        PlannedError: a model that is listed and cannot be used yet.
        OptionError: a name in two families; the message gives both.
    """
    family, colon, rest = model.partition(":")
    if colon and family in _CLASSES:
        return _CLASSES[family](rest, device, **options)
    plain = spelled(model)
    families = [name for name in _CLASSES if plain in {spelled(known) for known in names_of(name)}]
    if not families:
        _refuse_planned(model, plain)
    if len(families) > 1:
        raise OptionError(
            "a model of several families must be named with one",
            got=repr(model),
            fix="Write " + " or ".join(f"{name}:{model}" for name in families),
        )
    if not families:
        hint = "A model that is not on a list is written with its family: clip:…, vqa:… or itm:…"
        raise UnknownNameError("score model", model, list_all_models(), fix=hint)
    return _CLASSES[families[0]](model, device, **options)


def _refuse_planned(asked: str, plain: str) -> None:
    from beholder.backends.cards import all_cards, refuse_planned

    for card in all_cards():
        if plain in {spelled(name) for name in (card.id, *card.aliases)}:
            refuse_planned(asked, card)


def list_all_clipscore_models() -> list[str]:
    """Names of the models that `CLIPScore` knows by name."""
    return names_of("clip", short=True)


def list_all_vqascore_models() -> list[str]:
    """Names of the models that `VQAScore` knows by name."""
    return names_of("vqa", short=True)


def list_all_itmscore_models() -> list[str]:
    """Names of the models that `ITMScore` knows by name."""
    return names_of("itm", short=True)


def list_all_models() -> list[str]:
    """Names of all score models, each once."""
    return list(dict.fromkeys(name for family in _CLASSES for name in names_of(family, short=True)))


def names_of(family: str, *, short: bool = False) -> list[str]:
    """Names of a family's models: every id and alias, or one name a model."""
    from beholder.backends.cards import all_cards

    wanted = {
        "clip": ("ImageTextEncoder", "VideoTextEncoder"), "vqa": ("AnswerScorer",), "itm": ("Matcher",),
    }[family]  # fmt: skip
    names: list[str] = []
    for card in all_cards():
        serves = set(card.capabilities) & set(wanted) or (family == "clip" and card.family in _COSINES)
        if not serves or card.planned or card.engine == "fake" or (family == "itm" and card.family in _ONLY_COSINES):
            continue
        aliases = [name for name in card.aliases if not name.endswith(_FOREIGN[family])]
        names += [aliases[0] if aliases else card.id] if short else [card.id, *aliases]
    return names


_COSINES = ("blip-2", "xclip")
"""Families of matchers that give the cosine of an image and a text too."""

_ONLY_COSINES = ("xclip", "facescore")
"""Families of matchers that are no matchers of image and text."""

_FOREIGN = {"clip": ("-itm",), "vqa": (), "itm": ("-clip", "-itc", "-itc-vitL", "-itc-coco")}
"""Endings of names that say another family."""


def spelled(name: str) -> str:
    """A model's name in one spelling."""
    from beholder.backends.names import spell_arch

    return spell_arch(name)


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= _SHOWN_LETTERS else text[:_SHOWN_LETTERS] + "…"


def _samples(couples: Sequence[tuple[Medium, str]]) -> Iterator[Sample]:
    for at, (medium, text) in enumerate(couples):
        yield Sample(str(at), medium, row=at + 1, prompt=text)
