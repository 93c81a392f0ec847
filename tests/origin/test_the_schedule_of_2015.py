"""The first step of 2015: every delivery waits, and each digest in a row waits as long as its number says."""

from collections.abc import Callable

import pytest

from digestif import Digests, Exponential, Intervals, Policy
from digestif.testing.conformance.actions import T, deliver, fail, scheduled
from digestif.testing.conformance.base import DigestsWith
from tests.origin.steps import deliver_when_due, due
from tests.origin.stores import OnEveryStore

LADDER = Exponential(300, limit=2)
WAITS = {
    "exponential": (LADDER, [300.0, 600.0, 1200.0, 1200.0, 1200.0]),
    "intervals": (Intervals({0: 30, 1: 300}, default=900), [30.0, 300.0, 900.0, 900.0, 900.0]),
    "a constant": (lambda iteration: 60.0, [60.0, 60.0, 60.0, 60.0, 60.0]),
}


class TestTheScheduleOf2015(OnEveryStore):
    @pytest.fixture
    def digests(self, digests_with: DigestsWith) -> Digests:
        return stepped(digests_with, LADDER)

    @pytest.mark.parametrize(("strategy", "waits"), WAITS.values(), ids=WAITS)
    def test_each_digest_of_a_busy_timeline_waits_as_long_as_its_number_says(
        self, digests_with: DigestsWith, strategy: Callable[[int], float], waits: list[float]
    ) -> None:
        """Facts 31, 32, 33. Exponential: 300, 600, 1200, 1200…; Intervals: 30, 300, 900, 900…; any callable serves."""
        digests = stepped(digests_with, strategy)
        assert digests.add("t", "the first", now=T) is False

        waited, now = [], T
        for _ in waits:
            waited.append(due(digests) - now)
            now = due(digests)
            assert len(deliver_when_due(digests)) == 1
            digests.add("t", "the next", now=now)

        assert waited == waits
        assert digests.timeline("t").iteration == 5

    def test_further_records_do_not_move_the_step(self, digests: Digests) -> None:
        """Fact 31. 100 records in the second step: still due 600 after the first digest, and all in the second."""
        digests.add("t", "the first", now=T)
        deliver_when_due(digests)

        answers = [digests.add("t", n, now=T + 301 + n) for n in range(100)]

        assert not any(answers)
        assert due(digests) == T + 900
        assert len(deliver_when_due(digests)) == 100

    def test_a_failed_attempt_stays_on_its_step(self, digests: Digests) -> None:
        """Fact 32. Three failures in the first step: the cool-down after the digest is that of 1, not that of 4."""
        digests.add("t", "the first", now=T)
        assert scheduled(digests, T + 300) == ["t"]

        for _ in range(3):
            fail(digests, "t", now=T + 300)
            assert digests.timeline("t").iteration == 0
        deliver(digests, "t", now=T + 300)

        assert digests.timeline("t").iteration == 1
        assert due(digests) == T + 900

    def test_silence_leads_back_to_the_first_step(self, digests: Digests) -> None:
        """Facts 18, 32. Two digests, then an empty one: idle, and the next record waits 300 again, not 1200."""
        for _ in range(2):
            digests.add("t", "busy", first_delay=0, now=T)
            digests.flush("t", now=T)
            deliver(digests, "t", now=T)
        assert due(digests) == T + 1200

        assert list(deliver_when_due(digests)) == []

        assert digests.timeline("t").state == "idle"
        digests.add("t", "a new round", now=T + 5000)
        assert due(digests) == T + 5300
        assert digests.timeline("t").iteration == 0

    def test_a_record_that_comes_in_the_silence_keeps_the_timeline_on_the_first_step(self, digests: Digests) -> None:
        """Facts 19, 32. A record arrives while the empty digest is open: waiting, 300 from then."""
        digests.add("t", "the first", now=T)
        deliver_when_due(digests)
        assert scheduled(digests, T + 900) == ["t"]

        with digests.digest("t", now=T + 900) as empty:
            assert digests.add("t", "just in time", now=T + 900) is False

        assert len(empty) == 0
        assert digests.timeline("t").iteration == 0
        assert due(digests) == T + 1200
        assert [record.value for record in deliver_when_due(digests)] == ["just in time"]


def stepped(digests_with: DigestsWith, strategy: Callable[[int], float]) -> Digests:
    policy = Policy.stepped(strategy)
    return digests_with(first_delay=policy.first_delay, backoff=policy.backoff)
