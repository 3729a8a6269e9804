"""Finding weights: order of places, layouts, offline, fetching, hashes."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beholder._errors import WeightsMismatchError, WeightsMissingError
from beholder._hashing import hash_file
from beholder.backends import hashes, hub
from beholder.backends.base import LoadOptions
from beholder.backends.files import choose_hf, list_files
from beholder.backends.manage import pull, verify, where
from beholder.backends.places import hub_cache, places
from beholder.backends.pool import resolve_model

Folder = Callable[[str], Path]
NAME = "hf:org/tiny"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub cache of its own, and no leftovers of the environment."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_ENDPOINT", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def put_plain(place: Path, source: Path, name: str = "org/tiny") -> Path:
    target = place / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target)
    return target


def put_snapshot(place: Path, source: Path, *, commit: str = COMMIT, branch: str | None = "main") -> Path:
    """The hub's layout: blobs by hash, linked into a snapshot."""
    base = place / "models--org--tiny"
    snapshot = base / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (base / "blobs").mkdir(exist_ok=True)
    for name in list_files(source):
        blob = base / "blobs" / hash_file(source / name)
        shutil.copyfile(source / name, blob)
        (snapshot / name).symlink_to(os.path.relpath(blob, snapshot))
    if branch:
        (base / "refs").mkdir(exist_ok=True)
        (base / "refs" / branch).write_text(commit, encoding="utf-8")
    return snapshot


def location(name: str = NAME, **options: Any) -> Path:
    return Path(resolve_model(name, options=LoadOptions(**options)).location)


