"""Many threads at once: each record is counted once, and no two threads get the same timeline."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from digestif import Digests, InvalidState, Record
from digestif.stores.base import Store
from digestif.testing.conformance import port
from digestif.testing.conformance.actions import T, deliver, keys, let_wait, scheduled
from digestif.testing.conformance.base import Suite

Answer = TypeVar("Answer")
THREADS = 6


class Threads(Suite):
    def test_one_of_many_adds_makes_a_timeline_ready(self, digests: Digests) -> None:
        """Fact 1. Many threads add to an unknown timeline: exactly one of them is answered True."""

        def add_ten(thread: int) -> list[bool]:
            return [digests.add("t", Record(f"{thread}-{n}", n, T), now=T) for n in range(10)]

        answers = [answer for answers in all_at_once(add_ten) for answer in answers]

        assert answers.count(True) == 1
        assert answers.count(False) == 10 * THREADS - 1
        assert sorted(keys(deliver(digests, "t"))) == sorted(f"{t}-{n}" for t in range(THREADS) for n in range(10))

    def test_one_of_many_opens_a_timeline(self, digests: Digests) -> None:
        """Fact 22. Many threads want to deliver a timeline: one does, the others are refused."""
        digests.add("t", "a", now=T)

        def try_to_deliver(thread: int) -> int:
            try:
                return len(deliver(digests, "t", 60))
            except InvalidState:
                return 0

        assert sorted(all_at_once(try_to_deliver)) == [0] * (THREADS - 1) + [1]
        assert digests.ledger().delivered == 1

    def test_two_callers_of_schedule_share_no_entry(self, digests: Digests) -> None:
        """Fact 13. Many threads schedule at once: each due timeline is given to one of them."""
        for n in range(20):
            let_wait(digests, f"t{n}")

        given = all_at_once(lambda thread: scheduled(digests))

        assert sorted(key for entries in given for key in entries) == sorted(f"t{n}" for n in range(20))

    def test_two_workers_at_once_share_no_claim(self, store: Store) -> None:
        """Fact 22. Many threads claim at once: each timeline is given to one of them."""
        port.arrive_everywhere(store, [f"t{n}" for n in range(30)])

        claimed = all_at_once(lambda thread: port.claim_all(store, limit=3))

        assert sorted(lease.timeline for leases in claimed for lease in leases) == sorted(f"t{n}" for n in range(30))

    def test_two_workers_at_once_share_no_suspect(self, store: Store) -> None:
        """Fact 22. Many threads claim what lapsed at once: each timeline is given to one of them."""
        port.arrive_everywhere(store, [f"t{n}" for n in range(30)])
        port.claim_all(store)

        def claim_until_there_is_none(thread: int) -> list[str]:
            claims = iter(lambda: port.claim_suspects(store), [])
            return [lease.timeline for leases in claims for lease in leases]

        given = all_at_once(claim_until_there_is_none)

        assert sorted(timeline for timelines in given for timeline in timelines) == sorted(f"t{n}" for n in range(30))

    def test_the_ledger_balances_after_a_crowd(self, digests: Digests) -> None:
        """Fact 48. Many threads add, deliver and delete at once: the ledger balances, and verify agrees."""

        def do_everything(thread: int) -> None:
            for n in range(8):
                digests.add(f"t{n % 2}", Record(f"r{(thread + n) % 5}", n, T), now=T)
                digests.flush(f"t{n % 2}", now=T)
                try:
                    deliver(digests, f"t{n % 2}", 0)
                except InvalidState:
                    digests.retract(f"t{n % 2}", f"r{n % 5}", now=T)

        all_at_once(do_everything)

        assert digests.ledger().accepted == 8 * THREADS
        assert digests.ledger().balanced
        assert digests.verify()


def all_at_once(action: Callable[[int], Answer]) -> list[Answer]:
    """Let so many threads do it, from the same moment on; gives all answers."""
    start = Barrier(THREADS)

    def begin(thread: int) -> Answer:
        start.wait()
        return action(thread)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))
