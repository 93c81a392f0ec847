"""Sentinels: a single server whose address may change, and those who know it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as Unreachable
from redis.sentinel import MasterNotFoundError

from digestif.clock import monotonic
from digestif.stores.redis.client.faults import FAILURES
from digestif.stores.redis.client.node import Node

ASK_SECONDS = 1.0  # how old the word of the sentinels may be
REST_SECONDS = 10.0  # after which they are asked again if they did not answer


class WatchedNode(Node):
    """Whichever server the sentinels name as the primary of a service.

    redis-py asks them for each new connection. That is not enough: a primary that was replaced on request goes on
    accepting writes for about ten seconds, over the connections it has, before it is told and forgets them. So the
    sentinels are asked once in a while.
    """

    def __init__(self, make_pool: Callable[[], Any], service: str, **options: Any) -> None:
        super().__init__(make_pool, service, **options)
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
            self._ask_at = now + REST_SECONDS  # the others need not ask, too
            with suppress(*FAILURES):
                self._move_to(self._pool.get_master_address())
                self._ask_at = now + ASK_SECONDS
        return super().take()

    def apart(self) -> Any:
        connection = super().apart()
        self._move_to((connection.host, connection.port))
        return connection

    def close(self) -> None:
        super().close()
        for sentinel in self._pool.sentinel_manager.sentinels:
            if not sentinel.auto_close_connection_pool:  # ours: those of a client that we were given are its own
                sentinel.connection_pool.disconnect()

    def _connect(self) -> Any:
        try:
            connection = super()._connect()
        except MasterNotFoundError as error:
            self._tell_of_login()
            raise Unreachable(f"no sentinel that answers knows a primary of {self._name!r}") from error
        self._move_to((connection.host, connection.port))
        return connection

    def _tell_of_login(self) -> None:
        """Raise AuthenticationError if the sentinels that answer at all want another login."""
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
            self.drop_idle()  # those lead to its predecessor
