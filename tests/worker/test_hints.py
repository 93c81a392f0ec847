"""Where an idle worker looks: at the partitions that hints name, and at all of them from time to time."""

from collections.abc import Iterable

from digestif.stores.base import Wakeups
from digestif.worker.rounds import Hints

POLL = 1.0


class Scripted(Wakeups):
    """Hints that come after so many seconds each, by a clock of its own."""

    def __init__(self, hints: Iterable[tuple[float, frozenset[int]]]) -> None:
        super().__init__()
        self.now = 0.0
        self._hints = iter(hints)

    def wait_where(self, timeout: float) -> frozenset[int] | None:
        seconds, named = next(self._hints, (POLL, None))
        self.now += min(seconds, timeout)
        return named if seconds <= timeout else None


def looks(
    *hints: tuple[float, frozenset[int]], many: int, claim: float = 0.0
) -> list[tuple[float, frozenset[int] | None]]:
    """When a worker looks, and where; None is everywhere. A claim takes so many seconds."""
    wakeups = Scripted(hints)
    waits = Hints(wakeups, poll=POLL, clock=lambda: wakeups.now)
    found = []
    for _ in range(many):
        named = waits.wait()
        found.append((wakeups.now, named))
        wakeups.now += claim
    return found


def test_without_hints_all_partitions_are_looked_at_again_and_again() -> None:
    assert looks(many=3) == [(1.0, None), (2.0, None), (3.0, None)]


def test_a_hint_leads_to_its_partitions_alone() -> None:
    assert looks((0.25, frozenset({3, 5})), many=1) == [(0.25, frozenset({3, 5}))]


def test_hints_without_end_do_not_keep_a_worker_from_looking_everywhere() -> None:
    """What becomes due by time has no hint."""
    busy = [(0.375, frozenset({7}))] * 6

    assert looks(*busy, many=6) == [
        *[(0.375, frozenset({7})), (0.75, frozenset({7})), (1.0, None)],
        *[(1.375, frozenset({7})), (1.75, frozenset({7})), (2.0, None)],
    ]


def test_nor_do_hints_that_are_there_whenever_a_claim_ends() -> None:
    at_once = [(0.0, frozenset({7}))] * 4

    assert looks(*at_once, many=4, claim=0.75) == [
        *[(0.0, frozenset({7})), (0.75, frozenset({7}))],
        *[(1.5, None), (2.25, frozenset({7}))],
    ]
