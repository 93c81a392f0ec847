"""Group commit: jobs that wait while a page is committed form the next page. A single caller pays nothing for it.

The first thread of a page is its leader and runs all of its jobs. If an exception out of a signal handler ends the
leader, it still wakes the others, by one call of a C function (see gate.py). They find their answers if the page was
committed; otherwise one of them leads it again.
"""

import threading
from _thread import LockType
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from digestif.errors import DigestifError
from digestif.stores.gate import holding

C = TypeVar("C")  # what a unit of work runs on
T = TypeVar("T")


class Job(Generic[C]):
    """A unit of work, its weight, and after the commit its result or error."""

    __slots__ = ("error", "is_abandoned", "page", "result", "share", "unit", "wake", "weight")

    def __init__(self, unit: Callable[[C], Any], weight: int, share: float) -> None:
        self.unit = unit
        self.weight = weight
        self.share = share
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_abandoned = False  # its thread was interrupted and does not wait for it
        self.page: JobPage[C] | None = None
        self.wake: LockType | None = None  # released when the leader has run the page, or was interrupted

    def fail(self, error: BaseException) -> None:
        """Set the error. One of ours is copied, since several threads may raise it."""
        if isinstance(error, DigestifError):
            again = type(error)(*error.args)
            again.__cause__ = error.__cause__
            error = again
        self.error = error


class JobPage(Generic[C]):
    """Jobs that are committed together."""

    __slots__ = ("is_awake", "is_over", "is_sealed", "jobs", "leader", "lock", "wakes", "waking", "weight")

    def __init__(self, leader: Job[C]) -> None:
        self.leader = leader  # if it is interrupted, another job's thread runs the page
        self.lock = threading.RLock()  # held by the thread that runs the page
        self.jobs: list[Job[C]] = []
        self.weight = 0
        self.wakes: list[LockType] = []
        self.waking = map(LockType.release, self.wakes)  # reading it to its end wakes all that have joined
        self.is_awake = False  # the leader has woken the others: a thread that joins must not wait
        self.is_sealed = False  # no further job may join
        self.is_over = False  # committed, or each job has its error


class GroupCommit(Generic[C]):
    """Gathers jobs of many threads in pages and runs one page at a time.

    `run` sets the result or error of each job that was not abandoned, and `is_over` at the commit, or when all jobs
    have failed: an interrupted page that is not over is run again. The weights of a page sum up to at most `limit`,
    unless one job alone weighs more.
    """

    def __init__(self, run: Callable[[JobPage[C]], None], *, limit: int) -> None:
        self._run = run
        self._limit = limit
        self._joining = threading.RLock()
        self._running = threading.RLock()
        self._page: JobPage[C] | None = None  # the one that jobs may join

    @property
    def waiting(self) -> int:
        """How many jobs wait for the next commit."""
        return 0 if self._page is None or self._page.is_sealed else len(self._page.jobs)

    def submit(self, unit: Callable[[C], T], *, weight: int = 1, share: float = 0.0) -> T:
        """Run a unit of work in the next commit, and return after it; `share` of the reserve must be left."""
        job: Job[C] = Job(unit, weight, share)
        try:
            page = holding(self._joining, lambda: self._join(job))
            if job.wake is not None and not page.is_awake:
                job.wake.acquire()
            if not page.is_over:
                holding(page.lock, lambda: page.is_over or holding(self._running, lambda: self._lead(page)))
        except BaseException:
            job.is_abandoned = True
            raise
        finally:
            if job.page is not None and job.page.leader is job:
                job.page.is_awake = True  # before waking: a thread that joins later is not woken
                any(job.page.waking)
        job.page = None  # the page refers to its jobs: without this, each commit would be left to the garbage collector
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def _join(self, job: Job[C]) -> JobPage[C]:
        page = self._page
        if page is None or page.is_sealed or page.weight + job.weight > self._limit:
            page = JobPage(job)
            job.page = self._page = page
        else:
            job.wake = threading.Lock()
            job.wake.acquire()
            page.wakes.append(job.wake)
        page.jobs.append(job)
        page.weight += job.weight
        return page

    def _lead(self, page: JobPage[C]) -> None:
        holding(self._joining, lambda: self._seal(page))
        self._run(page)

    def _seal(self, page: JobPage[C]) -> None:
        page.is_sealed = True
