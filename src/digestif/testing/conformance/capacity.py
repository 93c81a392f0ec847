"""Capacity: the newest are kept, exactly, and the rest is counted."""

import pytest

from digestif import ConfigError, Digests, Dropped, Event, Policy, Record
from digestif.core.terms import Terms
from digestif.stores.base import Accepted, Arrival, Store
from digestif.stores.reader import Part
from digestif.testing.conformance.actions import T, add_all, deliver, fail, keys, numbered
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.conformance.port import NOW, arrive, open_digest, record_keys, stored


class Capacity(Suite):
    def test_the_newest_are_kept_and_the_others_counted(self, digests_with: DigestsWith) -> None:
        """Fact 8. Capacity 2, four records with rising times: the digest holds the newest two, and `dropped` is 2."""
        digests = digests_with(capacity=2)
        for record in numbered(range(4)):
            digests.add("t", record, now=T)

        digest = deliver(digests, "t")

        assert keys(digest) == ["r3", "r2"]
        assert digest.dropped == 2
        assert digests.ledger().dropped == 2

    def test_a_record_older_than_all_that_are_kept_is_dropped_itself(self, digests_with: DigestsWith) -> None:
        """Fact 8. Capacity 2, four records with falling times: the newest two by timestamp, whatever their arrival."""
        digests = digests_with(capacity=2)
        for record in reversed(numbered(range(4))):
            digests.add("t", record, now=T)

        digest = deliver(digests, "t")

        assert keys(digest) == ["r3", "r2"]
        assert digest.dropped == 2

    def test_each_record_tells_how_many_had_to_go_for_it(self, store: Store) -> None:
        """Fact 8. Capacity 2, four records in one call of the port: the third and the fourth drop one each."""
        batch = [Arrival("t", f"r{n}", b"", float(n), None, Terms(capacity=2)) for n in range(4)]

        assert store.add(batch, now=NOW) == [Accepted(ready=True), Accepted(), Accepted(dropped=1), Accepted(dropped=1)]

    def test_a_lowered_capacity_tells_at_once_how_many_had_to_go(self, store: Store) -> None:
        """Fact 8. Five records are pending; an add with a capacity of 2 drops four, and its answer says so."""
        arrive(store, "t", [f"r{n}" for n in range(5)])

        [answer] = store.add([Arrival("t", "r5", b"", 5.0, None, Terms(capacity=2))], now=NOW)

        assert answer == Accepted(dropped=4)
        assert store.inspect("t").pending == 2

    def test_records_that_are_dropped_at_add_are_told_by_timeline(self, digests_with: DigestsWith) -> None:
        """Fact 65. An event for each timeline of a call that had more records than its capacity, and for no other."""
        digests = digests_with(capacity=2)
        told: list[Event] = []
        digests.subscribe(told.append)

        digests.add_many([*(("full", n) for n in range(5)), ("other", 1), ("other", 2)], now=T)
        digests.add("full", "one more", now=T)

        assert [each for each in told if isinstance(each, Dropped)] == [
            Dropped(timeline="full", records=3),
            Dropped(timeline="full", records=1),
        ]

    def test_what_one_digest_dropped_is_not_told_by_the_next(self, digests_with: DigestsWith) -> None:
        """Fact 8. Capacity 2, four records: `dropped` is 2 in their digest, and 0 in the next one."""
        digests = digests_with(capacity=2, minimum_delay=0)
        add_all(digests, "t", numbered(range(4)))
        first = deliver(digests, "t")
        digests.add("t", "more", now=T)
        digests.flush("t", now=T)

        second = deliver(digests, "t")

        assert (first.dropped, second.dropped) == (2, 0)

    def test_a_failed_digest_and_newer_records_share_the_capacity(self, digests_with: DigestsWith) -> None:
        """Fact 9. Capacity 10, records 0–9 in a failed digest, 10–19 added: it holds exactly 10–19, `dropped` 10."""
        digests = digests_with(capacity=10)
        add_all(digests, "t", numbered(range(10)))
        fail(digests, "t")
        add_all(digests, "t", numbered(range(10, 20)))

        digest = deliver(digests, "t")

        assert keys(digest) == [f"r{n}" for n in range(19, 9, -1)]
        assert digest.dropped == 10
        assert digests.ledger().dropped == 10
        assert digests.ledger().delivered == 10

    def test_everything_that_was_dropped_on_the_way_is_told(self, digests_with: DigestsWith) -> None:
        """Fact 9. Dropped before the digest, while it had failed, and by the merge: `dropped` is the sum."""
        digests = digests_with(capacity=2)
        add_all(digests, "t", numbered(range(3)))
        first = fail(digests, "t")
        add_all(digests, "t", numbered(range(3, 6)))

        second = deliver(digests, "t")

        assert keys(second) == ["r5", "r4"]
        assert (first.dropped, second.dropped, digests.ledger().dropped) == (1, 4, 4)

    @pytest.mark.parametrize("capacity", [0, -1, True, 2.0, "2"])
    def test_a_capacity_below_one_is_refused(self, digests: Digests, capacity: object) -> None:
        """Fact 10. Capacity below 1 is refused."""
        with pytest.raises(ConfigError, match="capacity"):
            Policy(capacity=capacity)  # type: ignore[arg-type]  # that is the point

    def test_a_lower_capacity_trims_what_was_added_under_a_higher_one(self, digests_with: DigestsWith) -> None:
        """Fact 8. Five records added with capacity 5, digested with capacity 2: the newest two, and `dropped` is 3."""
        add_all(digests_with(capacity=5), "t", numbered(range(5)))

        digest = deliver(digests_with(capacity=2), "t")

        assert keys(digest) == ["r4", "r3"]
        assert digest.dropped == 3

    def test_no_capacity_keeps_everything(self, digests_with: DigestsWith) -> None:
        """Fact 23. Capacity permitting: with None nothing is ever dropped."""
        digests = digests_with(capacity=None)
        add_all(digests, "t", numbered(range(1_500)))
        fail(digests, "t")
        add_all(digests, "t", numbered(range(1_500, 3_000)))

        digest = deliver(digests, "t")

        assert keys(digest) == [f"r{n}" for n in range(2_999, -1, -1)]
        assert digest.dropped == 0

    def test_two_thousand_adds_within_a_millisecond_respect_capacity(self, digests_with: DigestsWith) -> None:
        """Fact 44. 2,000 adds within one millisecond respect capacity; ties are broken by arrival."""
        digests = digests_with(capacity=50)
        add_all(digests, "t", [Record(f"r{n}", n, T) for n in range(1_900)])
        for n in range(1_900, 2_000):
            digests.add("t", Record(f"r{n}", n, T), now=T)

        digest = deliver(digests, "t")

        assert keys(digest) == [f"r{n}" for n in range(1_999, 1_949, -1)]
        assert digest.dropped == 1_950

    def test_capacity_holds_within_one_call_whatever_its_records_are(self, store: Store) -> None:
        """Fact 8. Capacity 3; urgent and ordinary records in one call, while a digest is open: the newest three."""
        arrive(store, "t", ["first"])
        open_digest(store)
        arrive(store, "t", ["a"], timestamp=0.0)
        terms = Terms(capacity=3)

        urgencies = {"b": 5_000, "c": None, "d": 5_000, "e": None}
        store.add([Arrival("t", key, b"", 1.0, within, terms) for key, within in urgencies.items()], now=NOW)

        assert record_keys(stored(store, "t", Part.PENDING)) == ["e", "d", "c"]
        assert store.inspect("t").dropped == 2

    def test_a_new_version_takes_its_place_among_ties_by_its_own_arrival(self, digests_with: DigestsWith) -> None:
        """Fact 44. Ties are broken by arrival: a record added again counts as the latest."""
        digests = digests_with(capacity=2)
        for key in ("a", "b", "a", "c"):
            digests.add("t", Record(key, 0, T), now=T)

        digest = deliver(digests, "t")

        assert keys(digest) == ["c", "a"]
        assert digest.dropped == 1
        assert digests.ledger().superseded == 1

    def test_a_dropped_key_that_comes_again_is_a_new_record(self, digests_with: DigestsWith) -> None:
        """Fact 52. Capacity 2; a, b, c, then a again: the digest holds c and a, dropped 2, superseded 0."""
        digests = digests_with(capacity=2)
        for second, key in enumerate("abca"):
            digests.add("t", Record(key, second, T + second), now=T)

        digest = deliver(digests, "t")

        assert sorted(keys(digest)) == ["a", "c"]
        assert digest.dropped == 2
        assert digests.ledger().superseded == 0
        assert digests.ledger().dropped == 2
