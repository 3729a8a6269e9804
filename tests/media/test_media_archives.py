"""Members of tar files, and what fsspec reaches."""

from __future__ import annotations

import gc
import hashlib
import io
import tarfile
from concurrent.futures import ThreadPoolExecutor

import fsspec
import numpy as np
import pytest
from PIL import Image
from tests.media.media_inputs import encode, noise

from beholder._errors import MediaError, OptionError, UserError
from beholder.media import archives
from beholder.media.archives import split_member
from beholder.media.base import DecodeOptions
from beholder.media.files import set_hash_memory
from beholder.media.sources import as_medium

PICTURES = {f"set/{k}.png": encode(Image.fromarray(noise(seed=k))) for k in range(12)}
PLAIN = DecodeOptions()


def write_tar(path, files=PICTURES, mode="w"):
    with tarfile.open(path, mode) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture(autouse=True)
def closed_archives():
    yield
    archives._archives.clear()
    gc.collect()


@pytest.mark.parametrize(
    ("name", "mode"), [("s.tar", "w"), ("s.tar.gz", "w:gz"), ("s.TGZ", "w:gz"), ("odd.tar", "w:gz")]
)
def test_members(tmp_path, name, mode):
    write_tar(tmp_path / name, mode=mode)
    medium = as_medium(f"{name}::set/3.png", base=tmp_path)
    assert medium.name == f"{name}::set/3.png"
    assert medium.load() == PICTURES["set/3.png"]
    assert medium.fingerprint() == hashlib.sha256(PICTURES["set/3.png"]).hexdigest()
    assert medium.read_and_hash() == (PICTURES["set/3.png"], medium.fingerprint())
    np.testing.assert_array_equal(medium.decode(PLAIN).pixels, noise(seed=3))


def test_leading_dots_do_not_matter(tmp_path):
    write_tar(tmp_path / "s.tar", {"./a.png": b"data"})
    for member in ("a.png", "./a.png"):
        assert as_medium(f"s.tar::{member}", base=tmp_path).load() == b"data"


def test_what_is_missing(tmp_path):
    write_tar(tmp_path / "s.tar")
    for spec, hint in (("no.tar::a.png", "no such file"), ("s.tar::set/33.png", "did you mean 'set/3.png'")):
        medium = as_medium(spec, base=tmp_path)
        for call in (medium.load, medium.fingerprint, medium.read_and_hash):
            with pytest.raises(MediaError) as caught:
                call()
            assert caught.value.status == "missing"
            assert hint in caught.value.reason
            assert str(tmp_path) not in caught.value.reason


