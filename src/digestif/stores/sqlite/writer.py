"""The writer: the life of a write to SQLite, from the thread that asks for it to the commit.

A commit waits for the disk, so threads share it. A thread puts its job on the page that is open. The first thread of a
page leads: it waits for the page's turn, in this process and then among processes, runs all jobs in one transaction,
and wakes the others. Jobs that come during a commit form the next page. A thread alone pays nothing for this.

An exception out of a signal handler may end the leader at any step (see `stores/calls.py`). It still wakes the others,
by one call of a C function. They find their answers if the page was committed; otherwise one of them runs it again.
"""

import sqlite3
import threading
from _thread import LockType
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from digestif.core.damage import Damage
from digestif.errors import DigestifError, StoreUnavailable
from digestif.stores.base import PAGE_RECORDS
from digestif.stores.calls import holding
from digestif.stores.damage import Unreadable
from digestif.stores.rows import Rows
from digestif.stores.sqlite.connections import Connection, Database, Readers, full, is_full, translated
from digestif.stores.sqlite.reserve import MEBIBYTE, NoRoom, Reserve
from digestif.stores.sqlite.rows import SqliteRows
from digestif.stores.sqlite.write_lock import WriteLock

T = TypeVar("T")


class Writer:
    """The connection of a process that writes to the database, and the threads that wait for it."""

    def __init__(
        self,
        database: Database,
        readers: Readers,
        *,
        timeout: float,
        reserve: float,
        note_damage: Callable[[Damage], None],
    ) -> None:
        self._database = database
        self._readers = readers
        self._lock = WriteLock(database.path, timeout=timeout)
        self._reserve = Reserve(database.path, most=int(reserve * MEBIBYTE))
        self._note_damage = note_damage
        self.connection: Connection | None = None
        self.forget_threads()

    def forget_threads(self) -> None:
        """Begin with new locks: after a fork, the child has none of the threads that hold or await the old ones."""
        self._joining = threading.RLock()
        self._turn = threading.RLock()  # held by the thread that runs a page
        self._page: Page | None = None  # the one that jobs may join

    # A write

    def write(self, unit: Callable[[Rows], T], weight: int, share: float) -> T:
        """Run a unit of work in the next commit, and return its answer; `share` of the reserve must be left."""
        job = Job(unit, weight, share)
        try:
            page = holding(self._joining, self._join, job)
            if job.wake is not None and not page.is_awake:
                job.wake.acquire()  # until the leader has run the page, or was interrupted
            if not page.is_over:
                holding(self._turn, self._run_page, page)
        except BaseException:
            job.is_abandoned = True
            raise
        finally:
            if job.leads is not None:
                job.leads.is_awake = True  # before waking: a thread that joins later does not wait
                any(job.leads.waking)
                job.leads = None  # page and job refer to each other
        answer: T = job.answer()
        return answer

    def _join(self, job: "Job") -> "Page":
        """Put a job on the page that is open. If there is none, or the job is too heavy for it, it leads a new one."""
        page = self._page
        if page is None or page.weight + job.weight > PAGE_RECORDS:
            page = job.leads = self._page = Page()
        else:
            job.wake = threading.Lock()
            job.wake.acquire()
            page.wakes.append(job.wake)
        page.jobs.append(job)
        page.weight += job.weight
        return page

    def _run_page(self, page: "Page") -> None:
        """Run a page in its turn, once it is the turn of this process. Errors are those of its jobs.

        The threads of a page whose leader was interrupted come here one after the other.
        """
        if not page.is_over and not page.is_committed:
            try:
                holding(self._joining, self._end_joining, page)
                self._lock.run_locked(self._commit, page)
            except (sqlite3.Error, OSError) as error:
                page.fail(page.jobs, translated(error, self._database.name), cause=error)
            except DigestifError as error:
                page.fail(page.jobs, error)
        page.is_over = True

    def _end_joining(self, page: "Page") -> None:
        if self._page is page:
            self._page = None

    def _commit(self, page: "Page") -> None:
        """Commit the jobs of a page together. If a job fails, roll back and run the others again.

        On a full disk, refuse the jobs that must leave the largest share of the reserve.
        """
        while jobs := page.awaited():
            share = max(job.share for job in jobs)
            try:
                writer = self.connect()
                self._reserve.refuse_near_the_end_of_the_log(share=share)
                try:
                    self._transact(writer, page, jobs, share)
                except sqlite3.Error as error:
                    if not is_full(error) or not self._reserve.restart_log():
                        raise
                    self._transact(writer, page, jobs, share)  # only the log was full
            except JobFailed as failed:
                page.fail([failed.job], failed.error)
            except (sqlite3.Error, OSError, NoRoom) as error:
                if not isinstance(error, NoRoom) and not is_full(error):
                    raise
                page.fail([job for job in jobs if job.share == share], full(self._database.name))

    def _transact(self, writer: Connection, page: "Page", jobs: "list[Job]", share: float) -> None:
        try:
            with writer:
                try:
                    writer.begin("BEGIN IMMEDIATE")
                    rows = SqliteRows(writer, self._database.number, self._note_damage)
                    for job in jobs:
                        rows.budget = PAGE_RECORDS
                        job.run(rows)
                    rows.flush()
                    self._reserve.keep(writer, share=share)
                    writer.close_results()
                    page.is_committed = True  # no signal handler runs between this and the end of the COMMIT
                except BaseException:
                    writer.close_results()
                    raise
        except sqlite3.Error:
            page.is_committed = False  # there was no COMMIT, or it has failed
            raise

    # The connection

    def open(self) -> None:
        """Open the file for the first time. If it is refused, leave no new lock file beside it."""
        is_new = not self._lock.exists()
        try:
            self._lock.run_locked(self.connect)
        except Exception:
            if is_new:
                self._lock.remove()
            raise

    def connect(self) -> Connection:
        """Return the connection to the file that is at the path."""
        if self.connection is None:
            self._database.refuse_read_only()
            self._reserve.before_opening()
            connection = self._database.connect(make_room=self._reserve.give_way)
            self._reserve.after_opening(connection)
            self.connection = connection  # last: after an interrupt before it, the next call repeats all of this
        elif self._database.identity() != self.connection.file:
            self._lose_file()
        return self.connection

    def _lose_file(self) -> None:
        """Drop the connections to a file that is no longer at the path: what they write would be lost."""
        self._readers.renew()
        self._disconnect()
        self._lock.renew()
        raise StoreUnavailable(f"{self._database.name}: was removed or replaced; nothing was changed, try again")

    def _disconnect(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close connection and lock file. No thread may be writing; the next write opens them again."""
        self._disconnect()
        self._lock.close()


class Page:
    """Jobs that are committed together."""

    __slots__ = ("is_awake", "is_committed", "is_over", "jobs", "wakes", "waking", "weight")

    def __init__(self) -> None:
        self.jobs: list[Job] = []  # those that have not failed
        self.weight = 0
        self.is_committed = False  # or is about to be: to be read by the thread whose turn it is
        self.is_over = False  # every job is committed or has failed
        self.wakes: list[LockType] = []  # of all threads but the leader's
        self.waking = map(LockType.release, self.wakes)  # reading it to its end wakes all that have joined
        self.is_awake = False  # the others have been woken

    def awaited(self) -> "list[Job]":
        """Return the jobs that are to be run: a thread waits for each of them."""
        return [] if self.is_committed else [job for job in self.jobs if not job.is_abandoned]

    def fail(self, jobs: "Collection[Job]", error: Exception, *, cause: Exception | None = None) -> None:
        """Give up jobs of this page with an error."""
        for job in jobs:
            job.fail(error, cause)
        failed = set(jobs)
        self.jobs = [job for job in self.jobs if job not in failed]


class Job:
    """A unit of work, its weight, and after the commit its result or error."""

    __slots__ = ("_error", "_result", "_unit", "is_abandoned", "leads", "share", "wake", "weight")

    def __init__(self, unit: Callable[[Rows], Any], weight: int, share: float) -> None:
        self._unit = unit
        self.weight = weight
        self.share = share
        self._result: Any = None
        self._error: Exception | None = None
        self.is_abandoned = False  # its thread was interrupted and does not wait for it
        self.leads: Page | None = None  # the page whose first job it is
        self.wake: LockType | None = None  # what the thread of any other job waits for

    def run(self, rows: Rows) -> None:
        """Run the unit of work. Raises JobFailed if what it has done must be rolled back."""
        self._error = None
        try:
            self._result = self._unit(rows)
        except Unreadable as error:  # it may have changed something before
            raise JobFailed(self, error) from error
        except DigestifError as error:  # raised before anything was changed
            self.fail(error)
        except sqlite3.Error:
            raise
        except Exception as error:
            raise JobFailed(self, error) from error

    def fail(self, error: Exception, cause: Exception | None = None) -> None:
        """Set the error. One of ours is copied, since several threads may raise it."""
        if isinstance(error, DigestifError):
            again = type(error)(*error.args)
            again.__cause__ = cause or error.__cause__
            error = again
        self._error = error

    def answer(self) -> Any:
        """Return the result, or raise the error."""
        try:
            if self._error is not None:
                raise self._error
            return self._result
        finally:
            self._error = None  # its traceback refers to this job


class JobFailed(Exception):
    """A job failed, and its page has to be run without it."""

    def __init__(self, job: Job, error: Exception) -> None:
        super().__init__(error)
        self.job = job
        self.error = error
