"""The PostgreSQL store: each verb is a transaction on a pooled connection, its rows locked in the order of keys."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from psycopg import errors

from digestif.core.secret import Secret
from digestif.core.terms import Override, Terms
from digestif.core.times import Millis
from digestif.errors import ConfigError, StoreUnavailable
from digestif.stores.base import (
    PAGE_RECORDS,
    Accepted,
    Arrival,
    ClaimPage,
    Durability,
    InThread,
    Lease,
    Maintained,
    Requeue,
    Requeued,
    SchedulePage,
    SuspectGroup,
    Wakeups,
)
from digestif.stores.fork import watch
from digestif.stores.postgres.callers import is_async
from digestif.stores.postgres.connections import MAY_ONLY_READ, ServerAddress, translated
from digestif.stores.postgres.database import PostgresDatabase
from digestif.stores.postgres.inbox import Folded, fold, put, put_async
from digestif.stores.postgres.migrations import Upgrade
from digestif.stores.postgres.rows import PostgresRows
from digestif.stores.postgres.search import SearchFloors
from digestif.stores.postgres.single_add import add_single
from digestif.stores.postgres.slots import InboxFirst
from digestif.stores.postgres.wakeups import NotifyWakeups
from digestif.stores.registry import check_namespace
from digestif.stores.rows import Rows, RowStore, arrivals, leases, operations, overrides, transfer
from digestif.stores.rows.leases import Grant
from digestif.stores.transfer import Fence, ImportPage, ImportProgress

T = TypeVar("T")

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
        search_floors: SearchFloors | None = None,
    ) -> None:
        check_namespace(namespace)
        if not _SCHEMA.fullmatch(schema):
            raise ConfigError(f"schema: {schema!r} is not a name of lower-case letters, digits and underscores")
        self.namespace = namespace
        self._database = PostgresDatabase(
            ServerAddress(connection),
            namespace,
            self.damages,
            schema=schema,
            pool=pool,
            timeout=timeout,
            pgbouncer=pgbouncer,
            notify=notify,
        )
        self._listens = not pgbouncer  # which lends a connection to one client after the other
        self._search_floors = search_floors or SearchFloors()
        self.clock = self._database.clock
        watch(self)

    def _write(self, unit: Callable[[PostgresRows], T], *, weight: int = 1, share: float = 0.0) -> T:
        return self._database.write(unit)

    def _read(self, unit: Callable[[Rows], T], *, pending: bool = True) -> T:
        """Records in the inbox count as pending; they are no part of an open digest."""
        return self._after_inbox(unit, writes=False) if pending else self._database.read(unit)

    # Verbs

    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        at = self._now(now)
        if len(batch) == 1 and batch[0].within is None:  # otherwise the earliest deadline has to be looked for
            answer = add_single(self._database, batch[0], self.damages.note, now=at)
            if answer is not None:
                self._hints.wake(worth=answer.ready)
                return [answer]
        answers = self._after_inbox(lambda rows: arrivals.add_all(rows, batch, now=at), writes=True)
        self._hints.wake(worth=any(answer.ready for answer in answers))
        return answers

    def retract(self, timeline: str, key: str, *, now: Millis | None) -> bool:
        self._fold(now=now)
        return super().retract(timeline, key, now=now)

    def schedule(
        self,
        partition: int,
        deadline: Millis,
        *,
        after: tuple[int | str, ...] | None,
        limit: int,
        now: Millis | None,
        asks: bool = False,
    ) -> SchedulePage:
        self._fold_some(now=now)
        return super().schedule(partition, deadline, after=after, limit=limit, now=now, asks=asks)

    def maintain(self, partition: int, deadline: Millis | None, *, limit: int, now: Millis | None) -> Maintained:
        self._fold_some(now=now)
        return super().maintain(partition, deadline, limit=limit, now=now)

    def claim(
        self, partition: int, limit: int, *, token: str, lease: Millis, now: Millis | None, asks: bool = False
    ) -> ClaimPage:
        at = self._now(now)

        def unit(rows: PostgresRows) -> ClaimPage:
            if now is None:  # floors hold for the server's clock: a given time is searched for from the start
                rows.search_floors = self._search_floors
            return leases.claim(rows, limit, Grant(token, at + lease, at), asks=asks)

        def unless_inbox(rows: PostgresRows) -> ClaimPage:
            rows.claims_after_inbox = True
            return unit(rows)

        try:
            return self._write(unless_inbox)
        except InboxFirst as first:
            self._fold_page(first.end, now=now)
        return self._write(unit)

    def claim_suspects(
        self, partition: int, group: SuspectGroup, *, token: str, lease: Millis, now: Millis | None, asks: bool = False
    ) -> ClaimPage:
        at = self._now(now)

        def unit(rows: PostgresRows) -> ClaimPage:
            if now is None:
                rows.search_floors = self._search_floors
            return leases.claim_suspects(rows, group, Grant(token, at + lease, at), asks=asks)

        self._fold_some(now=now)
        return self._write(unit)

    def open(
        self,
        timeline: str,
        *,
        token: str,
        lease: Millis,
        now: Millis | None,
        alone: bool = False,
        asks: bool = False,
    ) -> Lease:
        self._fold(now=now)
        return super().open(timeline, token=token, lease=lease, now=now, alone=alone, asks=asks)

    def delete(self, timeline: str, *, token: str | None = None, now: Millis | None) -> bool:
        self._fold(now=now)
        return super().delete(timeline, token=token, now=now)

    def flush(self, timeline: str, *, now: Millis | None) -> bool:
        self._fold(now=now)
        return super().flush(timeline, now=now)

    def pause(self, timeline: str, paused: bool, *, now: Millis | None) -> bool:
        def unit(rows: PostgresRows) -> bool:
            rows.reserve([timeline])  # another transaction may be about to create it
            return operations.pause(rows, timeline, paused)

        return self._wake_if(self._write(unit))

    def set_override(self, timeline: str, override: Override, *, now: Millis | None) -> None:
        at = self._now(now)

        def unit(rows: PostgresRows) -> None:
            rows.reserve([timeline])  # another transaction may be about to create it
            overrides.set_override(rows, timeline, override, now=at)

        self._fold(now=now)
        self._write(unit)
        self._hints.wake(worth=True)

    def clear_override(self, timeline: str, *, terms: Terms, cool_down: Millis, now: Millis | None) -> bool:
        self._fold(now=now)
        return super().clear_override(timeline, terms=terms, cool_down=cool_down, now=now)

    def requeue(self, request: Requeue, *, limit: int = PAGE_RECORDS, now: Millis | None) -> Requeued | None:
        self._fold(now=now)  # an inbox of records that were added before
        return super().requeue(request, limit=limit, now=now)

    def import_pages(
        self, pages: Sequence[ImportPage], *, fence: Fence | None, now: Millis | None
    ) -> list[ImportProgress | None]:
        at = self._now(now)

        def unit(rows: PostgresRows) -> list[ImportProgress | None]:
            rows.reserve({page.parcel.timeline for page in pages})
            return transfer.import_pages(rows, pages, fence=fence, now=at)

        answers = self._write(unit)
        self._hints.wake(worth=True)
        return answers

    # The inbox

    def add_inside(self, connection: Any, batch: Sequence[Arrival]) -> None:
        database = self._database
        with translated(database.name):
            namespace = database.known_namespace()
            try:
                put(connection, database.schema, namespace, database.notify_channel(namespace), batch)
            except errors.UndefinedTable as error:
                database.explain_missing(error)

    async def add_inside_async(self, connection: Any, batch: Sequence[Arrival], *, in_thread: InThread) -> None:
        if not is_async(connection):
            await super().add_inside_async(connection, batch, in_thread=in_thread)
            return
        database = self._database
        with translated(database.name):
            namespace = await in_thread(database.known_namespace)
            try:
                await put_async(connection, database.schema, namespace, database.notify_channel(namespace), batch)
            except errors.UndefinedTable as missing:
                error = missing
                await in_thread(lambda: database.explain_missing(error))

    def _after_inbox(self, unit: Callable[[PostgresRows], T], *, writes: bool) -> T:
        """Run a unit after records that callers have committed before; do not wait for those committed meanwhile."""
        transact = self._database.write if writes else self._database.read

        def unless_inbox(rows: PostgresRows) -> T:
            rows.refuse_inbox()
            return unit(rows)

        try:
            return transact(unless_inbox)
        except InboxFirst as first:
            try:
                self._fold_all(first.end, now=None)
            except StoreUnavailable as error:
                if writes or not isinstance(error.__cause__, MAY_ONLY_READ):
                    raise
        return transact(unit)

    def _fold(self, *, now: Millis | None) -> None:
        """Add all records that callers have committed in transactions of their own until now."""
        end = self._database.read(PostgresRows.inbox_end)
        if end is not None:
            self._fold_all(end, now=now)

    def _fold_all(self, end: int, *, now: Millis | None) -> None:
        at = self._now(now)

        def page(rows: PostgresRows) -> Folded:
            rows.fold_alone()
            return fold(rows, end=end, limit=PAGE_RECORDS, now=at, given=now is not None)

        while self._folded(page):
            pass

    def _folded(self, page: Callable[[PostgresRows], Folded]) -> bool:
        """Fold a page, and report what was dropped once it is committed; True if there may be more."""
        folded = self._write(page)
        self.damages.report_drops(folded.drops)
        return folded.more

    def _fold_some(self, *, now: Millis | None) -> None:
        end = self._database.read(PostgresRows.inbox_end)
        if end is not None:
            self._fold_page(end, now=now)

    def _fold_page(self, end: int, *, now: Millis | None) -> None:
        """Fold one page, for verbs that are called again and again; nothing while another transaction folds."""
        at = self._now(now)

        def page(rows: PostgresRows) -> Folded:
            if not rows.may_fold():
                return Folded()
            folded = fold(rows, end=end, limit=PAGE_RECORDS, now=at, given=now is not None)
            rows.woken |= folded.more  # so that a worker comes for the next page
            return folded

        self._hints.wake(worth=self._folded(page))

    # The server

    def migrate(self, *, dry_run: bool = False) -> Upgrade:
        """Bring the tables up to date; the answer is what they lacked, or lack after a dry run."""
        return self._database.migrate(dry_run=dry_run)

    @property
    def durability(self) -> Durability:  # type: ignore[override]  # the server is asked once
        return self._database.durability()

    def reach(self) -> None:
        self._database.reach()

    def products(self) -> Mapping[str, str]:
        return {"PostgreSQL": self._database.version()}

    def listen(self) -> Wakeups:
        return NotifyWakeups(self._database.listen) if self._listens else super().listen()

    def close(self) -> None:
        """Wait for calls that are under way, and close every connection. Later calls are refused."""
        self._database.close()

    def before_fork(self) -> None:
        """Do nothing: calls that are under way stay the parent's."""

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._database.after_fork_in_child()
