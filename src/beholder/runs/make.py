"""Makes features: decodes in threads, encodes in batches of one fixed shape, and turns faults into statuses."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from beholder._errors import BeholderError, DeviceError, MediaError, ModelError, NoValue
from beholder.backends.base import Columns, ImageTextEncoder
from beholder.media.base import DecodeOptions, Medium
from beholder.records import Status

Failures = dict[bytes, tuple[Status, str]]
T = TypeVar("T")
R = TypeVar("R")

_SLICE = 64


def default_workers() -> int:
    """Decode threads: the processors that this process may use, 2 at least and 16 at most."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 2
    return max(2, min(16, count))


def fingerprints(media: Sequence[Medium], pool: ThreadPoolExecutor) -> list[bytes | MediaError]:
    """Content keys of media, made in threads; a file that is not there gives its error."""
    if len(media) <= _SLICE:
        return _fingerprint_slice(media)
    slices = [media[start : start + _SLICE] for start in range(0, len(media), _SLICE)]
    return list(itertools.chain.from_iterable(pool.map(_fingerprint_slice, slices)))


def _fingerprint_slice(media: Sequence[Medium]) -> list[bytes | MediaError]:
    keys: list[bytes | MediaError] = []
    for medium in media:
        try:
            keys.append(bytes.fromhex(medium.fingerprint()))
        except MediaError as error:
            keys.append(error)
        except Exception as error:
            keys.append(MediaError(Status.FAILED, f"reading it raised {type(error).__name__}: {error}"))
    return keys


def make_images(
    encoder: ImageTextEncoder,
    items: Mapping[bytes, Medium],
    *,
    decode: DecodeOptions,
    pool: ThreadPoolExecutor,
    batch_size: int,
    done: Callable[[list[bytes], Columns], None],
) -> Failures:
    """Embeds images. Decoding runs two batches ahead of the encoder.

    Args:
        encoder: the loaded model.
        items: media by content key.
        decode: how files become pixels.
        pool: decode threads.
        batch_size: images in every batch; a short one is filled up with copies of its last image.
        done: is handed each batch's keys and columns.

    Returns:
        (status, reason) of the items that have no feature.
    """

    def prepare(medium: Medium) -> np.ndarray:
        return encoder.prepare_image(medium.decode(decode))

    def encode(batch: Sequence[np.ndarray]) -> Columns:
        return {"embedding": encoder.encode_images(np.stack(batch))}

    return _in_batches(items, prepare, encode, pool=pool, batch_size=batch_size, done=done)


def make_texts(
    encoder: ImageTextEncoder,
    items: Mapping[bytes, str],
    *,
    pool: ThreadPoolExecutor,
    batch_size: int,
    done: Callable[[list[bytes], Columns], None],
) -> Failures:
    """Embeds texts; see `make_images`."""
    return _in_batches(items, None, encoder.encode_texts, pool=pool, batch_size=batch_size, done=done)


def _in_batches(
    items: Mapping[bytes, Any],
    prepare: Callable[[Any], Any] | None,
    encode: Callable[[Sequence[Any]], Columns],
    *,
    pool: ThreadPoolExecutor,
    batch_size: int,
    done: Callable[[list[bytes], Columns], None],
) -> Failures:
    failures: Failures = {}
    keys: list[bytes] = []
    batch: list[Any] = []
    for key, payload in _prepared(items, prepare, pool, batch_size=batch_size):
        if isinstance(payload, NoValue):
            failures[key] = (Status(payload.status), payload.reason)
            continue
        keys.append(key)
        batch.append(payload)
        if len(batch) == batch_size:
            _encode_batch(keys, batch, encode, batch_size, done, failures)
            keys, batch = [], []
    if batch:
        _encode_batch(keys, batch, encode, batch_size, done, failures)
    return failures


