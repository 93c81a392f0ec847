"""Calls that no signal handler interrupts: another thread runs the calls of the main thread.

Python runs signal handlers in the main thread, between any two steps. One that raises, as that of Ctrl-C does, may come
after a connection was acquired and before the `try` that releases it. Here the main thread only waits: an exception
ends the wait, and the call still runs to its end.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

from digestif.errors import StoreUnavailable

T = TypeVar("T")


class Shield:
    """Runs the calls of the main thread one after the other, also those whose wait was interrupted."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._turn = threading.Lock()  # held by the one thread that runs jobs
        self._thread: threading.Thread | None = None
        self._waiting: list[_Job] = []  # jobs of the main thread, and of signal handlers that interrupted it

    def run(self, call: Callable[[], T]) -> T:
        """The call's answer, or its error. Other threads run their calls themselves."""
        if threading.current_thread() is not threading.main_thread() or not self._is_ready():
            return call()
        job = _Job(call)
        try:
            self._waiting.append(job)
            self._jobs.put(job)
            job.ended.acquire()
            return job.answer()  # type: ignore[no-any-return]  # that of the call
        except BaseException:
            job.is_abandoned = True
            raise
        finally:
            with suppress(ValueError):
                self._waiting.remove(job)
            del job  # breaks the cycle of the job, its error and this frame

    def after_fork(self) -> None:
        """The child has no such thread: fail the jobs that a signal handler interrupted with its fork."""
        for job in self._waiting:
            job.fail(StoreUnavailable("this process was forked by a signal handler inside of a call; call again"))
        self.__init__(self._name)  # type: ignore[misc]

    def rest(self) -> None:
        """End the thread, if there is one; a later call starts another."""
        jobs, self._jobs, self._thread = self._jobs, SimpleQueue(), None
        jobs.put(None)

    def __del__(self) -> None:
        self._jobs.put(None)

    def _is_ready(self) -> bool:
        """False if no thread can be started, because the interpreter ends."""
        if self._thread is None:  # interrupted before it is set, there are two threads; `_turn` lets one work
            thread = threading.Thread(target=_work, args=(self._jobs, self._turn), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True


class _Job:
    """A call, and after it its answer or error."""

    __slots__ = ("_call", "_context", "_error", "_result", "ended", "is_abandoned")

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call: Callable[[], Any] | None = call
        self._context = copy_context()
        self._result: Any = None
        self._error: BaseException | None = None
        self.is_abandoned = False  # its wait was interrupted
        self.ended = threading.Lock()
        self.ended.acquire()

    def run(self) -> None:
        call, self._call = self._call, None
        if self.is_abandoned or call is None:
            return
        try:
            self._result = self._context.run(call)
        except BaseException as error:  # noqa: BLE001  # raised in the thread that waits
            self._error = error
        self.ended.release()

    def fail(self, error: BaseException) -> None:
        self._error = error
        with suppress(RuntimeError):  # it had ended before
            self.ended.release()

    def answer(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


def _work(jobs: "SimpleQueue[_Job | None]", turn: threading.Lock) -> None:
    with turn:
        while (job := jobs.get()) is not None:
            job.run()
            del job  # not kept while waiting for the next
    jobs.put(None)  # ends another thread that waits for its turn, if there is one
