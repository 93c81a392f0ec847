"""Messages between a process and its children: each is its length, then JSON."""

import json
import socket
import struct
from typing import Any

from digestif.clock import monotonic

LONGEST = 32 * 1024 * 1024
HEADER = struct.Struct("!I")


def send(end: socket.socket, message: dict[str, Any]) -> None:
    """Write a message."""
    body = json.dumps(message).encode()
    end.sendall(HEADER.pack(len(body)) + body)


def receive(end: socket.socket, *, deadline: float | None = None) -> dict[str, Any] | None:
    """Read a message; None if the other end is closed. Raises TimeoutError at the deadline, a monotonic time."""
    header = _read(end, HEADER.size, deadline)
    if len(header) < HEADER.size:
        return None
    length = HEADER.unpack(header)[0]
    if length > LONGEST:
        return None  # no message is that long: the child is broken
    body = _read(end, length, deadline)
    return dict(json.loads(body)) if len(body) == length else None


def _read(end: socket.socket, length: int, deadline: float | None) -> bytes:
    pieces = bytearray()
    while len(pieces) < length:
        if deadline is not None:
            end.settimeout(max(deadline - monotonic(), 0.001))
        piece = end.recv(min(length - len(pieces), 1 << 20))
        if not piece:
            break
        pieces += piece
    return bytes(pieces)
