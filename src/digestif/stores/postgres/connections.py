"""Connections to a PostgreSQL server, and its errors as ours: what is wrong, where, and what to do."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from typing import Any, Self, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping
from psycopg_pool import ConnectionPool, PoolTimeout

from digestif.core.secret import Secret
from digestif.errors import ConfigError, DigestifError, Overloaded, StoreError, StoreUnavailable
from digestif.stores.postgres.arrays import COLUMNS
from digestif.stores.postgres.transaction import SQL

C = TypeVar("C")

# In the message of a server that is at its limit, or that is not the one that `target_session_attrs` asks for: the
# primary may come back, or another server be promoted.
FOR_NOW = ("too many", "connection slots", "session is read-only", "session is not read-only", "hot standby mode")
PING_SECONDS = 2  # a server that is frozen takes connections and says nothing
RECONNECT_SECONDS = 1.0  # by itself the pool would pause longer and longer, and be late when the server is back

# Another transaction was in the way, or inserted the same row first, or this process was frozen: try again.
PASSING = (
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.UniqueViolation,
    errors.IdleInTransactionSessionTimeout,
)
DROPPED_TABLES = (errors.UndefinedTable, errors.InvalidSchemaName, errors.ForeignKeyViolation)
FULL = (errors.DiskFull, errors.OutOfMemory, errors.ProgramLimitExceeded)
READ_ONLY = (errors.ReadOnlySqlTransaction,)
MAY_ONLY_READ = (errors.InsufficientPrivilege, *READ_ONLY)
FORBIDDEN = (errors.InsufficientPrivilege, errors.InvalidPassword, errors.InvalidAuthorizationSpecification)


class AccessRefused(psycopg.OperationalError):
    """The server is up and refuses us, for a wrong password or a missing database: waiting does not help."""


class ServerNotReady(psycopg.OperationalError):
    """The server is there and takes no connections: it starts, recovers or shuts down."""


class ServerAddress:
    """Where the server is, and as whom we connect. Neither it nor the errors of connecting show the password."""

    def __init__(self, connection: Mapping[str, "str | Secret"] | str) -> None:
        self._conninfo = _conninfo(connection)
        parts = conninfo_to_dict(self._conninfo.reveal())
        self.name = f"postgresql://{_hosts(parts)}/{parts.get('dbname', '')}"
        self._has_timeout = "connect_timeout" in parts

    def connect(self, connect: Callable[..., C], **options: Any) -> C:
        """Connect. Errors are made anew: those of the driver hold the password, and so do their frames."""
        if self._has_timeout:
            options.pop("connect_timeout", None)
        try:
            return connect(self._conninfo.reveal(), **options)
        except psycopg.Error as error:
            failure = type(error)(str(error))
        raise failure

    def connect_patiently(self, *, patience: float, **options: Any) -> "psycopg.Connection[Any]":
        """Connect within so many seconds, or raise OperationalError; AccessRefused if trying again is useless."""
        was_up = False
        while True:
            try:
                return self.connect(psycopg.connect, connect_timeout=max(1, ceil(patience)), **options)  # 0: no limit
            except errors.ConnectionTimeout:  # the server says nothing: a ping would hold up all threads, with the GIL
                raise
            except psycopg.OperationalError as error:
                if any(words in str(error) for words in FOR_NOW):
                    raise
                if (state := self._ping()) is Ping.REJECT:
                    raise ServerNotReady(str(error)) from error
                if state is not Ping.OK:
                    raise
                if was_up:
                    raise AccessRefused(str(error)) from error
            was_up = True  # it may have come up only after the error: once more

    def _ping(self) -> Ping:
        """Ping the server: an error of connecting has no code that would tell whether it is up."""
        conninfo = Secret(make_conninfo(self._conninfo.reveal(), connect_timeout=PING_SECONDS))
        return Ping(PGconn.ping(conninfo.reveal().encode()))


class PooledConnection(psycopg.Connection[Any]):
    """A connection of the pool. It gets the address as an object that does not show the password."""

    life: str | None = None  # of the server, when this was made

    @classmethod
    def connect(cls, conninfo: str = "", *, address: ServerAddress, **options: Any) -> Self:  # type: ignore[override]  # noqa: ARG003  # as the pool calls it
        connection: Self = address.connect(super().connect, **options)
        connection.life = life_of(connection)
        return connection


def life_of(connection: "psycopg.Connection[Any]") -> str | None:
    """Return a mark that differs between servers, and changes when one crashes; None if we may not see it."""
    try:
        row = connection.execute(SQL.life).fetchone()
    except errors.InsufficientPrivilege:
        return None
    return row[0] if row else None


def new_pool(
    address: ServerAddress, *, size: int, timeout: float, **options: Any
) -> "ConnectionPool[PooledConnection]":
    """Make a pool whose connections are opened when they are needed."""
    return ConnectionPool(
        connection_class=PooledConnection,
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
        pass  # its message may hold the password
    raise ConfigError("store: this is no address of a PostgreSQL server, such as postgresql://user@host:5432/database")


def _hosts(parts: Mapping[str, Any]) -> str:
    """Hosts with their ports, as in a DSN."""
    hosts, ports = (str(parts.get(name, "")).split(",") for name in ("host", "port"))
    ports = ports * len(hosts) if len(ports) == 1 else ports
    named = [f"[{host}]" if ":" in host else host for host in hosts]
    return ",".join(f"{host}:{port}" if port else host for host, port in zip(named, ports, strict=False))


def _revealed(value: "str | Secret") -> str:
    return value.reveal() if isinstance(value, Secret) else value


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn errors of the driver into ours."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise translation(error, name) from error


def translation(error: Exception, name: str) -> DigestifError:
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, FULL):
        return Overloaded(f"{name}: {said}; nothing was changed, free some space and try again")
    if isinstance(error, READ_ONLY):
        return StoreUnavailable(f"{name}: it is a replica or read-only; connect to the primary")
    if isinstance(error, FORBIDDEN):
        return StoreUnavailable(f"{name}: {said}; check the user, the password and the rights on the schema")
    if isinstance(error, AccessRefused):
        return StoreUnavailable(f"{name}: {said}; check the database, the user and the password")
    if isinstance(error, ServerNotReady):
        return StoreUnavailable(f"{name}: {said}; it takes no connections before it is ready, so try again")
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:  # there was no answer of a server
        return StoreUnavailable(f"{name}: {said}; check that the server is up and can be reached")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | PoolTimeout):
        return StoreUnavailable(f"{name}: {said}")
    return StoreError(f"{name}: {said}")
