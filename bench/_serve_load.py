"""Load on an HTTP server from a process of its own: raw sockets, keep-alive, one request at a time on each."""

import selectors
import socket
import statistics
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from time import perf_counter
from typing import NamedTuple

from bench._measure import Figures

LATEST = 30.0  # seconds without an answer, after which a run has failed


class Post(NamedTuple):
    """A request, and what it adds."""

    data: bytes
    records: int
    name: str = ""  # of what is added, to be looked for afterwards


Posts = Callable[[], Iterator[Post]]


class Connection:
    """One connection: what it waits for, and since when."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LATEST)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def send(self, post: Post) -> None:
        self.post, self.sent = post, perf_counter()
        self.socket.sendall(post.data)

    def status(self) -> int | None:
        """The status of an answer that has arrived as a whole; None if more is to come."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionResetError("the server ended the connection")
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            return None
        self._received = b""
        return int(head[9:12])


def _length(head: bytes) -> int:
    at = head.lower().find(b"content-length:")
    return 0 if at < 0 else int(head[at + 15 :].partition(b"\r\n")[0])


class Load:
    """Posts on several connections for some seconds. What the server ends, if it is killed, ends the run."""

    def __init__(self, port: int, posts: Posts, *, connections: int, seconds: float) -> None:
        self._posts = posts()
        self._seconds = seconds
        self._connections = [Connection(port) for _ in range(connections)]
        self._latencies: list[float] = []
        self.records = 0
        self.acknowledged: list[str] = []

    def run(self) -> Figures:
        began = perf_counter()
        with suppress(ConnectionError):
            self._run(began + self._seconds)
        took = perf_counter() - began
        for each in self._connections:
            each.socket.close()
        ranks = sorted(self._latencies)
        return {
            "posts": len(ranks) / took,
            "records": self.records / took,
            "acknowledged": float(self.records),
            "p50": statistics.median(ranks) * 1000 if ranks else 0.0,
            "p99": ranks[int(len(ranks) * 0.99)] * 1000 if ranks else 0.0,
        }

    def _run(self, end: float) -> None:
        with selectors.DefaultSelector() as selector:
            for each in self._connections:
                selector.register(each.socket, selectors.EVENT_READ, each)
                each.send(next(self._posts))
            waiting = len(self._connections)
            while waiting:
                ready = selector.select(LATEST)
                if not ready:
                    raise TimeoutError("the server does not answer")
                waiting -= sum(self._answered(key.data, end) for key, _ in ready)

    def _answered(self, connection: Connection, end: float) -> bool:
        """Count an answer and post again. True if the connection is done."""
        status = connection.status()
        if status is None:
            return False
        if not 200 <= status < 300:
            raise RuntimeError(f"the server answered {status}")
        now = perf_counter()
        self._latencies.append(now - connection.sent)
        self.records += connection.post.records
        if connection.post.name:
            self.acknowledged.append(connection.post.name)
        if now >= end:
            return True
        connection.send(next(self._posts))
        return False


def numbered(make: Callable[[int], Post], first: int = 0) -> Posts:
    return lambda: map(make, count(first))


def cycled(posts: list[Post]) -> Posts:
    """The same posts again and again, made beforehand."""

    def repeat() -> Iterator[Post]:
        while True:
            yield from posts

    return repeat
