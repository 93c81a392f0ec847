"""A proxy that knows which script a request runs: it loses replies, and holds requests back.

with Proxy(server) as proxy, Digests(proxy.url) as digests:
    proxy.lose("add")  # the server runs each such call, and its first reply gets lost
    proxy.hold("add")  # each such call is kept, its client is cut off…
    proxy.run_held()  # …and the server gets it long after
"""

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha1
from importlib.resources import files
from typing import Any, NamedTuple, Self

from hiredis import Reader

from digestif.stores.redis.client.scripts import load
from digestif.testing.servers import HOST, RedisServer

_LUA = files("digestif.stores.redis").joinpath("lua")
SCRIPTS = [
    name.removesuffix(".lua") for name in sorted(entry.name for entry in _LUA.iterdir()) if name.endswith(".lua")
]
WRITING = [name for name in SCRIPTS if "no-writes" not in load(name).text.splitlines()[0]]
_NAMES = {load(name).sha: name for name in SCRIPTS}
_NOTHING = object()


class Request(NamedTuple):
    """A request of a client, by EVAL or EVALSHA."""

    script: str  # its name, or the word of a plain command
    arguments: tuple[bytes, ...]

    @classmethod
    def of(cls, command: list[bytes]) -> "Request":
        word, *arguments = command
        match word:
            case b"EVALSHA":
                return cls(_NAMES[arguments[0].decode()], tuple(arguments[1:]))
            case b"EVAL":
                return cls(_NAMES[sha1(arguments[0], usedforsecurity=False).hexdigest()], tuple(arguments[1:]))
            case _:
                return cls(word.decode(), tuple(arguments))


class Held(NamedTuple):
    """A message that never arrived, and the open connection on which it still may."""

    server: socket.socket
    message: bytes
    requests: int


class Proxy:
    """Between clients and a server, one request after the other on each connection."""

    def __init__(self, server: RedisServer) -> None:
        self.lost: Counter[str] = Counter()  # replies, by script
        self._server = server
        self._losing: dict[str, int] = {}
        self._holding: set[str] = set()
        self._losses: Counter[Request] = Counter()
        self._held: list[Held] = []
        self._listener = socket.create_server((HOST, 0))
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self._listener.getsockname()[1]}"

    def lose(self, *scripts: str, times: int = 1) -> None:
        """From now on the first replies to each call of these get lost, and the connection with them."""
        self._losing = dict.fromkeys(scripts, times)

    def hold(self, *scripts: str) -> None:
        """From now on, calls of these do not arrive."""
        self._holding = set(scripts)

    def run_held(self) -> list[Any]:
        """Send the held requests to the server, in their order. Returns the replies, for which no client waits."""
        replies: list[Any] = []
        for server, message, requests in self._held:
            server.sendall(message)
            replies += _Stream(server).read(requests)[1]
        self._held = []
        return replies

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._open):
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((HOST, self._server.port))
                self._open |= {client, server}
                thread = threading.Thread(target=self._serve, args=(client, server), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        requests, replies = _Stream(client), _Stream(server)
        with client, suppress(OSError, EOFError):
            while self._pass(requests, replies):
                pass
        if all(held.server is not server for held in self._held):
            server.close()

    def _pass(self, client: "_Stream", server: "_Stream") -> bool:
        """Pass one message to the server and its replies back. False: the connection has to be closed."""
        message, commands = client.read_all()
        requests = [Request.of(command) for command in commands]
        if any(request.script in self._holding for request in requests):
            self._held.append(Held(server.socket, message, len(requests)))
            return False
        server.socket.sendall(message)
        reply, answers = server.read(len(requests))
        if any([self._loses(*pair) for pair in zip(requests, answers, strict=True)]):  # noqa: C419  # each counts
            return False
        client.socket.sendall(reply)
        return True

    def _loses(self, request: Request, answer: object) -> bool:
        if str(answer).startswith("NOSCRIPT") or self._losses[request] >= self._losing.get(request.script, 0):
            return False
        self._losses[request] += 1
        self.lost[request.script] += 1
        return True


class _Stream:
    """Reads from a socket, as bytes and as values."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._reader = Reader(notEnoughData=_NOTHING)

    def read(self, many: int) -> tuple[bytes, list[Any]]:
        """Read this many values."""
        message, values = b"", list[Any]()
        while len(values) < many:
            message += self._receive()
            values += self._values()
        return message, values

    def read_all(self) -> tuple[bytes, list[Any]]:
        """Read values until the last one is complete; at least one."""
        message, values = self.read(1)
        while self._reader.has_data():
            message += self._receive()
            values += self._values()
        return message, values

    def _receive(self) -> bytes:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError
        self._reader.feed(data)
        return data

    def _values(self) -> Iterator[Any]:
        while (value := self._reader.gets()) is not _NOTHING:
            yield value
