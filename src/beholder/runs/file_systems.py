"""The kind of file system that a folder lies on: SQLite's locks are not to be trusted on those of a network."""

from __future__ import annotations

import os
from pathlib import Path

NETWORK = {
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "9p", "fuse.sshfs",
    "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "virtiofs", "wekafs",
}  # fmt: skip


def file_system(folder: Path) -> str | None:
    """The kind of file system that a folder lies on, or None where the system does not tell."""
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    path = os.path.realpath(folder)
    best, kind = "", None
    for line in lines:
        _, mount, this, *_ = line.split(" ")
        mount = mount.replace("\\040", " ")
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, this
    return kind


def network_kind(folder: Path) -> str | None:
    """The kind of file system where it is one of a network, else None."""
    kind = file_system(folder)
    return kind if kind in NETWORK else None
