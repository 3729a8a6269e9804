"""Makes one kind of feature with one loaded model, whatever the items are: the only place that calls a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Union

import numpy as np

from beholder._errors import BeholderError, NoValue
from beholder.backends.base import ImageEncoder, Made
from beholder.backends.kinds import Kind
from beholder.backends.tensors import stacked
from beholder.media.base import DecodeOptions, Medium
from beholder.runs.batching import BatchSize, Done, Failures, check_device, out_of_memory
from beholder.runs.looking import DerivedItem, FeatureItem, Looker, Still, VideoItem, still_pictures
from beholder.runs.make import attempt, default_workers, make_plain
from beholder.runs.several import PairItem, make_pairs, make_several
from beholder.runs.shared_pixels import SharedPixels

_OURS = frozenset({"background", "first_frame", "max_pixels", "frames"})
"""Parameters of a space that say how pixels come about; all others are the method's."""

_EXAMPLES = 64
"""Example pictures that are kept in the model's form, at most."""

_OPENED = 4
"""Videos that are open at once, at most."""

Sources = Mapping[tuple[str, bytes], Any]


def needing_items(item: Any) -> Iterator[Union[DerivedItem, FeatureItem]]:
    """What an item is, or is a pair with, that needs another feature first: derived pictures, or a feature itself."""
    visual = item.visual if isinstance(item, PairItem) else item
    if isinstance(visual, (DerivedItem, FeatureItem)):
        yield visual


