"""A subscription: one connection to one node, on which the hints of its partitions arrive.

redis-py makes the connection. What comes then is read here, without blocking and without its parsers, so that it is the
same for both protocols, with or without TLS, and whatever a client of the user's own decodes.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from ssl import SSLWantReadError, SSLWantWriteError
from typing import Any

from hiredis import Reader
from redis.exceptions import ConnectionError as Unreachable
from redis.exceptions import InvalidResponse, ResponseError

from digestif.clock import monotonic
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.node import Node
from digestif.stores.redis.client.pipeline import packed

QUIET_SECONDS = 5.0  # without a word, after which the server is asked whether it is there…
ANSWER_SECONDS = 3.0  # …and has so long to say so

_PING = packed(Command(0, ("PING",)))
_READ_SIZE = 65536
_NOTHING = object()
_NOT_NOW = (BlockingIOError, SSLWantReadError, SSLWantWriteError)


def subscribe(node: Node, channels: Sequence[bytes]) -> "Subscription":
    """Connect to a node and subscribe. Raises if it can't be reached, or refuses one of the channels."""
    connection = node.apart()
    try:
        return Subscription(connection, channels)
    except BaseException:
        connection.disconnect()
        raise


class Subscription:
    """Hears the hints on some channels of a server, over a connection that is its own."""

    def __init__(self, connection: Any, channels: Sequence[bytes]) -> None:
        self._connection = connection
        self._socket = connection._sock
        self._reader = Reader(protocolError=InvalidResponse, replyError=ResponseError, notEnoughData=_NOTHING)
        self._heard_at = monotonic()
        self._asked_at: float | None = None
        self._begin(channels)

    def fileno(self) -> int:
        number: int = self._socket.fileno()
        return number

    def hear(self) -> bool:
        """Whether a hint has come. Raises if no more will: the server is gone or silent, or a slot was moved away."""
        with suppress(*_NOT_NOW):
            while True:  # to the end, since what TLS has decrypted is not seen by selectors
                self._read()
        heard = [_kind(message) == b"smessage" for message in self._messages()]
        self._ask_for_life()
        return any(heard)

    def ask_at(self) -> float:
        """When to hear again even if nothing comes."""
        if self._asked_at is None:
            return self._heard_at + QUIET_SECONDS
        return self._asked_at + ANSWER_SECONDS

    def close(self) -> None:
        self._connection.disconnect()

    def _begin(self, channels: Sequence[bytes]) -> None:
        """Return when the server has confirmed each channel."""
        commands = [packed(Command(0, ("SSUBSCRIBE", channel))) for channel in channels]  # of many slots: one by one
        self._socket.sendall(b"".join(commands))
        confirmed = 0
        while confirmed < len(channels):
            self._read()
            confirmed += sum(_kind(message) == b"ssubscribe" for message in self._messages())
        self._socket.setblocking(False)

    def _ask_for_life(self) -> None:
        now = monotonic()
        if now < self.ask_at():
            return
        if self._asked_at is not None:
            raise Unreachable(f"no answer for {now - self._asked_at:.0f} s")
        self._socket.sendall(_PING)
        self._asked_at = now

    def _read(self) -> None:
        data = self._socket.recv(_READ_SIZE)
        if not data:
            raise Unreachable("the server closed the connection")
        self._reader.feed(data)
        self._heard_at = monotonic()
        self._asked_at = None

    def _messages(self) -> Iterator[Any]:
        while (message := self._reader.gets()) is not _NOTHING:
            if isinstance(message, ResponseError):
                raise message
            if _kind(message) == b"sunsubscribe":
                raise Unreachable("a slot was moved to another node")
            yield message


def _kind(message: Any) -> Any:
    return message[0] if isinstance(message, list) and message else None
