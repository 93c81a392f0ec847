"""A server, and the connections that are kept to it: taken from redis-py's pool once, then passed from call to call."""

import codecs
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from digestif.clock import monotonic

IDLE_SECONDS = 60.0  # a connection that nobody needed for this long is let go
APART_SECONDS = 5.0  # for each reply to the greetings of a connection apart, if the pool sets no limit
_VERSION = tuple(int(part) for part in redis.__version__.split(".")[:2])
_WANTS_A_COMMAND = _VERSION < (5, 3)  # older pools ask what a connection is for, newer ones warn about the answer

# A connection needs it for the name of its host. Imported by the first of them, a fork amid that would leave the child
# with the lock of an import that nobody ends.
codecs.lookup("idna")


def pool_of(client: redis.Redis) -> Any:
    """The pool of a client that is not needed any more.

    A client closes its pool when it is collected, and for that takes a lock which, in a child, another thread of the
    parent may hold for ever. Its pool alone does nothing of the kind.
    """
    client.auto_close_connection_pool = False
    return client.connection_pool


class Node:
    """One server.

    The last connection to come back is the first to go out again, so those that outnumber the calls of late gather at
    the other end. No locks: both ends of a deque are safe by themselves, and a fork can't leave them half done.
    """

    def __init__(self, make_pool: Callable[[], Any], name: str, *, spare: int = sys.maxsize) -> None:
        self._make_pool = make_pool
        self._pool = make_pool()
        self._name = name
        self._spare = spare  # connections that may be kept when nobody uses them
        self._idle: deque[tuple[float, Any]] = deque()
        self._look_at = 0.0
        self._closed = False
        self._given_up: tuple[float, Exception] | None = None

    @property
    def name(self) -> str:
        return self._name

    def take(self) -> tuple[Any, bool]:
        """A connection for one pipeline, and whether it was used before, so that it may have died meanwhile."""
        try:
            return self._idle.pop()[1], True
        except IndexError:
            return self._connect(), False

    def give(self, connection: Any) -> None:
        """Bring back a connection from which every reply was read."""
        if len(self._idle) >= self._spare:
            self._pool.release(connection)
            return
        now = monotonic()
        self._given_up = None
        self._idle.append((now, connection))
        if now >= self._look_at or self._closed:
            self._look_at = now + IDLE_SECONDS / 4
            self._let_go(before=now if self._closed else now - IDLE_SECONDS)

    def drop(self, connection: Any) -> None:
        """Bring back a connection that failed, or whose replies nobody will read."""
        connection.disconnect()
        self._pool.release(connection)

    def apart(self) -> Any:
        """A fresh connection that belongs to its taker, who disconnects it: no pool knows of it or counts it."""
        pool = self._pool
        limit = pool.connection_kwargs.get("socket_timeout") or APART_SECONDS
        settings = {**pool.connection_kwargs, "socket_timeout": limit, "retry": Retry(NoBackoff(), 0)}
        connection = pool.connection_class(**settings)
        connection.connect()
        return connection

    def give_up(self, error: Exception) -> None:
        """Note that a call waited for this node in vain."""
        self._given_up = (monotonic(), error)

    def given_up(self, *, seconds: float) -> Exception | None:
        """The error of a call that waited in vain so lately."""
        noted = self._given_up  # another thread may take it back just now
        if noted is None or monotonic() - noted[0] > seconds:
            return None
        return noted[1]

    def drop_idle(self) -> None:
        self._let_go(before=monotonic())

    def close(self) -> None:
        self._closed = True
        self.drop_idle()

    def after_fork(self) -> None:
        """In the child: leave everything to the parent, above all the sockets."""
        self._idle = deque()
        self._pool = self._make_pool()

    def _connect(self) -> Any:
        return self._pool.get_connection("EVALSHA") if _WANTS_A_COMMAND else self._pool.get_connection()

    def _let_go(self, *, before: float) -> None:
        while self._idle:
            try:
                since, connection = self._idle.popleft()
            except IndexError:  # another thread was quicker
                return
            if since > before:
                self._idle.appendleft((since, connection))
                return
            self.drop(connection)