class FeatureMaker:
    """One kind of feature, one model.

    Args:
        kind: the kind.
        backend: the loaded model.
        params: parameters of the space.
        decode: how files become pixels; `SharedPixels` where several models look at the same ones.
        pool: decode threads.
    """

    def __init__(
        self, kind: Kind, backend: Any, params: Mapping[str, Any], decode: Union[DecodeOptions, SharedPixels],
        pool: ThreadPoolExecutor,
    ) -> None:  # fmt: skip
        self.kind, self._backend = kind, backend
        self._params = {name: value for name, value in params.items() if name not in _OURS}
        self._pixels = decode if isinstance(decode, SharedPixels) else SharedPixels(decode)
        self._pool = pool
        self._examples: dict[int, tuple[Medium, Any]] = {}

    def batch_size(self) -> int:
        """The model's own batch: texts, or visuals."""
        if self.kind.item == "text":
            return int(self._backend.text_batch)
        size = self._backend.image_batch if self._of_encoder else self._backend.batch
        return int(size)

    def make(self, items: Mapping[bytes, Any], *, size: BatchSize, sources: Sources, done: Done) -> Failures:
        """Makes the features of one space's items, all of one sort: texts, stills, videos and derived, pairs, features.

        Args:
            items: by content key.
            size: how many go into a batch.
            sources: the features that derived pictures, and features of features, need.
            done: is handed keys and columns.

        Returns:
            (status, reason) of the items that have no feature.
        """
        if not items:
            return {}
        if self.kind.item == "text":
            return self._make_texts(items, size=size, done=done)
        streams = bool(getattr(self._backend, "streams", False))
        at_once = bool(getattr(self._backend, "videos_at_once", False))
        looker = Looker(
            self._prepare, self._together(), self._pixels, lambda item: _source(sources, item), streams, at_once
        )  # fmt: skip
        ahead = min(default_workers(), _OPENED)
        if self.kind.item == "feature" and not next(iter(items.values())).several:

            def take(item: FeatureItem) -> Any:
                return _source(sources, item)[item.column]

            return make_plain(items, take, self._encode, pool=self._pool, size=size, done=done)
        if self.kind.item == "pair":
            several = isinstance(next(iter(items.values())).visual, (VideoItem, DerivedItem))
            return make_pairs(
                items, looker, self._call_pairs, several=several, pool=self._pool, size=size, ahead=ahead, done=done
            )
        if isinstance(next(iter(items.values())), (VideoItem, DerivedItem, FeatureItem)):
            return make_several(items, looker, self._encode, pool=self._pool, size=size, ahead=ahead, done=done)
        overlap = str(getattr(self._backend, "device", None)) != "cpu"
        return make_plain(
            items, self._prepare_still, self._encode, pool=self._pool, size=size, done=done, overlap=overlap
        )

    def _make_texts(self, items: Mapping[bytes, Any], *, size: BatchSize, done: Done) -> Failures:
        """Texts that the model pads to one length go through together, so that short ones cost little.

        Each length has batches of its own: what a text is computed with does not depend on the others of a run.
        """
        groups: dict[int, dict[bytes, Any]] = {}
        for (key, text), length in zip(items.items(), self._text_lengths(list(items.values())), strict=True):
            groups.setdefault(length, {})[key] = text
        failures: Failures = {}
        for length in sorted(groups, reverse=True):  # the longest first: whether memory holds a batch is seen at once
            encode = self._backend.encode_texts
            failures |= make_plain(groups[length], None, encode, pool=self._pool, size=size, done=done)
        return failures

    def _text_lengths(self, texts: Sequence[str]) -> Sequence[int]:
        measure = getattr(self._backend, "text_lengths", None)
        if measure is not None:
            with suppress(Exception):  # encoding tells which text is at fault
                return list(measure(texts))
        return [0] * len(texts)

    @property
    def _of_encoder(self) -> bool:
        """True for kinds whose pictures an encoder prepares."""
        return self.kind.name in ("image_embedding", "patches")

    def make_prepared(self, payloads: Mapping[bytes, Any], *, size: BatchSize, done: Done) -> Failures:
        """The same of still pictures that were prepared elsewhere."""
        return make_plain(payloads, None, self._encode, pool=self._pool, size=size, done=done)

    def _together(self) -> bool:
        return not self.kind.per_picture or (self.kind.item == "pair" and self._backend.takes_video)

    def _prepare_still(self, visual: Still) -> Any:
        pictures = still_pictures(visual, self._pixels)
        return self._prepare(iter(pictures) if getattr(self._backend, "streams", False) else pictures)

    def _prepare(self, pictures: Any) -> Any:
        if self._of_encoder:
            return self._backend.prepare_image(pictures[0])
        return self._backend.prepare(pictures, **self._preparing)

    @property
    def _preparing(self) -> dict[str, Any]:
        """The parameters that the model's `prepare` is given; the method is given the others."""
        names = getattr(self._backend, "prepare_with", ())
        return {name: value for name, value in self._params.items() if name in names}

    @property
    def _rest(self) -> dict[str, Any]:
        return {name: value for name, value in self._params.items() if name not in self._preparing}

    @property
    def _method(self) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._backend, self.kind.method)
        return method

    def _encode(self, units: Sequence[Any]) -> Any:
        if self.kind.name == "image_embedding":
            encoder: ImageEncoder = self._backend
            return {"embedding": encoder.encode_images(self._stacked(units))}
        if self.kind.name == "patches":
            return self._backend.encode_patches(self._stacked(units))
        return self._method(list(units), **self._rest)

    def _stacked(self, units: Sequence[Any]) -> np.ndarray:
        return stacked(units, getattr(self._backend, "device", None))

    def _call_pairs(self, units: Sequence[Any], pairs: Sequence[tuple[int, Any]]) -> Any:
        if all(isinstance(text, str) for _, text in pairs):
            return self._method(list(units), list(pairs), **self._rest)
        examples = {id(example): self._example(example) for _, example in pairs}
        good = [row for row, (_, example) in enumerate(pairs) if not isinstance(examples[id(example)], NoValue)]
        failures = {
            row: examples[id(example)] for row, (_, example) in enumerate(pairs) if row not in set(good)
        }  # fmt: skip
        if not good:
            return Made({}, failures)
        made = self._method(list(units), [(pairs[row][0], examples[id(pairs[row][1])]) for row in good], **self._rest)
        # Rows without an example repeat a good row: there must be one, and it is never read.
        places = np.zeros(len(pairs), dtype=np.int64)
        places[good] = np.arange(len(good))
        lost = {good[row]: error for row, error in made.failures.items()}
        return Made({name: array[places] for name, array in made.columns.items()}, failures | lost)

    def _example(self, medium: Medium) -> Any:
        """An example in the model's form, or a `NoValue`. What the device says to it is no fault of the example's."""
        try:
            return self._prepare_example(medium)
        except Exception as error:
            if not isinstance(error, BeholderError):
                if out_of_memory(error):
                    raise
                check_device(error)
            return attempt(_raise, error)

    def _prepare_example(self, medium: Medium) -> Any:
        """An example in the model's form; the last ones are kept, since every frame of a video comes with them."""
        if id(medium) not in self._examples:
            while len(self._examples) >= _EXAMPLES:
                self._examples.pop(next(iter(self._examples)))
            made = self._backend.prepare_example(self._pixels.picture(medium))
            self._examples[id(medium)] = (medium, made)
        return self._examples[id(medium)][1]


def _raise(error: Exception) -> Any:
    raise error


def _source(sources: Sources, item: Union[DerivedItem, FeatureItem]) -> Mapping[str, Any]:
    key, _, space = item.source
    found = sources[space, key]
    if isinstance(found, NoValue):
        raise found
    columns: Mapping[str, Any] = found
    return columns
