"""The SQLite store: one writer per process with group commit, readers beside it, processes taking turns by `flock`."""

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from digestif.clock import wall_clock
from digestif.core.policy import check_delay
from digestif.core.texts import shortened
from digestif.core.times import is_duration
from digestif.errors import ConfigError, DigestifError, StoreError, StoreUnavailable
from digestif.stores.base import PAGE_BYTES, PAGE_RECORDS, Arrival, Durability, Wakeups, weight_of_adds
from digestif.stores.damage import Unreadable
from digestif.stores.fork import watch
from digestif.stores.gate import Gate, Turnstile
from digestif.stores.group_commit import GroupCommit, Job, JobPage
from digestif.stores.registry import check_namespace
from digestif.stores.rows import Rows, RowStore
from digestif.stores.sqlite.connections import Connection, Database, Readers, full, is_full, translated
from digestif.stores.sqlite.reserve import MEBIBYTE, NoRoom, Reserve
from digestif.stores.sqlite.rows import SqliteRows
from digestif.stores.sqlite.slots import SQL
from digestif.stores.sqlite.wakeups import FileWakeups
from digestif.stores.sqlite.write_lock import WriteLock

T = TypeVar("T")

_DURABILITY = {"full": Durability.POWER_LOSS, "normal": Durability.PROCESS_KILL}
_ADDING, _CLAIMING = 1.0, 0.25  # the shares of the reserve that adds and claims must leave


