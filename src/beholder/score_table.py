"""Scores of a few visuals and texts as a table, and what people hand in as visuals and texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beholder._errors import OptionError, UserError
from beholder.manifest.cells import CellError, unicode_text
from beholder.media.base import Medium
from beholder.records import Score, Status

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from beholder.runs.plan import Plan


@dataclass(frozen=True)
class ScoredPair:
    """One score of `beholder.score`, with the names of what was scored."""

    image: str
    text: str | None
    score: Score


@dataclass(frozen=True)
class ScoreTable:
    """What `beholder.score` gives, whatever the input was.

    Args:
        rows: one entry a pair, images outermost.
        images: names of the images.
        texts: the texts; (None,) when none were given.
        metric: printed identity.
        notices: what the user should know.
    """

    rows: tuple[ScoredPair, ...]
    images: tuple[str, ...]
    texts: tuple[str | None, ...]
    metric: str
    notices: tuple[str, ...] = ()

    @property
    def matrix(self) -> np.ma.MaskedArray[Any, Any]:
        """(images, texts) float64, masked where there is no value; (images, 1) for pairs and without texts."""
        import numpy as np

        values = [0.0 if row.score.value is None else row.score.value for row in self.rows]
        mask = [row.score.value is None for row in self.rows]
        shape = (len(self.images), len(self.rows) // len(self.images))
        return np.ma.MaskedArray(np.reshape(values, shape), np.reshape(mask, shape))

    def __iter__(self) -> Iterator[ScoredPair]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __float__(self) -> float:
        if len(self.rows) != 1:
            raise UserError("float() needs exactly one score", got=f"{len(self.rows)}", fix="Use .matrix")
        score = self.rows[0].score
        if score.value is None:
            raise UserError("float() needs a score with a value", got=f"status {score.status} ({score.reason})")
        return score.value


def score_table(
    table: pa.Table,
    plan: Plan,
    couples: Sequence[tuple[Medium, str | None]],
    media: Sequence[Medium],
    captions: Sequence[str | None],
    notices: Sequence[str],
    *,
    pairs: bool,
) -> ScoreTable:
    """The scores of couples of a visual and a text, which the rows of `table` hold in their order."""
    from beholder.runs.plan import score_names

    identity = plan.metrics[0].metric.identity
    columns = [
        table.column(name).to_pylist() if name in table.column_names else [None] * len(couples)
        for name in score_names(plan.metrics[0].label)[:4]
    ]
    rows = []
    for at, ((medium, text), value, status, reason, evidence) in enumerate(zip(couples, *columns, strict=True)):
        found = None if evidence is None else json.loads(evidence)
        rows.append(ScoredPair(medium.name, text, Score(str(at), identity, value, Status(status), reason, found)))
    texts = (None,) if pairs else tuple(captions)
    return ScoreTable(tuple(rows), tuple(medium.name for medium in media), texts, identity, tuple(notices))


def media_list(value: Any, *, value_range: tuple[float, float] | None = None) -> list[Medium]:
    """One visual or several as media; a list in the list, or an array of four axes in it, is a video of frames.

    Raises:
        OptionError: an array of four axes in the place of the list, which could be either.
    """
    if getattr(value, "ndim", None) == 4:
        raise OptionError(
            "visuals must be one, or a list of them",
            got=f"an array of four axes {tuple(value.shape)}, which may be a batch of pictures or one video",
            fix="Give list(array) for pictures, [array] for a video",
        )
    from beholder.media.sources import as_medium
    from beholder.media.visual import FramesMedium, is_frames

    media: list[Medium] = []
    for item in _several(value):
        if not is_frames(item):
            media.append(as_medium(item, value_range=value_range))
            continue
        frames = list(item)
        if frames:  # Frames are looked at later, one by one; what no frame could be is told at the call.
            as_medium(frames[0], value_range=value_range)
        media.append(FramesMedium(frames, value_range=value_range))
    return media


def pairs_error(n_images: int, n_texts: int) -> OptionError:
    """Lists of unequal length where picture i belongs to text i."""
    return OptionError(
        "pairs need as many images as texts",
        got=f"{n_images} image{'' if n_images == 1 else 's'} and {n_texts} text{'' if n_texts == 1 else 's'}",
        fix="Give lists of equal length, or leave pairs out for every image with every text",
    )


def mask_list(value: Any, count: int) -> list[Any]:
    """One mask for each of `count` images, as samples have them; None for each where none were given.

    Raises:
        OptionError: another number of masks.
    """
    from beholder.manifest.schema import is_written_mask
    from beholder.media.sources import as_medium

    if value is None:
        return [None] * count
    masks = [mask if mask is None or is_written_mask(mask) else as_medium(mask) for mask in _several(value)]
    if len(masks) != count:
        raise OptionError("there must be one mask for each image", got=f"{len(masks)} masks and {count} images")
    return masks


def _several(value: Any) -> list[Any]:
    """One visual or several as a list. An open file is one image, though it can be iterated."""
    if value is None:
        return []
    several = isinstance(value, (list, tuple, Iterator)) and not hasattr(value, "read")
    return list(value) if several else [value]


def checked_texts(value: Any, name: str) -> list[Any]:
    """One text or several as a list; None stands for a text that is not there."""
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise OptionError(f"{name} must be a text or a list of texts", got=type(value).__name__)
    texts: list[str | None] = [value] if isinstance(value, str) else list(value)
    for text in texts:
        if text is not None and not isinstance(text, str):
            raise OptionError(f"every item of {name} must be a text", got=repr(text))
        if text is not None:
            try:
                unicode_text(text)
            except CellError as error:
                raise OptionError(f"an item of {name} {error}") from error
    return texts
