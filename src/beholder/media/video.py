"""Whatever somebody hands in as a video becomes frames: a file, an animation, a folder, a list, a still picture.

The notes that a video can carry, in fixed words (`beholder.media.canonical` lists those of its pictures):

    still_image               a picture file: a video of one frame
    counted_by_decoding       the container does not tell the frames exactly, so all were decoded once to count them
    times_from_rate           the frames' time stamps are missing or do not rise; they were made from the frame rate
    no_time_stamps            there is no frame rate either
    frame_duration=100ms_assumed   a frame of an animation states 10 ms or less, which browsers show for 100 ms
    yuv_matrix=NAME           how YUV became RGB: bt709, bt601, bt2020, smpte240m, fcc as the file states it;
                              bt601_assumed where it states nothing
    yuv_range=limited|full    range of the YUV samples; limited where the file states nothing
    Nbit_to_8bit              samples of N bits were scaled to 8
    hdr_not_tone_mapped       PQ or HLG samples, taken as if they were sRGB
    sar=A:B                   pixels that are not square; they were not resampled
    interlaced                frames that are two half pictures; they were not taken apart
    display_matrix=N          turned or mirrored as the EXIF value N (2 to 8) does it
    display_matrix_ignored    a matrix that is no turn by a multiple of 90° and no mirror image
    alpha_not_read            a WebM with a layer of transparency, which the decoder does not give
    video_streams=N           the file holds N video streams; the first that is no cover picture was taken
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from beholder._errors import MediaError, NoValue, OptionError, UserError
from beholder._hashing import hash_bytes
from beholder.media.animations import AnimationVideo, frame_table
from beholder.media.arrays import tensor_array
from beholder.media.base import DecodeOptions, FrameRecord, Medium, Picture, Video
from beholder.media.canonical import ValueRange
from beholder.media.files import FileMedium, LocalFile, cannot_read, stat_key
from beholder.media.image import image_format, what_it_is
from beholder.media.kinds import iter_media_files
from beholder.media.pyav import FileVideo
from beholder.media.sampling import FramePolicy, frame_indices
from beholder.media.serving import Reader, StreamedVideo
from beholder.media.sources import as_medium
from beholder.records import Status

_HEAD = 4096
_DEFAULT = DecodeOptions()


def open_video(
    value: object,
    options: DecodeOptions = _DEFAULT,
    *,
    base: str | os.PathLike[str] | None = None,
    value_range: ValueRange | None = None,
    frame_rate: float | None = None,
) -> Video:
    """The video behind a value. What kind of file it is, its bytes say, not its extension.

    Args:
        value: one of
            a video file, as a path, URL, tar member, bytes, cell or medium (see `beholder.media.sources.as_medium`);
            an animated GIF, WebP or PNG, in the same forms;
            a still picture in any form that `as_medium` takes: a video of one frame;
            a folder of pictures: its frames in natural order (1, 2, 10);
            a list of pictures: its frames in the order of the list;
            an array or tensor of four axes, of which the first is the frame.
        options: background and size limit, the latter for one frame. `first_frame` has no say here.
        base: folder that relative paths start from.
        value_range: (low, high) that map to black and white, for arrays and pictures without a range of their own.
        frame_rate: frames a second of a folder, list or array, which have no time stamps without it.

    Raises:
        MissingExtraError: a video file where PyAV is not installed.
        MediaError: `missing`, `too_large`, or `unreadable` for a file that is empty, ends early, is text, holds no
            video or does not decode, and for an empty folder.
        OptionError: a value of another type, an empty list, or a frame rate that is not above 0.
    """
    if frame_rate is not None and not (np.isfinite(frame_rate) and frame_rate > 0):
        raise OptionError("frame_rate must be a number above 0", got=repr(frame_rate))
    array = value if isinstance(value, np.ndarray) else tensor_array(value)
    if array is not None and array.ndim == 4:
        value = list(cast(Any, value))
    if isinstance(value, (list, tuple)):
        return _from_list(value, options, base=base, value_range=value_range, frame_rate=frame_rate)
    medium = as_medium(value, base=base, value_range=value_range)
    if isinstance(medium, LocalFile) and os.path.isdir(medium.path):
        return _from_folder(medium, options, frame_rate)
    if not isinstance(medium, FileMedium):
        return PictureVideo(medium.name, [medium], options, codec="image", notes=("still_image",))
    return _from_file(medium, options)


def need_frames(video: Video, minimum: int) -> None:
    """Raises `NoValue` with the status `too_short` for a video of fewer frames than a metric needs."""
    if video.frame_count < minimum:
        has = f"{video.frame_count} frame{'s' if video.frame_count != 1 else ''}"
        raise NoValue(Status.TOO_SHORT, f"{video.name}: has {has}, at least {minimum} are needed")


def choose_frames(video: Video, policy: FramePolicy | str) -> FrameRecord:
    """The frames that a policy takes of a video, with all that a record needs. `video.frames(record.indices)` decodes.

    Raises:
        OptionError: no such policy.
        NoValue: `not_applicable` for `fps:x` on frames without time stamps.
    """
    wanted = FramePolicy.parse(policy) if isinstance(policy, str) else policy
    times = video.times
    if wanted.kind == "fps" and times is None:
        raise NoValue(
            Status.NOT_APPLICABLE,
            f"{video.name}: {wanted} needs time stamps, which it does not have; state frame_rate, or use uniform:n",
        )
    indices = tuple(frame_indices(wanted, times if times is not None else video.frame_count).tolist())
    return FrameRecord(
        policy=str(wanted),
        indices=indices,
        times=None if times is None else tuple(times[at] for at in indices),
        frame_count=video.frame_count,
        size=video.size,
        codec=video.codec,
        notes=video.notes,
    )


class PictureVideo(StreamedVideo):
    """A video whose frames are separate pictures. They may differ in size.

    Args:
        name: what messages call it.
        media: one medium a frame.
        options: how they become pixels.
        codec: what the record calls it.
        frame_rate: frames a second, or None.
        notes: what is known of all frames.
    """

    def __init__(
        self,
        name: str,
        media: Sequence[Medium],
        options: DecodeOptions,
        *,
        codec: str = "frames",
        frame_rate: float | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._media, self._options, self._rate = tuple(media), options, frame_rate
        times = None if frame_rate is None else tuple(at / frame_rate for at in range(len(media)))
        if len(media) == 1:
            times = (0.0,)
        super().__init__(name, codec=codec, frame_count=len(media), times=times, notes=notes)
        self._first: Picture | None = None

    @property
    def size(self) -> tuple[int, int]:
        if self._first is None:
            self._first = self._media[0].decode(self._options)
        return self._first.size

    def fingerprint(self) -> str:
        """Hex sha256: the file's own for a still picture; else over the frames' fingerprints in their order."""
        if "still_image" in self.notes:
            return self._media[0].fingerprint()
        head = f"beholder frames {len(self._media)} {self._rate!r}\n"
        return hash_bytes((head + "\n".join(medium.fingerprint() for medium in self._media)).encode())

    def _reader(self) -> Reader:
        return _PictureReader(self._media, self._options, self._first)


class _PictureReader:
    def __init__(self, media: Sequence[Medium], options: DecodeOptions, first: Picture | None) -> None:
        """`first` is the first picture, where it was decoded to know its size."""
        self._media, self._options, self._first = media, options, first
        self.position = 0

    def go_to(self, index: int) -> None:
        self.position = index

    def take(self) -> Picture:
        self.position += 1
        if self.position == 1 and self._first is not None:
            return self._first
        return self._media[self.position - 1].decode(self._options)

    def skip(self) -> None:
        self.position += 1

    def close(self) -> None:
        pass


def _from_list(
    values: Sequence[object],
    options: DecodeOptions,
    *,
    base: str | os.PathLike[str] | None,
    value_range: ValueRange | None,
    frame_rate: float | None,
) -> Video:
    if not values:
        raise OptionError("a list of frames must not be empty", got="an empty list")
    media = [as_medium(value, base=base, value_range=value_range) for value in values]
    return PictureVideo(f"frames[{len(media)}]", media, options, frame_rate=frame_rate)


def _from_folder(folder: LocalFile, options: DecodeOptions, frame_rate: float | None) -> Video:
    try:
        paths = list(iter_media_files(folder.path))
    except UserError as error:
        raise MediaError(Status.UNREADABLE, f"{folder.name}: {error.must}") from error
    media = [LocalFile(str(path), os.path.join(folder.name, path.name), folder.value_range) for path in paths]
    return PictureVideo(folder.name, media, options, frame_rate=frame_rate)


def _from_file(medium: FileMedium, options: DecodeOptions) -> Video:
    head = _head(medium)
    if not head:
        raise MediaError(Status.UNREADABLE, f"{medium.name}: the file is empty (0 bytes)")
    kind = image_format(head)
    if kind is not None:
        data = medium.load()
        table = frame_table(data, kind)
        if table is not None:
            return AnimationVideo(medium, data, kind=kind, table=table, options=options)
        return PictureVideo(medium.name, [medium], options, codec=kind.lower(), notes=("still_image",))
    if "text" in (what := what_it_is(head)):
        raise MediaError(Status.UNREADABLE, f"{medium.name}: {what.replace('an image', 'a video')}")
    return FileVideo(medium, options)


def _head(medium: FileMedium) -> bytes:
    if not isinstance(medium, LocalFile):
        return medium.load()[:_HEAD]
    stat_key(medium.path, medium.name)
    try:
        with open(medium.path, "rb") as handle:
            return handle.read(_HEAD)
    except (OSError, ValueError) as error:
        raise cannot_read(error, medium.name) from error
