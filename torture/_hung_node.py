"""How long first deliveries take while one node of a cluster hangs: `python -m torture._hung_node [SECONDS]`.

Three primaries without replicas. Producers add a record to a timeline of its own twenty times a second, each time in
a partition of a node that answers; a worker delivers. Once with all nodes well, then with one that is stopped
(SIGSTOP), which has partition 0 or has not.
"""

import asyncio
import sys
import threading
from statistics import quantiles
from typing import NamedTuple

from digestif import AsyncDigests, Digests, StoreUnavailable
from digestif.clock import monotonic
from tests.stores.redis.hung import POLICY, Scene, divided_cluster, played
from tests.worker.workers import becomes

PER_SECOND = 20
LATE = 30.0  # seconds after which an add counts as undelivered


class Figures(NamedTuple):
    """Seconds, of many adds or deliveries."""

    p50: float
    p95: float
    longest: float

    @classmethod
    def of(cls, seconds: list[float]) -> "Figures":
        cuts = quantiles(seconds, n=20)
        return cls(cuts[9], cuts[18], max(seconds))

    def __str__(self) -> str:
        return f"p50 {self.p50 * 1000:.0f} ms, p95 {self.p95 * 1000:.0f} ms, longest {self.longest * 1000:.0f} ms"


def measure(scene: Scene, producer: Digests, avoided: set[int], seconds: float) -> tuple[Figures, Figures]:
    """Figures of adds and of first deliveries, in all partitions but those that are avoided."""
    added: dict[str, float] = {}
    took: list[float] = []
    pause = threading.Event()
    end = monotonic() + seconds
    while monotonic() < end:
        name = scene.name(lambda found: found not in avoided)
        added[name] = monotonic()
        producer.add(name, 1)
        took.append(monotonic() - added[name])
        pause.wait(1 / PER_SECOND)
    assert becomes(lambda: added.keys() <= scene.delivered.keys(), seconds=LATE)
    return Figures.of(took), Figures.of([scene.delivered[name] - began for name, began in added.items()])


def measure_async(scene: Scene, producer: Digests, avoided: set[int], seconds: float) -> Figures:
    """Figures of adds of an `AsyncDigests`, beside which every tenth goes to the partitions that are avoided."""
    took: list[float] = []

    async def add(digests: AsyncDigests, name: str, *, counted: bool) -> None:
        began = monotonic()
        try:
            await digests.add(name, 1)
        except StoreUnavailable:
            assert not counted
        if counted:
            took.append(monotonic() - began)

    async def run() -> None:
        digests = AsyncDigests(producer.store, policy=POLICY)
        async with asyncio.TaskGroup() as group:
            for number in range(round(seconds * PER_SECOND)):
                counted = number % 10 > 0
                name = scene.name(lambda found, counted=counted: (found not in avoided) is counted)  # type: ignore[misc]
                group.create_task(add(digests, name, counted=counted))
                await asyncio.sleep(1 / PER_SECOND)

    asyncio.run(run())
    return Figures.of(took)


def hang(title: str, seconds: float, *, first: bool) -> None:
    """Stop a node and print the figures. `first`: the node that has partition 0."""
    with divided_cluster() as cluster, played(cluster) as scene, Digests(cluster.url, policy=POLICY) as producer:
        victim = scene.victim(first=first)
        avoided = scene.partitions(victim)
        adds, deliveries = measure(scene, producer, set(), seconds / 2)
        show(f"all nodes well: adds {adds}; deliveries {deliveries}")
        victim.freeze()
        for number in range(2):
            adds, deliveries = measure(scene, producer, avoided, seconds)
            show(f"{title}, {number * seconds:g} s later: adds {adds}; deliveries {deliveries}")
        show(f"{title}, async adds: {measure_async(scene, producer, avoided, seconds)}")
        probes = [thread for thread in threading.enumerate() if thread.name == "digestif-probe"]
        show(f"threads that probe, of two links: {len(probes)}")
        if not first:
            began = monotonic()
            with Digests(scene.cluster.url, policy=POLICY) as late:
                late.add(scene.name(lambda found: found not in avoided), 1)
                show(f"{title}: opened by another process, and a first record accepted, in {monotonic() - began:.2f} s")
        victim.thaw()
        name, began = scene.name(lambda found: found in avoided), monotonic()
        producer.add(name, 1)
        assert becomes(lambda: name in scene.delivered)
        show(f"it goes on: delivered after {scene.delivered[name] - began:.2f} s")


def main(seconds: float = 20.0) -> None:
    hang("a node hangs", seconds, first=False)
    hang("the node of partition 0 hangs", seconds, first=True)


def show(figures: str) -> None:
    sys.stdout.write(f"{figures}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
