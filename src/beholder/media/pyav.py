"""Video files through PyAV: an exact index of the frames, decoding that is checked against it, pixels in sRGB.

PyAV is imported only inside functions: pictures, animations and folders of frames work without it.
"""

from __future__ import annotations

import io
import itertools
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from PIL import Image

from beholder._errors import MediaError, MissingExtraError
from beholder.media.base import DecodeOptions, Picture
from beholder.media.canonical import over_background, read_only
from beholder.media.containers import check_whole, is_clean_start
from beholder.media.files import FileMedium, LocalFile, cannot_read, stat_key
from beholder.media.image import check_size
from beholder.media.serving import Reader, StreamedVideo
from beholder.media.stream_facts import orientation_of, stream_notes, turned, upright_size
from beholder.records import Status

FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,ogg,asf,mxf,nut,m4v,h264,hevc,ivf,"
    "mp3,wav,flac,aac"
)
"""Containers that are opened. Playlists and scripts, which make the library open further files, are left out."""

_TRUSTED_FORMATS = ("mp4", "matroska")
_TRUSTED_CODECS = frozenset({"h264", "hevc", "vp9", "av1", "mjpeg", "prores"})
"""Where one packet is one shown frame, with its time stamp; anywhere else frames are counted by decoding."""

_WORTH = 8
"""Frames that a jump must save: after one the decoder starts from nothing."""


def require_av() -> Any:
    """PyAV; raises `MissingExtraError` where it is not installed."""
    try:
        import av
    except ImportError as error:
        raise MissingExtraError("reading a video file", "av", "video") from error
    return av


@dataclass(frozen=True)
class _Index:
    """The frames of a stream.

    Args:
        stamps: presentation time of each frame in units of the time base, None where it has none.
        first: (pts, dts) of the first packet.
        starts: frames from which decoding is exact, ascending.
        checked: True where `stamps` come from the packets, so that decoding must give exactly these.
    """

    stamps: tuple[int | None, ...]
    first: tuple[int | None, int | None] = (None, None)
    starts: tuple[int, ...] = ()
    checked: bool = False


class FileVideo(StreamedVideo):
    """A video file.

    Args:
        medium: the file. A local one is read while it is decoded; any other is loaded into memory as it is encoded.
        options: background and size limit.

    Raises:
        MissingExtraError: PyAV is not installed.
        MediaError: `missing`, `too_large`, or `unreadable` for a file that ends early, holds no video or does not
            decode.
    """

    def __init__(self, medium: FileMedium, options: DecodeOptions) -> None:
        self._medium = medium
        source = _Source(medium, options)
        source.check_whole()
        self._source, opened = source, _Opened(source)
        try:
            index = _by_packets(opened)
            if index is None:
                opened.close()
                index = _by_decoding(source)
            if not index.stamps:
                raise MediaError(Status.UNREADABLE, f"{medium.name}: holds a video of no frames")
            self._index = index
            spare = _FileReader(source, index, opened if index.checked else None)
        except BaseException:
            opened.close()
            raise
        # Left unread, the decoder that looks at the first frame is closed with the video.
        self._spare: _FileReader | None = spare
        self._closing = weakref.finalize(self, spare.close)
        first, opened = spare.peek(), spare.opened
        self._size = upright_size(first)
        times, notes = _times(index, opened)
        if not index.checked:
            notes.append("counted_by_decoding")
        notes += stream_notes(first, opened.container, opened.stream)
        super().__init__(
            medium.name, codec=opened.codec, frame_count=len(index.stamps), times=times, notes=tuple(notes)
        )

    @property
    def size(self) -> tuple[int, int]:
        return self._size

    def fingerprint(self) -> str:
        return self._medium.fingerprint()

    def close(self) -> None:
        self._spare = None
        self._closing()

    def _reader(self) -> Reader:
        # The decoder that looked at the first frame serves the first request: opening another costs time.
        spare, self._spare = self._spare, None
        self._closing.detach()
        return spare if spare is not None else _FileReader(self._source, self._index)


# ---------------------------------------------------------------- opening


@dataclass
class _Source:
    """Where the bytes come from, as often as they are needed."""

    medium: FileMedium
    options: DecodeOptions
    data: bytes | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.medium.name

    def handle(self) -> IO[bytes]:
        if isinstance(self.medium, LocalFile):
            stat_key(self.medium.path, self.name)
            try:
                return open(self.medium.path, "rb")
            except (OSError, ValueError) as error:
                raise cannot_read(error, self.name) from error
        if self.data is None:
            self.data = self.medium.load()
        return io.BytesIO(self.data)

    def check_whole(self) -> None:
        with self.handle() as handle:
            check_whole(handle, self.name)


