"""Threads that never keep a process from ending."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
A = TypeVar("A")
T = TypeVar("T")


class DaemonThreads(Executor):
    """An executor of daemon threads: the interpreter does not wait for them at its end, as for the standard ones."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._started = 0
        self._busy = 0
        self._is_shut = False
        self._lock = threading.Lock()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._is_shut:
                raise RuntimeError("these threads have been shut down")
            self._busy += 1
            if self._busy > self._started and self._started < self._count:
                self._started += 1
                threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        self._tasks.put((future, partial(fn, *args, **kwargs)))
        return future

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, call = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001  # raised where the result is awaited
                    future.set_exception(error)
            with self._lock:
                self._busy -= 1
            del future, call, task  # keep nothing of the last task alive while waiting

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002  # as it is called
        """Let the threads end after their last task, without waiting for them."""
        with self._lock:
            self._is_shut = True
        for _ in range(self._started):
            self._tasks.put(None)

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call in one of the threads, with the caller's context variables."""
        context = copy_context()
        loop = asyncio.get_running_loop()
        value, error = await loop.run_in_executor(self, context.run, outcome, call)
        if error is not None:
            try:
                raise error
            finally:
                del error  # whose traceback has this frame: what its frames hold would stay until garbage is collected
        return value  # type: ignore[return-value]  # there was no error


def on_fresh_stack(call: Callable[[A], T], argument: A) -> Future[T]:
    """Make a call in a fresh thread, whose stack is empty, and wait for its outcome."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            result = call(argument)
        except BaseException as error:  # noqa: BLE001  # the caller gets it
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="digestif-fresh-stack", daemon=True).start()
    future.exception()
    return future


def outcome(call: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    """Make a call, and return its value or its error: a future can't carry every error into an event loop.

    It refuses a StopIteration, and the caller would wait for ever. A coroutine that raises one raises a RuntimeError.
    """
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001  # raised in the caller
        return None, error
