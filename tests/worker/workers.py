"""Workers for the tests: run in a thread of their own, stopped in the end, and what is told is heard."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from digestif import Digest, Digests, Event, Worker, run
from digestif.clock import monotonic
from digestif.worker.limits import Tuning

PATIENCE = 20.0  # seconds after which a test gives up
AT_ONCE = 5.0  # seconds, on a machine that may do other things as well: some milliseconds are usual
LONG = 60.0  # seconds between two looks of a worker that is expected to be woken

Told = TypeVar("Told", bound=Event)


def tuned(digests: Digests, tuning: Tuning, **options: Any) -> Worker:
    """A worker with numbers that its users can't set."""
    worker = Worker(digests, **options)
    worker.tuning = tuning
    return worker


def once(digests: Digests, *, now: float | None = None, tuning: Tuning = Worker.tuning, **options: Any) -> int:
    """One round of a worker."""
    return asyncio.run(tuned(digests, tuning, **options).run_once(now))


def rounds(digests: Digests, *, now: float | None = None, **options: Any) -> int:
    """Rounds of a worker until there is nothing to do; gives how many timelines they claimed."""
    claimed = 0
    while more := once(digests, now=now, **options):
        claimed += more
    return claimed


@contextmanager
def working(*served: Digests, tuning: Tuning = Worker.tuning, **options: Any) -> Iterator[list[Worker]]:
    """A worker for each, side by side in a thread, until the block ends."""
    workers = [tuned(digests, tuning, **options) for digests in served]
    thread = threading.Thread(target=run, args=workers, name="working", daemon=True)
    thread.start()
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the workers do not stop"


class Times:
    """When a handler was called."""

    def __init__(self, digests: Digests) -> None:
        self._called = threading.Semaphore(0)
        self.last = 0.0
        digests.handler("*")(self._note)

    def _note(self, _: Digest) -> None:
        self.last = monotonic()
        self._called.release()

    def after(self, act: float) -> float:
        """Seconds until the next call."""
        assert self._called.acquire(timeout=LONG), "it was not called"
        return self.last - act


class Ear:
    """Hears what an engine tells, and waits for it."""

    def __init__(self, digests: Digests) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()
        digests.subscribe(self._hear)

    def _hear(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def of(self, kind: type[Told]) -> list[Told]:
        return [event for event in list(self.events) if isinstance(event, kind)]

    def wait_for(self, kind: type[Told], count: int = 1, *, seconds: float = PATIENCE) -> list[Told]:
        """What was told of this kind, once it was told so often."""
        with self._changed:
            heard = self._changed.wait_for(lambda: len(self.of(kind)) >= count, seconds)
        assert heard, f"{len(self.of(kind))} of {count} {kind.__name__} in {seconds} s: {self.events}"
        return self.of(kind)


def becomes(condition: Callable[[], bool], *, seconds: float = PATIENCE) -> bool:
    """True as soon as it is so; False when the time is over."""
    end = monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if monotonic() > end:
            return False
        pause.wait(0.005)
    return True


class Crowd:
    """How many are inside at once, and the most there have been."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
