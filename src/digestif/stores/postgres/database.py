"""A PostgreSQL database: its connections, its tables, and transactions, tried again until their outcome is known.

A commit may get no answer. The server knows what became of it: each transaction that writes has an id, which is noted
before the commit, and `pg_xact_status` gives its fate on any other connection. But after a crash or a failover the
server gives ids that were never written to its log to other transactions, and the fate may be theirs; so an id counts
only together with the server's `life`.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg_pool import PoolTimeout

from digestif.clock import monotonic
from digestif.core.times import to_seconds
from digestif.errors import StoreError, StoreUnavailable
from digestif.ids import chance
from digestif.stores.base import Durability
from digestif.stores.damage import Damages
from digestif.stores.postgres.connections import (
    DROPPED_TABLES,
    PASSING,
    AccessRefused,
    PooledConnection,
    ServerAddress,
    connection_options,
    life_of,
    new_pool,
    translated,
)
from digestif.stores.postgres.migrations import (
    Upgrade,
    examine,
    explained,
    find_oldest,
    latest,
    migrate,
    prepare,
    writers,
)
from digestif.stores.postgres.rows import SHARES, PostgresRows
from digestif.stores.postgres.transaction import SQL, Namespace, OtherTables
from digestif.stores.schema import too_old
from digestif.stores.shield import Shield

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

T = TypeVar("T")

TRIES = 8  # of a transaction that others are in the way of
REACH_SECONDS = 2.0  # to find out whether there is a server
LISTEN_SECONDS = 3.0  # to get a connection for wake-ups, which are no reason to wait for long
CLOCK_SECONDS = 30.0  # after which the server is asked for its time again
FATE_SECONDS = 0.02  # between two questions about the fate of a transaction
COMMITTED, ABORTED, IN_PROGRESS, UNKNOWN = "committed", "aborted", "in progress", ""  # as pg_xact_status says


class PostgresDatabase:
    """One schema of a database, used for one namespace. Many threads may use it."""

    def __init__(
        self,
        address: ServerAddress,
        namespace: str,
        damages: Damages,
        *,
        schema: str,
        pool: int,
        timeout: float,
        pgbouncer: bool,
        notify: bool,
    ) -> None:
        self.schema = schema
        self.name = address.name
        self.timeout = timeout
        self._address = address
        self._namespace = namespace
        self._damages = damages
        self._pool_size = pool
        self._options = connection_options(pgbouncer=pgbouncer)
        self._notifies = notify
        self._durability: Durability | None = None
        self._known: Namespace | None = None  # once the tables were checked
        self._offset: tuple[float, float] | None = None  # of the server's clock, and when it was asked
        self._preparing = threading.Lock()
        self._closed = threading.Event()
        # A process that is frozen inside a transaction must not hold its locks for ever.
        longest = min(max(1, round(timeout * 1000)), 2**31 - 1)  # 0 would mean for ever
        patience = f"SET LOCAL idle_in_transaction_session_timeout TO {longest}"
        self._begin_writing = f'BEGIN; SET LOCAL search_path TO "{schema}"; {patience}'
        self._begin_reading = f'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path TO "{schema}"'
        self._pool = self._new_pool()
        self._shield = Shield("digestif-postgres")

    def _new_pool(self) -> "ConnectionPool[PooledConnection]":
        return new_pool(self._address, size=self._pool_size, timeout=self.timeout, **self._options)

    # Transactions

    def write(self, unit: Callable[[PostgresRows], T]) -> T:
        """Run a unit of work in one transaction, and commit it."""
        return self._transact(unit, writes=True)

    def read(self, unit: Callable[[PostgresRows], T]) -> T:
        """Run a unit of work that only reads, on one state of the data."""
        return self._transact(unit, writes=False)

    def _transact(self, unit: Callable[[PostgresRows], T], *, writes: bool) -> T:
        try:
            return self.retrying(lambda namespace: self._try(unit, namespace, writes=writes))
        finally:
            self._damages.report_noted()

    def _try(self, unit: Callable[[PostgresRows], T], namespace: Namespace, *, writes: bool) -> T:
        with self.open_pool().connection() as connection, connection.cursor(binary=True) as cursor:
            transaction = None
            try:
                begin = self._begin_writing if writes else self._begin_reading
                connection.execute(begin + admission(namespace), prepare=False)  # several statements in one message
                rows = PostgresRows(cursor, namespace, self._damages.note, writes=writes)
                result = unit(rows)
                if writes:
                    rows.flush()
                    if rows.woken and self._notifies:
                        cursor.execute(SQL.wake, (self._channel(namespace),))
                    transaction = rows.id()
            except BaseException:
                connection.rollback()
                raise
            commit(connection, transaction, result)
        return result

    def retrying(self, attempt: Callable[[Namespace], T]) -> T:
        """Call `attempt`; again if other transactions were in the way, or the connection was lost before a commit."""
        with translated(self.name):
            return self._shield.run(lambda: self._persist(attempt))

    def _persist(self, attempt: Callable[[Namespace], T]) -> T:
        end = monotonic() + self.timeout
        failures = 0
        while True:
            try:
                return attempt(self.prepared(until=end))
            except Unanswered as lost:
                failures += 1
                if lost.transaction is not None and self._has_committed(lost.transaction):
                    result: T = lost.result
                    return result
                if self._closed.is_set() or (monotonic() >= end and failures > 1):  # a process may have been frozen
                    raise StoreUnavailable(
                        f"{self.name}: the connection was lost at each commit; nothing took place"
                    ) from lost
            except (OtherTables, *PASSING, *DROPPED_TABLES) as error:
                failures += 1
                is_raised = isinstance(error, errors.UndefinedTable) and self._is_raised()
                if not isinstance(error, PASSING):
                    self._known = None
                if failures >= TRIES or (isinstance(error, DROPPED_TABLES) and not is_raised):
                    raise
            except psycopg.OperationalError as error:
                failures += 1
                reason = self._reason(error, until=end)
                if monotonic() >= end or self._closed.is_set() or isinstance(reason, AccessRefused):
                    raise reason from error.__cause__
            self._closed.wait(0.01 * 2 ** min(failures, 6) * (0.5 + chance()))

    def _has_committed(self, transaction: "TransactionId") -> bool:
        """Ask the server whether a commit without an answer took place, for as long as any other call may take."""
        answer = self._ask_outcome(transaction, until=monotonic() + self.timeout)
        if answer is None:
            raise StoreUnavailable(
                f"{self.name}: the connection was lost at the commit; it is unknown whether that took place"
            )
        return answer

    def _ask_outcome(self, transaction: "TransactionId", *, until: float) -> bool | None:
        """Ask until the server answers or the time is over; None if it can't be known."""
        while True:
            try:
                with self._own_connection(until=until) as connection:
                    if transaction.life is not None and transaction.life == life_of(connection):
                        return self._final_outcome(connection, transaction.number, until=until)
                    # The id may be another transaction's. But had ours been committed, no other would have its id.
                    return False if _fate(connection, transaction.number) == ABORTED else None
            except psycopg.OperationalError:
                if monotonic() >= until or self._closed.wait(FATE_SECONDS):
                    return None

    def _final_outcome(self, connection: "psycopg.Connection[Any]", number: str, *, until: float) -> bool | None:
        while (fate := _fate(connection, number)) == IN_PROGRESS and monotonic() < until:
            # The server may not have noticed that its client is gone, and keep its locks.
            connection.execute(SQL.end_abandoned, (number,))
            self._closed.wait(FATE_SECONDS)
        return {COMMITTED: True, ABORTED: False}.get(fate)

    # Connections

    def open_pool(self) -> "ConnectionPool[PooledConnection]":
        self._refuse_if_closed()
        if self._pool.closed:
            self._pool.open()
        return self._pool

    def _own_connection(self, *, until: float | None = None) -> "psycopg.Connection[Any]":
        """Connect without the pool, which would try again and again, and tell the reason only to its log."""
        self._refuse_if_closed()
        patience = self.timeout if until is None else max(0.0, until - monotonic())
        return self._address.connect_patiently(patience=patience, **self._options)

    def _refuse_if_closed(self) -> None:
        if self._closed.is_set():
            raise StoreUnavailable(f"{self.name}: this store is closed")

    def _reason(self, error: psycopg.OperationalError, *, until: float) -> psycopg.OperationalError:
        """Return why the pool has no connection; errors other than its timeout say it themselves."""
        if isinstance(error, PoolTimeout):
            try:
                self._own_connection(until=until).close()
            except psycopg.OperationalError as reason:
                return reason
        return error

    def reach(self) -> None:
        with translated(self.name):
            self._shield.run(lambda: self._own_connection(until=monotonic() + REACH_SECONDS).close())

    def listen(self) -> "psycopg.Connection[Any]":
        """Return a new connection that receives the wake-ups of the namespace."""
        return self._shield.run(self._listen)

    def _listen(self) -> "psycopg.Connection[Any]":
        channel = self._channel(self.prepared(until=monotonic() + LISTEN_SECONDS))
        connection = self._own_connection(until=monotonic() + LISTEN_SECONDS)
        try:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        except BaseException:  # a replica refuses it
            connection.close()
            raise
        return connection

    def _channel(self, namespace: Namespace) -> str:
        return f"digestif_{self.schema}_{namespace.number}"[:63]

    def notify_channel(self, namespace: Namespace) -> str | None:
        """Return the channel to notify when a timeline becomes ready; None if wake-ups are turned off."""
        return self._channel(namespace) if self._notifies else None

    # Tables

    def known_namespace(self) -> Namespace:
        """Return the namespace, for a statement on a connection of the caller's."""
        return self._known or self._shield.run(self.prepared)

    def prepared(self, *, until: float | None = None) -> Namespace:
        """Return the namespace. On first use, one thread creates or checks the tables while the others wait."""
        known = self._known
        if known is not None:
            return known
        until = monotonic() + self.timeout if until is None else until
        if not self._preparing.acquire(timeout=max(0.0, until - monotonic())):
            raise psycopg.OperationalError(f"no connection within {self.timeout:g} s, like others of this process")
        try:
            known = self._known
            if known is None:
                with self._own_connection(until=until) as connection:
                    known = self._known = self._prepare(connection)
            return known
        finally:
            self._preparing.release()

    def explain_missing(self, error: errors.UndefinedTable) -> NoReturn:
        """Raise why a statement on a connection of the caller's found a table missing."""
        if not self._shield.run(self._is_raised):
            raise error
        self._known = None
        raise StoreError(
            f"{self.name}: a newer release has raised the schema {self.schema!r}, which this process may still write. "
            "Nothing was changed; roll back and try again"
        ) from error

    def _is_raised(self) -> bool:
        """True if the oldest version that may write is not the one that this process knows.

        Raises StoreError if it is above the version of this release.
        """
        known = self._known
        with self._own_connection() as connection:
            oldest = find_oldest(connection, self.schema)
        if oldest is not None and oldest > latest():
            raise StoreError(too_old(f"{self.name}, schema {self.schema!r}", oldest=oldest, version=latest()))
        return oldest is not None and (known is None or writers(oldest) != known.writers)

    def _prepare(self, connection: "psycopg.Connection[Any]") -> Namespace:
        table = writers(prepare(connection, self.schema).oldest)
        with explained(connection, self.schema), connection.transaction(), connection.cursor() as cursor:
            cursor.execute(sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(self.schema)))
            cursor.execute(_ADMISSION.format(table).encode())
            found = self._find_namespace(cursor, table)
            if found is None:  # otherwise nothing is written: a user may have the right to read only
                cursor.execute(SQL.add_namespace, (self._namespace,))
                cursor.execute(SQL.add_shares, (SHARES, self._namespace))
                found = self._find_namespace(cursor, table)
                assert found is not None
            return found

    def _find_namespace(self, cursor: "psycopg.Cursor[Any]", table: str) -> Namespace | None:
        """Return the namespace if it exists with all shares of its ledger."""
        row = cursor.execute(SQL.namespace, (self._namespace,)).fetchone()
        return Namespace(row[0], row[1], table) if row is not None and row[2] >= SHARES else None

    def migrate(self, *, dry_run: bool) -> Upgrade:
        def act() -> Upgrade:
            with self._own_connection() as connection:
                return (examine if dry_run else migrate)(connection, self.schema)

        with translated(self.name):
            return self._shield.run(act)

    # Questions to the server

    def durability(self) -> Durability:
        if self._durability is None:
            with translated(self.name):
                self._durability = self._shield.run(self._ask_durability)
        return self._durability

    def _ask_durability(self) -> Durability:
        with self._own_connection() as connection:
            row = connection.execute(SQL.settings).fetchone()
        assert row is not None
        return Durability.PROCESS_KILL if "off" in row else Durability.POWER_LOSS

    def version(self) -> str:
        """Return the version of the server, without the name of its package."""
        return self.retrying(lambda _: self._ask_version())

    def _ask_version(self) -> str:
        with self.open_pool().connection() as connection:
            return (connection.info.parameter_status("server_version") or "unknown").partition(" ")[0]

    def clock(self) -> float:
        """Return the server's time, computed from a clock that never steps; the server is asked now and then."""
        offset = self._offset
        if offset is None or monotonic() - offset[1] > CLOCK_SECONDS:
            offset = self._offset = self.retrying(lambda _: self._ask_offset())
        return offset[0] + monotonic()

    def _ask_offset(self) -> tuple[float, float]:
        with self.open_pool().connection() as connection:
            began = monotonic()
            row = connection.execute(SQL.clock).fetchone()
        assert row is not None
        middle = (began + monotonic()) / 2
        return to_seconds(row[0]) - middle, monotonic()

    # Closing and forks

    def close(self) -> None:
        """Wait for calls that are under way, and close every connection. Later calls are refused."""
        self._closed.set()
        self._pool.close()
        self._shield.rest()

    def after_fork_in_child(self) -> None:
        """Open new connections; those of the parent are neither used nor closed here."""
        _ABANDONED.append(self._pool)
        was_closed, self._closed = self._closed.is_set(), threading.Event()
        if was_closed:
            self._closed.set()
        self._preparing = threading.Lock()
        self._pool = self._new_pool()
        self._shield.after_fork()


