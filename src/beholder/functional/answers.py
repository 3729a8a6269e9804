"""From log probabilities of an answer to one number: variants by name, forms of yes and no, bounds.

A model that answers a question gives probabilities to tokens. Several tokens mean the same word ("Yes", "yes", " Yes",
"YES"), so their probabilities are added; a later form never replaces an earlier one. All sums are made of logarithms
in float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from beholder._errors import OptionError
from beholder.functional.similarity import choice

Variant = Literal["first_token", "sequence", "sequence_mean", "yes_no", "pooled"]
VARIANTS: tuple[str, ...] = get_args(Variant)

ABSENT = -1000.0
"""A token's log probability from here down stands for "not there": exp of it is 0 in float64. APIs send -9999."""

ROUNDING = 1e-6
"""By how much a log probability may exceed 0 through rounding; more is a fault."""

_NEEDS = {
    "first_token": ("first_token",),
    "sequence": ("sequence",),
    "sequence_mean": ("sequence", "n_answer"),
    "yes_no": ("yes", "no"),
    "pooled": ("yes", "no"),
}
_MARKS = "▁ĠĊĉ"  # SentencePiece's space, and the space, line feed and tab of byte-level vocabularies


class Forms(NamedTuple):
    """Token ids that say yes, and those that say no, each in rising order."""

    yes: tuple[int, ...]
    no: tuple[int, ...]


class Pooled(NamedTuple):
    """Log probabilities at the first answer position.

    Args:
        yes: of all forms of yes; -inf when none was told.
        no: of all forms of no.
        rest: of everything that the model did not tell; -inf when it told all.
    """

    yes: float
    no: float
    rest: float


class Answers(NamedTuple):
    """Probabilities with what can be said for sure.

    Args:
        values: (n,) float64 in [0, 1]; 0.0 where `unparsable` or `broken`, to be left unread.
        low: (n,) float64, the least that the value can be, given what the model did not tell.
        high: (n,) float64, the most.
        unparsable: (n,) bool: neither yes nor no (nor the answer's own token) was told.
        broken: (n,) bool: the input held NaN, or a log probability above 0.
    """

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    unparsable: np.ndarray
    broken: np.ndarray


def form_of(token: str) -> str | None:
    """What a token says: "yes", "no", or None for anything else.

    A token is taken as its text: the marks that tokenizers use for a space (SentencePiece "▁", byte-level "Ġ") or a
    line break, and CLIP's word end "</w>", are removed, then spaces around it, and case is ignored. WordPiece's
    continuations ("##no") are parts of longer words and say nothing; punctuation makes another token.

    >>> [form_of(token) for token in ("Yes", "▁yes", "ĠYES", " no", "No</w>", "##no", "Yes,", "not")]
    ['yes', 'yes', 'yes', 'no', 'no', None, None, None]
    """
    word = token.strip().removesuffix("</w>").strip(_MARKS).strip().casefold()
    return word if word in ("yes", "no") else None


def form_ids(vocabulary: Mapping[str, int]) -> Forms:
    """The ids of all single tokens that say yes or no: the one place that decides it, for every kind of tokenizer.

    Args:
        vocabulary: token as the tokenizer writes it (`get_vocab()`) → id.

    Returns:
        Ids of both; empty where the vocabulary has no such token.

    Differs from looking up "Yes" alone: a model that answers "yes" in lower case, or with a space in front, is heard.

    >>> form_ids({"▁Yes": 2163, "▁yes": 4273, "▁No": 465, "no": 29, "▁now": 230})
    Forms(yes=(2163, 4273), no=(29, 465))
    """
    found: dict[str, set[int]] = {"yes": set(), "no": set()}
    for token, number in vocabulary.items():
        form = form_of(token)
        if form is not None:
            found[form].add(int(number))
    return Forms(tuple(sorted(found["yes"])), tuple(sorted(found["no"])))


def pool(log_probabilities: Iterable[float]) -> float:
    """log(sum of exp(l)) over the forms of one word, in float64.

    Args:
        log_probabilities: log probabilities of single tokens; from -1000 down (-9999) they count as probability 0.

    Returns:
        The log probability of the word; -inf when no form is there. NaN in gives NaN out.

    >>> round(float(np.exp(pool([-0.1, -5.0]))), 2)
    0.91
    >>> pool([-9999.0]), pool([])
    (-inf, -inf)
    """
    values = np.asarray(list(log_probabilities), dtype=np.float64)
    return float(_logsumexp(np.where(values <= ABSENT, -np.inf, values)[None, :])[0])


