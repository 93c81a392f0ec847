"""How long workers take to deliver what killed workers held, in virtual time: `./dev python -m tests.worker.recovery`.

Suspects are kept by the memory store, claimed by `Claims` and given turns by `Suspects`, as in a worker; only handlers,
kills and the clock are simulated. The program prints what it found for many cases, beside the bound.
"""

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from math import ceil, log2
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from zlib import crc32

from digestif.attempts.admission import Admissions
from digestif.attempts.claims import Claims
from digestif.attempts.leases import HeldLease
from digestif.core.policy import Policy
from digestif.core.terms import Terms
from digestif.core.verdicts import poison
from digestif.events import Events
from digestif.stores.base import Arrival, Burial, Completion, Lease
from digestif.stores.memory import MemoryStore
from digestif.worker.suspects import Suspects

POLL = 1.0  # seconds between two looks of a worker that has nothing to do
LONG = 100_000  # seconds in which all must have ended
START = 1_000.0


class Case(NamedTuple):
    """What workers have in flight. Times in seconds."""

    healthy: int
    poison: int = 0
    workers: int = 1
    kills: Sequence[float] = ()  # when all workers are killed, from the start
    handler: float = 1.0
    lease: float = 5.0

    @property
    def concurrency(self) -> int:
        return ceil((self.healthy + self.poison) / self.workers)


class Recovery(NamedTuple):
    """What became of the digests."""

    seconds: float  # from the last kill, or the start, until all healthy digests were delivered
    buried: list[str]
    deaths: int


def bound(case: Case, undisturbed: float) -> float:
    """The longest that a recovery may take, from the last kill."""
    return 2 * undisturbed + 2 * case.lease + (2 + log2(case.concurrency)) * case.handler


class Worker:
    """A simulated worker: what it holds, and what it knows about suspects."""

    def __init__(self, simulation: "Simulation") -> None:
        lease = simulation.case.lease
        self.suspects = Suspects(lease_seconds=lease, clock=lambda: simulation.now)
        self.held: dict[str, tuple[Lease, SimpleNamespace]] = {}


