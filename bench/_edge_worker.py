"""Subject: an idle worker in a process of its own, until the first record of a timeline arrives."""

import statistics
import threading
from random import Random
from time import monotonic, process_time, sleep

from bench._measure import Figures
from digestif import Digest, Digests, Policy, Worker

POLICY = Policy(minimum_delay=3600, maximum_delay=3600)
WAITING = 1_000  # timelines that are not due
LONGEST = 30.0  # seconds for the deliveries


class Idle:
    """Measures the time of records from add to handler, and the processor time of the idle process.

    A record carries the time at which its add began, by the clock that all processes of a computer share.
    """

    def __init__(self, dsn: str, adds: int, seconds: float) -> None:
        self._waits: list[float] = []
        self._adds, self._seconds = adds, seconds
        self._digests = Digests(dsn, policy=POLICY)
        self._digests.handler("*")(self._note)
        self._digests.add_many([(f"waiting:{n}", n) for n in range(WAITING)], first_delay=3600)
        self._worker = Worker(self._digests)
        self._thread = threading.Thread(target=self._worker.run, daemon=True)
        self._thread.start()
        sleep(1)  # until it is idle

    def _note(self, digest: Digest) -> None:
        self._waits.append(monotonic() - digest[0].value)

    def adds_here(self) -> Figures:
        """Add in this process."""
        add_now_and_then(self._digests, self._adds)
        return self.noted()

    def noted(self) -> Figures:
        """Wait until all records were delivered; return their times in milliseconds, and forget them."""
        end = monotonic() + LONGEST
        while len(self._waits) < self._adds and monotonic() < end:
            sleep(0.01)
        waits, self._waits = [wait * 1000 for wait in self._waits], []
        if len(waits) < self._adds:
            raise RuntimeError(f"{len(waits)} of {self._adds} were delivered")
        return {"p50": statistics.median(waits), "p99": statistics.quantiles(waits, n=100)[98], "most": max(waits)}

    def idle(self) -> Figures:
        """Return the share of a core, in per cent, that waiting takes."""
        began, used = monotonic(), process_time()
        sleep(self._seconds)
        return {"share": 100 * (process_time() - used) / (monotonic() - began)}

    def close(self) -> None:
        self._worker.stop()
        self._thread.join()
        self._digests.close()


def add_now_and_then(digests: Digests, count: int) -> None:
    """Add to a new timeline each time, with pauses in which the worker becomes idle again."""
    random = Random(1)
    for number in range(count):
        digests.add(f"edge:{random.random()}:{number}", monotonic())
        sleep(random.uniform(0.005, 0.03))
