"""Subjects: adds to timelines that cool down, or are ready, with policies of several kinds."""

from itertools import cycle
from random import Random
from time import perf_counter
from typing import Any

from bench._measure import Figures
from digestif import Digests, Policy
from digestif.stores.base import Completion

PLAIN, OVERRIDE, WINDOW, CHOSEN = "plain", "override", "window", "override with a window"
BATCH = 100
HOUR = 3_600_000  # milliseconds
VALUE = {"title": "Build failed", "body": "x" * 150}


def _policy(kind: str) -> Policy:
    if kind in (PLAIN, OVERRIDE):
        return Policy()
    return Policy.quiet_hours("22:00-07:00", tz="Europe/Berlin", jitter=600)


class Adds:
    """Adds to timelines in turn, one by one and in batches: half of them cool down, the others are ready."""

    def __init__(self, dsn: str, kind: str, timelines: int, seconds: float) -> None:
        self._seconds = seconds
        policy = _policy(kind)
        in_code = None if kind in (OVERRIDE, CHOSEN) else policy
        self._digests = Digests(dsn, namespace=f"adds-{kind.replace(' ', '-')}", policy=in_code)
        names = [f"mail:{number:06}" for number in range(timelines)]
        cooling, ready = names[: timelines // 2], names[timelines // 2 :]
        self._fill(cooling)
        self._cool_down()
        if kind in (OVERRIDE, CHOSEN):
            for name in names:
                self._digests.set_policy(name, policy)
        self._fill(ready)
        Random(7).shuffle(cooling)
        self._sources = {"cooling": cycle(cooling), "ready": cycle(ready)}

    def _fill(self, names: list[str]) -> None:
        for start in range(0, len(names), 1000):
            self._digests.add_many([(name, VALUE) for name in names[start : start + 1000]])

    def _cool_down(self) -> None:
        """Deliver all that is ready, also where a window would hold it back."""
        store, round_number = self._digests.store, 0
        for partition in range(store.partitions):
            while True:
                round_number += 1
                page = store.claim(partition, 200, token=f"t{round_number}", lease=HOUR, now=None)
                if not page.leases:
                    break
                store.complete([Completion(lease, HOUR) for lease in page.leases], now=None)

    def cooling(self) -> Figures:
        return self._rate("cooling")

    def ready(self) -> Figures:
        return self._rate("ready")

    def _rate(self, state: str) -> Figures:
        names, digests = self._sources[state], self._digests
        single = _repeated(lambda: digests.add(next(names), VALUE), self._seconds)
        batches = _repeated(lambda: digests.add_many([(next(names), VALUE) for _ in range(BATCH)]), self._seconds)
        return {"single": single, "batch": batches * BATCH}

    def close(self) -> None:
        self._digests.close()


def _repeated(step: Any, seconds: float) -> float:
    """How many steps a second."""
    count = 0
    began = now = perf_counter()
    while now < began + seconds:
        step()
        count += 1
        now = perf_counter()
    return count / (now - began)
