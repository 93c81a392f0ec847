"""A proxy that does harm at a chosen call of `add`, between the calls that a client sends without waiting for replies.

with Saboteur() as saboteur, Digests(saboteur.url) as digests:
    saboteur.plan("lose", at=3, calls=4)  # the server gets four calls, from the third on, and no reply arrives
"""

import socket
import threading
from contextlib import ExitStack, suppress
from random import Random
from typing import Any, Self

from hiredis import Reader

from digestif import Digests, Policy, Record
from digestif.stores.redis.client.commands import message
from digestif.stores.redis.client.scripts import load
from digestif.testing.servers import HOST, RedisServer, becomes_true

ADD = load("add")
HARMS = {
    "lose": "the server does some calls, and their replies get lost",
    "cut": "the calls from here on do not arrive",
    "flush": "the server forgets its scripts",
    "forget": "the server forgets its scripts for one call, and again when that is repeated",
    "lag": "the server knows nothing of the calls before any more, as a replica that took over too early",
    "kill": "the server closes all connections",
    "late": "a call arrives a second time, when others have been done",
    "failover": "another server takes over",
}
POLICY = Policy(capacity=None, ttl=None)
_NOTHING = object()


class Saboteur:
    """Between clients and the primary of two servers."""

    def __init__(self) -> None:
        self.done: list[str] = []  # the harms, in order
        self._servers = [RedisServer(), RedisServer()]
        self._primary, self._replica = self._servers
        self._planned: tuple[str, int, int] | None = None
        self._lost = 0  # replies that still get lost
        self._late: list[bytes] = []  # calls that come again behind the next one
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._turn = threading.Lock()  # one call after the other, whatever connection it is on
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._primary)
        self._replica.options["replicaof"] = f"{HOST} {self._primary.port}"
        self._stack.enter_context(self._replica)
        self._replica.wait_until_synced()
        self._listener = socket.create_server((HOST, 0))
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._close(self._listener)
        self._cut_everything()
        for thread in self._threads:
            thread.join()
        self._stack.close()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self._listener.getsockname()[1]}"

    def plan(self, harm: str, *, at: int, calls: int = 1) -> None:
        """Do harm at a call, counted from 1. `calls`: that lose their replies, or until the server forgets again.

        Besides HARMS it can be `full`: the server refuses all records from then on; or `lose, full`: once the replies
        are lost.
        """
        self._planned = (harm, at, calls)

    # Passing calls on

    def _start(self, target: Any, *arguments: Any) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((HOST, self._primary.port))
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open |= {client, server}
                self._start(self._serve, client, server)

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        requests, replies = _Values(client), _Values(server)
        with suppress(OSError, EOFError):
            while True:
                command = requests.next()
                with self._turn:
                    if not self._pass(command, client, server, replies):
                        break
        self._close(client)
        self._close(server)

    def _pass(self, command: list[bytes], client: socket.socket, server: socket.socket, replies: "_Values") -> bool:
        """Pass a request and its reply on. False: the connection has to be closed."""
        harm = self._harm_at(command)
        data = message(parts=tuple(command))
        if harm == "lag":
            self._forget_callers()
        if harm in ("cut", "lag"):
            return False
        if harm in ("flush", "forget"):
            self._primary.cli("SCRIPT", "FLUSH")
        if harm == "kill":
            self._primary.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        if harm == "failover":
            self._fail_over()
        if harm == "full":
            self._fill()
        server.sendall(data)
        reply = replies.next_raw()
        if harm == "forget":
            self._primary.cli("SCRIPT", "LOAD", ADD.text)
        if harm == "late":
            self._late = [data]
            return False
        if self._lost > 0:
            self._lost -= 1
            if not self._lost and self.done[-1] == "lose, full":
                self._fill()
            return self._lost > 0
        client.sendall(reply)
        if self._late and command[0] in (b"EVAL", b"EVALSHA"):
            server.sendall(self._late.pop())
            replies.next_raw()
        return True

    def _harm_at(self, command: list[bytes]) -> str | None:
        is_add = command[:2] in ([b"EVALSHA", ADD.sha.encode()], [b"EVAL", ADD.text.encode()])
        if not is_add or self._planned is None:
            return None
        harm, at, calls = self._planned
        self._planned = (harm, at - 1, calls) if at > 1 else None
        if at > 1:
            return None
        self.done.append(harm)
        self._lost = calls if harm.startswith("lose") else 0
        if harm == "forget" and calls:
            self._planned = (harm, calls, 0)
        return harm

    def _fill(self) -> None:
        self._primary.cli("CONFIG", "SET", "maxmemory", 1)

    def _forget_callers(self) -> None:
        with self._primary.client() as client:
            for ledger in client.keys("*:ledger"):
                if names := [name for name in client.hkeys(ledger) if name.startswith(b"c:")]:
                    client.hdel(ledger, *names)

    def _fail_over(self) -> None:
        """Let the replica take over, with all that the primary has; who is connected is cut off."""
        old, new = self._primary, self._replica
        old.cli("FAILOVER")
        assert becomes_true(lambda: new.cli("ROLE")[0] == "master" and old.cli("ROLE")[3:4] == ["connected"])
        self._primary, self._replica = new, old

    # Ending

    def _cut_everything(self) -> None:
        for each in list(self._open):
            self._close(each)

    @staticmethod
    def _close(each: socket.socket) -> None:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it
        each.close()


class _Values:
    """The values that come from a socket, one by one."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._reader = Reader(notEnoughData=_NOTHING)

    def next(self) -> Any:
        while (value := self._reader.gets()) is _NOTHING:
            self._receive()
        return value

    def next_raw(self) -> bytes:
        """The bytes of one value; nothing else is under way then."""
        received = self._receive()
        while self._reader.gets() is _NOTHING:
            received += self._receive()
        return received

    def _receive(self) -> bytes:
        data = self._socket.recv(65536)
        if not data:
            raise EOFError
        self._reader.feed(data)
        return data


# Adding under sabotage

TIMELINES = [f"t{number}" for number in range(6)]
BATCH = 40  # records


class Story:
    """Batches with a harm in each, and what has to be stored after them."""

    def __init__(self, saboteur: Saboteur, digests: Digests, seed: int) -> None:
        self._random = Random(seed)
        self._saboteur = saboteur
        self._digests = digests
        self._added: dict[str, list[str]] = {name: [] for name in TIMELINES}
        self._count = 0

    def add_batch(self, harm: str, *, calls: int) -> None:
        """Add a batch, of which one of the first calls is harmed."""
        timelines = self._random.choices(TIMELINES, k=BATCH)
        batch = [(name, Record(f"{self._count + n}", n, 0.0)) for n, name in enumerate(timelines)]
        expected = [not self._added[name] and timelines.index(name) == n for n, name in enumerate(timelines)]
        at = self._random.randint(1, calls)
        rest = calls - at + 1
        self._saboteur.plan(harm, at=at, calls=rest if harm == "forget" else self._random.randint(1, rest))

        answers = self._digests.add_many(batch)

        assert answers == expected
        for name, record in batch:
            self._added[name].append(record.key)
        self._count += BATCH

    def check(self) -> None:
        """All records are there, once, in their order; then delete them."""
        for name, keys in self._added.items():
            assert [record.key for record in self._digests.peek(name, limit=len(keys) + 1)] == keys[::-1]
        total = sum(map(len, self._added.values()))
        ledger = self._digests.ledger()
        assert (ledger.pending, ledger.accepted - ledger.deleted) == (total, total)
        assert self._digests.verify()
        for name in TIMELINES:
            self._digests.delete(name)
            self._added[name] = []
