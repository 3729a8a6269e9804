"""Photographs of people for tests: they come with public packages, are fetched when first needed, never committed.

- scikit-image (a development dependency) brings the astronaut Eileen Collins (NASA, public domain) and scenes.
- The source distribution of `face_recognition` (MIT) brings pictures of two politicians for its own tests.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

_PACKAGE = "face_recognition==1.3.0"
_SHA256 = "5e5efdd1686aa566af0d3cc1313b131e4b197657a8ffd03669e6d3fad92705ec"
_INSIDE = "face_recognition-1.3.0/tests/test_images/"
UNREACHABLE = "no package index can be reached"


def scene(name: str) -> Path:
    """A picture of scikit-image's data that is part of the package itself."""
    import skimage

    return Path(skimage.__file__).parent / "data" / name


def portraits(cache: Path) -> Path:
    """Folder with obama.jpg, obama2.jpg, biden.jpg and others, kept in `cache`; skips where they cannot be fetched."""
    folder = cache / f"portraits-{_SHA256[:12]}"
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        archive = _download(Path(temporary))
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        assert digest == _SHA256, f"{archive.name} is another file than it was: {digest}"
        made = Path(temporary) / "made"
        made.mkdir()
        with tarfile.open(archive) as files:
            for member in files.getmembers():
                source = files.extractfile(member) if member.name.startswith(_INSIDE) and member.isfile() else None
                if source is not None:
                    (made / Path(member.name).name).write_bytes(source.read())
        try:
            made.rename(folder)
        except OSError:  # another worker was faster
            shutil.rmtree(made)
    return folder


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--dest", str(folder)]
    done = subprocess.run([*command, "--quiet", _PACKAGE], capture_output=True, text=True, check=False)
    found = list(folder.glob("*.tar.gz"))
    if done.returncode != 0 or not found:
        pytest.skip(f"{UNREACHABLE}: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    return found[0]
