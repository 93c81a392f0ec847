"""Subscriptions: one connection to one node, on which messages of its sharded channels arrive.

redis-py makes the connection. Messages are read here, without blocking and without its parsers, so that they are the
same for both protocols, with or without TLS, and whatever the user's client decodes.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from ssl import SSLWantReadError, SSLWantWriteError
from typing import Any, NamedTuple

from hiredis import Reader
from redis.exceptions import ConnectionError as Unreachable
from redis.exceptions import InvalidResponse, ResponseError

from digestif.clock import monotonic
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.node import Node

_PING = Command(0, ("PING",)).message()
_READ_SIZE = 65536
_NOTHING = object()
_NOT_NOW = (BlockingIOError, SSLWantReadError, SSLWantWriteError)


class Keepalive(NamedTuple):
    """When a silent server is asked whether it is alive, and how long it may take to answer."""

    quiet_seconds: float = 5.0
    answer_seconds: float = 3.0


def subscribe(node: Node, channels: Sequence[bytes], keepalive: Keepalive) -> "Subscription":
    """Connect to a node and subscribe. Raises if it can't be reached, or refuses one of the channels."""
    connection = node.connect_outside_pool()
    try:
        return Subscription(connection, channels, keepalive)
    except BaseException:
        connection.disconnect()
        raise


class Subscription:
    """Reads the messages of some channels, over a connection of its own."""

    def __init__(self, connection: Any, channels: Sequence[bytes], keepalive: Keepalive) -> None:
        self.keepalive = keepalive
        self._connection = connection
        self._socket = connection._sock
        self._reader = Reader(protocolError=InvalidResponse, replyError=ResponseError, notEnoughData=_NOTHING)
        self._received_at = monotonic()
        self._pinged_at: float | None = None
        self._begin(channels)

    def fileno(self) -> int:
        number: int = self._socket.fileno()
        return number

    def read(self) -> set[bytes]:
        """The channels whose messages have arrived.

        Raises if no more will: the server is gone or silent, or a slot was moved.
        """
        with suppress(*_NOT_NOW):
            while True:  # to the end, because selectors do not see what TLS has decrypted
                self._receive()
        channels = {message[1] for message in self._messages() if _kind(message) == b"smessage"}
        self._check_server()
        return channels

    def read_at(self) -> float:
        """When to read even if nothing has arrived, so that a silent server is noticed."""
        if self._pinged_at is None:
            return self._received_at + self.keepalive.quiet_seconds
        return self._pinged_at + self.keepalive.answer_seconds

    def close(self) -> None:
        self._connection.disconnect()

    def _begin(self, channels: Sequence[bytes]) -> None:
        """Return when the server has confirmed each channel."""
        commands = [Command(0, ("SSUBSCRIBE", channel)).message() for channel in channels]  # one by one: slots differ
        self._socket.sendall(b"".join(commands))
        confirmed = 0
        while confirmed < len(channels):
            self._receive()
            confirmed += sum(_kind(message) == b"ssubscribe" for message in self._messages())
        self._socket.setblocking(False)

    def _check_server(self) -> None:
        now = monotonic()
        if now < self.read_at():
            return
        if self._pinged_at is not None:
            raise Unreachable(f"no answer for {now - self._pinged_at:.0f} s")
        self._socket.sendall(_PING)
        self._pinged_at = now

    def _receive(self) -> None:
        data = self._socket.recv(_READ_SIZE)
        if not data:
            raise Unreachable("the server closed the connection")
        self._reader.feed(data)
        self._received_at = monotonic()
        self._pinged_at = None

    def _messages(self) -> Iterator[Any]:
        while (message := self._reader.gets()) is not _NOTHING:
            if isinstance(message, ResponseError):
                raise message
            if _kind(message) == b"sunsubscribe":
                raise Unreachable("a slot was moved to another node")
            yield message


def _kind(message: Any) -> Any:
    return message[0] if isinstance(message, list) and message else None
