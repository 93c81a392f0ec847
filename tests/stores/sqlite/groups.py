"""Groups of calls that the store commits together."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from digestif.clock import monotonic
from digestif.stores.rows import Rows
from digestif.stores.sqlite import SQLiteStore

CALLERS = 64


class Group:
    """Calls that wait in the store's queue, in order, behind one that is under way."""

    def __init__(self, store: SQLiteStore) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(CALLERS)
        self._inside = threading.Event()
        self._go = threading.Event()
        self._first = self._threads.submit(store._write, self._hold)
        self._inside.wait(30)

    def _hold(self, rows: Rows) -> None:
        self._inside.set()
        self._go.wait(30)

    @property
    def waiting(self) -> int:
        page = self._store._writer._page
        return 0 if page is None else len(page.jobs)

    def submit(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> "Future[Any]":
        queued = self.waiting
        answer = self._threads.submit(call, *arguments, **options)
        self.wait_until_queued(queued + 1)
        return answer

    def wait_until_queued(self, count: int) -> None:
        ends = monotonic() + 30
        while self.waiting < count:
            assert monotonic() < ends, "a call does not reach the queue"
            os.sched_yield()

    def release(self) -> None:
        self._go.set()
        self._first.result()
        self._threads.shutdown()


@contextmanager
def one_group(store: SQLiteStore) -> Iterator[Group]:
    """Calls that are submitted in the block are committed together after it."""
    group = Group(store)
    try:
        yield group
    finally:
        group.release()