def test_broken_tars_are_unreadable(tmp_path):
    whole = write_tar(tmp_path / "whole.tar").read_bytes()
    packed = write_tar(tmp_path / "whole.tar.gz", mode="w:gz").read_bytes()
    cases = {
        "text.tar": b"this is no tar, though it is long enough to be looked at",
        "empty.tar": b"",
        "cut.tar": whole[: len(whole) // 2 + 100],
        "cut.tar.gz": packed[: len(packed) // 2],
        "bad.tar.gz": packed[:200] + bytes(200) + packed[400:],
    }
    for name, data in cases.items():
        (tmp_path / name).write_bytes(data)
        for _ in range(2):
            with pytest.raises(MediaError) as caught:
                as_medium(f"{name}::set/11.png", base=tmp_path).load()
            assert caught.value.status == "unreadable", name


def test_links_and_folders_are_no_members(tmp_path):
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    with pytest.raises(MediaError, match="no such member"):
        as_medium("s.tar::link.png", base=tmp_path).load()


def test_a_changed_tar_is_indexed_anew(tmp_path):
    path = write_tar(tmp_path / "s.tar", {"a.png": b"old"})
    medium = as_medium("s.tar::a.png", base=tmp_path)
    assert medium.load() == b"old"
    path.unlink()
    write_tar(path, {"b.png": b"else", "a.png": b"new!"})
    assert medium.load() == b"new!"


def test_the_index_is_built_once_and_few_tars_stay_open(tmp_path, monkeypatch):
    built = []
    index = archives._index
    monkeypatch.setattr(archives, "_index", lambda path, name: built.append(name) or index(path, name))
    for k in range(12):
        write_tar(tmp_path / f"{k}.tar", {"a": b"1", "b": b"2"})
        for member in "abab":
            as_medium(f"{k}.tar::{member}", base=tmp_path).load()
    assert len(built) == 12
    assert len(archives._archives) == archives._OPEN_ARCHIVES


@pytest.mark.parametrize("positional", [True, False])
@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_threads_read_at_random(tmp_path, monkeypatch, mode, positional):
    if not positional:
        monkeypatch.delattr("os.pread")
    monkeypatch.setattr(archives, "_OPEN_ARCHIVES", 1)  # so that archives are dropped while others read from them
    for name in ("s.tar", "t.tar"):
        write_tar(tmp_path / name, mode=mode)

    def work(seed):
        for at in np.random.default_rng(seed).integers(0, 12, 40):
            name = "s.tar" if at % 3 else "t.tar"
            assert as_medium(f"{name}::set/{at}.png", base=tmp_path).load() == PICTURES[f"set/{at}.png"]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_member_hashes_are_remembered(tmp_path, monkeypatch):
    class Memory(dict):
        put = dict.__setitem__

    memory = Memory()
    set_hash_memory(memory)
    try:
        monkeypatch.setattr("beholder.media.files._SETTLED_NS", -(10**12))
        write_tar(tmp_path / "s.tar")
        medium = as_medium("s.tar::set/1.png", base=tmp_path)
        medium.fingerprint()
        assert [key.path for key in memory] == [str(tmp_path / "s.tar") + "::set/1.png"]
        memory[next(iter(memory))] = "remembered"
        assert medium.fingerprint() == medium.read_and_hash()[1] == "remembered"
    finally:
        set_hash_memory(None)


def test_split_member():
    assert split_member("a/b.tar::c.png") == ("a/b.tar", "c.png")
    assert split_member("a.TAR.GZ::c::d.png") == ("a.TAR.GZ", "c::d.png")
    assert split_member("plain.png") is None
    assert split_member("zip.zip::a.png") is None
    assert split_member("a.tar::") is None


# ---------------------------------------------------------------- fsspec


@pytest.fixture
def store():
    system = fsspec.filesystem("memory")
    system.pipe("/media/a.png", PICTURES["set/1.png"])
    yield system
    system.rm("/media", recursive=True)


def test_memory_urls(store):
    medium = as_medium("memory://media/a.png", base="/not/used")
    assert medium.name == "memory://media/a.png"
    assert medium.read_and_hash() == (PICTURES["set/1.png"], hashlib.sha256(PICTURES["set/1.png"]).hexdigest())
    np.testing.assert_array_equal(medium.decode(PLAIN).pixels, noise(seed=1))
    with pytest.raises(MediaError) as caught:
        as_medium("memory://media/no.png").fingerprint()
    assert caught.value.status == "missing"


def test_remote_tar_members(store, tmp_path):
    store.pipe("/media/s.tar", write_tar(tmp_path / "s.tar").read_bytes())
    assert as_medium("memory://media/s.tar::set/5.png").load() == PICTURES["set/5.png"]
    assert as_medium("tar://set/5.png::memory://media/s.tar").load() == PICTURES["set/5.png"]


def test_a_client_that_fails_makes_a_row_unreadable(store, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("the server said no to memory://user:pw@media/a.png?token=secret")

    monkeypatch.setattr(type(store), "cat_file", fail)
    with pytest.raises(MediaError, match="the server said no") as caught:
        as_medium("memory://user:pw@media/a.png?token=secret").load()
    assert caught.value.status == "unreadable"
    for secret in ("pw", "secret"):
        assert secret not in caught.value.reason


def test_names_hide_what_is_secret():
    medium = as_medium("tar://a.png::memory://me:pw@host/s.tar?sig=1:2")
    assert medium.name == "tar://a.png::memory://host/s.tar"
    assert "pw" not in repr(medium)


def test_unknown_protocols_and_missing_packages(monkeypatch):
    with pytest.raises(OptionError, match="nosuchthing://"):
        as_medium("nosuchthing://x/a.png")
    from fsspec.registry import known_implementations

    entry = {"class": "no_such_package.System", "err": "Install no_such_package to use it"}
    monkeypatch.setitem(known_implementations, "needspackage", entry)
    with pytest.raises(UserError, match="Install no_such_package"):
        as_medium("needspackage://x/a.png")
