"""Messages from a worker to the process that started it, over a socket of their own for each worker.

A message is its length (8 bytes) and a pickle. No lock is shared between workers, so one that is killed holds up none
of the others, whatever it was doing; and the reader never waits for the rest of a message, which may never come.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Iterator
from typing import Any

from beholder._errors import BeholderError, UserError

_LENGTH = struct.Struct("!Q")
_BLOCK = 1 << 16


def say(end: socket.socket, what: str, value: Any = None) -> None:
    """Sends one message.

    Args:
        end: the sender's end.
        what: what kind of message it is.
        value: numbers, texts, bytes, and lists or dicts of them.

    Raises:
        OSError: nobody listens any more.
    """
    send_bytes(end, pickle.dumps((what, value)))


def send_bytes(end: socket.socket, data: bytes) -> None:
    """Sends some bytes behind their length."""
    end.sendall(_LENGTH.pack(len(data)))
    end.sendall(data)


def receive_bytes(end: socket.socket) -> bytes:
    """What `send_bytes` sent; waits for all of it.

    Raises:
        EOFError: the sender is gone.
    """
    (length,) = _LENGTH.unpack(_exactly(end, _LENGTH.size))
    return _exactly(end, length)


def _exactly(end: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        block = end.recv(min(_BLOCK, count - len(found)))
        if not block:
            raise EOFError("the other process is gone")
        found += block
    return bytes(found)


class Ear:
    """What one worker says, as it comes; never waits.

    Args:
        end: the listener's end.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._heard = bytearray()
        self.ended = False
        """True once nothing more can come."""
        end.setblocking(False)

    def fileno(self) -> int:
        """For `multiprocessing.connection.wait`."""
        return self._end.fileno()

    def messages(self) -> Iterator[tuple[str, Any]]:
        """The messages that are complete by now; of one that breaks off, nothing."""
        self._take_in()
        while len(self._heard) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._heard)
            whole = _LENGTH.size + length
            if len(self._heard) < whole:
                return
            data = bytes(self._heard[_LENGTH.size : whole])
            del self._heard[:whole]
            try:
                what, value = pickle.loads(data)  # what a process of this run just wrote
            except Exception:  # it was interrupted in the middle of the message before
                what, value = "error", {"text": "a message that cannot be read", "pickle": None}
            yield what, value

    def _take_in(self) -> None:
        while not self.ended:
            try:
                block = self._end.recv(_BLOCK)
            except BlockingIOError:
                return
            except OSError:  # a worker that died before it read what it was sent
                block = b""
            self.ended = not block
            self._heard += block

    def answer(self, data: bytes) -> None:
        """Sends the worker what it waits for; one that died meanwhile is found by its end."""
        self._end.setblocking(True)
        try:
            send_bytes(self._end, data)
        except OSError:
            pass
        finally:
            self._end.setblocking(False)

    def close(self) -> None:
        """Listens no more: the worker's next message fails."""
        self._end.close()


def describe_error(error: BaseException) -> dict[str, Any]:
    """An error as a message; its text too, since not every error can be made again from its pickle."""
    try:
        text = str(error)
    except Exception:
        text = "an error that cannot be printed"
    if isinstance(error, KeyboardInterrupt):
        text = "interrupted"
    elif not isinstance(error, BeholderError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    made = None
    if isinstance(error, UserError):
        try:
            made = pickle.dumps(error)
        except Exception:
            made = None
    return {"text": text, "pickle": made}


def read_error(told: dict[str, Any]) -> BeholderError:
    """The error that `describe_error` described: a `UserError` as it was, any other by its text."""
    if told["pickle"] is not None:
        try:
            error = pickle.loads(told["pickle"])
        except Exception:  # an error of a plug-in whose arguments are not those that it was made of
            error = None
        if isinstance(error, UserError):
            return error
    return BeholderError(told["text"])
