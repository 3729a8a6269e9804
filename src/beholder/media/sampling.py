"""Which frames of a video are looked at: policies by name, and the indices that they give.

uniform:n   n frames spread over the whole clip: floor(i·(T − 1)/(n − 1)), i = 0 … n − 1
fps:x       the frame that shows at k/x seconds, k = 0, 1, 2 … up to the last frame's time stamp
first       the first frame
all         every frame
stride:k    at most k frames, one every max(floor(T/k), 1) frames from the first on
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError

PolicyKind: TypeAlias = Literal["uniform", "fps", "first", "all", "stride"]

_TOLERANCE = 0.001
"""Seconds. Containers round time stamps to milliseconds: the frame meant for 66.667 ms is stamped 67 ms."""

_COUNT = re.compile(r"(uniform|stride):([1-9][0-9]*)")
_RATE = re.compile(r"fps:([0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_FORMS = "uniform:n, fps:x, first, all or stride:k"


@dataclass(frozen=True)
class FramePolicy:
    """A way to choose frames. Its text parses back: `FramePolicy.parse(str(policy)) == policy`.

    Args:
        kind: "uniform", "fps", "first", "all" or "stride".
        value: n of uniform and k of stride (whole numbers ≥ 1), x of fps (> 0); None for first and all.

    Raises:
        OptionError: another kind, or a value that the kind does not take.

    >>> str(FramePolicy.parse("fps:2.0"))
    'fps:2'
    """

    kind: PolicyKind
    value: float | None = None

    def __post_init__(self) -> None:
        if not _fits(self.kind, self.value):
            raise _no_policy(f"{self.kind!r} with {self.value!r}")

    @classmethod
    def parse(cls, text: str) -> FramePolicy:
        """The policy that a text names."""
        plain = text.strip() if isinstance(text, str) else ""
        if plain == "first":
            return cls("first")
        if plain == "all":
            return cls("all")
        if counted := _COUNT.fullmatch(plain):
            return cls("uniform" if counted[1] == "uniform" else "stride", int(counted[2]))
        rated = _RATE.fullmatch(plain)
        if rated is None or not _fits("fps", float(rated[1])):
            raise _no_policy(repr(text))
        return cls("fps", float(rated[1]))

    def __str__(self) -> str:
        if self.value is None:
            return self.kind
        number = int(self.value) if float(self.value).is_integer() else self.value
        return f"{self.kind}:{np.format_float_positional(number, trim='-')}"


def _fits(kind: str, value: float | None) -> bool:
    if kind in ("first", "all"):
        return value is None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if kind == "fps":
        return math.isfinite(value) and value > 0
    return kind in ("uniform", "stride") and isinstance(value, int) and value >= 1


def _no_policy(got: str) -> OptionError:
    return OptionError(
        f"a frame policy must be {_FORMS}",
        got=got,
        fix="For example uniform:8 (eight frames over the whole clip) or fps:2 (two frames a second)",
    )


def frame_indices(policy: FramePolicy | str, clip: int | Sequence[float] | npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The frames that a policy takes, in ascending order; repeated where the clip is too short for `uniform:n`.

    Args:
        policy: the policy or its text.
        clip: number of frames T ≥ 1, or the time stamp of every frame in seconds, ascending.

    Returns:
        Indices in 0 … T − 1. `uniform:n` gives exactly n (n = 1 gives the middle, floor((T − 1)/2)); `stride:k`
        gives min(T, k); `fps:x` shows a frame again while no newer one has come, counted from the first time stamp.

    Raises:
        OptionError: no such policy, no frames, `fps:x` without time stamps, or time stamps that go backwards.

    >>> frame_indices("uniform:4", 10).tolist()
    [0, 3, 6, 9]
    >>> frame_indices("fps:10", [0.0, 0.1, 0.3]).tolist()
    [0, 1, 1, 2]
    """
    wanted = FramePolicy.parse(policy) if isinstance(policy, str) else policy
    times = None if isinstance(clip, (int, np.integer)) else np.asarray(clip, dtype=np.float64)
    count = len(times) if times is not None else int(clip)  # type: ignore[arg-type]
    if count < 1:
        raise OptionError("a clip must have at least one frame", got=str(count))
    if wanted.kind == "first":
        return np.zeros(1, np.int64)
    if wanted.kind == "all":
        return np.arange(count, dtype=np.int64)
    if wanted.kind == "fps":
        return _by_time(float(wanted.value or 0), times)
    number = int(wanted.value or 0)
    if wanted.kind == "stride":
        return np.arange(min(number, count), dtype=np.int64) * max(count // number, 1)
    if number == 1:
        return np.array([(count - 1) // 2], np.int64)
    return np.arange(number, dtype=np.int64) * (count - 1) // (number - 1)


def _by_time(rate: float, times: npt.NDArray[np.float64] | None) -> npt.NDArray[np.int64]:
    if times is None:
        raise OptionError(
            "fps:x needs the time stamps of the frames",
            got="their number only",
            fix="Choose by number (uniform:n), or state the frame rate of frames that have no time stamps",
        )
    if not np.isfinite(times).all() or (np.diff(times) < 0).any():
        raise OptionError("time stamps must be finite and ascending", got=repr(times.tolist()[:8]))
    since_first = times - times[0]
    ticks = np.arange(math.floor((since_first[-1] + _TOLERANCE) * rate) + 1) / rate
    return np.searchsorted(since_first, ticks + _TOLERANCE, side="right").astype(np.int64) - 1
