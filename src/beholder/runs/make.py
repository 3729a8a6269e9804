"""Makes features of still pictures and of texts: decodes in threads, encodes in batches of one fixed shape."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from beholder._errors import MediaError, MissingExtraError, NoValue
from beholder.media.base import Medium
from beholder.media.visual import examine, recalled
from beholder.records import Status
from beholder.runs.batching import BatchSize, Done, Encode, Failures, encode_batch

T = TypeVar("T")
R = TypeVar("R")
Prepare = Callable[[Any], Any]

_SLICE = 64


class ContentKey(NamedTuple):
    """What a medium is: the hash of its content, and whether it is looked at as a video."""

    sha256: bytes
    is_video: bool


def processors() -> int:
    """The processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # a system that does not tell
        return os.cpu_count() or 1


def default_workers() -> int:
    """Decode threads: one a processor, 2 at least and 16 at most."""
    return max(2, min(16, processors()))


def content_keys(
    media: Sequence[Medium], pool: ThreadPoolExecutor, *, first_frame: bool = False
) -> list[ContentKey | NoValue]:
    """Content keys of media, made in threads; a file that is not there gives its error."""
    keys = _recalled_keys(media)
    media = media[len(keys) :]
    if len(media) <= _SLICE:
        return [*keys, *_content_keys(media, first_frame)]
    slices = [media[start : start + _SLICE] for start in range(0, len(media), _SLICE)]
    return [*keys, *itertools.chain.from_iterable(pool.map(_content_keys, slices, itertools.repeat(first_frame)))]


def _recalled_keys(media: Sequence[Medium]) -> list[ContentKey | NoValue]:
    """Keys of the media up to the first one whose content is not remembered.

    Looking a hash up takes microseconds; several threads that do only that spend most of their time waiting for one
    another, so what is remembered is looked up here and threads are left what has to be read.
    """
    keys: list[ContentKey | NoValue] = []
    for medium in media:
        sha = recalled(medium)
        if sha is None:
            break
        keys.append(ContentKey(bytes.fromhex(sha), False))
    return keys


def _content_keys(media: Sequence[Medium], first_frame: bool) -> list[ContentKey | NoValue]:
    keys: list[ContentKey | NoValue] = []
    for medium in media:
        try:
            sha, is_video = examine(medium, first_frame=first_frame)
            keys.append(ContentKey(bytes.fromhex(sha), is_video))
        except MissingExtraError:
            raise
        except NoValue as error:
            keys.append(error)
        except Exception as error:
            keys.append(MediaError(Status.FAILED, f"reading it raised {type(error).__name__}: {error}"))
    return keys


def make_plain(
    items: Mapping[bytes, Any],
    prepare: Prepare | None,
    encode: Encode,
    *,
    pool: ThreadPoolExecutor,
    size: BatchSize,
    done: Done,
    overlap: bool = True,
) -> Failures:
    """Features with one row an item. Preparing runs two batches ahead of the model, or takes turns with it.

    Args:
        items: still media or texts by content key.
        prepare: from an item to what the model takes; None for texts, which need nothing.
        encode: from a list of what the model takes to `Made`, or to columns; a short batch is filled up with copies
            of its last item.
        pool: decode threads.
        size: items in every batch.
        done: is handed each batch's keys and columns.
        overlap: prepare while the model runs; False for a model that needs all processors itself.

    Returns:
        (status, reason) of the items that have no feature.
    """
    failures: Failures = {}
    keys: list[bytes] = []
    batch: list[Any] = []
    for key, payload in prepared(items, prepare, pool, ahead=size.size, overlap=overlap):
        if isinstance(payload, NoValue):
            failures[key] = (Status(payload.status), payload.reason)
            continue
        keys.append(key)
        batch.append(payload)
        if len(batch) >= size.size:
            encode_batch(keys, batch, encode, size, done, failures)
            keys, batch = [], []
    if batch:
        encode_batch(keys, batch, encode, size, done, failures)
    return failures


def prepared(
    items: Mapping[bytes, Any], prepare: Prepare | None, pool: ThreadPoolExecutor, *, ahead: int, overlap: bool = True
) -> Iterator[tuple[bytes, Any]]:
    """Items with what was prepared of them, or with the `NoValue` that says why there is none; in their order.

    A model on the CPU uses all processors. Threads that decode meanwhile hold up one of its threads, and all others
    wait for that one: without `overlap`, a batch is prepared by all processors, and then the model has them all.
    """
    if prepare is None:
        yield from items.items()
        return

    def prepare_all(media: Sequence[Any]) -> list[Any]:
        return [attempt(prepare, medium) for medium in media]

    # An eighth of a batch a task: enough tasks to keep all threads busy, few enough that handing them over is cheap.
    step = max(1, ahead // 8)
    media = iter(items.values())
    slices = iter(lambda: list(itertools.islice(media, step)), [])
    tasks = -(-ahead // step)
    results = (
        _map_ahead(prepare_all, slices, pool, ahead=2 * tasks)
        if overlap
        else _map_in_turns(prepare_all, slices, pool, at_once=tasks)
    )
    yield from zip(items, itertools.chain.from_iterable(results), strict=True)


def attempt(prepare: Prepare, item: Any) -> Any:
    """What `prepare` gives, or a `NoValue` for what it raises; a package that is missing ends the run."""
    try:
        return prepare(item)
    except MissingExtraError:
        raise
    except NoValue as error:
        return error
    except Exception as error:
        return NoValue(Status.FAILED, f"preparing it raised {type(error).__name__}: {error}")


def _map_in_turns(
    function: Callable[[T], R], items: Iterable[T], pool: ThreadPoolExecutor, *, at_once: int
) -> Iterator[R]:
    """`map` in threads, in order, so many at a time; nothing runs while the results are used."""
    source = iter(items)
    while part := list(itertools.islice(source, at_once)):
        yield from list(pool.map(function, part))


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
