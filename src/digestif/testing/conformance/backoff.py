"""Backoff: cool-downs that grow with the iteration."""

from collections.abc import Callable

import pytest

from digestif import Digests, Exponential, Intervals, Policy
from digestif.testing.conformance.actions import T, deliver, fail, let_wait, scheduled
from digestif.testing.conformance.base import DigestsWith, Suite

STRATEGIES = {
    "exponential": (Exponential(300, limit=2), [600.0, 1200.0, 1200.0, 1200.0]),
    "intervals": (Intervals({0: 30, 1: 300}, default=900), [300.0, 900.0, 900.0, 900.0]),
    "any callable": (lambda iteration: 7.0 * iteration, [7.0, 14.0, 21.0, 28.0]),
}


class Backoffs(Suite):
    def test_exponential_doubles_up_to_its_limit(self) -> None:
        """Fact 31. Exponential(300, limit=2): 300, 600, 1200, 1200, … for iterations 0, 1, 2, 3…"""
        strategy = Exponential(300, limit=2)

        assert [strategy(iteration) for iteration in range(5)] == [300, 600, 1200, 1200, 1200]

    @pytest.mark.parametrize(("strategy", "expected"), STRATEGIES.values(), ids=STRATEGIES)
    def test_the_cool_down_after_each_digest_is_that_of_its_number(
        self, digests_with: DigestsWith, strategy: Callable[[int], float], expected: list[float]
    ) -> None:
        """Fact 31. The cool-down after the first digest is that of iteration 1. Any callable serves."""
        digests = digests_with(backoff=strategy)

        assert cool_downs(digests, 4) == expected

    def test_increments_are_off_with_a_backoff(self, digests_with: DigestsWith) -> None:
        """Fact 31. Exponential(300, limit=2): a record added while waiting moves nothing."""
        digests = digests_with(backoff=Exponential(300, limit=2), increment_delay=30)
        digests.add("t", "a", now=T)
        deliver(digests, "t", now=T)

        digests.add("t", "more", now=T + 1)

        assert digests.timeline("t").due == T + 600

    def test_a_stepped_policy_begins_with_iteration_zero(self, digests_with: DigestsWith) -> None:
        """Fact 31. Policy.stepped: the first wait is the strategy's iteration 0, then its backoff."""
        stepped = Policy.stepped(Exponential(300, limit=2))
        digests = digests_with(first_delay=stepped.first_delay, backoff=stepped.backoff)

        answer = digests.add("t", "a", now=T)

        assert answer is False
        assert digests.timeline("t").due == T + 300
        scheduled(digests, T + 300)
        deliver(digests, "t", now=T + 300)
        assert digests.timeline("t").due == T + 900

    def test_each_digest_with_records_raises_the_iteration(self, digests_with: DigestsWith) -> None:
        """Fact 32. Each non-empty digest raises the iteration, a failed attempt does not; an empty digest resets it."""
        digests = digests_with(minimum_delay=0)
        iterations = []

        for _ in range(3):
            let_wait_again(digests)
            iterations.append(digests.timeline("t").iteration)
        digests.add("t", "more", now=T)
        digests.flush("t", now=T)
        fail(digests, "t")
        iterations.append(digests.timeline("t").iteration)

        assert iterations == [1, 2, 3, 3]

    def test_an_empty_digest_resets_the_iteration(self, digests_with: DigestsWith) -> None:
        """Fact 32. An empty digest resets the iteration, also if a record arrived meanwhile."""
        digests = digests_with(backoff=Exponential(300, limit=2))
        let_wait(digests, "t")
        scheduled(digests, T)
        with digests.digest("t", now=T):
            digests.add("t", "meanwhile", now=T)

        assert digests.timeline("t").iteration == 0
        assert digests.timeline("t").due == T + 300

    def test_intervals_are_listed_and_then_the_default(self) -> None:
        """Fact 33. Intervals({0: 30, 1: 300}, default=900) gives 30, 300, 900, 900."""
        strategy = Intervals({0: 30, 1: 300}, default=900)

        assert [strategy(iteration) for iteration in range(4)] == [30, 300, 900, 900]


def cool_downs(digests: Digests, count: int) -> list[float]:
    """How long the timeline waits after each of so many digests with a record."""
    waits, now = [], T
    for _ in range(count):
        digests.add("t", "a", now=now)
        digests.flush("t", now=now)
        deliver(digests, "t", now=now)
        due = digests.timeline("t").due
        assert due is not None
        waits.append(due - now)
        now = due
    return waits


def let_wait_again(digests: Digests) -> None:
    digests.add("t", "more", now=T)
    digests.flush("t", now=T)
    deliver(digests, "t", 0, now=T)
