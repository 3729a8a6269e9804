"""Metrics of the package pyiqa (IQA-PyTorch) as models: `pyiqa:NAME`, by pyiqa's own names.

A metric without a reference is an `ImageScorer`, one with a reference a `ReferenceScorer`. Pictures go in as they are,
RGB from 0 to 1, never resized here; what a metric does to them is pyiqa's matter, so its version is part of the key,
and so are its weights: all tensors of the network and every file that was read when it was built. pyiqa reads weights
from its own folder (`pyiqa` in torch's hub cache) and fetches them there; code in them does not run.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from beholder._errors import BeholderError, NoValue, OptionError, WeightsMismatchError, WeightsMissingError
from beholder._hashing import hash_file
from beholder.backends.base import LoadOptions, Made, ResolvedModel
from beholder.backends.devices import choose_device, release_memory
from beholder.backends.forward import no_default_device, plain_arithmetic
from beholder.backends.tensors import on_device, stacked
from beholder.media.base import Picture
from beholder.pyiqa_facts import LICENCE, Facts, facts_of, package
from beholder.records import ModelCard, Status

SEED = 123
BATCH, GPU_BATCH = 4, 16
_SAME = 1e-5
"""Relative difference up to which a picture's value in a batch is its value alone."""


class PyiqaEngine:
    """All metrics of pyiqa; one engine for both capabilities."""

    name = "pyiqa"

    def __init__(self) -> None:
        self._built: tuple[str, Any] | None = None

    def cards(self) -> Sequence[ModelCard]:
        """None: pyiqa's metrics are found by name and not listed here."""
        return []

    def card_for(self, name: str) -> ModelCard:
        """The card of a metric; says nothing that needs the package."""
        return ModelCard(
            id=f"pyiqa:{name}", engine="pyiqa", family="pyiqa", arch=name, weights=name, licence=LICENCE,
            commercial=False, capabilities=("ImageScorer", "ReferenceScorer"), layout_verified="no",
            notes=("pyiqa's licence allows no commercial use; weights and papers are those of each metric's authors.",),
        )  # fmt: skip

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        """Builds the metric once, to know its weights."""
        facts = facts_of(name.partition(":")[2])
        if dtype not in ("auto", "float32"):
            raise OptionError("metrics of pyiqa run in float32", got=f"{name} in {dtype}")
        network, digest = build(facts, offline=offline(options))
        self._built = facts.name, network
        return ResolvedModel(
            asked=name,
            id=f"pyiqa:{facts.name}",
            card=self.card_for(facts.name),
            location="",
            weights_sha256=digest,
            preprocessing={"pyiqa": facts.version, "metric": facts.name, "pixels": "RGB, 0 to 1, as decoded"},
            dtype="float32",
            details={"offline": offline(options)},
            capability=facts.capability,
        )

    def load(self, model: ResolvedModel, *, device: str) -> PyiqaModel:
        facts = facts_of(model.id.partition(":")[2])
        kept, self._built = self._built, None
        if kept is not None and kept[0] == facts.name:
            return PyiqaModel(model, kept[1], device=device)
        network, digest = build(facts, offline=bool(model.details.get("offline")))
        if digest != model.weights_sha256:
            raise WeightsMismatchError(
                f"the weights of {model.id} must not change during a run", got="others than it began with"
            )
        return PyiqaModel(model, network, device=device)


PYIQA = PyiqaEngine()


def offline(options: LoadOptions) -> bool:
    """True where nothing may be fetched."""
    return os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0") if options.offline is None else options.offline


def build(facts: Facts, *, offline: bool) -> tuple[Any, str]:
    """A metric's network on the CPU, and the hash of its weights.

    Raises:
        WeightsMissingError: they are not there and cannot be fetched.
        WeightsMismatchError: pyiqa cannot build the metric with them.
    """
    import torch

    files: list[Path] = []
    try:
        with _safe_loading(), _watched_downloads(files, offline=offline), seeded(), no_default_device():
            network = package().create_metric(facts.name, device=torch.device("cpu"))
    except BeholderError:
        raise
    except OSError as error:
        raise WeightsMissingError(
            f"pyiqa must find the weights of {facts.name}",
            got=str(error),
            fix="Run it once where the network can be reached, or copy the file into pyiqa's folder",
        ) from error
    except Exception as error:
        raise WeightsMismatchError(
            f"pyiqa must build its metric {facts.name}", got=f"{type(error).__name__}: {error}"
        ) from error
    return network, fingerprint(network, files)