def test_places_are_looked_in_in_order(tiny: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = ["WORLDFOUNDRY_T2V_METRICS_CACHE_DIR", "WORLDFOUNDRY_HFD_ROOT", "BEHOLDER_CACHE"]
    for variable in variables:
        monkeypatch.setenv(variable, str(tmp_path / variable))
    roots = [tmp_path / "given", *(tmp_path / variable for variable in variables), tmp_path / "hf-home" / "hub"]
    assert [place.path for place in places(LoadOptions(str(roots[0])))] == roots
    for root in reversed(roots):
        folder = put_plain(root, tiny("clip"))
        assert location(cache_dir=str(roots[0])) == folder


@pytest.mark.parametrize("name", ["org/tiny", "tiny", "org--tiny"])
def test_plain_folders_are_understood(tiny: Folder, tmp_path: Path, name: str) -> None:
    folder = put_plain(tmp_path / "place", tiny("clip"), name)
    assert location(cache_dir=str(tmp_path / "place")) == folder


@pytest.mark.parametrize("inside", ["", "hub"])
def test_the_hubs_layout_is_understood(tiny: Folder, tmp_path: Path, inside: str) -> None:
    snapshot = put_snapshot(tmp_path / "place" / inside, tiny("clip"))
    resolved = resolve_model(NAME, options=LoadOptions(str(tmp_path / "place")))
    assert Path(resolved.location) == snapshot
    assert resolved.card.revision == COMMIT


def test_the_same_files_have_one_hash_in_every_layout(tiny: Folder, tmp_path: Path) -> None:
    put_snapshot(tmp_path / "a", tiny("clip"))
    put_plain(tmp_path / "b", tiny("clip"))
    resolved = [resolve_model(NAME, options=LoadOptions(str(tmp_path / place))) for place in ("a", "b")]
    assert resolved[0].weights_sha256 == resolved[1].weights_sha256
    assert resolved[0].key == resolved[1].key


def test_revisions(tiny: Folder, tmp_path: Path) -> None:
    place = tmp_path / "place"
    first = put_snapshot(place, tiny("clip"))
    other = "f" * 40
    second = put_snapshot(place, tiny("clip"), commit=other, branch="v2")
    where_it_is = {"cache_dir": str(place)}
    assert location(NAME, **where_it_is) == first
    assert location(f"{NAME}@v2", **where_it_is) == second
    assert location(f"{NAME}@{other}", **where_it_is) == second
    assert location(f"{NAME}@fffffff", **where_it_is) == second
    with pytest.raises(WeightsMissingError):
        location(f"{NAME}@v3", **where_it_is)


def test_a_plain_folder_does_not_answer_for_a_revision(tiny: Folder, tmp_path: Path) -> None:
    put_plain(tmp_path, tiny("clip"))
    with pytest.raises(WeightsMissingError):
        location(f"{NAME}@v1", cache_dir=str(tmp_path))


def test_without_a_reference_two_snapshots_are_a_guess(tiny: Folder, tmp_path: Path) -> None:
    put_snapshot(tmp_path, tiny("clip"), branch=None)
    location(cache_dir=str(tmp_path))
    put_snapshot(tmp_path, tiny("clip"), commit="f" * 40, branch=None)
    with pytest.raises(WeightsMissingError):
        location(cache_dir=str(tmp_path))


def test_missing_weights_are_one_message_with_all_that_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDFOUNDRY_HFD_ROOT", str(tmp_path / "hfd"))
    with pytest.raises(WeightsMissingError) as caught:
        resolve_model("openai:ViT-L-14", options=LoadOptions(str(tmp_path / "given")))
    text = str(caught.value)
    for part in (
        "openai:ViT-L-14",
        "openai/clip-vit-large-patch14",
        str(tmp_path / "given"),
        "cache_dir",
        str(tmp_path / "hfd"),
        "WORLDFOUNDRY_HFD_ROOT",
        "BEHOLDER_CACHE",
        str(tmp_path / "hf-home" / "hub"),
        "licence MIT",
        "offline",
        "beholder models pull openai:ViT-L-14",
        "hf download openai/clip-vit-large-patch14",
        "--model demo:emoji",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("model", "folder", "stand_in"),
    [
        ("openai:ViT-L-14", "--model /path/to/folder", "--model demo:emoji"),
        ("pickscore-v1", "-m METRIC,model=/path/to/folder", "-m METRIC,model=demo:emoji"),
        ("gme-qwen2-vl-7b", "-m METRIC,model=gme:/path/to/folder", "-m METRIC,model=demo:emoji"),
        ("dino-vits16", "-m METRIC,model=/path/to/folder", None),
        ("clip-flant5-xxl", "-m METRIC,model=/path/to/folder", None),
    ],
)
def test_missing_weights_name_an_option_that_reaches_their_metric(
    model: str, folder: str, stand_in: str | None, tmp_path: Path
) -> None:
    with pytest.raises(WeightsMissingError) as caught:
        resolve_model(model, options=LoadOptions(str(tmp_path / "given")))
    assert f"or name it: {folder}" in str(caught.value)
    assert (stand_in is None) == ("demo:emoji" not in str(caught.value))
    assert stand_in is None or stand_in in str(caught.value)


def test_half_a_file_never_counts_and_the_next_place_serves(tiny: Folder, tmp_path: Path) -> None:
    broken = put_plain(tmp_path / "given", tiny("clip"))
    data = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(data[:-1])
    with pytest.raises(WeightsMissingError, match="cut short"):
        location(cache_dir=str(tmp_path / "given"))
    whole = put_plain(tmp_path / "hf-home" / "hub", tiny("clip"))
    assert location(cache_dir=str(tmp_path / "given")) == whole


def test_a_dangling_link_or_an_unfinished_file_is_not_there(tiny: Folder, tmp_path: Path) -> None:
    snapshot = put_snapshot(tmp_path, tiny("clip"))
    blob = (snapshot / "model.safetensors").resolve()
    blob.rename(blob.with_name(blob.name + ".incomplete"))
    with pytest.raises(WeightsMissingError, match=r"lacks model\.safetensors"):
        location(cache_dir=str(tmp_path))


def test_a_blob_that_is_not_what_its_name_says_is_refused(tiny: Folder, tmp_path: Path) -> None:
    snapshot = put_snapshot(tmp_path, tiny("clip"))
    blob = (snapshot / "model.safetensors").resolve()
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(data)
    with pytest.raises(WeightsMismatchError, match="must have sha256"):
        location(cache_dir=str(tmp_path))
    checks = {check.path.name: check for check in verify(NAME, options=LoadOptions(str(tmp_path)))}
    assert not checks["model.safetensors"].ok
    assert checks["config.json"].ok


def test_pickscore_takes_tokenizer_and_preprocessing_from_its_processor(tiny: Folder, tmp_path: Path) -> None:
    from beholder.backends.pool import load_model

    source = tiny("clip")
    weights = tmp_path / "yuvalkirstain" / "PickScore_v1"
    weights.mkdir(parents=True)
    change = (source / "config.json").read_text(encoding="utf-8").replace("quick_gelu", "gelu")
    (weights / "config.json").write_text(change, encoding="utf-8")
    shutil.copyfile(source / "model.safetensors", weights / "model.safetensors")
    with pytest.raises(WeightsMissingError, match="laion/CLIP-ViT-H-14"):
        location("pickscore-v1", cache_dir=str(tmp_path))
    put_plain(tmp_path, source, "laion/CLIP-ViT-H-14-laion2B-s32B-b79K")
    resolved = resolve_model("pickscore-v1", options=LoadOptions(str(tmp_path)))
    assert resolved.card.family == "pickscore"
    assert resolved.locations["processor"].endswith("b79K")
    encoder = load_model(resolved, device="cpu")
    assert encoder.constants["logit_scale"] > 1
    assert encoder.encode_texts(["a cat"])["embedding"].shape == (1, 16)
    looks = where("pickscore-v1", options=LoadOptions(str(tmp_path)))
    assert [look.found is not None for look in looks].count(True) == 2


class FakeHub:
    """Stands in for the hub: serves a folder, counts downloads, and can spoil one file."""

    def __init__(self, source: Path, monkeypatch: pytest.MonkeyPatch, *, spoil: str | None = None) -> None:
        import huggingface_hub

        self.source, self.spoil = source, spoil
        self.downloads: list[str] = []
        self.endpoints: list[str | None] = []
        monkeypatch.delenv("HF_HUB_OFFLINE")
        monkeypatch.setattr(huggingface_hub, "HfApi", self._api)
        monkeypatch.setattr(huggingface_hub, "hf_hub_download", self._download)

    def _api(self, endpoint: str | None = None) -> Any:
        self.endpoints.append(endpoint)
        return SimpleNamespace(model_info=self._info)

    def _info(self, repo: str, **_: Any) -> Any:
        files = [
            SimpleNamespace(rfilename=name, lfs=SimpleNamespace(sha256=hash_file(self.source / name)))
            for name in list_files(self.source)
        ]
        return SimpleNamespace(siblings=[*files, SimpleNamespace(rfilename="README.md", lfs=None)], sha=COMMIT)

    def _download(self, repo: str, name: str, *, revision: str, cache_dir: Path, endpoint: str | None) -> str:
        base = Path(cache_dir) / ("models--" + repo.replace("/", "--"))
        path = base / "snapshots" / revision / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.downloads.append(name)
        data = (self.source / name).read_bytes()
        path.write_bytes(data[:-1] + b"?" if name == self.spoil else data)
        return str(path)


def test_fetching_takes_only_what_is_needed_and_is_found_again(
    tiny: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    fake = FakeHub(tiny("clip"), monkeypatch)
    options = LoadOptions(str(tmp_path / "given"))
    first = resolve_model(NAME, options=options)
    assert sorted(fake.downloads) == sorted(choose_hf(list_files(tiny("clip"))).all)
    assert "README.md" not in fake.downloads
    assert fake.endpoints == ["https://mirror.example"]
    assert first.card.revision == COMMIT
    assert first.location.startswith(str(tmp_path / "given"))
    again = resolve_model(NAME, options=LoadOptions(str(tmp_path / "given"), offline=True))
    assert again.weights_sha256 == first.weights_sha256
    assert [found.folder for found in pull(NAME, options=options)] == [Path(first.location)]
    assert len(fake.downloads) == len(set(fake.downloads))


def test_a_fetched_file_with_the_wrong_hash_is_removed(
    tiny: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeHub(tiny("clip"), monkeypatch, spoil="model.safetensors")
    with pytest.raises(WeightsMismatchError, match=r"fetched file model\.safetensors"):
        pull(NAME, options=LoadOptions(str(tmp_path / "given")))
    assert not list((tmp_path / "given").rglob("model.safetensors"))


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_is_honoured(tiny: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    fake = FakeHub(tiny("clip"), monkeypatch)
    monkeypatch.setenv(variable, "1")
    with pytest.raises(WeightsMissingError, match="offline"):
        resolve_model(NAME, options=LoadOptions(str(tmp_path / "given")))
    monkeypatch.delenv(variable)
    with pytest.raises(WeightsMissingError, match="offline"):
        resolve_model(NAME, options=LoadOptions(str(tmp_path / "given"), offline=True))
    assert fake.downloads == []


def test_no_network_is_the_same_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def unreachable(endpoint: str | None = None) -> Any:
        raise ConnectionError("no route to host")

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(huggingface_hub, "HfApi", unreachable)
    with pytest.raises(WeightsMissingError, match="no route to host") as caught:
        resolve_model(NAME, options=LoadOptions(str(tmp_path)))
    assert "beholder models pull" in str(caught.value)


def test_standard_cache_follows_the_hubs_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert hub_cache() == tmp_path / "hf-home" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "other"))
    assert hub_cache() == tmp_path / "other"


def test_hashes_are_remembered_and_follow_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "_SETTLED_NS", -1)
    path = tmp_path / "file.bin"
    path.write_bytes(b"one")
    reads: list[Path] = []
    real = hashes.hash_file

    def counted(file: Path) -> str:
        reads.append(file)
        return real(file)

    monkeypatch.setattr(hashes, "hash_file", counted)
    assert hashes.file_sha256(path) == hashes.file_sha256(path) == hashlib.sha256(b"one").hexdigest()
    assert len(reads) == 1
    stamp = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert hashes.file_sha256(path) == hashlib.sha256(b"two").hexdigest()
    assert len(reads) == 2


def test_a_file_that_just_changed_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "_SETTLED_NS", 10**12)
    path = tmp_path / "file.bin"
    path.write_bytes(b"one")
    hashes.file_sha256(path)
    assert hashes._recall(path.resolve(), hashes._stamp(path.resolve())) is None


