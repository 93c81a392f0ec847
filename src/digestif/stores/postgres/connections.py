"""Connections to a server, or the reason why there is none, and whether it is of any use to try again."""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, Self, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping
from psycopg_pool import ConnectionPool

from digestif.core.secret import Secret
from digestif.errors import ConfigError
from digestif.stores.postgres.arrays import COLUMNS
from digestif.stores.postgres.outcome import life_of

C = TypeVar("C")

FULL = ("too many", "connection slots")  # in what a server says that has no more connections to give
PING_SECONDS = 2  # a server that is frozen takes connections and says nothing
RECONNECT_SECONDS = 1.0  # the pool would rest for longer and longer, and be late when the server is back


class Refused(psycopg.OperationalError):
    """The server is up and does not let us in: a wrong password, a database that is missing. Waiting mends nothing."""


class Address:
    """Where a server is and who we are there. It shows no password, and neither do the errors of connecting."""

    def __init__(self, connection: Mapping[str, "str | Secret"] | str) -> None:
        self._conninfo = _conninfo(connection)
        parts = conninfo_to_dict(self._conninfo.reveal())
        port = f":{parts['port']}" if "port" in parts else ""
        self.name = f"postgresql://{parts.get('host', '')}{port}/{parts.get('dbname', '')}"
        self._has_timeout = "connect_timeout" in parts

    def connect(self, connect: Callable[..., C], **options: Any) -> C:
        """A new connection. The errors are made anew: those of the driver hold the password, and so do their frames."""
        if self._has_timeout:
            options.pop("connect_timeout", None)
        try:
            return connect(self._conninfo.reveal(), **options)
        except psycopg.Error as error:
            failure = type(error)(str(error))
        raise failure

    def connect_patiently(self, *, patience: float, **options: Any) -> "psycopg.Connection[Any]":
        """The same; OperationalError after so many seconds, Refused if it is of no use to try again."""
        was_up = False
        while True:
            try:
                return self.connect(psycopg.connect, connect_timeout=ceil(patience), **options)
            except psycopg.OperationalError as error:
                if any(words in str(error) for words in FULL) or not self._is_up():
                    raise
                if was_up:
                    raise Refused(str(error)) from error
            was_up = True  # it may have come up only after the error: once more

    def _is_up(self) -> bool:
        """Whether the server lets anybody in; an error of connecting has no code that would tell."""
        conninfo = Secret(make_conninfo(self._conninfo.reveal(), connect_timeout=PING_SECONDS))
        return PGconn.ping(conninfo.reveal().encode()) == Ping.OK


class Pooled(psycopg.Connection[Any]):
    """A connection of the pool, which is told the address as an object that shows no password."""

    life: str | None = None  # of the server, when this was made

    @classmethod
    def connect(cls, conninfo: str = "", *, address: Address, **options: Any) -> Self:  # type: ignore[override]  # noqa: ARG003  # as the pool calls it
        connection: Self = address.connect(super().connect, **options)
        connection.life = life_of(connection)
        return connection


def new_pool(address: Address, *, size: int, timeout: float, **options: Any) -> "ConnectionPool[Pooled]":
    """Connections for calls, made when they are needed."""
    return ConnectionPool(
        connection_class=Pooled,
        kwargs={"address": address, **options},
        min_size=0,
        max_size=size,
        timeout=min(timeout, 2 * RECONNECT_SECONDS),  # and then asked again
        reconnect_timeout=RECONNECT_SECONDS,
        open=False,
    )


def connection_options(*, pgbouncer: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"autocommit": True, "context": COLUMNS}
    return options | {"prepare_threshold": None} if pgbouncer else options


def _conninfo(connection: Mapping[str, "str | Secret"] | str) -> Secret:
    try:
        if not isinstance(connection, str):
            given = Secret(make_conninfo(**{name: _revealed(value) for name, value in connection.items()}))
        else:
            given = Secret(connection)
        return Secret(make_conninfo(given.reveal(), client_encoding="utf8"))  # with SQL_ASCII texts would be bytes
    except psycopg.Error:
        pass  # what it says may hold the password
    raise ConfigError("store: this is no address of a PostgreSQL server, such as postgresql://user@host:5432/database")


def _revealed(value: "str | Secret") -> str:
    return value.reveal() if isinstance(value, Secret) else value
