"""The SQLite store: one writer per process with group commit, readers beside it, processes in turn by `flock`."""

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from digestif.clock import wall_clock
from digestif.errors import ConfigError, DigestifError, StoreUnavailable
from digestif.stores.base import PAGE_RECORDS, Durability
from digestif.stores.dsn import check_namespace
from digestif.stores.group import GroupCommit, Job
from digestif.stores.rows import Rows, RowStore
from digestif.stores.sqlite.connection import Connection, Database, translated
from digestif.stores.sqlite.rows import SQL, SqliteRows
from digestif.stores.sqlite.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

_DURABILITY = {"full": Durability.POWER_LOSS, "normal": Durability.PROCESS_KILL}


class SQLiteStore(RowStore):
    """Timelines in a SQLite file that many threads and processes may use at once."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        namespace: str = "d",
        synchronous: str = "full",
        timeout: float = 30,
        clock: Callable[[], float] = wall_clock,
    ) -> None:
        check_namespace(namespace)
        if synchronous not in _DURABILITY:
            raise ConfigError(f'synchronous: {synchronous!r} is neither "full" nor "normal"')
        self.namespace = namespace
        self.clock = clock
        self.durability = _DURABILITY[synchronous] if path is not None else Durability.NOTHING
        self._database = Database(None if path is None else Path(path), synchronous=synchronous, timeout=timeout)
        self._turns: Turns | None = None if path is None else Turns(Path(path), timeout=timeout)
        self._number = 0
        self._reset()
        with translated(self._database.name):
            self._connect()
        _stores.add(self)

    def _reset(self) -> None:
        self._group: GroupCommit[Rows] = GroupCommit(self._commit, limit=PAGE_RECORDS)
        self._writer: Connection | None = None
        self._readers: list[Connection] = []
        self._alone = threading.RLock()  # in memory there is one connection, for one thread at a time

    # Writing

    def _write(self, unit: Callable[[Rows], T], *, weight: int = 1) -> T:
        return self._group.submit(unit, weight=weight)

    def _commit(self, jobs: Sequence[Job[Rows]]) -> None:
        """Run the jobs in one transaction, the leader's first. Their errors are theirs; this does not raise."""
        try:
            with translated(self._database.name):
                self._transact(jobs)
        except DigestifError as error:
            for job in jobs:
                job.fail(error)
        except Exception as error:  # noqa: BLE001  # a fault in one unit, before the commit: it must not take the others along
            if len(jobs) == 1:
                jobs[0].fail(error)
            else:
                for job in jobs:
                    self._commit([job])
        except BaseException as error:  # noqa: BLE001  # the leader was interrupted, perhaps just after the commit
            jobs[0].fail(error)
            for job in jobs[1:]:
                job.fail(StoreUnavailable(f"{self._database.name}: interrupted, it may or may not have been accepted"))

    def _transact(self, jobs: Sequence[Job[Rows]]) -> None:
        with self._turn(), self._alone if self._turns is None else nullcontext():
            writer = self._connect()
            rows = SqliteRows(writer, self._number)
            with writer.transaction("BEGIN IMMEDIATE"):
                for job in jobs:
                    rows.budget = PAGE_RECORDS
                    try:
                        job.result = job.unit(rows)
                    except DigestifError as error:  # raised before anything was changed
                        job.fail(error)
                rows.flush()

    def _turn(self) -> AbstractContextManager[None]:
        return nullcontext() if self._turns is None else self._turns.turn()

    def _connect(self) -> Connection:
        if self._writer is None:
            writer = self._database.connect()
            with writer.transaction("BEGIN IMMEDIATE"):
                writer.execute(SQL.add_namespace, (self.namespace,))
                self._number = writer.execute(SQL.namespace, (self.namespace,)).fetchone()[0]
            self._writer = writer
        return self._writer

    # Reading

    def _read(self, unit: Callable[[Rows], T]) -> T:
        with translated(self._database.name), self._reader() as reader, reader.transaction("BEGIN"):
            return unit(SqliteRows(reader, self._number))

    @contextmanager
    def _reader(self) -> "Iterator[Connection]":
        if self._turns is None:
            with self._alone:
                yield self._connect()
            return
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = self._database.connect(read_only=True)
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        self._readers.append(reader)

    # Letting go

    def disconnect(self) -> None:
        writer, self._writer = self._writer, None
        readers, self._readers = self._readers, []
        for connection in [*readers, writer]:
            if connection is not None:
                connection.close()
        if self._turns is not None:
            self._turns.close()

    def after_fork(self) -> None:
        """The child opens connections of its own and never touches those of its parent."""
        for connection in [self._writer, *self._readers]:
            if connection is not None:
                connection.abandon()
        if self._turns is not None:
            self._turns.close()
        self._reset()


_stores: "weakref.WeakSet[SQLiteStore]" = weakref.WeakSet()


def _renew_connections() -> None:
    for store in _stores:
        store.after_fork()


os.register_at_fork(after_in_child=_renew_connections)
