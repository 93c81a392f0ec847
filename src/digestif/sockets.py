"""The sockets of a session of aiohttp, which are closed with it."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]  # as getaddrinfo has it

LOOKS, LOOK_SECONDS = 1000, 0.001  # an event loop notices in a few turns that a connection was cut


def plain_socket(address_info: AddressInfo) -> socket.socket:
    family, kind, protocol, _, _ = address_info
    return socket.socket(family=family, type=kind, proto=protocol)


class Sockets:
    """Makes sockets for a connector, and ends those that its session leaves behind.

    aiohttp forgets a TLS connection that failed, while asyncio waits up to 30 s for the other side to say goodbye. If
    the event loop ends in that time, nothing closes the socket.
    """

    def __init__(self, create: Callable[[AddressInfo], socket.socket] = plain_socket) -> None:
        self._create = create
        self._made: WeakSet[socket.socket] = WeakSet()

    def __call__(self, address_info: AddressInfo) -> socket.socket:
        made = self._create(address_info)
        self._made.add(made)
        return made

    async def end(self) -> None:
        """Cut the connections that are left, and wait until the running loop has closed their sockets."""
        for left in self._left():
            with suppress(OSError):  # the other side was quicker
                left.shutdown(socket.SHUT_RDWR)
        for _ in range(LOOKS):
            if not self._left():
                return
            await asyncio.sleep(LOOK_SECONDS)

    def _left(self) -> list[socket.socket]:
        return [made for made in self._made if made.fileno() != -1]
