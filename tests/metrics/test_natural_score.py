"""natural_score with judges that do not ask anybody, and the layout of what would be asked."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.runs.test_visuals import frames_folder, rows_of

from beholder._errors import NoValue, OptionError, UserError
from beholder._identity import parse_spec
from beholder.backends.api.dialect import Wish
from beholder.backends.api.openai import OpenAI
from beholder.backends.api.pictures import Encoding
from beholder.backends.base import Made, ResolvedModel
from beholder.backends.columns import object_column
from beholder.backends.pool import register_model, resolve_model
from beholder.media.base import Picture
from beholder.media.sampling import frame_indices
from beholder.metrics.base import make_metric
from beholder.metrics.natural import DEFAULT_MODEL
from beholder.metrics.natural_prompt import OWN, PROMPTS
from beholder.records import ModelCard


class Judge:
    """Gives each pass its own reply; a `NoValue` is a failure."""

    batch = pair_batch = 4
    takes_video = True
    constants: Mapping[str, float] = {}

    def __init__(self, replies: Sequence[Any], name: str = "judge") -> None:
        self.replies, self.asked, self.frames = list(replies), [], []
        card = ModelCard(id=name, engine="own", family="own", arch="own", weights="")
        self.model = ResolvedModel(name, name, card, "", repr(replies), {}, "float32", capability="Judge")
        register_model(name, self)

    def prepare(self, pictures: Sequence[Picture]) -> Any:
        self.frames.append(len(pictures))
        return len(pictures)

    def reply(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], *, run: int, **settings: Any) -> Made:
        self.asked += [(run, text, settings) for _, text in pairs]
        reply = self.replies[run - 1]
        if isinstance(reply, NoValue):
            return Made({"text": object_column([""] * len(pairs))}, dict.fromkeys(range(len(pairs)), reply))
        return Made({"text": object_column([reply] * len(pairs)), "model": object_column(["m-2"] * len(pairs))})

    def close(self) -> None: ...


def judged(tmp_path: Path, replies: Sequence[Any], spec: str = "natural_score(model=judge)", frames: int = 20) -> Any:
    judge = Judge(replies)
    folder = tmp_path / "clip"
    clip = folder if folder.exists() else frames_folder(folder, frames)
    (row,) = rows_of(tmp_path, [{"output": str(clip)}], spec, out=f"run{len(list(tmp_path.iterdir()))}", max_failed=1.0)
    return row, json.loads(row["natural_score_evidence"] or "{}"), judge


def test_three_passes(tmp_path: Path) -> None:
    row, evidence, judge = judged(tmp_path, ["4", " 4\n", "Score: 5"])
    assert row["natural_score"] == pytest.approx(13 / 3)
    assert evidence["runs"] == [4, 4, 5]
    assert evidence["replies"] == ["4", " 4\n", "Score: 5"]
    assert evidence["std"] == pytest.approx(np.std([4, 4, 5], ddof=1))
    assert evidence["model"] == ["m-2"]
    assert evidence["frames"]["indices"] == list(range(16))
    assert sorted(run for run, _, _ in judge.asked) == [1, 2, 3]
    assert {text for _, text, _ in judge.asked} == {PROMPTS[OWN]}
    assert all(settings == {"temperature": "server", "max_tokens": 0} for _, _, settings in judge.asked)


def test_a_pass_that_failed_lowers_their_number(tmp_path: Path) -> None:
    row, evidence, _ = judged(tmp_path, ["4", "4", NoValue("failed", "error")])
    assert (row["natural_score"], evidence["n_runs"]) == (4.0, 2)
    assert evidence["runs"] == [4, 4, None]
    assert evidence["statuses"] == ["ok", "ok", "failed"]


@pytest.mark.parametrize(
    ("replies", "status"),
    [
        (["I can't help", "", "7"], "unparsable"),
        (["3 or 4"] * 3, "unparsable"),
        ([NoValue("refused", "no")] * 3, "refused"),
        ([NoValue("refused", "no"), "an essay", NoValue("failed", "x")], "refused"),
        ([NoValue("failed", "no answer")] * 3, "failed"),
    ],
)
def test_no_pass_has_a_mark(tmp_path: Path, replies: list[Any], status: str) -> None:
    row, evidence, _ = judged(tmp_path, replies)
    assert row["natural_score"] is None
    assert row["natural_score_status"] == status
    assert row["natural_score_reason"].startswith("no pass of 3 has a mark")
    assert evidence["n_runs"] == 0


def test_a_rerun_asks_nothing_twice(tmp_path: Path) -> None:
    first, _, judge = judged(tmp_path, ["4", "3", "2"])
    assert len(judge.asked) == 3
    again, _, other = judged(tmp_path, ["4", "3", "2"])
    assert other.asked == []
    assert again["natural_score"] == first["natural_score"] == 3.0


def test_settings_reach_the_judge(tmp_path: Path) -> None:
    spec = "natural_score(model=judge,runs=2,temperature=0.5,seed=7,frames=uniform:4)"
    _, evidence, judge = judged(tmp_path, ["1", "2"], spec)
    assert [settings for _, _, settings in judge.asked] == [
        {"temperature": 0.5, "max_tokens": 0, "seed": 7}, {"temperature": 0.5, "max_tokens": 0, "seed": 8},
    ]  # fmt: skip
    assert evidence["frames"]["indices"] == [0, 6, 12, 19]


def test_a_prompt_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text("How real?\n", encoding="utf-8")
    _, _, judge = judged(tmp_path, ["1"] * 3, f"natural_score(model=judge,prompt={path})")
    assert {text for _, text, _ in judge.asked} == {"How real?"}
    metric = make_metric(parse_spec(f"natural_score(prompt={path})"))
    assert metric.describe()["prompt_sha256"] != make_metric(parse_spec("natural_score")).describe()["prompt_sha256"]
    with pytest.raises(UserError, match="nowhere"):
        make_metric(parse_spec("natural_score(prompt=nowhere.txt)")).describe()


def test_a_wrong_temperature_ends_the_run_before_it_starts(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="temperature"):
        judged(tmp_path, ["1"] * 3, "natural_score(model=judge,temperature=warm)")


@pytest.mark.parametrize(
    ("total", "wanted"),
    [
        (15, list(range(15))),
        (16, list(range(16))),
        (17, list(range(16))),
        (31, list(range(16))),
        (100, [6 * i for i in range(16)]),
    ],
)
def test_the_official_frames(total: int, wanted: list[int]) -> None:
    assert frame_indices("stride:16", total).tolist() == wanted


def test_what_would_be_sent() -> None:
    encoding = Encoding(side=512, resize="area")
    picture = Picture(np.zeros((720, 1280, 3), np.uint8), (1280, 720), "RGB")
    sent = [encoding.encode(picture)] * 16
    image = Image.open(io.BytesIO(base64.b64decode(sent[0])))
    assert image.size == (512, 288)
    small = Image.open(
        io.BytesIO(base64.b64decode(encoding.encode(Picture(np.zeros((32, 64, 3), np.uint8), (64, 32), "RGB"))))
    )
    assert small.size == (512, 256), "small frames grow"
    body = OpenAI().body("gpt-4o-2024-11-20", sent, PROMPTS[OWN], Wish(0, "server", None), encoding, public=True)
    (message,) = body["messages"]
    assert message["role"] == "user"
    assert [part["type"] for part in message["content"]] == ["image_url"] * 16 + ["text"]
    assert all(set(part["image_url"]) == {"url"} for part in message["content"][:16])
    assert set(body) == {"model", "messages"}


def test_the_default_judge_says_how_it_sends() -> None:
    model = resolve_model(DEFAULT_MODEL, capability="Judge")
    assert model.id == "api:openai/gpt-4o-2024-11-20;resize=area;side=512"
    assert model.preprocessing["image"] == {
        "library": "pillow", "format": "jpeg", "max_side": 512, "interpolation": "area", "quality": 95,
        "subsampling": "4:2:0",
    }  # fmt: skip
    assert model.preprocessing["image"] != resolve_model("gpt-4o-2024-11-20", capability="Judge").preprocessing["image"]
