"""The printed name of a metric parses back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder._errors import IdentityError
from beholder._identity import MetricSpec, format_spec, parse_spec


@pytest.mark.parametrize(
    ("text", "name", "options", "label"),
    [
        ("clip_score", "clip_score", {}, None),
        ("clip_score()", "clip_score", {}, None),
        ("clip_score(model=openai:ViT-L-14)", "clip_score", {"model": "openai:ViT-L-14"}, None),
        ("clip_score,model=openai:ViT-L/14,as=l14", "clip_score", {"model": "openai:ViT-L/14"}, "l14"),
        ("m( a = 1 , b = 2.5 , c = true )", "m", {"a": 1, "b": 2.5, "c": True}, None),
        ('m(prefix="a, (b)")', "m", {"prefix": "a, (b)"}, None),
        ('m(prefix="")', "m", {"prefix": ""}, None),
        ("m,prefix=", "m", {"prefix": ""}, None),
        ("m(prefix=, a=1)", "m", {"prefix": "", "a": 1}, None),
        ('m(ids=["x", "y"])', "m", {"ids": ("x", "y")}, None),
        ("m(size=007a)", "m", {"size": "007a"}, None),
        ('m(size="7")', "m", {"size": "7"}, None),
    ],
)
def test_both_forms_parse(text: str, name: str, options: dict[str, object], label: str | None) -> None:
    spec = parse_spec(text)
    assert (spec.name, dict(spec.options), spec.label) == (name, options, label)


def test_both_forms_are_one_identity() -> None:
    assert str(parse_spec("clip_i(reduce=max, model=a:b)")) == str(parse_spec("clip_i,model=a:b,reduce=max,as=x"))


@pytest.mark.parametrize("text", ["", "(a=1)", "m(a=1", "m(a)", "m(a=1,a=2)", "m a", "m(a=1)x", 'm(a="x)', "m,"])
def test_nonsense_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(IdentityError, match="position"):
        parse_spec(text)


values = st.one_of(
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.lists(st.text(max_size=5), max_size=3).map(tuple),
)


@given(st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(lambda k: k != "as"), values))
def test_what_is_printed_parses_back_to_the_same_values_and_types(options: dict[str, object]) -> None:
    text = format_spec("metric", options)
    again = parse_spec(text)
    assert again == MetricSpec("metric", options)
    assert {key: type(value) for key, value in again.options.items()} == {k: type(v) for k, v in options.items()}
    assert str(again) == text


def test_numbers_that_are_not_finite_have_no_place() -> None:
    with pytest.raises(IdentityError):
        format_spec("m", {"a": float("nan")})