def pool_top_tokens(tokens: Sequence[str], log_probabilities: Sequence[float]) -> Pooled:
    """What an API's list of top tokens says about yes and no.

    Args:
        tokens: tokens as the API writes them; every entry counts, also two that read the same.
        log_probabilities: their log probabilities; from -1000 down (-9999) they count as not told.

    Returns:
        Pooled log probabilities; `rest` is log(1 - the sum of all told ones), -inf when that is 0 or less.

    Raises:
        OptionError: lists of unequal length.

    Source: OpenAI's API reference, which names -9999.0 as the log probability of a token outside the top ones.

    >>> [round(float(np.exp(value)), 4) for value in pool_top_tokens(["Yes", "yes", "No"], [-0.1, -5.0, -4.0])]
    [0.9116, 0.0183, 0.0701]
    """
    if len(tokens) != len(log_probabilities):
        raise OptionError(
            "every token needs a log probability", got=f"{len(tokens)} tokens and {len(log_probabilities)} numbers"
        )
    words = [form_of(token) for token in tokens]
    yes, no = (pool(value for word, value in zip(words, log_probabilities) if word == form) for form in ("yes", "no"))
    told = float(np.exp(pool(log_probabilities)))
    return Pooled(yes, no, float(np.log1p(-told)) if told < 1 else -np.inf)


def read_logits(logits: npt.ArrayLike, answer: Sequence[int], forms: Forms) -> dict[str, np.ndarray]:
    """The columns of an answer out of a model's raw logits: softmax over the whole vocabulary, in float64.

    Args:
        logits: (n, k, v): row, position of the answer's token, vocabulary. Position t must have been computed with the
            tokens before t as input (teacher forcing).
        answer: (k,) ids of the answer's tokens, with the end token where the family's rule counts it.
        forms: ids of yes and no (`form_ids`); ids at or above v are left out.

    Returns:
        (n,) float64 log probabilities "first_token", "sequence", "yes", "no", "rest" (-inf: all is told), and
        "n_answer" (n,) int32. Without forms in the vocabulary "yes" and "no" are left out.

    Raises:
        OptionError: shapes that do not fit, or no answer at all.

    >>> columns = read_logits(np.log([[[0.7, 0.2, 0.1], [0.5, 0.25, 0.25]]]), [0, 2], Forms((0, 1), (2,)))
    >>> {name: np.exp(column).round(3).tolist() for name, column in columns.items() if name != "n_answer"}
    {'first_token': [0.7], 'sequence': [0.175], 'rest': [0.0], 'yes': [0.9], 'no': [0.1]}
    """
    array = np.asarray(logits)
    if not answer or array.ndim != 3 or array.shape[1] != len(answer) or not 0 <= min(answer) <= max(answer) < (
        array.shape[2]
    ):  # fmt: skip
        raise OptionError(
            "an answer of k tokens needs logits (n, k, v) and ids below v", got=f"{array.shape} and ids {list(answer)}"
        )
    values = array.astype(np.float64)
    values -= _logsumexp(values)[..., None]
    told = values[:, np.arange(len(answer)), list(answer)]
    columns = {
        "first_token": told[:, 0].copy(),
        "sequence": told.sum(axis=1),
        "n_answer": np.full(len(array), len(answer), dtype=np.int32),
        "rest": np.full(len(array), -np.inf),
    }
    kept = [[number for number in ids if number < array.shape[2]] for ids in forms]
    if all(kept):
        columns["yes"], columns["no"] = (_logsumexp(values[:, 0, ids]) for ids in kept)
    return columns


