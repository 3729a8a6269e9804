"""Which files are media, and what a folder holds."""

from __future__ import annotations

import os

import pytest

from beholder._errors import UserError
from beholder.media.kinds import image_extensions, iter_media_files, media_kind, natural_key


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.png", "image"),
        ("A.JPEG", "image"),
        ("x/y.z/a.TIFF", "image"),
        ("a.mp4", "video"),
        ("a.MOV", "video"),
        ("a.txt", None),
        ("png", None),
        (".png", None),
        ("s.tar::b/c.webp", "image"),
        ("s3://bucket/a.gif?version=3.txt", "image"),
    ],
)
def test_media_kind(path, kind):
    assert media_kind(path) == kind


def test_extensions_are_lower_case_and_read_by_the_decoder():
    from PIL import Image

    from beholder.media.image import FORMATS

    Image.init()
    for extension in image_extensions():
        assert extension == extension.lower()
        assert Image.registered_extensions()[extension] in FORMATS


def test_natural_order():
    names = ["10", "2", "1", "a10b2", "a2b10", "a2b9", "B1", "02"]
    assert sorted(names, key=natural_key) == ["1", "02", "2", "10", "a2b9", "a2b10", "a10b2", "B1"]


@pytest.fixture
def folder(tmp_path):
    for name in ("10.png", "2.PNG", "1.jpg", ".hidden.png", "notes.txt", "clip.mp4", "sub/3.png", ".git/4.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.png").mkdir()
    return tmp_path


def names(found, folder):
    return [path.relative_to(folder).as_posix() for path in found]


def test_folder(folder):
    assert names(iter_media_files(folder), folder) == ["1.jpg", "2.PNG", "10.png"]
    assert names(iter_media_files(folder, kinds=("video",)), folder) == ["clip.mp4"]
    assert names(iter_media_files(str(folder), kinds=("image", "video"), recursive=True), folder) == [
        "1.jpg",
        "2.PNG",
        "10.png",
        "clip.mp4",
        "sub/3.png",
    ]


def test_folders_that_give_nothing(folder, tmp_path):
    empty = tmp_path / "sub" / "empty"
    empty.mkdir()
    with pytest.raises(UserError, match=r"found 0 images under .*empty, extensions .*\.png"):
        iter_media_files(empty)
    with pytest.raises(UserError, match=r"found 0 videos under .* extensions \.mp4"):
        iter_media_files(empty, kinds=("video",))
    with pytest.raises(UserError, match=r"must be a folder; got .*1\.jpg: a file"):
        iter_media_files(folder / "1.jpg")
    with pytest.raises(UserError, match="no such folder"):
        iter_media_files(folder / "none")


def test_links_in_a_folder(folder, tmp_path_factory):
    """Files behind links count, broken and circular links too; linked folders elsewhere are entered, once each."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "5.png").touch()
    os.symlink(folder, elsewhere / "back")
    for name, target in {
        "6.png": folder / "sub/3.png", "7.png": "gone.png", "8.png": "8.png", "8.txt": "8.txt", "again": elsewhere,
        "inner": folder / "sub", "linked": elsewhere, "sub/up": folder, "top": folder.parent,
    }.items():  # fmt: skip
        os.symlink(target, folder / name)
    assert names(iter_media_files(folder), folder) == ["1.jpg", "2.PNG", "6.png", "7.png", "8.png", "10.png"]
    found = names(iter_media_files(folder, recursive=True), folder)
    assert [name for name in found if "/" not in name] == ["1.jpg", "2.PNG", "6.png", "7.png", "8.png", "10.png"]
    assert [name.split("/")[-1] for name in found if "/" in name] in (["5.png", "3.png"], ["3.png", "5.png"])


@pytest.mark.parametrize("turned", [False, True])
def test_no_picture_counts_twice_whatever_links_lead_to_it(tmp_path, monkeypatch, turned):
    """A link into a folder that another link leads to; the file system's order decides nothing."""
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "folder"
    (elsewhere / "sub").mkdir(parents=True)
    folder.mkdir()
    for path in (elsewhere / "1.png", elsewhere / "sub/2.png"):
        path.touch()
    for name, target in {"a": elsewhere, "b": elsewhere / "sub", "c": elsewhere, "0": elsewhere / "sub"}.items():
        os.symlink(target, folder / name)
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda at: sorted(scan(at), key=lambda entry: entry.name, reverse=turned))
    assert names(iter_media_files(folder, recursive=True), folder) == ["0/2.png", "a/1.png"]
