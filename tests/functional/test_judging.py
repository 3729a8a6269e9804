"""A judge's reply to a mark: one, or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.functional.judging import read_mark

CLEAR = {
    "4": 4, " 4\n": 4, "Score: 4": 4, "4/5": 4, "4 / 5": 4, "4.5": 4.5, "4.5/5": 4.5, "**4**": 4, "Rating: 5.": 5,
    "4 out of 5": 4, "4.": 4, '{"score": 4, "explanation": "16 frames, 3 cuts"}': 4, '{"Score": "3/5"}': 3,
    '```json\n{"rating": 2}\n```': 2, '"4"': 4, "The 16 frames hold together well. Score: 4": 4, "４": 4,
    "评分：4": 4, "4分": 4, "4分（满分5分）": 4, "评分：四": 4, "四分": 4, "我认为这段视频可以打3分。": 3, "Four": 4,
    "The score is 4. Yes, 4.": 4, "(1)": 1, "2 people walk by. Score: 4": 4, "Frame 3 is soft, all others sharp: 4": 4,
    "有3个人在走路。评分：4": 4, "4 - probably real": 4, "I give it a 4 because of the light": 4, "4 points": 4,
    "4⁄5": 4,
}  # fmt: skip
UNCLEAR = [
    "", "  \n", "I can't help with that.", "0", "7", "6/5", "-4", "3 or 4", "3-4", "between 3 and 4", "3～4分", "4/10",
    "8 out of 10", "1. Common sense: fine. 2. Physics: fine.", "v4", "gpt-4", "4th", "3.5.2", "4,5", "NaN", "null",
    "true", '{"score": null}', '{"score": [3, 4]}', '{"score": 9}',
    '{"score": 4, "rating": 2}', '{"verdict": "real"}', "抱歉，我无法评价。",
    "3分或4分", "3½", "3 ½", "½", "五分之四", "这个视频有3个人在走路。", "第2帧模糊",
    "2 people are walking on a street. It looks realistic.", "Frame 3 shows a melted hand, so no mark can be given.",
    "The video has 1 issue.", "There are 4 left fingers on the hand.", "I see 2 small glitches.",
    "The video looks quite real to me, although the hands are a little soft in places.",
]  # fmt: skip


@pytest.mark.parametrize(("text", "mark"), CLEAR.items())
def test_one_mark(text: str, mark: float) -> None:
    assert read_mark(text) == (mark, "")


@pytest.mark.parametrize("text", UNCLEAR)
def test_no_mark(text: str) -> None:
    found = read_mark(text)
    assert found.value is None
    assert found.reason


@given(st.text(max_size=60))
def test_any_text_gives_a_mark_in_range_or_a_reason(text: str) -> None:
    found = read_mark(text)
    assert (found.value is None) == bool(found.reason)
    assert found.value is None or 1 <= found.value <= 5


@given(st.integers(1, 5), st.text(alphabet="abc xyz.!?\n", max_size=30))
def test_words_around_a_mark_do_not_matter(mark: int, words: str) -> None:
    assert read_mark(f"{words} {mark} {words}").value == mark


def test_other_scales() -> None:
    assert read_mark("8", low=1, high=10).value == 8
    assert read_mark("8/10", low=1, high=10).value == 8
