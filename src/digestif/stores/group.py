"""Group commit: jobs that wait while another page is committed are committed together. One caller alone pays nothing.

A page is led by whichever of its threads holds the page's lock. The others queue at that lock: if the leader is
interrupted before the commit, the next one finds the page unfinished and leads it; after the commit it finds its answer.
So there is nothing that an interrupted leader would have to hand over, and nobody who could wait for it in vain.
"""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from digestif.errors import DigestifError
from digestif.stores.gate import holding

C = TypeVar("C")  # what a unit of work runs on
T = TypeVar("T")


class Job(Generic[C]):
    """A unit of work, its weight, and in the end its result or error."""

    __slots__ = ("error", "is_withdrawn", "result", "unit", "weight")

    def __init__(self, unit: Callable[[C], Any], weight: int) -> None:
        self.unit = unit
        self.weight = weight
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_withdrawn = False  # its thread was interrupted and does not wait for it any more

    def fail(self, error: BaseException) -> None:
        """Note the error; one of ours anew, since several threads may be given the same."""
        if isinstance(error, DigestifError):
            again = type(error)(*error.args)
            again.__cause__ = error.__cause__
            error = again
        self.error = error


class Page(Generic[C]):
    """Jobs that are committed together."""

    __slots__ = ("is_over", "is_sealed", "jobs", "lock", "weight")

    def __init__(self) -> None:
        self.lock = threading.RLock()  # held by its leader
        self.jobs: list[Job[C]] = []
        self.weight = 0
        self.is_sealed = False  # no further job may join
        self.is_over = False  # committed, or each job has its error


class GroupCommit(Generic[C]):
    """Gathers jobs of many threads in pages and runs one page at a time.

    `run` sets result or error on each job of a page that was not withdrawn. It sets `is_over` in the moment of the commit
    or when all have failed: an interrupted page is run again unless it says so. The sum of the weights is at most `limit`,
    unless one job alone weighs more.
    """

    def __init__(self, run: Callable[[Page[C]], None], *, limit: int) -> None:
        self._run = run
        self._limit = limit
        self._joining = threading.RLock()
        self._running = threading.RLock()
        self._page: Page[C] = Page()  # which jobs may join

    @property
    def waiting(self) -> int:
        """How many jobs wait for the next commit."""
        return 0 if self._page.is_sealed else len(self._page.jobs)

    def submit(self, unit: Callable[[C], T], *, weight: int = 1) -> T:
        """Run a unit of work in the next commit; returns after it."""
        job: Job[C] = Job(unit, weight)
        try:
            page = holding(self._joining, lambda: self._join(job))
            holding(page.lock, lambda: page.is_over or holding(self._running, lambda: self._lead(page)))
        except BaseException:
            job.is_withdrawn = True
            raise
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def _join(self, job: Job[C]) -> Page[C]:
        page = self._page
        if page.is_sealed or (page.jobs and page.weight + job.weight > self._limit):
            page = self._page = Page()
        page.jobs.append(job)
        page.weight += job.weight
        return page

    def _lead(self, page: Page[C]) -> None:
        holding(self._joining, lambda: self._seal(page))
        self._run(page)

    def _seal(self, page: Page[C]) -> None:
        page.is_sealed = True
