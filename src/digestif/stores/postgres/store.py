"""The PostgreSQL store: each verb is a transaction on a pooled connection, its rows locked in the order of keys."""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import sql
from psycopg_pool import PoolTimeout

from digestif.clock import monotonic
from digestif.core.secret import Secret
from digestif.core.times import Millis, to_seconds
from digestif.errors import ConfigError, StoreUnavailable
from digestif.ids import chance
from digestif.stores.base import (
    PAGE_RECORDS,
    Accepted,
    Arrival,
    ClaimPage,
    Durability,
    Lease,
    Maintained,
    SchedulePage,
    Take,
    Taken,
    Wakeups,
)
from digestif.stores.fork import watch
from digestif.stores.postgres.connections import Address, Pooled, Refused, connection_options, new_pool
from digestif.stores.postgres.faults import GONE, MAY_ONLY_READ, PASSING, translated
from digestif.stores.postgres.floors import Search
from digestif.stores.postgres.inbox import fold, put
from digestif.stores.postgres.migrations import Upgrade, examine, explained, migrate, prepare
from digestif.stores.postgres.outcome import TransactionId, Unanswered, has_committed
from digestif.stores.postgres.rows import SHARES, PostgresRows
from digestif.stores.postgres.single_add import LongWay, SingleAdd
from digestif.stores.postgres.slots import InboxFirst
from digestif.stores.postgres.transaction import SQL, Namespace, OtherTables
from digestif.stores.postgres.wakeups import NotifyWakeups
from digestif.stores.registry import check_namespace
from digestif.stores.rows import Rows, RowStore, arrivals, leases, open_digests, operations, transfer
from digestif.stores.rows.leases import Grant
from digestif.stores.shield import Shield
from digestif.stores.transfer import Fence, ImportPage, ImportProgress

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

T = TypeVar("T")

