"""Log probabilities to one number: each rule against arithmetic written out here."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder._errors import OptionError
from beholder.functional.answers import (
    VARIANTS,
    Forms,
    form_ids,
    form_of,
    pool,
    pool_top_tokens,
    probability,
    read_logits,
)


def _columns(**logs: float) -> dict[str, np.ndarray]:
    return {name: np.array([value]) for name, value in logs.items()}


def test_two_forms_of_yes_are_added_not_overwritten() -> None:
    told = pool_top_tokens(["Yes", "yes"], [-0.1, -5.0])
    answers = probability(_columns(**told._asdict()), "pooled")
    assert answers.values[0] == pytest.approx(math.exp(-0.1) + math.exp(-5.0), abs=1e-12)
    assert round(float(answers.values[0]), 2) == 0.91  # overwriting gives exp(-5) = 0.0067
    reverse = pool_top_tokens(["yes", "Yes"], [-5.0, -0.1])
    assert reverse == pytest.approx(told)


def test_bounds_hold_the_mass_that_was_not_told() -> None:
    told = pool_top_tokens([" Yes", "No", "Maybe"], [math.log(0.5), math.log(0.2), math.log(0.1)])
    columns = _columns(**told._asdict())
    pooled, ratio = probability(columns, "pooled"), probability(columns, "yes_no")
    assert (pooled.values[0], pooled.low[0], pooled.high[0]) == pytest.approx((0.5, 0.5, 0.7))
    assert (ratio.values[0], ratio.low[0], ratio.high[0]) == pytest.approx((5 / 7, 0.5 / 0.9, 0.7 / 0.9))


def test_all_told_leaves_no_room() -> None:
    told = pool_top_tokens(["Yes", "No"], [math.log(0.75), math.log(0.25)])
    answers = probability(_columns(**told._asdict()), "yes_no")
    assert answers.low[0] == pytest.approx(0.75)
    assert answers.high[0] == pytest.approx(0.75)


@pytest.mark.parametrize("variant", ["pooled", "yes_no"])
def test_neither_yes_nor_no_is_unparsable_not_zero(variant: str) -> None:
    told = pool_top_tokens(["Maybe", "The"], [-0.7, -0.9])
    answers = probability(_columns(**told._asdict()), variant)
    assert answers.unparsable.tolist() == [True]
    only_no = pool_top_tokens(["No", "The"], [-0.2, -2.0])
    answers = probability(_columns(**only_no._asdict()), variant)
    assert answers.unparsable.tolist() == [False]
    assert answers.values[0] == 0.0


def test_the_sentinel_of_an_absent_token_is_no_probability() -> None:
    told = pool_top_tokens(["No", "Yes"], [-0.05, -9999.0])
    assert told.yes == -math.inf
    assert probability(_columns(**told._asdict()), "yes_no").values[0] == 0.0
    silent = pool_top_tokens(["Yes", "No"], [-9999.0, -9999.0])
    assert probability(_columns(**silent._asdict()), "pooled").unparsable.tolist() == [True]


def test_first_token_is_unparsable_only_when_nothing_was_heard() -> None:
    columns = {name: np.array([-math.inf, -math.inf, -1.0]) for name in ("first_token", "yes", "no")}
    columns["no"] = np.array([-math.inf, -0.5, -0.5])
    assert probability(columns, "first_token").unparsable.tolist() == [True, False, False]
    assert probability({"first_token": np.array([-math.inf])}, "first_token").unparsable.tolist() == [False]


def test_sequence_rules() -> None:
    columns = {"sequence": np.array([-1.2, -0.4]), "n_answer": np.array([3, 2], dtype=np.int32)}
    assert probability(columns, "sequence").values == pytest.approx([math.exp(-1.2), math.exp(-0.4)])
    assert probability(columns, "sequence_mean").values == pytest.approx([math.exp(-0.4), math.exp(-0.2)])


def test_a_tiny_yes_against_a_tinier_no_keeps_its_ratio() -> None:
    answers = probability(_columns(yes=-900.0, no=-901.0), "yes_no")
    assert answers.values[0] == pytest.approx(1 / (1 + math.exp(-1.0)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_broken_numbers_are_flagged_and_never_leave(variant: str) -> None:
    columns = {
        name: np.array([math.nan, 0.5, 1e-9, -1.0]) for name in ("first_token", "sequence", "yes", "no")
    } | {"n_answer": np.full(4, 2), "rest": np.full(4, -math.inf)}  # fmt: skip
    answers = probability(columns, variant)
    assert answers.broken.tolist() == [True, True, False, False]
    assert np.isfinite(np.stack(answers[:3])).all()
    assert (np.stack(answers[:3])[:, :2] == 0.0).all()


def test_what_a_model_does_not_give_is_named() -> None:
    with pytest.raises(OptionError, match=r"(?s)sequence and n_answer.*first_token"):
        probability(_columns(first_token=-1.0), "sequence_mean")
    with pytest.raises(OptionError, match="variant"):
        probability(_columns(first_token=-1.0), "mean")


def test_logits_against_a_softmax_written_out() -> None:
    logits = np.random.default_rng(0).normal(0, 4, (3, 2, 9)).astype(np.float32)
    columns = read_logits(logits, [5, 1], Forms((2, 5), (3, 8)))
    for row in range(3):
        masses = [[math.exp(float(value)) for value in logits[row, place]] for place in range(2)]
        shares = [[mass / sum(place) for mass in place] for place in masses]
        assert math.exp(columns["first_token"][row]) == pytest.approx(shares[0][5], rel=1e-12)
        assert math.exp(columns["sequence"][row]) == pytest.approx(shares[0][5] * shares[1][1], rel=1e-12)
        assert math.exp(columns["yes"][row]) == pytest.approx(shares[0][2] + shares[0][5], rel=1e-12)
        assert math.exp(columns["no"][row]) == pytest.approx(shares[0][3] + shares[0][8], rel=1e-12)
    assert columns["n_answer"].tolist() == [2, 2, 2]
    assert (columns["rest"] == -np.inf).all()
    assert all(column.dtype == np.float64 for name, column in columns.items() if name != "n_answer")


def test_large_logits_do_not_overflow() -> None:
    columns = read_logits(np.array([[[1e4, 0.0, 1e4]]]), [0], Forms((0,), (1,)))
    assert columns["first_token"][0] == pytest.approx(math.log(0.5))
    assert columns["no"][0] == pytest.approx(-1e4 - math.log(2))


def test_a_vocabulary_without_the_words_gives_no_yes_and_no() -> None:
    columns = read_logits(np.zeros((1, 1, 4)), [1], Forms((9,), (2,)))
    assert "yes" not in columns
    assert probability(columns, "first_token").values[0] == pytest.approx(0.25)


@pytest.mark.parametrize(("shape", "answer"), [((2, 3), [0]), ((1, 2, 3), [0]), ((1, 1, 3), [3]), ((1, 0, 3), [])])
def test_logits_that_do_not_fit_are_refused(shape: tuple[int, ...], answer: list[int]) -> None:
    with pytest.raises(OptionError, match="an answer of k tokens"):
        read_logits(np.zeros(shape), answer, Forms((0,), (1,)))


def test_forms_of_every_kind_of_tokenizer() -> None:
    vocabulary = {
        "▁Yes": 1, "▁yes": 2, "Yes": 3, "YES": 4, "ĠYes": 5, "Ġyes": 6, "yes</w>": 7, " yes": 8, "ĊYes": 9,
        "▁No": 11, "no": 12, "ĠNO": 13, "##no": 20, "##yes": 21, "yesterday": 22, "Yes.": 23, "▁not": 24, "▁": 25,
        "Ġnone": 26, "y": 27, "es": 28,
    }  # fmt: skip
    assert form_ids(vocabulary) == Forms((1, 2, 3, 4, 5, 6, 7, 8, 9), (11, 12, 13))
    assert form_of("") is None


def test_unequal_lists_are_refused() -> None:
    with pytest.raises(OptionError, match="log probability"):
        pool_top_tokens(["Yes"], [])


@settings(deadline=None)
@given(st.lists(st.floats(-50, 0), max_size=6))
def test_pooling_is_a_sum_of_probabilities(values: list[float]) -> None:
    assert math.exp(pool(values)) == pytest.approx(math.fsum(math.exp(value) for value in values), rel=1e-9)


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_value_lies_within_its_bounds(yes: float, no: float, rest: float) -> None:
    total = yes + no + rest or 1.0
    with np.errstate(divide="ignore"):
        columns = {name: np.log([share / total]) for name, share in (("yes", yes), ("no", no), ("rest", rest))}
    for variant in ("pooled", "yes_no"):
        answers = probability(columns, variant)
        assert answers.low[0] <= answers.values[0] + 1e-12
        assert answers.values[0] <= answers.high[0] + 1e-12
        assert 0 <= answers.low[0] <= answers.high[0] + 1e-12 <= 1 + 1e-12
