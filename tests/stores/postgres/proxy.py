"""A proxy that recognizes COMMIT, and loses it or its answer, and the connection with it.

with Proxy(url) as proxy, Digests(proxy.url) as digests:
    proxy.lose = Loss.ANSWER  # every other commit, beginning with the next
"""

import socket
import struct
import threading
from contextlib import suppress
from enum import Enum, auto
from typing import Self
from urllib.parse import urlsplit

HOST = "127.0.0.1"
LENGTH = struct.Struct(">I")
SSL_REQUEST, GSS_REQUEST = 80877103, 80877104


class Loss(Enum):
    """What happens to a commit."""

    ANSWER = auto()  # it takes place, and the answer is lost
    REQUEST = auto()  # it does not reach the server, which notices that its client is gone…
    SILENCE = auto()  # …or does not


class Proxy:
    """Between clients and a PostgreSQL server."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self.lose: Loss | None = None
        self.always = False  # rather than every other one
        self.commits = 0
        self.lost = 0
        self._lost_last = False
        self._listener = socket.create_server((HOST, 0))
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def url(self) -> str:
        place = f"{self._parts.username}@{HOST}:{self._listener.getsockname()[1]}"
        return self._parts._replace(netloc=place).geturl()

    def lose_from_now_on(self, loss: Loss, *, first: bool) -> None:
        """Every other commit, beginning with the next, or with the one after it."""
        self._lost_last = not first
        self.lose = loss

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

    # How

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection((HOST, self._parts.port or 5432))
                except OSError:  # it is down
                    client.close()
                    continue
                self._open |= {client, server}
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._start(_Conversation(self, client, server).listen)

    def _start(self, target: object) -> None:
        thread = threading.Thread(target=target, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def loses(self) -> Loss | None:
        """Return what happens to this commit. One that is repeated after a loss passes."""
        self.commits += 1
        self._lost_last = self.lose is not None and (self.always or not self._lost_last)
        self.lost += self._lost_last
        return self.lose if self._lost_last else None


class _Conversation:
    """One client, and its connection to the server."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client, self._server = client, server
        self._incoming = client.makefile("rb")
        self._prepared: set[bytes] = set()  # statements that are commits
        self._is_mute = False
        self._answered = threading.Event()

    def listen(self) -> None:
        with suppress(OSError, EOFError):
            self._greet()
            self._proxy._start(self._answer)
            while self._pass():
                pass
        self._hang_up(self._client)

    def _greet(self) -> None:
        """Messages of the beginning have no type."""
        code = SSL_REQUEST
        while code in (SSL_REQUEST, GSS_REQUEST):
            size = self._read(4)
            body = self._read(LENGTH.unpack(size)[0] - 4)
            self._server.sendall(size + body)
            (code,) = LENGTH.unpack(body[:4])
            if code in (SSL_REQUEST, GSS_REQUEST):
                self._client.sendall(self._server.recv(1))

    def _pass(self) -> bool:
        """One message to the server; False if that was the end."""
        head = self._read(5)
        body = self._read(LENGTH.unpack(head[1:])[0] - 4)
        loss = self._proxy.loses() if self._is_commit(head[:1], body) else None
        if loss is None:
            self._server.sendall(head + body)
            return head[:1] != b"X"
        if loss is Loss.ANSWER:
            self._is_mute = True
            self._server.sendall(head + body + self._rest_of(head[:1]))
            self._answered.wait()
        if loss is not Loss.SILENCE:
            self._hang_up(self._server)
        return False

    def _rest_of(self, kind: bytes) -> bytes:
        """What follows a commit that is not a simple query, to the end of its message."""
        rest = b""
        while kind not in (b"Q", b"S"):
            head = self._read(5)
            kind = head[:1]
            rest += head + self._read(LENGTH.unpack(head[1:])[0] - 4)
        return rest

    def _is_commit(self, kind: bytes, body: bytes) -> bool:
        match kind:
            case b"Q":
                return body.rstrip(b"\0") == b"COMMIT"
            case b"P":
                name, query, _ = body.split(b"\0", 2)
                self._prepared.discard(name)
                if query == b"COMMIT" and name:
                    self._prepared.add(name)
                return query == b"COMMIT" and not name
            case b"B":
                return body.split(b"\0", 2)[1] in self._prepared
        return False

    def _answer(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(65536):
                if self._is_mute:
                    self._answered.set()
                else:
                    self._client.sendall(data)
        self._answered.set()
        self._hang_up(self._client)

    def _read(self, size: int) -> bytes:
        data = self._incoming.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def _hang_up(self, connection: socket.socket) -> None:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