class _Opened:
    """An open container and its one video stream."""

    def __init__(self, source: _Source) -> None:
        self._av = require_av()
        self.name, self.options = source.name, source.options
        self._handle = source.handle()
        try:
            self.container = self.guarded(lambda: self._av.open(self._handle, options={"format_whitelist": FORMATS}))
            self.stream = self._video_stream()
            context = self.stream.codec_context
            self.codec = str(context.codec.canonical_name if context.codec else context.name)
            if context.width * context.height:
                check_size(context.width, context.height, self.options, self.name)
            # Decoders shall report damage, not paint over it with what they guess.
            context.options = {"err_detect": "explode"}
        except BaseException:
            self.close()
            raise

    def _video_stream(self) -> Any:
        pictures = self._av.stream.Disposition.attached_pic
        videos = [stream for stream in self.container.streams.video if not stream.disposition & pictures]
        if not videos:
            kinds = sorted({stream.type for stream in self.container.streams}) or ["nothing"]
            raise MediaError(Status.UNREADABLE, f"{self.name}: holds no video, only {' and '.join(kinds)}")
        if videos[0].codec_context is None:
            raise MediaError(Status.UNREADABLE, f"{self.name}: its codec is not known to this build of PyAV")
        return videos[0]

    def guarded(self, call: Callable[[], Any], what: str = "") -> Any:
        """What PyAV makes of the file, or `MediaError`."""
        try:
            return call()
        except MemoryError as error:
            raise MediaError(Status.UNREADABLE, f"{self.name}{what}: not enough memory to decode it") from error
        except (self._av.error.FFmpegError, OSError, ValueError, RuntimeError) as error:
            text = str(getattr(error, "strerror", None) or error).strip() or type(error).__name__
            raise MediaError(Status.UNREADABLE, f"{self.name}{what}: does not decode ({text})") from error

    def packets(self) -> Iterator[Any]:
        """The stream's packets, the last one an empty packet that makes the decoder give what it still holds."""
        packets = self.container.demux(self.stream)
        while (packet := self.guarded(lambda: next(packets, None))) is not None:
            if packet.is_corrupt:
                raise MediaError(Status.UNREADABLE, f"{self.name}: its packet at byte {packet.pos} is damaged")
            yield packet

    def close(self) -> None:
        container = getattr(self, "container", None)
        if container is not None:
            container.close()
        self._handle.close()


# ---------------------------------------------------------------- the index


def _by_packets(opened: _Opened) -> _Index | None:
    """The index from the packets alone; None where they cannot be trusted to tell the frames."""
    formats = opened.container.format.name.split(",")
    if opened.codec not in _TRUSTED_CODECS or not any(name in formats for name in _TRUSTED_FORMATS):
        return None
    extradata = bytes(opened.stream.codec_context.extradata or b"")
    stamps, clean, first = [], [], None
    for packet in opened.packets():
        if packet.dts is None and packet.pts is None and not packet.size:
            continue
        if packet.pts is None or packet.is_discard:
            return None
        if first is None:
            first = (packet.pts, packet.dts)
            if not packet.is_keyframe:
                return None
        stamps.append(packet.pts)
        if packet.is_keyframe and is_clean_start(opened.codec, extradata, bytes(packet)):
            clean.append(packet.pts)
    stated = opened.stream.frames
    if stated and len(stamps) < stated and "mp4" in formats:
        raise MediaError(
            Status.UNREADABLE, f"{opened.name}: the file ends early: {len(stamps)} of its {stated} frames are there"
        )
    places = {stamp: at for at, stamp in enumerate(sorted(stamps))}
    if first is None or len(places) != len(stamps):
        return None
    return _Index(tuple(places), first, tuple(sorted(places[stamp] for stamp in clean)), checked=True)


def _by_decoding(source: _Source) -> _Index:
    """The index from decoding everything once."""
    opened = _Opened(source)
    try:
        return _Index(tuple(frame.pts for frame in _decoded(opened, opened.packets())))
    finally:
        opened.close()


def _decoded(opened: _Opened, packets: Iterator[Any]) -> Iterator[Any]:
    done = 0
    for packet in packets:
        for frame in opened.guarded(packet.decode, f", near frame {done}"):
            if frame.is_corrupt:
                raise MediaError(Status.UNREADABLE, f"{opened.name}: frame {done} is damaged")
            yield frame
            done += 1


