"""Nodes: a server, or whichever one the sentinels name, and its idle connections, which calls pass on to each other."""

import codecs
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as Unreachable
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError

from digestif.clock import monotonic
from digestif.stores.redis.client.faults import FAILURES

IDLE_SECONDS = 60.0  # a connection that no call needed for this long is closed
REPLY_SECONDS = 5.0  # for each reply to the greetings of a connection outside the pool, if the pool sets no limit
_VERSION = tuple(int(part) for part in redis.__version__.split(".")[:2])
_WANTS_A_COMMAND = _VERSION < (5, 3)  # older pools ask what a connection is for, newer ones warn about the answer

# Connections need it to encode the name of their host. If the first of them imported it, a fork at that moment would
# leave the child with a lock of the import system that is never released.
codecs.lookup("idna")


def pool_of(client: redis.Redis) -> Any:
    """The pool of a client that is not needed any more.

    A client that is garbage collected closes its pool, for which it takes a lock. In a child process, another thread of
    the parent may hold that lock for ever. The pool alone takes no lock when it is collected.
    """
    client.auto_close_connection_pool = False
    return client.connection_pool


class Node:
    """One server.

    The connection that came back last is taken first, so connections in excess gather at the other end. There are no
    locks: both ends of a deque are safe by themselves, and a fork can't leave it half changed.
    """

    def __init__(self, make_pool: Callable[[], Any], name: str, *, spare: int = sys.maxsize) -> None:
        self._make_pool = make_pool
        self._pool = make_pool()
        self._name = name
        self._spare = spare  # connections that may be kept idle
        self._idle: deque[tuple[float, Any]] = deque()
        self._close_idle_at = 0.0
        self._closed = False
        self._failure: tuple[float, Exception] | None = None
        self.silence: Exception | None = None  # the answer of calls that fail fast, while a probe has no answer

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
        self._failure = None
        self._idle.append((now, connection))
        if now >= self._close_idle_at or self._closed:
            self._close_idle_at = now + IDLE_SECONDS / 4
            self._drop_idle(before=now if self._closed else now - IDLE_SECONDS)

    def drop(self, connection: Any) -> None:
        """Bring back a connection that failed, or on which unread replies may arrive."""
        connection.disconnect()
        self._pool.release(connection)

    def connect_outside_pool(self) -> Any:
        """A fresh connection that the caller disconnects; the pool does not count it."""
        connection = self.new_connection()
        connection.connect()
        return connection

    def new_connection(self) -> Any:
        """Make a connection outside the pool that is not connected yet."""
        pool = self._pool
        limit = pool.connection_kwargs.get("socket_timeout") or REPLY_SECONDS
        settings = {**pool.connection_kwargs, "socket_timeout": limit, "retry": Retry(NoBackoff(), 0)}
        return pool.connection_class(**settings)

    def note_failure(self, error: Exception) -> None:
        """Note that a call waited for this node in vain."""
        self._failure = (monotonic(), error)

    def recent_failure(self, *, seconds: float) -> Exception | None:
        """Return the error of a call that this node left unanswered within the last seconds; None if it answered since.

        While the node is probed it is the error with which the probes began, however long ago.
        """
        if (silence := self.silence) is not None:
            return silence
        failure = self._failure  # another thread may reset it just now
        if failure is None or monotonic() - failure[0] > seconds:
            return None
        return failure[1]

    def drop_idle(self) -> None:
        self._drop_idle(before=monotonic())

    def close(self) -> None:
        self._closed = True
        self.drop_idle()

    def after_fork(self) -> None:
        """In the child: leave everything to the parent, above all the sockets."""
        self._idle = deque()
        self._pool = self._make_pool()
        self.silence = None  # its probes stay with the parent

    def _connect(self) -> Any:
        return self._pool.get_connection("EVALSHA") if _WANTS_A_COMMAND else self._pool.get_connection()

    def _drop_idle(self, *, before: float) -> None:
        while self._idle:
            try:
                since, connection = self._idle.popleft()
            except IndexError:  # another thread took it
                return
            if since > before:
                self._idle.appendleft((since, connection))
                return
            self.drop(connection)


class SentinelNode(Node):
    """Whichever server the sentinels name as the primary of a service.

    redis-py asks the sentinels for each new connection. That is not enough: a primary that was replaced on request
    accepts writes over its connections for about ten seconds more, and then forgets them. So the sentinels are also
    asked every `ask_seconds`, or after `rest_seconds` if they did not answer.
    """

    def __init__(
        self,
        make_pool: Callable[[], Any],
        service: str,
        *,
        ask_seconds: float = 1.0,
        rest_seconds: float = 10.0,
        **options: Any,
    ) -> None:
        super().__init__(make_pool, service, **options)
        self.ask_seconds = ask_seconds
        self.rest_seconds = rest_seconds
        self._address: tuple[str, int] | None = None
        self._ask_at = 0.0

    @property
    def name(self) -> str:
        if self._address is None:
            return self._name
        host, port = self._address
        return f"{self._name} at {host}:{port}"

    def take(self) -> tuple[Any, bool]:
        now = monotonic()
        if now >= self._ask_at and self._idle:
            self._ask_at = now + self.rest_seconds  # other threads do not ask meanwhile
            with suppress(*FAILURES):
                self._move_to(self._pool.get_master_address())
                self._ask_at = now + self.ask_seconds
        return super().take()

    def connect_outside_pool(self) -> Any:
        connection = super().connect_outside_pool()
        self._move_to((connection.host, connection.port))
        return connection

    def close(self) -> None:
        super().close()
        for sentinel in self._pool.sentinel_manager.sentinels:
            if not sentinel.auto_close_connection_pool:  # otherwise it belongs to the user's client
                sentinel.connection_pool.disconnect()

    def _connect(self) -> Any:
        try:
            connection = super()._connect()
        except MasterNotFoundError as error:
            self._raise_if_login_refused()
            raise Unreachable(f"no sentinel that answers knows a primary of {self._name!r}") from error
        self._move_to((connection.host, connection.port))
        return connection

    def _raise_if_login_refused(self) -> None:
        """Raise AuthenticationError if every sentinel that answers refuses the login."""
        refusal: AuthenticationError | None = None
        for sentinel in self._pool.sentinel_manager.sentinels:
            try:
                sentinel.ping()
                return
            except AuthenticationError as error:
                refusal = error
            except FAILURES:
                continue
        if refusal is not None:
            raise AuthenticationError(
                f"the sentinels refuse the login ({refusal}); give theirs as sentinel_user and sentinel_password"
            )

    def _move_to(self, address: tuple[str, int]) -> None:
        if address != self._address:
            self._address = address
            self.drop_idle()  # they lead to the former primary