def test_a_cache_that_cannot_be_used_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"x")
    monkeypatch.setenv("BEHOLDER_CACHE", str(blocked / "below"))
    assert hashes.file_sha256(blocked) == hashlib.sha256(b"x").hexdigest()


def test_the_order_of_files_does_not_move_the_combined_hash(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name, encoding="utf-8")
    forward = hashes.combined_sha256([("a", tmp_path / "a"), ("b", tmp_path / "b")])
    assert forward == hashes.combined_sha256([("b", tmp_path / "b"), ("a", tmp_path / "a")])
    assert forward != hashes.combined_sha256([("a", tmp_path / "b"), ("b", tmp_path / "a")])


def test_where_and_verify_for_local_models(tiny: Folder) -> None:
    folder = tiny("clip")
    looks = where(str(folder))
    assert [(look.path, look.found is not None) for look in looks] == [(folder, True)]
    checks = verify(str(folder))
    assert all(check.ok and check.expected is None for check in checks)
    assert {check.path.name for check in checks} >= {"model.safetensors", "config.json", "vocab.json"}
    assert pull(str(folder))[0].folder == folder


def test_verify_fetches_nothing(tmp_path: Path, tiny: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeHub(tiny("clip"), monkeypatch)
    with pytest.raises(WeightsMissingError, match="only files on this machine"):
        verify(NAME, options=LoadOptions(str(tmp_path)))
    assert fake.downloads == []


def test_sizes_for_people() -> None:
    assert [hub.format_size(size) for size in (1_710_000_000, 12_300_000, 4_000)] == ["1.7 GB", "12 MB", "4 kB"]