class Simulation:
    """One case, from the first claim until all healthy digests are delivered and all others buried."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.now = START
        self.store = MemoryStore()
        self._lease = round(case.lease * 1000)
        asks = SimpleNamespace(must_ask=lambda now: False)
        self._claims = Claims(
            self.store, cast(Admissions, asks), lease=self._lease, now=lambda: self._millis(), events=Events()
        )
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._delivered: dict[str, float] = {}
        self._buried: list[str] = []
        self._deaths = 0
        self._workers = [Worker(self) for _ in range(case.workers)]

    def run(self) -> Recovery:
        names = [f"n{number}" for number in range(self.case.healthy)] + [f"p{n}" for n in range(self.case.poison)]
        self.store.add([Arrival(name, "k", b"1", 0.0, None, Terms()) for name in _mixed(names)], now=self._millis())
        for worker in self._workers:
            self._at(0, partial(self._wake, worker))
        for seconds in self.case.kills:
            self._at(seconds, self._kill_all)
        while len(self._delivered) + len(self._buried) < len(names):
            self.now, _, happen = heapq.heappop(self._events)
            assert self.now < START + LONG, "they do not recover"
            happen()
        healthy = [at for name, at in self._delivered.items() if name.startswith("n")]
        began = START + max(self.case.kills, default=0)
        return Recovery(max(healthy) - began, self._buried, self._deaths)

    def _millis(self) -> int:
        return round(self.now * 1000)

    def _at(self, seconds: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), happen))

    def _wake(self, worker: Worker) -> None:
        """Claim as the loop of a worker does."""
        if worker not in self._workers:
            return
        if worker.suspects.are_tried:
            return  # its last attempt wakes it
        room = self.case.concurrency - len(worker.held)
        claimed = self._claims.claim(room) if room else None
        if claimed is not None:
            worker.suspects.saw(claimed.suspect_since, looked_everywhere=len(claimed.leases) < room)
            self._begin(worker, claimed.leases)
        if not worker.held and worker.suspects.exist:
            size = worker.suspects.begin_claim(self.case.concurrency)
            worker.suspects.end_claim(self._begin(worker, self._claims.claim_suspects(size, alone=True)))
        if not worker.held:
            self._at(POLL, lambda: self._wake(worker))

    def _begin(self, worker: Worker, leases: Sequence[Lease]) -> list[HeldLease]:
        attempts = [SimpleNamespace(is_running=True) for _ in leases]
        for lease, attempt in zip(leases, attempts, strict=True):
            worker.held[lease.token + lease.timeline] = (lease, attempt)
            takes = 0 if poison(lease.lapses_alone, Policy()) else self.case.handler / (1 + _is_poison(lease))
            self._at(takes, partial(self._end, worker, lease))
        return cast("list[HeldLease]", attempts)

    def _end(self, worker: Worker, lease: Lease) -> None:
        if worker not in self._workers:
            return
        if poison(lease.lapses_alone, Policy()):
            assert self.store.bury([Burial(lease, "poison", 0)], now=self._millis()) == [True]
            self._buried.append(lease.timeline)
        elif _is_poison(lease):
            self._kill(worker)
            return
        else:
            assert self.store.complete([Completion(lease, 10**12)], now=self._millis()) == [True]
            self._delivered[lease.timeline] = self.now
        _, attempt = worker.held.pop(lease.token + lease.timeline)
        attempt.is_running = False
        if not worker.held:
            self._wake(worker)

    def _kill_all(self) -> None:
        for worker in list(self._workers):
            self._kill(worker)

    def _kill(self, worker: Worker) -> None:
        """End a worker, which has just renewed its leases, and start another one."""
        leases = [lease for lease, _ in worker.held.values()]
        self.store.extend(leases, lease=self._lease, now=self._millis())
        self._deaths += 1
        self._workers[self._workers.index(worker)] = successor = Worker(self)
        self._wake(successor)


def _is_poison(lease: Lease) -> bool:
    return lease.timeline.startswith("p")


def _mixed(names: list[str]) -> list[str]:
    """The same names, the last ones among the others."""
    return sorted(names, key=lambda name: crc32(name.encode()))


def recover(case: Case) -> tuple[Recovery, float]:
    """What became of a case, and the bound for it."""
    undisturbed = Simulation(case._replace(kills=(), poison=0)).run().seconds
    return Simulation(case).run(), bound(case, undisturbed)


def second_kills(case: Case) -> list[float]:
    """Moments in the first groups of suspects, one in each, after a kill in the middle of the first handlers."""
    lapsed = case.handler / 2 + case.lease + POLL
    return [lapsed + case.handler * (group + 0.5) for group in range(-1, ceil(log2(case.concurrency)) + 2)]


def main() -> None:
    for healthy in (100, 1_000, 10_000):
        for workers in (1, 4):
            case = Case(healthy, workers=workers)
            found = [recover(case._replace(kills=(case.handler / 2, again))) for again in second_kills(case)]
            slowest = max(recovery.seconds for recovery, _ in found)
            buried = sum(len(recovery.buried) for recovery, _ in found)
            _show(
                case, f"{slowest:7.1f} s of {found[0][1]:6.1f} s, {buried} buried, in {len(found)} cases of two kills"
            )
    for healthy in (60, 1_000):
        for number in (1, 3):
            for workers in (1, 4):
                case = Case(healthy, poison=number, workers=workers)
                recovery, _ = recover(case)
                _show(case, f"{recovery.seconds:7.1f} s, {sorted(recovery.buried)} buried, {recovery.deaths} deaths")


def _show(case: Case, found: Any) -> None:
    print(f"{case.healthy:6} healthy, {case.poison} poison, {case.workers} workers: {found}")  # noqa: T201


if __name__ == "__main__":
    main()
