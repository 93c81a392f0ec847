"""A storm of signals that raise in the main thread, beside threads; a file has another process that writes to it."""

import random
import signal
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from digestif import Digests, Policy, Record
from digestif.ids import fresh_id
from digestif.stores.base import Completion, Store, Take
from digestif.stores.memory import MemoryStore
from digestif.stores.reader import Part
from digestif.stores.sqlite import SQLiteStore
from digestif.testing.conformance.port import stored
from tests.children import Child, Report, killed_at_the_end

TIMELINES = ("own", *(f"t{number}" for number in range(7)))
LONGEST = 0.005  # seconds until a signal comes
PATIENCE = 30  # seconds, for threads that end at once unless they are stuck


class Interruption(BaseException):
    """Like KeyboardInterrupt: a signal handler raises it in the main thread, at any moment."""


class Timer:
    """Raises in the main thread some time after it is set, and sometimes again while the first is handled."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.left = 0  # times that it raises
        self.raised = 0
        signal.signal(signal.SIGALRM, self._raise)

    def _raise(self, *_: object) -> None:
        if self.left > 0:
            self.left -= 1
            self.raised += 1
            raise Interruption

    def set(self) -> None:
        again = self._random.choice([0, 0, 0, 0.00002, 0.0001])
        self.left = 3 if again else 1
        signal.setitimer(signal.ITIMER_REAL, self._random.uniform(0.00001, LONGEST), again)

    def stop(self) -> None:
        self.left = 0
        signal.setitimer(signal.ITIMER_REAL, 0)


def check(account: dict[str, Any]) -> None:
    """Fail unless the ledger is right and only the interrupted thread got errors."""
    assert account["errors of others"] == []
    assert account["missing"] == []
    assert account["stuck"] == 0
    assert account["verified"]


def storm_in_memory(interrupts: int, seed: int) -> dict[str, Any]:
    """Interrupt the main thread so often, with a store in memory."""
    store = MemoryStore()
    account = Storm(store, seed).blow(interrupts)
    kept = {record.key for timeline in TIMELINES for part in Part for record in stored(store, timeline, part)}
    account["missing"] = sorted(set(account.pop("acknowledged")) - set(account.pop("delivered")) - kept)
    return account


def storm(path: str, interrupts: int, seed: int) -> dict[str, Any]:
    """Interrupt the main thread so often; return the errors of other threads, and the missing records."""
    child = Child(lambda report: add_until_stopped(path, report))
    with killed_at_the_end([child]):
        store = SQLiteStore(path, synchronous="normal")
        account = Storm(store, seed).blow(interrupts)
        if not account["stuck"]:
            store.close()
        Path(f"{path}.stop").touch()
        acknowledged, *errors = child.finish()
    keys = {f"child-{number}" for number in range(int(acknowledged))} | set(account.pop("acknowledged"))
    account["missing"] = sorted(keys - set(account.pop("delivered")) - stored_keys(path))
    return {**account, "errors of others": [*account["errors of others"], *errors]}


def stored_keys(path: str) -> set[str]:
    with closing(sqlite3.connect(path)) as bare:
        return {key for (key,) in bare.execute("SELECT key FROM record")}


def add_until_stopped(path: str, report: Report) -> None:
    """In another process: add singly, then report how many, and the errors."""
    errors = []
    number = 0
    with Digests(f"sqlite:///{path}", policy=Policy(capacity=None)) as digests:
        while not Path(f"{path}.stop").exists():
            try:
                digests.add(f"c{number % 5}", number, key=f"child-{number}")
            except Exception as error:  # noqa: BLE001 -- to be judged by the caller
                errors.append(repr(error))
            number += 1
    report(str(number))
    for each in errors:
        report(each)


class Storm:
    """Threads at one store, of which the main one is interrupted."""

    def __init__(self, store: Store, seed: int) -> None:
        self._store = store
        self._digests = Digests(store, policy=Policy(capacity=None))
        self._random = random.Random(seed)
        self._timer = Timer(seed)
        self._done = threading.Event()
        self._acknowledged: list[str] = []
        self._delivered: list[str] = []
        self._errors: list[str] = []  # to threads that were not interrupted

    def blow(self, interrupts: int) -> dict[str, Any]:
        works = [self._add_singly, self._add_singly, self._add_batches, self._deliver, self._read]
        threads = [threading.Thread(target=self._repeat, args=(work, n), daemon=True) for n, work in enumerate(works)]
        for thread in threads:
            thread.start()
        calls = self._be_interrupted(interrupts)
        self._timer.stop()
        self._done.set()
        for thread in threads:
            thread.join(PATIENCE)
        stuck = sum(thread.is_alive() for thread in threads)
        account = {"stuck": stuck, "errors of others": self._errors, "calls": calls, "interrupts": self._timer.raised}
        if not stuck:
            account["verified"] = bool(self._digests.verify())
        return {**account, "acknowledged": self._acknowledged, "delivered": self._delivered}

    def _be_interrupted(self, interrupts: int) -> int:
        kept: deque[BaseException] = deque(maxlen=20)  # their tracebacks keep alive whatever was left behind
        number = 0
        while self._timer.raised < interrupts:
            number += 1
            try:
                self._timer.set()
                self._call(number)
                self._timer.stop()
            except BaseException as error:  # noqa: BLE001 -- what is interrupted may raise another error
                self._timer.left = 0
                kept.append(error)
        return number

    def _call(self, number: int) -> None:
        digests = self._digests
        match self._random.randrange(8):
            case 0 | 1 | 2:
                digests.add(f"t{number % 7}", 0, key=f"main-{number}")
                self._acknowledged.append(f"main-{number}")
            case 3:
                digests.add_many([("own", n) for n in range(20)])
            case 4:
                with digests.digest("own"):
                    pass
            case 5:
                digests.flush("own")
                digests.retract(f"t{number % 7}", "unknown")
            case 6:
                digests.peek("own")
            case 7:
                digests.ledger()

    def _repeat(self, work: Callable[[int, int], None], name: int) -> None:
        number = 0
        while not self._done.is_set():
            try:
                work(name, number)
            except BaseException as error:  # noqa: BLE001 -- to be judged by the caller
                self._errors.append(repr(error))
            number += 1

    def _add_singly(self, name: int, number: int) -> None:
        self._digests.add(f"t{number % 7}", 0, key=f"{name}-{number}")
        self._acknowledged.append(f"{name}-{number}")

    def _add_batches(self, name: int, number: int) -> None:
        keys = [f"{name}-{number}-{n}" for n in range(5)]
        self._digests.add_many([(f"t{n}", Record(key, 0, 0.0)) for n, key in enumerate(keys)])
        self._acknowledged += keys

    def _deliver(self, name: int, number: int) -> None:
        """Claim ready timelines, read their digests and complete them."""
        store = self._store
        claimed = store.claim(0, 20, token=fresh_id(), lease=30_000, now=None)
        for lease in claimed.leases:
            [taken] = store.take([Take(lease, None, merge=True)], now=None)
            keys = [] if taken is None else [record.key for record in taken.records]
            if taken is not None and taken.complete and store.complete([Completion(lease, 0)], now=None) == [True]:
                self._delivered += keys

    def _read(self, name: int, number: int) -> None:
        self._digests.timeline(f"t{number % 7}")
        self._digests.ledger()
