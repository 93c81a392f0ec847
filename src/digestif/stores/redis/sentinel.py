"""Sentinels: a single server whose address may change, and who knows it."""

from collections.abc import Callable
from typing import Any

from redis.exceptions import ConnectionError as Unreachable
from redis.sentinel import MasterNotFoundError

from digestif.stores.redis.nodes import Node


class WatchedNode(Node):
    """Whichever server the sentinels name as the primary of a service. redis-py asks them for each new connection."""

    def __init__(self, make_client: Callable[[], Any], service: str, **options: Any) -> None:
        super().__init__(make_client, service, **options)
        self._address: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        if self._address is None:
            return self._name
        host, port = self._address
        return f"{self._name} at {host}:{port}"

    def _connect(self) -> Any:
        try:
            connection = super()._connect()
        except MasterNotFoundError as error:
            raise Unreachable(f"no sentinel that answers knows a primary of {self._name!r}") from error
        address = (connection.host, connection.port)
        if address != self._address:
            self._address = address
            self.drop_idle()  # they lead to its predecessor
        return connection
