"""Weights that do not fit, are damaged or dangerous are refused, with a message that lists what is wrong."""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.backends_pictures import noise_picture

from beholder._errors import (
    DeviceError,
    ModelError,
    OptionError,
    WeightsMismatchError,
    WeightsMissingError,
)
from beholder.backends.base import LoadOptions
from beholder.backends.devices import choose_dtype
from beholder.backends.pool import load_model, notices, resolve_model

Folder = Callable[[str], Path]


def change_weights(folder: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    from safetensors.numpy import load_file, save_file

    state = dict(load_file(folder / "model.safetensors"))
    change(state)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def change_json(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def drop(state: dict[str, np.ndarray], key: str) -> None:
    del state[key]


def load(folder: Path) -> Any:
    return load_model(resolve_model(str(folder)), device="cpu")


def test_a_missing_key_is_an_error_that_names_it(tiny_copy: Folder) -> None:
    folder = tiny_copy("clip")
    change_weights(folder, lambda state: drop(state, "visual_projection.weight"))
    with pytest.raises(WeightsMismatchError, match=r"1 missing: visual_projection\.weight"):
        load(folder)


def test_an_extra_key_is_an_error_that_names_it(tiny_copy: Folder) -> None:
    folder = tiny_copy("clip")
    change_weights(folder, lambda state: state.update({"vision_model.adapter": np.zeros(2, np.float32)}))
    with pytest.raises(WeightsMismatchError, match=r"1 unexpected: vision_model\.adapter"):
        load(folder)


def test_a_wrong_shape_is_an_error_that_gives_both(tiny_copy: Folder) -> None:
    folder = tiny_copy("clip")
    change_weights(folder, lambda state: state.update({"text_projection.weight": np.zeros((5, 3), np.float32)}))
    with pytest.raises(WeightsMismatchError, match=r"text_projection\.weight \(5, 3\) instead of \(16, 32\)"):
        load(folder)


def test_all_that_does_not_match_is_listed_at_once(tiny_copy: Folder) -> None:
    folder = tiny_copy("clip")

    def change(state: dict[str, np.ndarray]) -> None:
        for key in [key for key in state if key.startswith("text_model.encoder")]:
            del state[key]
        state["extra"] = np.zeros(1, np.float32)

    change_weights(folder, change)
    with pytest.raises(WeightsMismatchError) as caught:
        load(folder)
    assert "32 missing" in str(caught.value)
    assert "and 20 more" in str(caught.value)
    assert "1 unexpected: extra" in str(caught.value)


def test_buffers_of_old_checkpoints_may_be_extra(tiny_copy: Folder) -> None:
    folder = tiny_copy("clip")
    positions = {f"{tower}_model.embeddings.position_ids": np.arange(3)[None] for tower in ("text", "vision")}
    change_weights(folder, lambda state: state.update(positions))
    load(folder)


def test_half_a_file_is_refused_before_loading(tiny_copy: Folder) -> None:
    folder = tiny_copy("clip")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(WeightsMissingError, match=r"cut short \([\d,]+ of [\d,]+ bytes\)"):
        resolve_model(str(folder))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"abc", "damaged"),
        (struct.pack("<Q", 1 << 40) + b"{}", "damaged"),
        (struct.pack("<Q", 4) + b"{{{{", "damaged"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
    ],
)
def test_damaged_files_are_refused(tiny_copy: Folder, content: bytes, words: str) -> None:
    folder = tiny_copy("clip")
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(WeightsMissingError, match=words):
        resolve_model(str(folder))


