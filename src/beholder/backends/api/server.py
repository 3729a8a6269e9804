"""Which server a model is asked at, apart from what its URL may hide."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from beholder._errors import OptionError
from beholder.backends.api.secret import Secret

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Server:
    """A base URL in its parts.

    Args:
        scheme: "http" or "https".
        host: host name in lower case, or address.
        port: the port, or None for the scheme's own.
        path: path without a slash at its end ("/v1").
        user: user name and password of the URL, or None.
        query: the URL's query, sent with every request and shown nowhere, or None.

    >>> server = Server.parse("https://me:secret@Example.com:443/v1/?token=x")
    >>> server.url, server.shown
    ('https://example.com/v1', 'example.com')
    """

    scheme: str
    host: str
    port: int | None
    path: str
    user: tuple[str, Secret] | None = None
    query: Secret | None = None

    @classmethod
    def parse(cls, text: str) -> Server:
        """Reads a base URL.

        Raises:
            OptionError: no http(s) URL with a host; the message does not repeat it, since it may hold a password.
        """
        try:
            parts = urlsplit(text.strip())
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise OptionError(
                "a base URL must begin with http:// or https:// and name a host",
                got="another text (not shown: it may hold a password)",
                fix="For example http://localhost:8000/v1",
            )
        user = None
        if parts.username is not None:
            user = (unquote(parts.username), Secret(unquote(parts.password or "")))
        return cls(
            parts.scheme,
            parts.hostname,
            None if port == _PORTS[parts.scheme] else port,
            parts.path.rstrip("/"),
            user,
            Secret(parts.query) if parts.query else None,
        )

    @property
    def shown(self) -> str:
        """Host and port: what messages and results call the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL without user, password and query: what makes two servers different."""
        return f"{self.scheme}://{self.shown}{self.path}"

    @property
    def is_loopback(self) -> bool:
        """True for this machine itself."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What of the URL must never be seen."""
        found = [self.user[1]] if self.user else []
        if self.query is not None:
            found.append(self.query)
            found += [Secret(unquote(part.partition("=")[2])) for part in self.query.reveal().split("&")]
        return tuple(found)