def _times(index: _Index, opened: _Opened) -> tuple[tuple[float, ...] | None, list[str]]:
    """Seconds since the first frame, and a note where they had to come from the frame rate."""
    stamps = [stamp for stamp in index.stamps if stamp is not None]
    base = opened.stream.time_base
    rising = all(before < after for before, after in itertools.pairwise(stamps))
    if base is not None and rising and len(stamps) == len(index.stamps):
        return tuple(float((stamp - stamps[0]) * base) for stamp in stamps), []
    rate = opened.stream.average_rate or opened.stream.guessed_rate
    if not rate:
        return None, ["no_time_stamps"]
    return tuple(float(at / rate) for at in range(len(index.stamps))), ["times_from_rate"]


# ---------------------------------------------------------------- decoding


class _FileReader:
    """Goes through the frames of one opened file, jumping only to places from where decoding is exact."""

    def __init__(self, source: _Source, index: _Index, opened: _Opened | None = None) -> None:
        """`opened` is a container whose packets were read and whose decoder was not used."""
        self._source, self._index = source, index
        self._peeked: Any = None
        self._scaler: Any = None
        self.position = 0
        self.opened = opened if opened is not None else _Opened(source)
        frames = self._from_packet(0) if opened is not None else _decoded(self.opened, self.opened.packets())
        self._frames = frames if frames is not None else self._reopened()

    def peek(self) -> Any:
        """The next frame, which stays the next one."""
        if self._peeked is None:
            self._peeked = self._next()
            self.position -= 1
        return self._peeked

    def go_to(self, index: int) -> None:
        starts = self._index.starts
        at = bisect_right(starts, index) - 1
        start = starts[at] if at >= 0 else 0
        if self.position <= index and start < self.position + _WORTH:
            return
        self._peeked = None
        found = self._from_packet(start) if start in starts else None
        self._frames = found if found is not None else self._reopened()

    def take(self) -> Picture:
        frame = self._next()
        check_size(frame.width, frame.height, self._source.options, f"{self._source.name}, frame {self.position - 1}")
        picture: Picture = self.opened.guarded(lambda: self._picture(frame), f", frame {self.position - 1}")
        return picture

    def skip(self) -> None:
        self._next()

    def close(self) -> None:
        self._frames = iter(())
        self.opened.close()

    def _next(self) -> Any:
        if self._peeked is not None:
            frame, self._peeked = self._peeked, None
            self.position += 1
            return frame
        frame = next(self._frames, None)
        stamps = self._index.stamps
        if frame is None or (self._index.checked and frame.pts != stamps[self.position]):
            raise MediaError(
                Status.UNREADABLE,
                f"{self._source.name}: decoding does not give frame {self.position} of {len(stamps)}",
            )
        self.position += 1
        return frame

    def _reopened(self) -> Iterator[Any]:
        self.opened.close()
        self.opened, self.position = _Opened(self._source), 0
        return _decoded(self.opened, self.opened.packets())

    def _from_packet(self, start: int) -> Iterator[Any] | None:
        """Frames from `start` on, after a jump; None where the jump does not lead to just that packet."""
        index, opened = self._index, self.opened
        if not index.checked:
            return None
        stamp = index.stamps[start]
        try:
            opened.guarded(lambda: opened.container.seek(stamp, stream=opened.stream))
            packets = opened.packets()
            packet = next(packets, None)
        except MediaError:
            return None
        if packet is None or packet.pts != stamp or (start == 0 and (packet.pts, packet.dts) != index.first):
            return None
        self.position = start
        frames = _decoded(opened, itertools.chain([packet], packets))
        # Frames that are decoded after the start but shown before it belong to the part that was jumped over.
        return itertools.dropwhile(lambda frame: frame.pts is not None and frame.pts < stamp, frames)

    def _picture(self, frame: Any) -> Picture:
        if self._scaler is None:
            self._scaler = require_av().video.reformatter.VideoReformatter()
        form = frame.format
        alpha = any(component.is_alpha for component in form.components)
        scaled = self._scaler.reformat(frame, format="rgba" if alpha else "rgb24", interpolation="BILINEAR")
        notes: list[str] = []
        pixels = scaled.to_ndarray()
        if alpha:
            composed, notes = over_background(
                Image.fromarray(pixels), self._source.options.background, self._source.name
            )
            pixels = np.asarray(composed)
        orientation = orientation_of(frame)
        pixels = turned(pixels, orientation)
        if orientation and orientation > 1:
            notes = [f"display_matrix={orientation}", *notes]
        height, width = pixels.shape[:2]
        return Picture(read_only(pixels), (width, height), form.name, tuple(notes))
