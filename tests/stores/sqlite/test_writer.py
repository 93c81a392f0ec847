"""The writer: how far a call is from its work, and what a commit leaves behind."""

import gc
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import ref

import pytest

from digestif import Digests, StoreError, StoreUnavailable
from digestif.core.times import Millis
from digestif.stores.base import Accepted, Arrival
from digestif.stores.rows import Rows, RowStore, arrivals
from digestif.stores.sqlite import SQLiteStore
from digestif.stores.sqlite.connections import Connection
from digestif.stores.sqlite.reserve import Reserve
from digestif.stores.sqlite.write_lock import WriteLock
from digestif.stores.sqlite.writer import Job, Page, Writer
from tests.stores.sqlite.groups import one_group
from tests.stores.sqlite.interrupts import Interruption
from tests.stores.sqlite.soundness import pending_keys


def test_ten_functions_lead_from_an_add_to_its_work(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    functions: list[str] = []

    def add_all(rows: Rows, batch: Sequence[Arrival], *, now: Millis) -> list[Accepted]:
        frame = sys._getframe()
        while frame.f_back is not None and frame.f_code is not RowStore.add.__code__:
            functions.append(frame.f_code.co_name)
            frame = frame.f_back
        return [Accepted()]

    monkeypatch.setattr(arrivals, "add_all", add_all)
    Digests(store).add("t", 0)

    assert 0 < len(functions) <= 10
    assert "<lambda>" not in functions


class Unit:
    """A unit of work that can be watched."""

    def __init__(self, run: list[int]) -> None:
        self._run = run

    def __call__(self, rows: Rows) -> int:
        self._run.append(1)
        return len(self._run)


@pytest.fixture
def collector_off() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    yield
    if was_on:
        gc.enable()


@pytest.mark.usefixtures("collector_off")
def test_a_unit_of_work_is_freed_by_the_next_one_without_the_garbage_collector(store: SQLiteStore) -> None:
    run: list[int] = []
    unit = Unit(run)
    watched = ref(unit)
    assert store._write(unit) == 1
    del unit

    assert store._write(Unit(run)) == 2

    assert watched() is None


@pytest.mark.usefixtures("collector_off")
def test_units_of_many_threads_are_freed_without_the_garbage_collector(store: SQLiteStore) -> None:
    run: list[int] = []
    units = [Unit(run) for _ in range(100)]
    watched = [ref(unit) for unit in units]
    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(store._write, units)) == list(range(1, 101))
    units.clear()

    assert store._write(Unit(run)) == 101

    assert [unit() for unit in watched] == [None] * 100


def test_a_page_is_not_over_before_its_commit_has_succeeded_or_failed(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads of an interrupted leader ask whether their page is over while another of them commits it."""
    pages: list[Page] = []
    committing, failed = threading.Event(), threading.Event()
    transact, leave = Writer._transact, Connection.__exit__

    def watched(self: Writer, writer: Connection, page: Page, jobs: list[Job], share: float) -> None:
        pages.append(page)
        transact(self, writer, page, jobs, share)

    def fail(self: Connection, kind: Any, error: Any, trace: Any) -> Any:
        if kind is None:
            committing.set()
            failed.wait(30)
            self.rollback()
            raise sqlite3.OperationalError("disk I/O error")
        return leave(self, kind, error, trace)

    monkeypatch.setattr(Writer, "_transact", watched)
    monkeypatch.setattr(Connection, "__exit__", fail)
    with ThreadPoolExecutor(1) as threads:
        add = threads.submit(Digests(store).add, "t", 1)
        assert committing.wait(30)

        was_over = pages[0].is_over
        failed.set()

        assert not was_over
        assert isinstance(add.exception(), StoreError)
        assert pages[0].is_over


def test_a_page_whose_leader_is_interrupted_after_the_commit_needs_no_lock(
    store: SQLiteStore, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may hold it for longer than the others wait, and their records are in the file."""
    interrupted = threading.Event()
    run_locked, leave = WriteLock.run_locked, Connection.__exit__

    def lock(self: WriteLock, call: Callable[..., Any], *args: Any) -> Any:
        if interrupted.is_set():
            raise StoreUnavailable("another process has been writing for 30 s; is it stopped?")
        return run_locked(self, call, *args)

    def interrupt(self: Connection, kind: Any, error: Any, trace: Any) -> Any:
        leave(self, kind, error, trace)
        if leading.is_set():
            interrupted.set()
            raise Interruption

    def lead(rows: Rows) -> None:
        leading.set()

    leading = threading.Event()
    with one_group(store) as group:
        leader = group.submit(store._write, lead)
        adds = {str(n): group.submit(Digests(store).add, "t", n, key=str(n)) for n in range(5)}
        monkeypatch.setattr(WriteLock, "run_locked", lock)
        monkeypatch.setattr(Connection, "__exit__", interrupt)

    monkeypatch.undo()
    assert isinstance(leader.exception(), Interruption)
    assert sorted(add.result() for add in adds.values()) == [False] * 4 + [True]
    assert sorted(pending_keys(path)) == sorted(adds)


def test_an_interrupt_while_the_reserve_is_prepared_prepares_it_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(path)
    Digests(store).add("t", 1)
    store._writer.close()
    prepare, prepared = Reserve.after_opening, list[bool]()

    def interrupt_first(self: Reserve, writer: Connection) -> None:
        prepared.append(bool(prepared))
        if not prepared[-1]:
            raise Interruption
        prepare(self, writer)

    monkeypatch.setattr(Reserve, "after_opening", interrupt_first)

    with pytest.raises(Interruption):
        Digests(store).add("t", 2)
    Digests(store).add("t", 3)

    assert prepared == [False, True]
    store.close()