def probability(columns: Mapping[str, np.ndarray], variant: str = "first_token") -> Answers:
    """One probability a row, by the variant's name.

    first_token    exp(log p of the answer's first token)
    sequence       exp(sum of log p over the answer's tokens)
    sequence_mean  exp(mean of log p): the published rule of CLIP-FlanT5, LLaVA-1.5 and InstructBLIP. With T5's end
                   token it is sqrt(P(Yes)·P(</s> | Yes)): near P(Yes) for a sure model, but not it.
    yes_no         P(yes) / (P(yes) + P(no)), each over all its forms
    pooled         P(yes) over all its forms

    Args:
        columns: what a model gave (see `backends.base.AnswerScorer`): log probabilities "first_token", "sequence",
            "yes", "no", "rest", each (n,), and "n_answer" (n,).
        variant: which.

    Returns:
        Values in [0, 1] with bounds: where the model told only its top tokens, the mass `rest` may belong to either
        side, so a value p lies in [p, p + rest] (for yes_no: yes/(yes+no+rest) to (yes+rest)/(yes+no+rest)); where
        it told all, both bounds are the value. Bounds stay within [0, 1].

    Raises:
        OptionError: an unknown variant, or a column that the model does not give.

    Degenerate: `unparsable` where neither yes nor no was told (for first_token: nor the answer's token). The two
    sequence variants have no such case: they come from models that tell every token.

    Source: Lin et al. 2024, Evaluating Text-to-Visual Generation with Image-to-Text Generation, arXiv 2404.01291.

    >>> told = pool_top_tokens(["Yes", "yes", "No"], [-0.1, -5.0, -4.0])
    >>> columns = {name: np.array([value]) for name, value in told._asdict().items()}
    >>> answers = probability(columns, "pooled")
    >>> [round(float(part[0]), 4) for part in answers[:3]]
    [0.9116, 0.9116, 0.9817]
    """
    choice("variant", variant, Variant)
    missing = [name for name in _NEEDS[variant] if name not in columns]
    if missing:
        offered = [name for name in VARIANTS if all(need in columns for need in _NEEDS[name])]
        raise OptionError(
            f"the variant {variant} needs a model that gives {' and '.join(missing)}",
            got="one that does not",
            fix=f"Variants that it serves: {', '.join(offered) or 'none'}",
        )
    logs = {name: np.asarray(columns[name], dtype=np.float64) for name in _NEEDS[variant] if name != "n_answer"}
    rest = np.exp(np.asarray(columns.get("rest", np.full(len(next(iter(logs.values()))), -np.inf)), dtype=np.float64))
    broken = np.isnan(rest)
    for values in logs.values():
        broken = broken | np.isnan(values) | (values > ROUNDING)
    logs = {name: np.where(broken, -np.inf, np.minimum(values, 0.0)) for name, values in logs.items()}
    rest = np.where(broken, 0.0, np.minimum(rest, 1.0))
    return _finish(variant, columns, logs, rest, broken)


def _finish(
    variant: str,
    columns: Mapping[str, np.ndarray],
    logs: Mapping[str, np.ndarray],
    rest: np.ndarray,
    broken: np.ndarray,
) -> Answers:
    if variant.startswith("sequence"):
        lengths = np.maximum(np.asarray(columns["n_answer"]), 1) if variant == "sequence_mean" else 1
        values = np.exp(logs["sequence"] / lengths)
        return Answers(values, values.copy(), values.copy(), np.zeros(len(values), dtype=bool), broken)
    if variant == "first_token":
        values = np.exp(logs["first_token"])
        words = [np.asarray(columns[name]) for name in ("yes", "no") if name in columns]
        silent = np.isneginf(logs["first_token"]) & np.logical_and.reduce([word == -np.inf for word in words])
        unparsable = (silent & (len(words) > 0)) & ~broken
        return _bounded(values, values, values + rest, unparsable, broken)
    yes, no = logs["yes"], logs["no"]
    unparsable = np.isneginf(yes) & np.isneginf(no) & ~broken
    if variant == "pooled":
        return _bounded(np.exp(yes), np.exp(yes), np.exp(yes) + rest, unparsable, broken)
    with np.errstate(divide="ignore"):
        untold = np.log(rest)
    # Ratios of logarithms, so that two tiny probabilities keep their ratio.
    both = np.where(unparsable | broken, 0.0, np.logaddexp(yes, no))
    everything = np.logaddexp(both, untold)
    high = np.exp(np.logaddexp(yes, untold) - everything)
    return _bounded(np.exp(yes - both), np.exp(yes - everything), high, unparsable, broken)


def _bounded(
    values: np.ndarray, low: np.ndarray, high: np.ndarray, unparsable: np.ndarray, broken: np.ndarray
) -> Answers:
    unread = unparsable | broken
    kept = [np.where(unread, 0.0, np.clip(part, 0.0, 1.0)) for part in (values, low, high)]
    return Answers(kept[0], kept[1], kept[2], unparsable, broken)


def _logsumexp(values: np.ndarray) -> np.ndarray:
    """log(sum(exp)) over the last axis; -inf for rows of -inf only, and for empty rows."""
    peak = np.max(values, axis=-1, initial=-np.inf, keepdims=True)
    shift = np.where(np.isneginf(peak), 0.0, peak)
    with np.errstate(divide="ignore", invalid="ignore"):
        result: np.ndarray = np.log(np.sum(np.exp(values - shift), axis=-1)) + shift[..., 0]
    return result