TRIES = 8  # at a transaction that others were in the way of
SHORT_TRIES = 2  # at adding without a lock: others may have been quicker
REACH_SECONDS = 2.0  # to tell whether there is a server
LISTEN_SECONDS = 3.0  # to get a connection for hints, which are no reason to wait for long
CLOCK_SECONDS = 30.0  # after which the server is asked again what time it is
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class PostgresStore(RowStore):
    """Timelines in the tables of one schema of a PostgreSQL database."""

    def __init__(
        self,
        connection: Mapping[str, str | Secret] | str,
        *,
        namespace: str = "d",
        schema: str = "digestif",
        pool: int = 10,
        timeout: float = 10,
        pgbouncer: bool = False,
        notify: bool = True,
    ) -> None:
        check_namespace(namespace)
        if not _SCHEMA.fullmatch(schema):
            raise ConfigError(f"schema: {schema!r} is not a name of lower-case letters, digits and underscores")
        self.namespace = namespace
        self.schema = schema
        self._address = Address(connection)
        self.name = self._address.name
        self._pool_size = pool
        self._timeout = timeout
        self._options = connection_options(pgbouncer=pgbouncer)
        self._notifies = notify
        self._listens = not pgbouncer  # which gives a connection to one after the other
        self._closed = False
        self._durability: Durability | None = None
        self._known: Namespace | None = None  # once the tables were looked at
        self._offset: tuple[float, float] | None = None  # of the server's clock, and when it was asked
        self._first = threading.Lock()
        self._rest = threading.Event()  # set when closed
        self._search = Search()
        # Who is frozen inside a transaction must not hold its locks for ever.
        patience = f"SET LOCAL idle_in_transaction_session_timeout TO {round(timeout * 1000)}"
        self._begin = f'BEGIN; SET LOCAL search_path TO "{schema}"; {patience}'
        self._begin_reading = f'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path TO "{schema}"'
        self._pool = self._new_pool()
        self._shield = Shield("digestif-postgres")
        self.clock = self._server_clock
        watch(self)

    def _new_pool(self) -> "ConnectionPool[Pooled]":
        return new_pool(self._address, size=self._pool_size, timeout=self._timeout, **self._options)

    # Verbs

    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        at = self._now(now)
        if len(batch) == 1 and batch[0].within is None:  # otherwise the earliest deadline has to be looked for
            answer = self._retrying(lambda namespace: self._add_single(batch[0], namespace, now=at))
            if answer is not None:
                self._hints.tell(worth=answer.ready)
                return [answer]
        answers = self._after_inbox(lambda rows: arrivals.add_all(rows, batch, now=at), self._begin, writes=True)
        self._hints.tell(worth=any(answer.ready for answer in answers))
        return answers

    def _add_single(self, arrival: Arrival, namespace: Namespace, *, now: Millis) -> Accepted | None:
        """The short way; None if it has to be the long one."""
        with self._open_pool().connection() as connection, connection.cursor(binary=True) as cursor:
            try:
                saved = self._save_single(cursor, arrival, namespace, now=now)
            except BaseException:
                connection.rollback()
                raise
            if saved is None:
                connection.rollback()
                return None
            transaction, answer = saved
            self._commit(connection, transaction, answer)
        return answer

    def _save_single(
        self, cursor: "psycopg.Cursor[Any]", arrival: Arrival, namespace: Namespace, *, now: Millis
    ) -> tuple[str | None, Accepted] | None:
        """The id of the transaction, which is not committed yet, and the answer of the add."""
        for attempt in range(SHORT_TRIES):
            view = SingleAdd(cursor, namespace, self.schema, self.damages.note)
            try:
                with in_one_message(cursor.connection):
                    if attempt == 0:
                        cursor.execute("BEGIN")
                    view.look(arrival, patience=self._timeout)
                answer = view.decide(arrival, now=now)
            except (LongWay, psycopg.DataError):  # or what stands where a batch should is not a number
                return None
            if view.save(self._told(namespace)):
                return view.id(), answer
        return None

    def _write(self, unit: Callable[[Rows], T], *, weight: int = 1) -> T:
        return self._transact(unit, self._begin, writes=True)

    def _read(self, unit: Callable[[Rows], T]) -> T:
        return self._after_inbox(unit, self._begin_reading, writes=False)

    def _after_inbox(self, unit: Callable[[PostgresRows], T], begin: str, *, writes: bool) -> T:
        """What was committed before comes before; what is committed meanwhile is not waited for."""

        def unless_inbox(rows: PostgresRows) -> T:
            rows.refuse_inbox()
            return unit(rows)

        try:
            return self._transact(unless_inbox, begin, writes=writes)
        except InboxFirst as first:
            try:
                self._fold_all(first.end, now=None)
            except StoreUnavailable as error:
                if writes or not isinstance(error.__cause__, MAY_ONLY_READ):
                    raise
        return self._transact(unit, begin, writes=writes)

    def retract(self, timeline: str, key: str, *, now: Millis | None) -> bool:
        self.fold(now=now)
        return super().retract(timeline, key, now=now)

    def schedule(
        self, partition: int, deadline: Millis, *, after: tuple[int | str, ...] | None, limit: int, now: Millis | None
    ) -> SchedulePage:
        self._fold_some(now=now)
        return super().schedule(partition, deadline, after=after, limit=limit, now=now)

    def maintain(self, partition: int, deadline: Millis | None, *, limit: int, now: Millis | None) -> Maintained:
        self._fold_some(now=now)
        return super().maintain(partition, deadline, limit=limit, now=now)

    def claim(self, partition: int, limit: int, *, token: str, lease: Millis, now: Millis | None) -> ClaimPage:
        at = self._now(now)

        def unit(rows: PostgresRows) -> ClaimPage:
            if now is None:  # times of the caller's choice are looked for from the start
                rows.search = self._search
            return leases.claim(rows, limit, Grant(token, at + lease, at))

        def unless_inbox(rows: PostgresRows) -> ClaimPage:
            rows.claims_after_inbox = True
            return unit(rows)

        try:
            return self._transact(unless_inbox, self._begin, writes=True)
        except InboxFirst as first:
            self._fold_page(first.end, now=now)
        return self._transact(unit, self._begin, writes=True)

    def claim_suspects(
        self, partition: int, *, alone: bool, token: str, lease: Millis, now: Millis | None
    ) -> ClaimPage:
        at = self._now(now)

        def unit(rows: PostgresRows) -> ClaimPage:
            if now is None:
                rows.search = self._search
            return leases.claim_suspects(rows, Grant(token, at + lease, at, alone))

        self._fold_some(now=now)
        return self._transact(unit, self._begin, writes=True)

    def open(self, timeline: str, *, token: str, lease: Millis, now: Millis | None, alone: bool = False) -> Lease:
        self.fold(now=now)
        return super().open(timeline, token=token, lease=lease, now=now, alone=alone)

    def take(self, requests: Sequence[Take], *, now: Millis | None) -> list[Taken | None]:
        """What is in the inbox is no part of an open digest, and need not be folded in before."""
        at = self._now(now)

        def read(unit: Callable[[PostgresRows], T]) -> T:
            return self._transact(unit, self._begin_reading, writes=False)

        answers = read(lambda rows: open_digests.take_prepared(rows, requests, now=at))
        if answers is None:
            self._write(lambda rows: open_digests.prepare_all(rows, requests, now=at))
            answers = read(lambda rows: open_digests.take_all(rows, requests, now=at))
        return answers

    def delete(self, timeline: str, *, now: Millis | None) -> bool:
        self.fold(now=now)
        return super().delete(timeline, now=now)

    def flush(self, timeline: str, *, now: Millis | None) -> bool:
        self.fold(now=now)
        return super().flush(timeline, now=now)

    def pause(self, timeline: str, paused: bool, *, now: Millis | None) -> bool:
        def unit(rows: PostgresRows) -> bool:
            rows.reserve([timeline])  # others may be about to make it
            return operations.pause(rows, timeline, paused)

        return self._hinted(self._transact(unit, self._begin, writes=True))

    def import_pages(
        self, pages: Sequence[ImportPage], *, fence: Fence | None, now: Millis | None
    ) -> list[ImportProgress | None]:
        at = self._now(now)

        def unit(rows: PostgresRows) -> list[ImportProgress | None]:
            rows.reserve({page.parcel.timeline for page in pages})
            return transfer.import_pages(rows, pages, fence=fence, now=at)

        answers = self._transact(unit, self._begin, writes=True)
        self._hints.tell(worth=True)
        return answers

    # The inbox

    def add_inside(self, connection: Any, batch: Sequence[Arrival]) -> None:
        with translated(self.name):
            namespace = self._known or self._shield.run(self._prepared)
            put(connection, self.schema, namespace.number, self._told(namespace), batch)

    def fold(self, *, now: Millis | None) -> None:
        """Add what callers have committed, until now, in transactions of their own."""
        end = self._inbox_end()
        if end is not None:
            self._fold_all(end, now=now)

    def _inbox_end(self) -> int | None:
        return self._transact(PostgresRows.inbox_end, self._begin_reading, writes=False)

    def _fold_all(self, end: int, *, now: Millis | None) -> None:
        at = self._now(now)

        def page(rows: PostgresRows) -> bool:
            rows.fold_alone()
            return fold(rows, end=end, limit=PAGE_RECORDS, now=at, given=now is not None)

        while self._transact(page, self._begin, writes=True):
            pass

    def _fold_some(self, *, now: Millis | None) -> None:
        end = self._inbox_end()
        if end is not None:
            self._fold_page(end, now=now)

    def _fold_page(self, end: int, *, now: Millis | None) -> None:
        """For those who come again; nothing while somebody else is at it."""
        at = self._now(now)

        def page(rows: PostgresRows) -> bool:
            more = rows.may_fold() and fold(rows, end=end, limit=PAGE_RECORDS, now=at, given=now is not None)
            rows.woken |= more  # so that somebody comes for the next page
            return more

        self._hints.tell(worth=self._transact(page, self._begin, writes=True))

    # Transactions

    def _transact(self, unit: Callable[[PostgresRows], T], begin: str, *, writes: bool) -> T:
        """Run a unit in one transaction."""
        try:
            return self._retrying(lambda namespace: self._once(unit, begin, namespace, writes=writes))
        finally:
            self.damages.tell()

    def _retrying(self, attempt: Callable[[Namespace], T]) -> T:
        """Try; and again if others were in the way, or the connection was lost and nothing took place."""
        with translated(self.name):
            return self._shield.run(lambda: self._persist(attempt))

    def _persist(self, attempt: Callable[[Namespace], T]) -> T:
        end = monotonic() + self._timeout
        failures = 0
        while True:
            try:
                return attempt(self._prepared(until=end))
            except Unanswered as lost:
                failures += 1
                if lost.transaction is not None and self._has_committed(lost.transaction):
                    result: T = lost.result
                    return result
                if self._closed or (monotonic() >= end and failures > 1):  # who was frozen gets another chance
                    raise StoreUnavailable(
                        f"{self.name}: the connection was lost at each commit; nothing took place"
                    ) from lost
            except (OtherTables, *PASSING, *GONE) as error:
                failures += 1
                if not isinstance(error, PASSING):
                    self._known = None
                if failures >= TRIES or isinstance(error, GONE):
                    raise
            except psycopg.OperationalError as error:
                failures += 1
                reason = self._reason(error, until=end)
                if monotonic() >= end or self._closed or isinstance(reason, Refused):
                    raise reason from error.__cause__
            self._rest.wait(0.01 * 2 ** min(failures, 6) * (0.5 + chance()))

    def _has_committed(self, transaction: TransactionId) -> bool:
        """Whether a commit without an answer took place. The server has as long to tell as for any other call."""
        until = monotonic() + self._timeout
        answer = has_committed(transaction, lambda: self._own_connection(until=until), until=until, closed=self._rest)
        if answer is None:
            raise StoreUnavailable(
                f"{self.name}: the connection was lost at the commit; nobody knows whether that took place"
            )
        return answer

    def _once(self, unit: Callable[[PostgresRows], T], begin: str, namespace: Namespace, *, writes: bool) -> T:
        with self._open_pool().connection() as connection, connection.cursor(binary=True) as cursor:
            transaction = None
            try:
                connection.execute(begin, prepare=False)  # two statements in one message
                rows = PostgresRows(cursor, namespace, self.damages.note, writes=writes)
                result = unit(rows)
                if writes:
                    rows.flush()
                    if rows.woken and self._notifies:
                        cursor.execute(SQL.wake, (self._channel(namespace),))
                    transaction = rows.id()
            except BaseException:
                connection.rollback()
                raise
            self._commit(connection, transaction, result)
        return result

    def _commit(self, connection: Pooled, transaction: str | None, result: object) -> None:
        """Unanswered, with the transaction's id, if nobody knows whether it took place."""
        with suppress(psycopg.OperationalError):
            # By libpq itself: the driver would take 40 µs more, so as to be interrupted, which nobody is here.
            if connection.pgconn.exec_(b"COMMIT").command_status == b"COMMIT":
                return
        raise Unanswered(None if transaction is None else TransactionId(transaction, connection.life), result)

    # Opening

    def _open_pool(self) -> "ConnectionPool[Pooled]":
        if self._closed:
            raise StoreUnavailable(f"{self.name}: this store is closed")
        if self._pool.closed:
            self._pool.open()
        return self._pool

    def _prepared(self, *, until: float | None = None) -> Namespace:
        """The namespace; on first use the tables are made or checked, by one thread while the others wait."""
        known = self._known
        if known is not None:
            return known
        until = monotonic() + self._timeout if until is None else until
        if not self._first.acquire(timeout=max(0.0, until - monotonic())):
            raise psycopg.OperationalError(f"no connection within {self._timeout:g} s, like others of this process")
        try:
            known = self._known
            if known is None:
                with self._own_connection(until=until) as connection:
                    known = self._known = self._prepare(connection)
            return known
        finally:
            self._first.release()

    def _own_connection(self, *, until: float | None = None) -> "psycopg.Connection[Any]":
        """One that is not the pool's, which would try again and again, and keep the reason to its log."""
        if self._closed:
            raise StoreUnavailable(f"{self.name}: this store is closed")
        patience = self._timeout if until is None else max(0.0, until - monotonic())
        return self._address.connect_patiently(patience=patience, **self._options)

    def _reason(self, error: psycopg.OperationalError, *, until: float) -> psycopg.OperationalError:
        """Why the pool has no connection to give; other errors tell it themselves."""
        if isinstance(error, PoolTimeout):
            try:
                self._own_connection(until=until).close()
            except psycopg.OperationalError as reason:
                return reason
        return error

    def _prepare(self, connection: "psycopg.Connection[Any]") -> Namespace:
        prepare(connection, self.schema)
        with explained(connection, self.schema), connection.transaction(), connection.cursor() as cursor:
            cursor.execute(sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(self.schema)))
            found = self._found_namespace(cursor)
            if found is None:  # otherwise nothing is written: some may only read
                cursor.execute(SQL.add_namespace, (self.namespace,))
                cursor.execute(SQL.add_shares, (SHARES, self.namespace))
                found = self._found_namespace(cursor)
                assert found is not None
            return found

    def _found_namespace(self, cursor: "psycopg.Cursor[Any]") -> Namespace | None:
        """If it is there, with all shares of its ledger."""
        row = cursor.execute(SQL.namespace, (self.namespace,)).fetchone()
        return Namespace(*row[:2]) if row is not None and row[2] >= SHARES else None

    def migrate(self, *, dry_run: bool = False) -> Upgrade:
        """Bring the tables up to date; the answer is what they lacked, or lack after a dry run."""

        def act() -> Upgrade:
            with self._own_connection() as connection:
                return (examine if dry_run else migrate)(connection, self.schema)

        with translated(self.name):
            return self._shield.run(act)

    @property
    def durability(self) -> Durability:  # type: ignore[override]  # known once the server was asked
        if self._durability is None:
            with translated(self.name):
                self._durability = self._shield.run(self._asked_durability)
        return self._durability

    def _asked_durability(self) -> Durability:
        with self._own_connection() as connection:
            row = connection.execute(SQL.settings).fetchone()
        assert row is not None
        return Durability.PROCESS_KILL if "off" in row else Durability.POWER_LOSS

    def reach(self) -> None:
        with translated(self.name):
            self._shield.run(lambda: self._own_connection(until=monotonic() + REACH_SECONDS).close())

    # Time

    def _server_clock(self) -> float:
        """The server's clock, reckoned from a clock that never steps; asked for now and then."""
        offset = self._offset
        if offset is None or monotonic() - offset[1] > CLOCK_SECONDS:
            offset = self._offset = self._retrying(lambda _: self._asked_offset())
        return offset[0] + monotonic()

    def _asked_offset(self) -> tuple[float, float]:
        with self._open_pool().connection() as connection:
            began = monotonic()
            row = connection.execute(SQL.clock).fetchone()
        assert row is not None
        middle = (began + monotonic()) / 2
        return to_seconds(row[0]) - middle, monotonic()

    # Wake-ups

    def listen(self) -> Wakeups:
        if not self._listens:
            return super().listen()
        return NotifyWakeups(lambda: self._shield.run(self._listening))

    def _listening(self) -> "psycopg.Connection[Any]":
        """A connection on which hints come."""
        channel = self._channel(self._prepared(until=monotonic() + LISTEN_SECONDS))
        connection = self._own_connection(until=monotonic() + LISTEN_SECONDS)
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        return connection

    def _channel(self, namespace: Namespace) -> str:
        return f"digestif_{self.schema}_{namespace.number}"[:63]

    def _told(self, namespace: Namespace) -> str | None:
        """The channel on which others are told of what is ready, if they are."""
        return self._channel(namespace) if self._notifies else None

    # Letting go

    def close(self) -> None:
        """Wait for what is under way and close every connection; what comes later is refused."""
        self._closed = True
        self._rest.set()
        self._pool.close()
        self._shield.rest()

    def before_fork(self) -> None:
        """Nothing has to rest: what is under way stays the parent's."""

    def after_fork(self, *, in_child: bool) -> None:
        """The child opens its own connections; those of the parent are neither used nor closed there."""
        if in_child:
            _ABANDONED.append(self._pool)
            self._first = threading.Lock()
            self._rest = threading.Event()
            self._pool = self._new_pool()
            self._shield.after_fork()


_ABANDONED: list[object] = []  # pools of parents: were they let go, they would close connections that are not theirs


def in_one_message(connection: "psycopg.Connection[Any]") -> AbstractContextManager[object]:
    """Statements go to the server together, if libpq can; their results may be read afterwards."""
    return connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()