def fingerprint(network: Any, files: Sequence[Path]) -> str:
    """Hash of a network's tensors, by name, and of the files that were read for it."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        array = np.ascontiguousarray(tensor.detach().cpu().contiguous().view(-1).numpy())
        digest.update(f"{name}\0{tuple(tensor.shape)}\0{array.dtype}\0".encode())
        digest.update(array.tobytes())
    for path in sorted(set(files)):
        digest.update(f"{path.name}\0{hash_file(path)}\0".encode())
    return digest.hexdigest()


@contextmanager
def _safe_loading() -> Iterator[None]:
    """While it lasts, torch reads weights without running code that stands in them, whatever pyiqa asks for."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _watched_downloads(files: list[Path], *, offline: bool) -> Iterator[None]:
    """Notes the files that pyiqa reads by URL, and refuses to fetch one where that is forbidden."""
    try:
        from pyiqa.utils import download_util
    except ImportError:
        yield
        return
    fetch: Callable[..., Any] = download_util.download_url_to_file
    parse: Callable[[str], Any] = download_util.urlparse
    folder = Path(download_util.DEFAULT_CACHE_DIR)
    asked: list[Path] = []

    def noted(url: str) -> Any:
        found = parse(url)
        asked.append(folder / os.path.basename(found.path))
        return found

    def fetched(url: str, target: str, *rest: Any, **more: Any) -> Any:
        if offline:
            raise WeightsMissingError(
                "pyiqa must find its weights", got=f"no {target}, offline", fix=f"Fetch {url} to that place"
            )
        return fetch(url, target, *rest, **more)

    download_util.download_url_to_file, download_util.urlparse = fetched, noted
    try:
        yield
    finally:
        download_util.download_url_to_file, download_util.urlparse = fetch, parse
        files += [path for path in asked if path.is_file()]


@contextmanager
def seeded() -> Iterator[None]:
    """While it lasts, all random numbers are those of one seed; what others drew before goes on afterwards.

    Some metrics look at random crops. With one seed a picture, its value depends on it alone.
    """
    import torch

    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
        random.seed(SEED)
        np.random.seed(SEED)
        torch.manual_seed(SEED)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


class PyiqaModel:
    """A metric of pyiqa on a device; an `ImageScorer` or a `ReferenceScorer`.

    Pictures of one size go through it together once a first trial has shown that each has the value that it has alone
    (metrics that look at random crops, or at the batch, have not).
    """

    takes_video = False

    def __init__(self, model: ResolvedModel, network: Any, *, device: str) -> None:
        self.model = model
        self.constants: Mapping[str, float] = {}
        self._device = choose_device(device, dtype="float32")
        self.device = str(self._device)
        self.batch = BATCH if self._device.type == "cpu" else GPU_BATCH
        self.pair_batch = self.batch
        self._network = network.to(self._device)
        self._together: bool | None = None

    def prepare(self, pictures: Sequence[Picture]) -> np.ndarray:
        """(3, h, w) uint8 RGB, as decoded; thread-safe."""
        return np.ascontiguousarray(pictures[0].pixels.transpose(2, 0, 1))

    def prepare_example(self, picture: Picture) -> np.ndarray:
        """A reference, as `prepare` does it."""
        return self.prepare([picture])

    def score_images(self, visuals: Sequence[Any]) -> Made:
        """The column "score" (n,) float64."""
        return self._score([(visual,) for visual in visuals])

    def score_pairs(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, Any]]) -> Made:
        """The column "score" (n,) float64; a reference of another size is no value."""
        return self._score([(visuals[at], reference) for at, reference in pairs])

    def _score(self, items: Sequence[tuple[np.ndarray, ...]]) -> Made:
        scores = np.zeros(len(items))
        failures: dict[int, NoValue] = {}
        groups: dict[tuple[int, ...], dict[tuple[int, ...], list[int]]] = {}
        for row, item in enumerate(items):
            if any(part.shape != item[0].shape for part in item):
                sizes = [f"{part.shape[2]}×{part.shape[1]}" for part in item]
                failures[row] = NoValue(
                    Status.NOT_APPLICABLE, f"the output is {sizes[0]} and the reference {sizes[1]}: pyiqa compares "
                    "pictures of one size",
                )  # fmt: skip
                continue
            # Copies that fill up a batch are the same objects: they are looked at once.
            groups.setdefault(item[0].shape, {}).setdefault(tuple(id(part) for part in item), []).append(row)
        for same in groups.values():
            values = self._values([items[rows[0]] for rows in same.values()])
            for value, rows in zip(values, same.values()):
                scores[rows] = value
        return Made({"score": scores}, failures)

    def _values(self, items: Sequence[tuple[np.ndarray, ...]]) -> np.ndarray:
        """Values of pictures of one size."""
        if self._together and len(items) > 1:
            return self._forward(items)
        alone = np.concatenate([self._forward([item]) for item in items])
        if len(items) > 1 and self._together is None:
            self._together = self._agrees(items, alone)
        return alone

    def _agrees(self, items: Sequence[tuple[np.ndarray, ...]], alone: np.ndarray) -> bool:
        try:
            found = self._forward(items)
        except Exception:
            return False  # pictures one by one is what every metric takes
        return bool(np.allclose(found, alone, rtol=_SAME, atol=_SAME * max(1.0, float(np.abs(alone).max()))))

    def _forward(self, items: Sequence[tuple[np.ndarray, ...]]) -> np.ndarray:
        """(n,) float64 what pyiqa gives a batch."""
        import torch

        batches = [
            on_device(stacked(parts, self._device), self._device).to(torch.float32) / 255.0 for parts in zip(*items)
        ]  # fmt: skip
        with seeded(), plain_arithmetic(), torch.no_grad():
            found = self._network(*batches)
        values = np.asarray(torch.as_tensor(found).detach().cpu().double()).reshape(-1)
        if len(values) != len(items):
            raise NoValue(Status.FAILED, f"pyiqa gave {len(values)} values for {len(items)} pictures")
        return values

    def close(self) -> None:
        """Releases the network and, on a GPU, its memory."""
        self._network = None
        release_memory(self._device)