class SQLiteStore(RowStore):
    """Timelines in a SQLite file that many threads and processes may use at once; in memory without a path."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        namespace: str = "d",
        synchronous: str = "full",
        timeout: float = 30,
        reserve: float = 16,
        clock: Callable[[], float] = wall_clock,
    ) -> None:
        check_namespace(namespace)
        if synchronous not in _DURABILITY:
            raise ConfigError(f'synchronous: {synchronous!r} is neither "full" nor "normal"')
        check_delay("timeout", timeout)
        if not is_duration(reserve):
            raise ConfigError(f"reserve: {shortened(reserve)} is not a number of mebibytes ≥ 0")
        if path is not None and "\0" in os.fspath(path):
            raise ConfigError("store: the path has a NUL character")
        file = None if path is None else Path(path).resolve()  # side files lie beside the file, not beside a link to it
        self.namespace = namespace
        self.clock = clock
        self.durability = Durability.NOTHING if file is None else _DURABILITY[synchronous]
        self._database = Database(file, synchronous=synchronous, timeout=timeout)
        self._write_lock = None if file is None else WriteLock(file, timeout=timeout)
        self._reserve = Reserve(file, most=int(reserve * MEBIBYTE))
        self._closed = False
        self._number = 0  # of the namespace
        self._writer: Connection | None = None
        self._renew()
        self._open_first()
        watch(self)

    def _open_first(self) -> None:
        """Open the file once. If it is refused, leave no new lock file beside it."""
        is_new = self._write_lock is not None and not self._write_lock.exists()
        try:
            self._translating(lambda: self._with_write_lock(self._connect))
        except (ConfigError, StoreError):
            if is_new and self._write_lock is not None:
                self._write_lock.remove()
            raise

    def _renew(self) -> None:
        self._turnstile = Turnstile()
        self._gate = Gate()
        self._readers = Readers(self._database.connect_reader)
        self._group: GroupCommit[Rows] = GroupCommit(self._commit, limit=PAGE_RECORDS)

    # Writing

    def _write(self, unit: Callable[[Rows], T], *, weight: int = 1) -> T:
        return self._submit(unit, weight=weight)

    def _write_arrivals(self, unit: Callable[[Rows], T], *, weight: int) -> T:
        return self._submit(unit, weight=weight, share=_ADDING)

    def _weight(self, batch: Sequence[Arrival]) -> int:
        return max(len(batch), weight_of_adds(batch) * PAGE_RECORDS // PAGE_BYTES)

    def _write_leases(self, unit: Callable[[Rows], T]) -> T:
        return self._submit(unit, weight=1, share=_CLAIMING)

    def _submit(self, unit: Callable[[Rows], T], *, weight: int, share: float = 0.0) -> T:
        try:
            return self._turnstile.through(lambda: self._group.submit(unit, weight=weight, share=share))
        finally:
            self.damages.report_noted()

    def _commit(self, page: JobPage[Rows]) -> None:
        """Run the jobs of a page in one transaction. An interrupted page is run again, by another thread."""
        jobs = [job for job in page.jobs if not job.is_abandoned]
        try:
            while jobs and not page.is_over:
                self._try_to_commit(page, jobs)
        except DigestifError as error:
            for job in jobs:
                job.fail(error)
        page.is_over = True

    def _try_to_commit(self, page: JobPage[Rows], jobs: list[Job[Rows]]) -> None:
        try:
            self._translating(
                lambda: self._gate.through(lambda: self._with_write_lock(lambda: self._transact(page, jobs)))
            )
        except _JobsFailed as failed:
            for job in failed.jobs:
                job.fail(failed.error)
                jobs.remove(job)

    def _transact(self, page: JobPage[Rows], jobs: Sequence[Job[Rows]]) -> None:
        """Run the jobs. If the disk is full, refuse those that must leave the largest share of the reserve."""
        share = max(job.share for job in jobs)
        try:
            writer = self._connect()
            self._reserve.refuse_near_the_end_of_the_log(share=share)
            try:
                self._transact_once(writer, page, jobs, share)
            except sqlite3.Error as error:
                if not is_full(error) or not self._reserve.restart_log():
                    raise
                self._transact_once(writer, page, jobs, share)  # only the log was full
        except (sqlite3.Error, OSError, NoRoom) as error:
            if not isinstance(error, NoRoom) and not is_full(error):
                raise
            refused = [job for job in jobs if job.share == share]
            raise _JobsFailed(refused, full(self._database.name)) from error

    def _transact_once(self, writer: Connection, page: JobPage[Rows], jobs: Sequence[Job[Rows]], share: float) -> None:
        try:
            with writer:
                try:
                    writer.begin("BEGIN IMMEDIATE")
                    rows = SqliteRows(writer, self._number, self.damages.note)
                    for job in jobs:
                        rows.budget = PAGE_RECORDS
                        _run(job, rows)
                    rows.flush()
                    self._reserve.keep(writer, share=share)
                    writer.close_results()
                    page.is_over = True  # no signal handler runs between this and the end of the COMMIT
                except BaseException:
                    writer.close_results()
                    raise
        except sqlite3.Error:
            page.is_over = False  # there was no COMMIT, or it has failed
            raise

    def _with_write_lock(self, call: Callable[[], T]) -> T:
        self._refuse_if_closed()
        return call() if self._write_lock is None else self._write_lock.through(call)

    def _translating(self, call: Callable[[], T]) -> T:
        """Run the call, and turn errors of SQLite and of the system into ours."""
        try:
            return call()
        except (sqlite3.Error, OSError) as error:
            raise translated(error, self._database.name) from error

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{self._database.name}: this store is closed")

    def _connect(self) -> Connection:
        self._refuse_if_closed()
        if self._writer is None:
            self._writer = self._open_writer()
        elif self._database.identity() != self._writer.file:
            self._lose_file()
        return self._writer

    def _open_writer(self) -> Connection:
        self._database.refuse_read_only()
        self._reserve.before_opening()
        writer = self._database.connect(self._find_namespace, make_room=self._reserve.give_way)
        self._reserve.after_opening(writer)
        return writer

    def _lose_file(self) -> None:
        """Drop the connections to a file that is no longer at the path: what they write would be lost."""
        self._readers.renew()
        self._close_writer()
        if self._write_lock is not None:
            self._write_lock.renew()
        raise StoreUnavailable(f"{self._database.name}: was removed or replaced; nothing was changed, try again")

    def _find_namespace(self, writer: Connection) -> None:
        with writer:
            writer.begin("BEGIN IMMEDIATE")
            writer.execute(SQL.add_namespace, (self.namespace,))
            self._number = writer.execute(SQL.namespace, (self.namespace,)).fetchone()[0]

    # Reading

    def _read(self, unit: Callable[[Rows], T]) -> T:
        if self._write_lock is None:
            return self._write(unit)  # a database in memory has one connection, for one thread at a time
        if self._writer is None:  # after a fork: a reader would open the file with a log that has no reserve
            with suppress(StoreError):
                self._write(lambda _: None)
        return self._read_beside_writers(unit)

    def _read_beside_writers(self, unit: Callable[[Rows], T]) -> T:
        try:
            return self._turnstile.through(
                lambda: self._translating(lambda: self._gate.through(lambda: self._read_one_state(unit)))
            )
        finally:
            self.damages.report_noted()

    def _read_one_state(self, unit: Callable[[Rows], T]) -> T:
        self._refuse_if_closed()
        return self._readers.through(lambda reader: self._read_with(reader, unit))

    def _read_with(self, reader: Connection, unit: Callable[[Rows], T]) -> T:
        with reader:
            try:
                reader.begin("BEGIN")
                return unit(SqliteRows(reader, self._number, self.damages.note))
            finally:
                reader.close_results()

    def listen(self) -> Wakeups:
        path = self._database.path
        return super().listen() if path is None else self._hints.listen(FileWakeups(path))

    def products(self) -> Mapping[str, str]:
        return {"SQLite": sqlite3.sqlite_version}

    # Closing and forks

    def close(self) -> None:
        """Wait for calls that are under way, and close everything. Later calls are refused."""
        self._turnstile.through(lambda: self._gate.alone(self._close_for_good))

    def _close_for_good(self) -> None:
        self._closed = True
        self._close_everything()

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _close_everything(self) -> None:
        self._readers.close()
        self._close_writer()
        if self._write_lock is not None:
            self._write_lock.close()

    def before_fork(self) -> None:
        """Close the file: SQLite's record of its locks would be copied into the child, and be wrong there."""
        if not self._turnstile.has_me():
            self._gate.shut()
            if self._write_lock is not None:
                self._close_everything()

    def after_fork(self, *, in_child: bool) -> None:
        """Let calls in again; they reconnect when needed. In the child, other threads and their locks are gone."""
        if in_child:
            self._renew()
        else:
            self._gate.open()


class _JobsFailed(Exception):
    """These jobs failed before the commit: the page is run again without them."""

    def __init__(self, jobs: Sequence[Job[Rows]], error: Exception) -> None:
        super().__init__(error)
        self.jobs = jobs
        self.error = error


def _run(job: Job[Rows], rows: Rows) -> None:
    job.error = None
    try:
        job.result = job.unit(rows)
    except Unreadable as error:  # the job may have changed something before
        raise _JobsFailed([job], error) from error
    except DigestifError as error:  # raised before anything was changed
        job.fail(error)
    except sqlite3.Error:
        raise
    except Exception as error:
        raise _JobsFailed([job], error) from error
