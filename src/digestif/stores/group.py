"""Group commit: whoever comes first commits for those who wait; one caller alone pays nothing for it."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from digestif.errors import DigestifError, StoreUnavailable

C = TypeVar("C")  # what a unit of work runs on
T = TypeVar("T")


class Job(Generic[C]):
    """A unit of work, its weight, and in the end its result or error."""

    __slots__ = ("_wake", "error", "page", "ran", "result", "unit", "weight")

    def __init__(self, unit: Callable[[C], Any], weight: int) -> None:
        self.unit = unit
        self.weight = weight
        self.result: Any = None
        self.error: BaseException | None = None
        self.page: list[Job[C]] = []  # what it leads, itself first
        self.ran = False  # the page has been committed, or told why not
        self._wake = threading.Lock()
        self._wake.acquire()

    def fail(self, error: BaseException) -> None:
        """Note the error; one of ours anew, since several threads may be given the same."""
        if isinstance(error, DigestifError):
            again = type(error)(*error.args)
            again.__cause__ = error.__cause__
            error = again
        self.error = error

    def wait(self) -> None:
        self._wake.acquire()

    def wake(self) -> None:
        """Let it go on; to say so twice does no harm."""
        with suppress(RuntimeError):
            self._wake.release()


class GroupCommit(Generic[C]):
    """Gathers jobs of many threads and runs them together.

    `run` gets the jobs of one commit, the leader's first, and sets result or error on each; if it raises instead, that
    is the leader's error and the others are told that nobody knows. The sum of the weights is at most `limit`, unless
    one job alone weighs more.
    """

    def __init__(self, run: Callable[[Sequence[Job[C]]], None], *, limit: int) -> None:
        self._run = run
        self._limit = limit
        self._mutex = threading.Lock()
        self._queue: deque[Job[C]] = deque()
        self._leader: Job[C] | None = None  # who commits, or is about to

    def submit(self, unit: Callable[[C], T], *, weight: int = 1) -> T:
        """Run a unit of work in the next commit; returns after it."""
        job: Job[C] = Job(unit, weight)
        try:
            with self._mutex:
                self._queue.append(job)
                if self._leader is None:
                    self._leader = job
            if self._leader is not job:
                job.wait()
            if self._leader is job:
                self._lead(job)
        except BaseException:  # a signal handler may raise at any moment: the others must not be left waiting
            self._withdraw(job)
            raise
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def _lead(self, job: Job[C]) -> None:
        """Commit a page of the queue, and make the next in line the leader."""
        with self._mutex:
            self._fill_page(job.page)
        self._run(job.page)
        job.ran = True
        self._hand_over(job)

    def _hand_over(self, job: Job[C]) -> None:
        """Tell the page of a leader, and the next leader. May be done again after an interruption."""
        with self._mutex:
            if self._leader in (job, None):
                self._leader = self._queue[0] if self._queue else None
            leader = self._leader
        for other in job.page[1:]:
            other.wake()
        if leader is not None:
            leader.wake()

    def _withdraw(self, job: Job[C]) -> None:
        with self._mutex:
            for gone in (job, *job.page):
                if gone in self._queue:
                    self._queue.remove(gone)
        if not job.ran:
            for other in job.page[1:]:
                other.fail(StoreUnavailable("the commit was interrupted: it may or may not have been accepted"))
        self._hand_over(job)

    def _fill_page(self, page: list[Job[C]]) -> None:
        weight = 0
        while self._queue and (not page or weight + self._queue[0].weight <= self._limit):
            weight += self._queue[0].weight
            page.append(self._queue[0])  # first in one, then out of the other: an interruption must lose nobody
            self._queue.popleft()