_ABANDONED: list[object] = []  # pools of parents: if they were collected, they would close the parent's connections


# Who may write

_ADMISSION = "LOCK TABLE {} IN ACCESS SHARE MODE"


def admission(namespace: Namespace) -> str:
    """Return the statement by which the server refuses a process that is too old: it locks a table by its name.

    A migration that renames the table waits for the transactions that hold the lock.
    """
    return f"; {_ADMISSION.format(namespace.writers)}"


# Commits without an answer


class TransactionId(NamedTuple):
    """Which transaction of which server."""

    number: str
    life: str | None  # of the server, when the connection was made


class Unanswered(Exception):
    """The commit of `transaction` got no answer; None if the transaction wrote nothing."""

    def __init__(self, transaction: TransactionId | None, result: Any) -> None:
        self.transaction = transaction
        self.result = result  # for the caller, if the commit took place


def commit(connection: PooledConnection, transaction: str | None, result: object) -> None:
    """Commit. Raises Unanswered, with the transaction's id, if the server did not say that it is committed."""
    with suppress(psycopg.OperationalError):
        # By libpq itself: the driver would take 40 µs more, only to be interruptible, which no thread is here.
        if connection.pgconn.exec_(b"COMMIT").command_status == b"COMMIT":
            return
    raise Unanswered(None if transaction is None else TransactionId(transaction, connection.life), result)


def _fate(connection: "psycopg.Connection[Any]", number: str) -> str:
    try:
        row = connection.execute(SQL.fate, (number,)).fetchone()
    except errors.InvalidParameterValue:  # this server has never given out that id
        return ABORTED
    return row[0] if row and row[0] else UNKNOWN
