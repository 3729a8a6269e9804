"""RA-CLIPScore: how much of an attribute an image shows, from its patch tokens, and where.

All functions take n images at once. Tokens come as the encoder gives them: P patches, row by row over the grid, and
one global token. Products are taken in float32, everything after them in float64.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.similarity import choice, normalise

Refine = Literal["mean", "none"]
GlobalLayer = Literal["L", "L-1"]


class PatchCosines(NamedTuple):
    """Cosines of tokens with the two prompts of C attributes; token 0 is the global one.

    Args:
        positive: (n, 1 + P, C) cosines with the positive prompt.
        negative: (n, 1 + P, C) cosines with the negative prompt.
        degenerate: (n,) bool: the image has a token, or its attributes a text, without direction.
    """

    positive: np.ndarray
    negative: np.ndarray
    degenerate: np.ndarray


class PatchScores(NamedTuple):
    """RA-CLIPScores and maps.

    Args:
        scores: (n, C) float64 in [0, 1].
        maps: (n, C, P) float64 in [0, 1]: refined patch scores, row by row over the grid.
        raw_global: (n, C) float64: the global token's own score.
    """

    scores: np.ndarray
    maps: np.ndarray
    raw_global: np.ndarray


def patch_cosines(
    global_token: npt.ArrayLike, patches: npt.ArrayLike, positive: npt.ArrayLike, negative: npt.ArrayLike
) -> PatchCosines:
    """Cosines of every token with every prompt.

    Args:
        global_token: (n, d) projected global tokens, any length.
        patches: (n, P, d) projected patch tokens, any length, half precision too.
        positive: (C, d) embeddings of the positive prompts, the same for all images; or (n, C, d).
        negative: the same of the negative prompts.

    Degenerate: a token or text that is zero or not finite marks its images; their cosines must not be read.

    >>> patch_cosines([[2.0, 0.0]], [[[0.0, 3.0]]], [[1.0, 0.0]], [[0.0, 1.0]]).positive[0, :, 0].tolist()
    [1.0, 0.0]
    """
    whole, parts = np.asarray(global_token), np.asarray(patches)
    if whole.ndim != 2 or parts.ndim != 3 or parts.shape[::2] != whole.shape:
        raise OptionError("tokens must be (n, d) and (n, P, d)", got=f"{whole.shape} and {parts.shape}")
    n, count, width = parts.shape
    units = normalise(parts.reshape(n * count, width))
    first = normalise(whole)
    tokens = np.concatenate([first.vectors[:, None], units.vectors.reshape(n, count, width)], axis=1)
    bad = first.degenerate | units.degenerate.reshape(n, count).any(axis=1)
    found = []
    for texts in (positive, negative):
        vectors, flags = _unit_texts(np.asarray(texts), width)
        # One product of the same shape an image: a row's bits do not depend on how many rows there are.
        found.append(np.matmul(tokens, np.swapaxes(vectors, -1, -2)).astype(np.float64))
        bad = bad | flags
    return PatchCosines(found[0], found[1], bad)


def _unit_texts(texts: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    if texts.ndim not in (2, 3) or texts.shape[-1] != width:
        raise OptionError(f"texts must be embeddings of the tokens' width {width}", got=str(texts.shape))
    units = normalise(texts.reshape(-1, width))
    flags = np.asarray(units.degenerate.reshape(texts.shape[:-1]).any(axis=-1))
    return units.vectors.reshape(texts.shape), flags


def dual_probability(positive: npt.ArrayLike, negative: npt.ArrayLike, *, tau: float) -> np.ndarray:
    """Softmax over the pair of prompts: 1 / (1 + exp(−tau·(s⁺ − s⁻))), eqs. 3 and 4.

    Args:
        positive: cosines s⁺ with the positive prompt, any shape.
        negative: cosines s⁻, same shape.
        tau: temperature, above 0 (CLIP's logit scale).

    Returns:
        Float64 in [0, 1]; swapping the prompts gives 1 − r.

    Source: arXiv 2608.12088, eqs. 3 and 4. That the products are cosines and tau the logit scale is our reading.

    >>> dual_probability([0.25], [0.25], tau=100.0).tolist()
    [0.5]
    """
    _above_zero("tau", tau)
    half = 0.5 * tau * (np.asarray(positive, dtype=np.float64) - np.asarray(negative, dtype=np.float64))
    return 0.5 * (1.0 + np.tanh(half))


def refine(raw: npt.ArrayLike, attention: npt.ArrayLike, *, renormalize_rows: bool = True) -> np.ndarray:
    """Spreads patch scores along the encoder's own attention: r~_j = sum_k A[j, k]·r_k, eq. 8.

    Args:
        raw: (n, P, C) scores of the patches.
        attention: (n, P, P) attention among patches, averaged over heads and the layers 1 … L−1.
        renormalize_rows: True makes each row sum to 1 first, so that refined scores are averages of raw ones and a
            constant map stays constant; False keeps what was lost to the global token.

    Returns:
        (n, P, C) float64.

    Degenerate: a row of attention that sums to 0 keeps its patch's own score.

    Source: arXiv 2608.12088, eq. 8; averaging heads and dropping the global token are our reading.

    >>> refine([[[0.0], [1.0]]], [[[0.2, 0.2], [0.0, 0.4]]])[0, :, 0].tolist()
    [0.5, 1.0]
    """
    scores, weights = np.asarray(raw, dtype=np.float64), np.asarray(attention).astype(np.float64)
    if scores.ndim != 3 or weights.shape != (*scores.shape[:2], scores.shape[1]):
        raise OptionError(
            "raw scores must be (n, P, C) and attention (n, P, P)", got=f"{scores.shape}, {weights.shape}"
        )
    if renormalize_rows:
        total = weights.sum(axis=2, keepdims=True)
        lost = total[..., 0] <= 0
        weights = weights / np.where(total <= 0, 1.0, total)
        weights[lost] = np.broadcast_to(np.eye(scores.shape[1]), weights.shape)[lost]
    # Rounding carries an average of ones over 1.
    refined: np.ndarray = np.clip(np.matmul(weights, scores), 0.0, 1.0)
    return refined


def aggregate(
    positive: npt.ArrayLike, refined: npt.ArrayLike, *, tau_agg: float, include_cls: bool = True
) -> np.ndarray:
    """One score an image: sum_j softmax_j(tau_agg·s⁺_j)·r~_j, eq. 9.

    Args:
        positive: (n, 1 + P, C) cosines with the positive prompt; token 0 is the global one.
        refined: (n, 1 + P, C) scores.
        tau_agg: temperature of the softmax over tokens, above 0.
        include_cls: whether the global token takes part.

    Returns:
        (n, C) float64, within the range of `refined`.

    Source: arXiv 2608.12088, eq. 9; temperature and the global token's part are not stated there.

    >>> aggregate([[[0.2], [0.2]]], [[[0.0], [1.0]]], tau_agg=100.0).tolist()
    [[0.5]]
    """
    _above_zero("tau_agg", tau_agg)
    start = 0 if include_cls else 1
    logits = tau_agg * np.asarray(positive, dtype=np.float64)[:, start:]
    scores = np.asarray(refined, dtype=np.float64)[:, start:]
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: np.ndarray = (weights * scores).sum(axis=1) / weights.sum(axis=1)
    return result


def token_weights(positive: npt.ArrayLike, *, tau_agg: float) -> np.ndarray:
    """(n, 1 + P, C) weights of the tokens in `aggregate`; they sum to 1 over tokens.

    >>> token_weights([[[0.2], [0.2]]], tau_agg=1.0)[0, :, 0].tolist()
    [0.5, 0.5]
    """
    _above_zero("tau_agg", tau_agg)
    logits = tau_agg * np.asarray(positive, dtype=np.float64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
    return result


def ra_clip_scores(
    cosines: PatchCosines,
    attention: npt.ArrayLike,
    *,
    tau: float,
    tau_agg: float | None = None,
    refine_by: Refine = "mean",
    renormalize_rows: bool = True,
    include_cls: bool = True,
    dual: bool = True,
    local: bool = True,
) -> PatchScores:
    """RA-CLIPScore of n images for C attributes, each attribute by itself.

    Args:
        cosines: from `patch_cosines`; its global token decides between the layers L and L−1.
        attention: (n, P, P) from the encoder.
        tau: temperature of the pair of prompts.
        tau_agg: temperature over tokens; `tau` when None.
        refine_by: "mean" spreads patch scores by attention, "none" leaves them.
        renormalize_rows: see `refine`.
        include_cls: whether the global token takes part in the sum.
        dual: False drops the negative prompt: scores are (s⁺ + 1)/2.
        local: False takes the global token's score alone.

    Raises:
        OptionError: temperatures not above 0, unknown names, shapes that do not fit.

    Source: arXiv 2608.12088, eqs. 3 to 9, from the paper's text. Unstated there and chosen here: cosines with the
    logit scale, heads averaged, rows renormalised, the global token taking part in the sum.
    """
    choice("refine", refine_by, Refine)
    if dual:
        raw = dual_probability(cosines.positive, cosines.negative, tau=tau)
    else:
        raw = np.clip((cosines.positive + 1.0) / 2.0, 0.0, 1.0)
    patches = raw[:, 1:]
    if refine_by == "mean":
        patches = refine(patches, attention, renormalize_rows=renormalize_rows)
    refined = np.concatenate([raw[:, :1], patches], axis=1)
    if local:
        scores = aggregate(
            cosines.positive, refined, tau_agg=tau if tau_agg is None else tau_agg, include_cls=include_cls
        )
    else:
        scores = raw[:, 0]
    return PatchScores(scores, np.ascontiguousarray(np.swapaxes(patches, 1, 2)), raw[:, 0])


def global_column(layer: str) -> str:
    """The feature column of the global token: of the last layer ("L"), or with its last attention bypassed ("L-1").

    >>> global_column("L")
    'embedding'
    """
    if layer not in get_args(GlobalLayer):
        raise OptionError("global_layer must be L or L-1", got=repr(layer))
    return "embedding" if layer == "L" else "embedding_bypassed"


def _above_zero(name: str, value: float) -> None:
    if not value > 0 or not np.isfinite(value):
        raise OptionError(f"{name} must be a number above 0", got=repr(value))
