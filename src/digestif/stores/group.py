"""Group commit: whoever comes first commits for those who wait; one caller alone pays nothing for it."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from digestif.errors import DigestifError

C = TypeVar("C")  # what a unit of work runs on
T = TypeVar("T")


class Job(Generic[C]):
    """A unit of work, its weight, and in the end its result or error."""

    __slots__ = ("_wake", "error", "leads", "result", "unit", "weight")

    def __init__(self, unit: Callable[[C], Any], weight: int) -> None:
        self.unit = unit
        self.weight = weight
        self.result: Any = None
        self.error: BaseException | None = None
        self.leads = False
        self._wake: threading.Lock | None = None

    def fail(self, error: BaseException) -> None:
        """Note the error; one of ours anew, since several threads may be given the same."""
        if isinstance(error, DigestifError):
            again = type(error)(*error.args)
            again.__cause__ = error.__cause__
            error = again
        self.error = error

    def will_wait(self) -> None:
        self._wake = threading.Lock()
        self._wake.acquire()

    def wait(self) -> None:
        assert self._wake is not None
        self._wake.acquire()

    def wake(self) -> None:
        if self._wake is not None:
            self._wake.release()


class GroupCommit(Generic[C]):
    """Gathers jobs of many threads and runs them together.

    `run` gets the jobs of one commit, the leader's first, and sets result or error on each; it must not raise. The sum
    of their weights is at most `limit`, unless one job alone weighs more.
    """

    def __init__(self, run: Callable[[Sequence[Job[C]]], None], *, limit: int) -> None:
        self._run = run
        self._limit = limit
        self._mutex = threading.Lock()
        self._queue: deque[Job[C]] = deque()
        self._led = False  # somebody is committing

    def submit(self, unit: Callable[[C], T], *, weight: int = 1) -> T:
        """Run a unit of work in the next commit; returns after it."""
        job: Job[C] = Job(unit, weight)
        with self._mutex:
            self._queue.append(job)
            if self._led:
                job.will_wait()
            else:
                self._led = job.leads = True
        if not job.leads:
            self._wait(job)
        if job.leads:
            self._lead()
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def _wait(self, job: Job[C]) -> None:
        try:
            job.wait()
        except (
            BaseException
        ):  # a signal handler raised: this caller leaves, the others must not be left without a leader
            with self._mutex:
                if job in self._queue:
                    self._queue.remove(job)
                successor = self._appoint() if job.leads else None
            if successor is not None:
                successor.wake()
            raise

    def _lead(self) -> None:
        """Commit a page of the queue, and make the next in line the leader."""
        jobs: list[Job[C]] = []
        try:
            with self._mutex:
                jobs = self._next_page()
            self._run(jobs)
        finally:
            with self._mutex:
                successor = self._appoint()
            for job in jobs[1:]:
                job.wake()
            if successor is not None:
                successor.wake()

    def _appoint(self) -> Job[C] | None:
        """The next leader, if anybody waits. Call it with the mutex."""
        self._led = bool(self._queue)
        if not self._queue:
            return None
        self._queue[0].leads = True
        return self._queue[0]

    def _next_page(self) -> list[Job[C]]:
        jobs = [self._queue.popleft()]
        weight = jobs[0].weight
        while self._queue and weight + self._queue[0].weight <= self._limit:
            jobs.append(self._queue.popleft())
            weight += jobs[-1].weight
        return jobs
