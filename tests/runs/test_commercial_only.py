"""--commercial-only: refused before anything is looked for, with every model and its licence."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.runs.helpers import CountingEncoder, counting, write_set

import beholder
from beholder._errors import OptionError
from beholder.runs.config import make_config
from beholder.runs.plan import make_plan


def refusal(*metrics: str) -> str:
    """What a run of these metrics is refused with; no weights are on this machine, and none are asked for."""
    config = make_config({"metrics": metrics, "commercial_only": True, "offline": True})
    with pytest.raises(OptionError) as caught:
        make_plan(config)
    return str(caught.value)


def test_models_that_forbid_it_and_models_that_were_not_checked() -> None:
    text = refusal("facesim_cur", "facesim_cur(model=insightface)", "pick_score")
    assert "curricularface:ir-101" in text
    assert "non-commercial research only; no commercial use; for facesim_cur" in text
    assert "insightface" in text
    assert "pickscore-v1 (licence not checked; commercial use not checked; for pick_score)" in text


def test_all_slots_count() -> None:
    # The head may be used, the encoder's card does not say so.
    text = refusal("laion_aesthetic")
    assert "openai:ViT-L-14" in text
    assert "laion-aesthetic-v2" not in text.replace("laion_aesthetic", "")


def test_models_without_a_card_are_refused() -> None:
    counting()
    assert "counting" in refusal("clip_score(model=counting)")
    assert "it has no card" in refusal("clip_score(model=hf:somebody/some-model)")


def test_what_may_be_used_runs(tmp_path: Path) -> None:
    encoder = CountingEncoder("free")
    encoder.model = dataclasses.replace(
        encoder.model, card=dataclasses.replace(encoder.model.card, licence="CC0-1.0", commercial=True)
    )
    beholder.register_encoder("free", encoder)
    manifest = str(write_set(tmp_path, 2))
    metrics = ["clip_score(model=free)", "copy_check(model=free)"]
    run = beholder.evaluate(
        manifest, metrics=metrics, commercial_only=True, out=str(tmp_path / "run"), store=str(tmp_path / "store")
    )
    assert run.n == 2
    with pytest.raises(OptionError, match="fake"):
        beholder.evaluate(
            manifest, metrics=[*metrics, "clip_t(model=fake)"], commercial_only=True, out=str(tmp_path / "b")
        )
    assert not (tmp_path / "b").exists()
