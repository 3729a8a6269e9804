"""What the bytes of a video file say before anything is decoded: does it end early, where can decoding begin.

Demuxers take a file that ends early for a shorter video, and flag packets as key frames from which decoding does not
give the same pictures (open groups, gradual refresh). Both are looked at here.
"""

from __future__ import annotations

import os
from typing import IO

from beholder._errors import MediaError
from beholder.records import Status

_MP4 = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp", b"moof", b"sidx", b"mfra", b"uuid")
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
_INTRA_ONLY = frozenset({"mjpeg", "prores", "rawvideo", "huffyuv", "ffvhuff", "dnxhd"})
_H264_IDR = frozenset({5})
_HEVC_IDR = frozenset({19, 20})


def check_whole(handle: IO[bytes], name: str) -> None:
    """Refuses an MP4, MOV, Matroska, WebM or AVI file that ends before its parts do.

    Other containers (MPEG-TS, FLV, Ogg …), and a Matroska stream of unknown length, do not say how long they are.

    Raises:
        MediaError: `unreadable`.
    """
    length = handle.seek(0, os.SEEK_END)
    handle.seek(0)
    head = handle.read(16)
    if head[4:8] in _MP4:
        _check_mp4(handle, length, name)
    elif head[:4] == _EBML:
        _check_matroska(handle, length, name)
    elif head[:4] == b"RIFF":
        _check_riff(handle, length, name)
    handle.seek(0)


def _ends_early(name: str, part: str, needed: int, length: int) -> MediaError:
    return MediaError(
        Status.UNREADABLE,
        f"{name}: the file ends early: its {part} reaches to byte {needed:,}, the file has {length:,} bytes",
    )


def _check_mp4(handle: IO[bytes], length: int, name: str) -> None:
    at, seen = 0, set()
    while at + 8 <= length:
        handle.seek(at)
        head = handle.read(16)
        size, kind = int.from_bytes(head[:4], "big"), head[4:8]
        if size == 1:
            size = int.from_bytes(head[8:16], "big")
        elif size == 0:
            size = length - at
        if size < 8 or kind not in _MP4:
            break
        if at + size > length:
            raise _ends_early(name, f"part {kind.decode('ascii')!r}", at + size, length)
        seen.add(kind)
        at += size
    if b"moov" not in seen:
        raise MediaError(Status.UNREADABLE, f"{name}: the file ends early: it has no index of its frames ('moov')")


def _check_matroska(handle: IO[bytes], length: int, name: str) -> None:
    at = 4
    for element in ("header", "segment"):
        size, size_at = _vint(handle, at)
        if size is None:
            return
        if size_at + size > length:
            raise _ends_early(name, element, size_at + size, length)
        if element == "segment":
            return
        at = size_at + size
        handle.seek(at)
        if handle.read(4) != _SEGMENT:
            return
        at += 4


def _vint(handle: IO[bytes], at: int) -> tuple[int | None, int]:
    """A Matroska length at a place, None where it is stated as unknown, and the place behind it."""
    handle.seek(at)
    data = handle.read(8)
    width = 9 - data[0].bit_length() if data and data[0] else 0
    if not width or len(data) < width:
        return None, at
    ones = (1 << (7 * width)) - 1
    value = int.from_bytes(data[:width], "big") & ones
    return (None if value == ones else value), at + width


def _check_riff(handle: IO[bytes], length: int, name: str) -> None:
    at = 0
    while at + 12 <= length:
        handle.seek(at)
        head = handle.read(12)
        if head[:4] != b"RIFF":
            return
        size = int.from_bytes(head[4:8], "little")
        if at + 8 + size > length:
            raise _ends_early(name, "RIFF part", at + 8 + size, length)
        at += 8 + size + size % 2


def is_clean_start(codec: str, extradata: bytes, packet: bytes) -> bool:
    """True where decoding from this packet on gives exactly the frames of decoding from the start.

    Args:
        codec: the codec's name.
        extradata: the stream's header, which says how an H.264 or HEVC packet is cut into units.
        packet: the packet's bytes.
    """
    if codec in _INTRA_ONLY:
        return True
    if codec == "vp9":
        return _is_vp9_key(packet)
    if codec == "h264":
        width = (extradata[4] & 3) + 1 if extradata[:1] == b"\x01" and len(extradata) > 4 else 0
        return any(unit & 0x1F in _H264_IDR for unit in _unit_heads(packet, width))
    if codec == "hevc":
        width = (extradata[21] & 3) + 1 if extradata[:1] == b"\x01" and len(extradata) > 21 else 0
        return any(unit >> 1 & 0x3F in _HEVC_IDR for unit in _unit_heads(packet, width))
    return False


def _unit_heads(packet: bytes, width: int) -> list[int]:
    """First byte of each unit in a packet, whose units have a length of `width` bytes, or start codes if 0."""
    heads, at = [], 0
    if width == 0:
        while (at := packet.find(b"\0\0\1", at)) >= 0 and at + 3 < len(packet):
            heads.append(packet[at + 3])
            at += 3
        return heads
    while at + width < len(packet):
        heads.append(packet[at + width])
        at += width + int.from_bytes(packet[at : at + width], "big")
    return heads


def _is_vp9_key(packet: bytes) -> bool:
    if not packet:
        return False
    bits = f"{packet[0]:08b}"
    # marker 10, two bits of profile (profile 3 has one more), show_existing_frame, then 0 for a key frame
    at = 5 if bits[2:4] == "11" else 4
    return bits[:2] == "10" and bits[at : at + 2] == "00"
