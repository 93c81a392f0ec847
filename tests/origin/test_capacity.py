"""Capacity: the origin trimmed a timeline by chance and counted nothing; here it is exact and counted."""

import pytest

from digestif import ConfigError, Policy, Record
from digestif.testing.conformance.actions import T, add_all, deliver, fail, keys, numbered, scheduled
from digestif.testing.conformance.base import DigestsWith
from tests.origin.stores import OnEveryStore


class TestCapacity(OnEveryStore):
    def test_a_full_timeline_is_trimmed_at_each_record(self, digests_with: DigestsWith) -> None:
        """Fact 8. Capacity 2: of four records there are never more than two, the newest, and `dropped` is 2."""
        digests = digests_with(capacity=2)

        held = []
        for record in numbered(range(4)):
            digests.add("t", record, now=T)
            held.append((digests.timeline("t").pending, keys(digests.peek("t", now=T))))

        assert held == [(1, ["r0"]), (2, ["r1", "r0"]), (2, ["r2", "r1"]), (2, ["r3", "r2"])]
        digest = deliver(digests, "t")
        assert (keys(digest), digest.dropped) == (["r3", "r2"], 2)

    def test_ten_times_too_many_leave_exactly_the_newest_hundred(self, digests_with: DigestsWith) -> None:
        """Fact 8. Capacity 100, 1,000 records: the origin trimmed at one add in 100 and gave what was left then."""
        digests = digests_with(capacity=100)
        add_all(digests, "t", numbered(range(1_000)))
        assert digests.timeline("t").pending == 100

        digest = deliver(digests, "t")

        assert keys(digest) == [f"r{n}" for n in range(999, 899, -1)]
        assert digest.dropped == 900
        ledger = digests.ledger()
        assert (ledger.accepted, ledger.delivered, ledger.dropped) == (1_000, 100, 900)

    def test_among_equal_times_the_latest_to_arrive_are_kept(self, digests_with: DigestsWith) -> None:
        """Facts 8, 16. Five records of one instant, capacity 3: the last three, not those whose keys sort last."""
        digests = digests_with(capacity=3)
        for key in ("e", "d", "a", "c", "b"):
            digests.add("t", Record(key, key, T), now=T)

        assert keys(deliver(digests, "t")) == ["b", "c", "a"]

    def test_a_failed_digest_and_what_came_since_share_the_room(self, digests_with: DigestsWith) -> None:
        """Fact 9. Capacity 10: 0–9 failed, 10–19 came; after maintenance and schedule exactly 10–19, `dropped` 10."""
        digests = digests_with(capacity=10)
        add_all(digests, "t", numbered(range(10)))
        failed = fail(digests, "t")
        add_all(digests, "t", numbered(range(10, 20)))
        digests.maintenance(T, now=T + 300)
        assert scheduled(digests, T + 300) == ["t"]

        recovered = deliver(digests, "t", now=T + 300)

        assert (len(failed), failed.dropped) == (10, 0)
        assert keys(recovered) == [f"r{n}" for n in range(19, 9, -1)]
        assert recovered.dropped == 10
        assert (digests.ledger().delivered, digests.ledger().dropped) == (10, 10)


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_timeline_has_room_for_at_least_one_record(capacity: int) -> None:
    """Fact 10. Capacity below 1 is refused, by name."""
    with pytest.raises(ConfigError, match="capacity"):
        Policy(capacity=capacity)