def _prepared(
    items: Mapping[bytes, Any], prepare: Callable[[Any], Any] | None, pool: ThreadPoolExecutor, *, batch_size: int
) -> Iterator[tuple[bytes, Any]]:
    """Items with their payload, or with the `NoValue` that says why there is none; in the order of `items`."""
    if prepare is None:
        yield from items.items()
        return

    def attempt(media: Sequence[Any]) -> list[Any]:
        return [_attempt(prepare, medium) for medium in media]

    # An eighth of a batch a task: enough tasks to keep all threads busy, few enough that handing them over is cheap.
    step = max(1, batch_size // 8)
    media = iter(items.values())
    slices = iter(lambda: list(itertools.islice(media, step)), [])
    results = _map_ahead(attempt, slices, pool, ahead=2 * -(-batch_size // step))
    yield from zip(items, itertools.chain.from_iterable(results), strict=True)


def _attempt(prepare: Callable[[Any], Any], medium: Any) -> Any:
    try:
        return prepare(medium)
    except NoValue as error:
        return error
    except Exception as error:
        return NoValue(Status.FAILED, f"preparing it raised {type(error).__name__}: {error}")


def _map_ahead(function: Callable[[T], R], items: Iterable[T], pool: ThreadPoolExecutor, *, ahead: int) -> Iterator[R]:
    """`map` in threads, in order, with at most `ahead` results waiting: memory stays bounded."""
    source = iter(items)
    waiting: deque[Future[R]] = deque(pool.submit(function, item) for item in itertools.islice(source, ahead))
    try:
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(pool.submit(function, item) for item in itertools.islice(source, 1))
            yield result
    finally:
        for future in waiting:
            future.cancel()


def _encode_batch(
    keys: list[bytes],
    batch: list[Any],
    encode: Callable[[Sequence[Any]], Columns],
    batch_size: int,
    done: Callable[[list[bytes], Columns], None],
    failures: Failures,
) -> None:
    """Encodes one batch; when that fails, each of its items alone, so that a bad one costs only itself."""
    try:
        done(keys, _padded(batch, encode, batch_size))
        return
    except BeholderError:
        raise
    except Exception as error:
        if _out_of_memory(error):
            raise DeviceError(
                f"a batch of {batch_size} must fit into the device's memory",
                got=type(error).__name__,
                fix="Try a smaller --batch-size",
            ) from error
        if len(batch) == 1:
            failures[keys[0]] = (Status.FAILED, f"the model raised {type(error).__name__}: {error}")
            return
    for key, payload in zip(keys, batch, strict=True):
        _encode_batch([key], [payload], encode, batch_size, done, failures)


def _padded(batch: list[Any], encode: Callable[[Sequence[Any]], Columns], batch_size: int) -> Columns:
    count = len(batch)
    columns = _checked(encode(batch + [batch[-1]] * (batch_size - count)), batch_size)
    return {name: array[:count] for name, array in columns.items()} if count < batch_size else columns


def _checked(columns: Any, rows: int) -> Columns:
    """What an encoder gave, as arrays of numbers with a row an item.

    Raises:
        ModelError: the encoder does not keep its contract, so no row can be trusted.
    """
    if not isinstance(columns, Mapping) or "embedding" not in columns:
        found = f"columns {', '.join(map(repr, columns))}" if isinstance(columns, Mapping) else type(columns).__name__
        raise ModelError("an encoder must give a mapping with a column 'embedding' for texts", got=found)
    arrays = {name: _as_array(name, value) for name, value in columns.items()}
    for name, array in arrays.items():
        if array.ndim == 0 or len(array) != rows:
            raise ModelError(f"an encoder must give one row of {name!r} for each of {rows} items", got=_shape(array))
    embedding = arrays["embedding"]
    if embedding.ndim != 2 or not embedding.shape[1]:
        raise ModelError("embeddings must be a matrix (n, d) with d of at least 1", got=_shape(embedding))
    return arrays


def _as_array(name: str, value: Any) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"an encoder's column {name!r} must be an array", got=str(error)) from error
    if array.dtype.kind not in "fiub":
        raise ModelError(f"an encoder's column {name!r} must hold real numbers", got=f"dtype {array.dtype}")
    return array


def _shape(array: np.ndarray) -> str:
    return f"shape {array.shape}"


def _out_of_memory(error: Exception) -> bool:
    return type(error).__name__ == "OutOfMemoryError" or "out of memory" in str(error).lower()
