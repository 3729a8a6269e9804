"""A metric that compares asks for an `ImageTextEncoder`; the pool gives video-text models as what they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.models import make_tiny_clip
from tests.models_video import make_tiny_internvideo2, make_tiny_umt, make_tiny_videoprism, make_tiny_xclip

from beholder._errors import OptionError, WeightsMissingError
from beholder.backends import manage, pool
from beholder.backends.base import LoadOptions


def test_what_compares_is_found_as_what_it_is(tmp_path: Path) -> None:
    made = {
        f"umt:{make_tiny_umt(tmp_path / 'umt')}": "VideoTextEncoder",
        f"internvideo2:{make_tiny_internvideo2(tmp_path / 'internvideo2')}": "VideoTextEncoder",
        f"hf:{make_tiny_videoprism(tmp_path / 'videoprism')}": "VideoTextEncoder",
        f"xclip:{make_tiny_xclip(tmp_path / 'xclip')}": "Matcher",
        f"hf:{make_tiny_clip(tmp_path / 'clip')}": "ImageTextEncoder",
    }
    for name, capability in made.items():
        resolved = pool.resolve_model(name)
        assert resolved.capability == capability
        pool.load_model(resolved, device="cpu").close()
    with pytest.raises(OptionError, match=rf"It scores pairs: xclip:{tmp_path / 'xclip'}"):
        pool.resolve_model(f"hf:{tmp_path / 'xclip'}")
    with pytest.raises(OptionError, match="The same weights are umt-b16-25m-clip"):
        pool.resolve_model("umt-b16-25m-itm")


@pytest.mark.parametrize(
    ("name", "repos"),
    [
        ("umt-b16-25m-clip", ["zhiqiulin/umt_b16_25m", "google-bert/bert-base-uncased"]),
        ("internvl_c_13b_224px", ["OpenGVLab/InternVideo2-Stage2_1B-224p-f4", "google-bert/bert-base-uncased"]),
        ("xclip-base-patch32", ["microsoft/xclip-base-patch32"]),
        ("videoprism-lvt-base-f16r288", ["google/videoprism-lvt-base-f16r288"]),
        ("openai:ViT-B-32", ["openai/clip-vit-base-patch32"]),
    ],
)
def test_files_of_video_models_are_looked_for(name: str, repos: list[str], tmp_path: Path) -> None:
    options = LoadOptions(cache_dir=str(tmp_path), offline=True)
    looks = manage.where(name, options=options)
    assert looks
    assert all(look.found is None for look in looks)
    assert [
        part.repo for part in pool.file_engine(pool.parse_name_here(name)).wanted(pool.parse_name_here(name))
    ] == repos
    with pytest.raises(WeightsMissingError, match="must be on this machine"):
        manage.pull(name, options=options)


def test_models_in_memory_have_no_files() -> None:
    assert not manage.has_files("fake")
    assert manage.has_files("umt-l16-25m-itm")
