"""Media behind an fsspec URL: `s3://…`, `memory://…`, `https://…`, chained ones too."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from beholder._errors import MediaError, OptionError, UserError
from beholder.media.canonical import ValueRange
from beholder.media.files import FileMedium
from beholder.records import Status

_PROTOCOL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")  # two letters at least: "C://" is a disk
_SECRETS = re.compile(r"(?<=://)[^/@]*@|\?.*?(?=::|$)")


@dataclass(frozen=True, slots=True)
class RemoteFile(FileMedium):
    """A file that fsspec reads.

    Args:
        url: the URL as it was given. Not part of the repr, since it can hold secrets.
        name: the URL without user, password and query, for messages.
        value_range: range of float and 32-bit integer samples.
    """

    url: str = field(repr=False)
    name: str
    value_range: ValueRange | None = None

    def load(self) -> bytes:
        import fsspec.core

        try:
            system, path = fsspec.core.url_to_fs(self.url)
            data = system.cat_file(path)
        except FileNotFoundError as error:
            raise MediaError(Status.MISSING, f"{self.name}: no such file") from error
        except Exception as error:
            # Each protocol's client raises its own exceptions, none of which can be imported here.
            text = _SECRETS.sub("", str(error).replace(self.url, self.name)) or type(error).__name__
            raise MediaError(Status.UNREADABLE, f"{self.name}: cannot be read ({text})") from error
        return bytes(data)


def is_url(text: str) -> bool:
    """True for text that begins with a protocol."""
    return _PROTOCOL.match(text) is not None


def remote_file(url: str, value_range: ValueRange | None) -> RemoteFile:
    """The medium behind a URL.

    Raises:
        OptionError: fsspec knows no such protocol.
        UserError: the protocol needs a package that is not installed.
    """
    for protocol in _PROTOCOL.findall(url):
        _require(protocol)
    return RemoteFile(url, _SECRETS.sub("", url), value_range)


@functools.lru_cache(maxsize=64)
def _require(protocol: str) -> None:
    import fsspec

    try:
        fsspec.get_filesystem_class(protocol)
    except ValueError as error:
        raise OptionError(
            "a URL must begin with a protocol that fsspec knows (file://, s3://, gs://, https:// …)",
            got=f"{protocol}://",
        ) from error
    except ImportError as error:
        raise UserError(
            f"{protocol}:// paths need a package that is not installed",
            got=str(error),
            fix="Install the package that fsspec names, or copy the files to a local folder",
        ) from error
