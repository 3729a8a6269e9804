"""Errors say what must hold, what was got and how to mend it, and survive pickling."""

from __future__ import annotations

import pickle

import pytest

from beholder._errors import (
    BeholderError,
    DeviceError,
    Fault,
    InputError,
    MediaError,
    MissingExtraError,
    NoValue,
    OptionError,
    UnknownNameError,
    UserError,
    near_names,
)


def test_three_parts() -> None:
    error = DeviceError("the device must exist", got="cuda", fix="Use --device cpu")
    assert str(error) == "the device must exist; got cuda. Use --device cpu."


def test_parts_may_be_absent() -> None:
    assert str(UserError("a must hold.")) == "a must hold."
    assert str(UserError("a must hold", fix="Do b.")) == "a must hold. Do b."


def test_unknown_names_suggest_near_ones() -> None:
    error = UnknownNameError("metric", "clipscore", ["clip_score", "clip_i", "pick_score"], fix="See: beholder list")
    assert str(error) == "unknown metric 'clipscore'. Did you mean clip_score? See: beholder list"
    assert isinstance(error, OptionError)


def test_nothing_near_suggests_nothing() -> None:
    assert str(UnknownNameError("metric", "zzz", ["clip_i"])) == "unknown metric 'zzz'."
    assert near_names("CLIP_I", ["clip_i"]) == ["clip_i"]


def test_all_faults_are_listed_with_their_rows() -> None:
    error = InputError("samples.jsonl", [Fault("no output", row=3), Fault("twice", row=7, where="id"), Fault("bad")])
    assert str(error).splitlines() == [
        "samples.jsonl has 3 faults:",
        "  row 3: no output",
        "  row 7, id: twice",
        "  bad",
    ]
    assert str(InputError("x", [Fault("bad", where="out")])) == "x has 1 fault:\n  out: bad"


def test_extras_name_the_command() -> None:
    assert 'pip install "beholder[video]"' in str(MissingExtraError("video input", "av", "video"))


@pytest.mark.parametrize(
    "error",
    [
        UserError("a", got="b", fix="c"),
        UnknownNameError("metric", "x", ["y"]),
        InputError("m", [Fault("bad", row=1)]),
        MissingExtraError("video", "av", "video"),
        NoValue("no_face", "none"),
        MediaError("missing", "gone"),
    ],
)
def test_errors_survive_pickling(error: BeholderError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)


def test_user_errors_exit_with_2() -> None:
    assert UserError("x").exit_code == 2


def test_what_was_got_need_not_be_a_text() -> None:
    """Plug-ins raise these errors too, and no type checker looks at them."""
    error = UserError("a rank must be 1 at least", got=0)  # type: ignore[arg-type]
    assert str(error) == "a rank must be 1 at least; got 0."
