"""OpenS2V's leaderboard as arithmetic: bounds, weights and totals of its two boards.

Every video is cut to the metric's bounds, the mean over the videos that have a value is brought to 0..1, and the parts
are added by the board's weights. A metric without any value has no part: then there is no total, only what is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from beholder._errors import OptionError

VERSIONS = ("1.1", "1.0")
TRACKS = ("open", "human", "single")


@dataclass(frozen=True)
class Part:
    """One metric of the board.

    Args:
        key: its short name here.
        title: its name on the board.
        metric: the metric that gives it.
        low: what becomes 0.
        high: what becomes 1.
        cut_low: True where a video under `low` counts as `low`; all are cut at `high`.
        absolute: True where the sign is dropped first.
        drop_zeros: True where videos with 0 are left out.
        output: its key in the board's own files.
    """

    key: str
    title: str
    metric: str
    low: float
    high: float
    cut_low: bool = False
    absolute: bool = False
    drop_zeros: bool = False
    output: str = ""


PARTS: Mapping[str, Part] = {
    part.key: part
    for part in (
        Part("aes", "Aesthetic", "laion_aesthetic", 4, 7, cut_low=True, output="aes_score"),
        Part("smooth", "Smoothness", "motion_smoothness", 0, 1, absolute=True, output="motion_smoothness"),
        Part("ampl", "Amplitude", "motion_amplitude", 0, 1, absolute=True, output="motion_amplitude"),
        Part("face", "FaceSim", "facesim_cur", 0, 1, output="facesim_cur"),
        Part("gme", "GmeScore", "gme_score", 0, 1, output="gme_score"),
        Part("nexus", "NexusScore", "nexus_score", 0, 0.05, drop_zeros=True, output="nexus_score"),
        Part("natural", "NaturalScore", "natural_score", 1, 5, cut_low=True, output="natural_score"),
    )
}
"""The parts in the order of the board's columns."""

_OPEN = {
    "1.1": {"aes": 0.16, "smooth": 0.06, "ampl": 0.02, "face": 0.20, "gme": 0.12, "nexus": 0.20, "natural": 0.24},
    "1.0": {"aes": 0.12, "ampl": 0.12, "face": 0.20, "gme": 0.12, "nexus": 0.20, "natural": 0.24},
}
_HUMAN = {
    "1.1": {"aes": 0.18, "smooth": 0.09, "ampl": 0.03, "face": 0.25, "gme": 0.15, "natural": 0.30},
    "1.0": {"aes": 0.15, "ampl": 0.15, "face": 0.25, "gme": 0.15, "natural": 0.30},
}


def weights(version: str, track: str) -> Mapping[str, float]:
    """Weight of each part; they add up to 1.

    Raises:
        OptionError: another version or track.
    """
    if version not in VERSIONS or track not in TRACKS:
        known = f"versions {', '.join(VERSIONS)}; tracks {', '.join(TRACKS)}"
        raise OptionError("a board of OpenS2V has a version and a track", got=f"{version} {track}", fix=known)
    return _HUMAN[version] if track == "human" else _OPEN[version]


def cut(part: Part, values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Each video's value cut to the bounds; videos that do not count are left out."""
    found = np.asarray(values, dtype=np.float64)
    found = np.abs(found) if part.absolute else found
    found = found[found != 0] if part.drop_zeros else found
    found = np.minimum(found, part.high)
    return np.maximum(found, part.low) if part.cut_low else found


def cut_in_place(part: Part, values: np.ndarray) -> np.ndarray:
    """Each video's value cut to the bounds, where it stood; NaN for one without a value, and for one left out."""
    found = np.full(len(values), np.nan)
    counts = np.isfinite(values) & ~(part.drop_zeros & (values == 0))
    found[counts] = cut(part, values[counts])
    return found


def scaled(part: Part, value: float | np.ndarray) -> float | np.ndarray:
    """A mean, or values, brought to 0..1."""
    return (value - part.low) / (part.high - part.low)


@dataclass(frozen=True)
class Board:
    """One model's row.

    Args:
        version: the board.
        track: the track.
        parts: mean of each part in 0..1; None where no video has a value.
        n: videos behind it.
    """

    version: str
    track: str
    parts: Mapping[str, float | None]
    n: Mapping[str, int] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[str, ...]:
        """Parts without a value."""
        return tuple(key for key, value in self.parts.items() if value is None)

    @property
    def total(self) -> float | None:
        """The sum of weight × part; None where a part is missing."""
        return None if self.missing else self.partial

    @property
    def partial(self) -> float:
        """The sum over the parts that are there: less than the total by what is missing."""
        own = weights(self.version, self.track)
        return float(sum(own[key] * value for key, value in self.parts.items() if value is not None))

    @property
    def share(self) -> float:
        """The weight of the parts that are there; 1 when none is missing."""
        own = weights(self.version, self.track)
        return float(sum(own[key] for key, value in self.parts.items() if value is not None))

    @property
    def renormalised(self) -> float | None:
        """The partial sum by the weight that is there: no number of the board."""
        return self.partial / self.share if self.share else None


def make_board(values: Mapping[str, Sequence[float]], *, version: str, track: str) -> Board:
    """A row from the official values of the videos.

    Args:
        values: by part: one value a video that has one.
        version: the board.
        track: the track.
    """
    parts: dict[str, float | None] = {}
    counts: dict[str, int] = {}
    for key in weights(version, track):
        kept = cut(PARTS[key], values.get(key, ()))
        counts[key] = len(kept)
        parts[key] = float(scaled(PARTS[key], float(np.mean(kept)))) if len(kept) else None
    return Board(version, track, parts, counts)


def check_total(parts: Mapping[str, float], total: float, *, version: str, track: str, within: float = 1.5e-4) -> str:
    """Whether a stated total is the sum of its parts: "fits"; "swapped" where it fits only with smoothness and
    amplitude exchanged, as OpenS2V's web form writes them; or "differs".

    Args:
        parts: by key, in 0..1.
        total: in 0..1.
        version: the board.
        track: the track.
        within: what rounding may make.
    """
    own = weights(version, track)
    exchanged = {**parts, "smooth": parts.get("ampl", 0.0), "ampl": parts.get("smooth", 0.0)}
    for verdict, told in (("fits", parts), ("swapped", exchanged)):
        if abs(sum(weight * told.get(key, 0.0) for key, weight in own.items()) - total) <= within:
            return verdict
    return "differs"