def test_plain_tensors_in_a_bin_file_load_and_equal_safetensors(tiny_copy: Folder) -> None:
    import torch
    from safetensors.torch import load_file

    folder = tiny_copy("clip")
    before = load(folder)
    torch.save(dict(load_file(folder / "model.safetensors")), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    after = load(folder)
    stack = before.prepare_image(noise_picture(40, 40))[None]
    np.testing.assert_array_equal(before.encode_images(stack), after.encode_images(stack))
    assert after.constants == before.constants
    assert after.model.weights_sha256 != before.model.weights_sha256
    assert any("pickle" in line for line in notices(after.model))


class Bomb:
    """A pickle that would write a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("form", ["pickle", "torch"])
def test_a_pickle_that_runs_code_is_refused_and_does_not_run(tiny_copy: Folder, tmp_path: Path, form: str) -> None:
    import torch

    folder, trap = tiny_copy("clip"), tmp_path / "ran"
    (folder / "model.safetensors").unlink()
    if form == "torch":
        torch.save({"weight": Bomb(trap)}, folder / "pytorch_model.bin")
    else:
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": Bomb(trap)}))
    with pytest.raises(WeightsMismatchError, match="plain tensors"):
        load(folder)
    assert not trap.exists()


def test_half_a_bin_file_is_refused(tiny_copy: Folder) -> None:
    import torch

    folder = tiny_copy("clip")
    (folder / "model.safetensors").unlink()
    torch.save({"weight": torch.zeros(1000)}, folder / "pytorch_model.bin")
    whole = (folder / "pytorch_model.bin").read_bytes()
    (folder / "pytorch_model.bin").write_bytes(whole[:-200])
    with pytest.raises(WeightsMissingError, match="cut short"):
        resolve_model(str(folder))


def test_shards_load_and_a_lost_shard_is_named(tiny_copy: Folder) -> None:
    from safetensors.numpy import load_file, save_file

    folder = tiny_copy("clip")
    expected = load(folder).encode_texts(["a cat"])["embedding"]
    state = dict(load_file(folder / "model.safetensors"))
    keys = sorted(state)
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for name, part in zip(names, (keys[:30], keys[30:]), strict=True):
        save_file({key: state[key] for key in part}, folder / name, metadata={"format": "pt"})
    weight_map = {key: names[0] if key in keys[:30] else names[1] for key in keys}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")
    (folder / "model.safetensors").unlink()
    np.testing.assert_array_equal(load(folder).encode_texts(["a cat"])["embedding"], expected)
    (folder / names[1]).unlink()
    with pytest.raises(WeightsMissingError, match=names[1]):
        resolve_model(str(folder))


def test_openai_weights_under_plain_gelu_are_refused(tiny_copy: Folder, tmp_path: Path) -> None:
    folder = tiny_copy("clip")
    change_json(folder / "config.json", lambda c: c["vision_config"].update(hidden_act="gelu"))
    target = tmp_path / "cache" / "openai" / "clip-vit-base-patch32"
    target.parent.mkdir(parents=True)
    folder.rename(target)
    options = LoadOptions(str(tmp_path / "cache"), offline=True)
    with pytest.raises(WeightsMismatchError, match="vision hidden_act 'gelu'") as caught:
        resolve_model("openai:ViT-B-32", options=options)
    assert "quick_gelu" in str(caught.value)
    change_json(target / "config.json", lambda c: c.update(_name_or_path="openai/clip-vit-base-patch32"))
    with pytest.raises(WeightsMismatchError, match="quick_gelu"):
        resolve_model(str(target))
    change_json(target / "config.json", lambda c: c["vision_config"].update(hidden_act="quick_gelu"))
    assert resolve_model("openai:ViT-B/32", options=options).id == "hf:openai/clip-vit-base-patch32"


def test_laion_weights_under_quick_gelu_are_refused(tiny: Folder, tmp_path: Path) -> None:
    target = tmp_path / "laion" / "CLIP-ViT-B-32-laion2B-s34B-b79K"
    target.parent.mkdir()
    target.symlink_to(tiny("clip"))
    with pytest.raises(WeightsMismatchError, match="'gelu'"):
        resolve_model("hf:laion/CLIP-ViT-B-32-laion2B-s34B-b79K", options=LoadOptions(str(tmp_path), offline=True))


def test_naflex_and_other_types_are_refused(tiny_copy: Folder) -> None:
    folder = tiny_copy("siglip")
    change_json(folder / "config.json", lambda c: c.update(model_type="siglip2"))
    with pytest.raises(ModelError, match="NaFlex"):
        resolve_model(str(folder))
    change_json(folder / "config.json", lambda c: c.update(model_type="bert"))
    with pytest.raises(ModelError, match="'bert'"):
        resolve_model(str(folder))


def test_sizes_that_do_not_belong_together_are_refused(tiny_copy: Folder) -> None:
    folder = tiny_copy("clip")
    change_json(folder / "preprocessor_config.json", lambda c: c.update(size=36, crop_size=36))
    with pytest.raises(ModelError, match="36×36"):
        resolve_model(str(folder))


def test_a_folder_that_lacks_files_says_which(tiny_copy: Folder) -> None:
    folder = tiny_copy("clip")
    for name in ("vocab.json", "preprocessor_config.json"):
        (folder / name).unlink()
    with pytest.raises(WeightsMissingError) as caught:
        resolve_model(str(folder))
    assert "preprocessor_config.json" in str(caught.value)
    assert "tokenizer.json" in str(caught.value)


@pytest.mark.parametrize("file", ["config.json", "preprocessor_config.json", "vocab.json", "tokenizer_config.json"])
def test_the_hash_covers_every_file_that_moves_numbers(tiny_copy: Folder, file: str) -> None:
    folder = tiny_copy("clip")
    before = resolve_model(str(folder))
    path = folder / file
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    after = resolve_model(str(folder))
    assert before.weights_sha256 != after.weights_sha256
    assert before.key != after.key


def test_one_changed_weight_changes_the_hash(tiny_copy: Folder) -> None:
    folder = tiny_copy("clip")
    before = resolve_model(str(folder)).weights_sha256
    change_weights(folder, lambda state: state.update(logit_scale=np.array(1.5, np.float32)))
    assert resolve_model(str(folder)).weights_sha256 != before


def test_devices_that_are_not_there_are_refused_before_torch_fails(
    tiny: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    resolved = resolve_model(str(tiny("clip")))
    for device in ("cuda", "cuda:1"):
        with pytest.raises(DeviceError, match="needs a CUDA GPU"):
            load_model(resolved, device=device)
    with pytest.raises(DeviceError, match="Apple"):
        load_model(resolved, device="mps")
    for wrong in ("gpu", "cuda:x", "cpu:1", ""):
        with pytest.raises(OptionError, match="device must be"):
            load_model(resolved, device=wrong)
    with pytest.raises(DeviceError, match="float16 needs a GPU"):
        load_model(resolve_model(str(tiny("clip")), dtype="float16"), device="auto")


def test_a_gpu_number_that_is_not_there_names_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from beholder.backends.devices import choose_device

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert str(choose_device("cuda:1", dtype="float32")) == "cuda:1"
    assert str(choose_device("auto", dtype="float32")) == "cuda"
    with pytest.raises(DeviceError, match="cuda:0, cuda:1"):
        choose_device("cuda:2", dtype="float32")


def test_dtypes() -> None:
    assert choose_dtype("auto", size_bytes=10) == "float32"
    assert choose_dtype("auto", size_bytes=5_000_000_000) == "bfloat16"
    assert choose_dtype("fp32", size_bytes=5_000_000_000) == "float32"
    with pytest.raises(OptionError, match="dtype must be"):
        choose_dtype("int8", size_bytes=1)


def test_large_models_are_announced() -> None:
    import dataclasses

    resolved = resolve_model("fake")
    large = dataclasses.replace(
        resolved, card=dataclasses.replace(resolved.card, size_bytes=10_000_000_000), dtype="bfloat16"
    )
    assert notices(large) == ["fake is large: 10.0 GB of weights, run in bfloat16"]
    assert notices(resolved) == []


def test_constants_of_pickled_weights_are_read_once(tiny_copy: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from safetensors.torch import load_file

    from beholder.backends import torch_io

    folder = tiny_copy("clip")
    torch.save(dict(load_file(folder / "model.safetensors")), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    first = resolve_model(str(folder)).constants

    def refuse(path: Path) -> Any:
        raise AssertionError(f"{path} was read again")

    monkeypatch.setattr(torch_io, "read_state", refuse)
    assert resolve_model(str(folder)).constants == first
    assert first["logit_scale"] > 1
