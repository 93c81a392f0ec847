"""The fates of records that no digest carried: retracted, left out, dropped, expired, declined, or too long ago."""

import pytest

from digestif import Digests, Fate, Outcome, Record, Sighting
from digestif.core.removals import RETRACTED_KEYS
from digestif.core.times import to_seconds
from digestif.stores.base import HISTORY_KEYS, HISTORY_LIMIT, PAGE_TIMELINES, Completion, Store
from digestif.testing.conformance.actions import T, add_all, deliver, let_wait, next_digest, numbered
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    arrive_everywhere,
    claim_all,
    complete,
    expire,
    numbers,
    open_digest,
    release,
)
from digestif.testing.footprint import assert_nothing_left


class Fates(Suite):
    def test_a_record_that_never_came_is_told_from_one_that_was_retracted(self, digests: Digests) -> None:
        """Fact 78. Retracted: `trace` says so, and when; of a key that never came it says nothing."""
        add_all(digests, "t", numbered([1, 2]))

        digests.retract("t", "r1", now=T + 5)

        assert digests.trace("t", "r1") == [Sighting(Fate.RETRACTED, ended=T + 5)]
        assert digests.trace("t", "r2") == [Sighting(Fate.PENDING)]
        assert digests.trace("t", "r3") == []
        assert digests.trace("other", "r1") == []

    def test_each_version_of_a_record_has_its_fate(self, digests: Digests) -> None:
        """Fact 78. Retracted, added again and delivered, then pending: the latest version comes first."""
        digests.add("t", Record("a", 1, T), now=T)
        digests.retract("t", "a", now=T + 1)
        digests.add("t", Record("a", 2, T), now=T + 2)
        digest = deliver(digests, "t", 0, now=T + 3)
        digests.add("t", Record("a", 3, T), now=T + 4)

        sightings = digests.trace("t", "a")

        assert [(each.fate, each.digest_id, each.ended) for each in sightings] == [
            (Fate.PENDING, None, None),
            (Fate.DELIVERED, digest.id, T + 3),
            (Fate.RETRACTED, None, T + 1),
        ]

    def test_a_superseded_version_shows_in_the_later_one(self, digests: Digests) -> None:
        """Fact 78. Superseded: the later version of the key is found, with its fate and time."""
        digests.add("t", Record("a", 1, T), now=T)
        digests.add("t", Record("a", 2, T), now=T)

        assert digests.trace("t", "a") == [Sighting(Fate.PENDING)]
        digest = deliver(digests, "t", now=T + 1)
        assert digests.trace("t", "a") == [Sighting(Fate.DELIVERED, digest.id, T + 1)]

    def test_what_was_retracted_is_known_while_the_timeline_is_idle(self, digests: Digests, store: Store) -> None:
        """Fact 78. An idle timeline holds nothing, and the bounded history still knows what was retracted."""
        digests.add("t", Record("a", 1, T), now=T)
        digests.retract("t", "a", now=T + 1)
        digests.maintenance(now=T + 1000)
        list(digests.schedule(now=T + 1000))
        deliver(digests, "t", now=T + 1000)

        assert digests.timeline("t").state == "idle"
        assert_nothing_left(store)
        assert digests.trace("t", "a") == [Sighting(Fate.RETRACTED, ended=T + 1)]

    def test_the_latest_retracted_keys_of_a_timeline_are_known(self, digests: Digests) -> None:
        """Fact 78. A bounded number of retracted keys is remembered, the latest, for each timeline."""
        add_all(digests, "t", numbered(range(RETRACTED_KEYS + 1)))
        digests.add("other", Record("a", 1, T), now=T)
        digests.retract("other", "a", now=T)

        for n in range(RETRACTED_KEYS + 1):
            digests.retract("t", f"r{n}", now=T + n)

        assert [each.certain for each in digests.trace("t", "r1")] == [True]
        assert digests.trace("t", "r0") == [Sighting(Fate.FORGOTTEN, ended=T + 1, certain=False)]
        assert digests.trace("other", "a") == [Sighting(Fate.RETRACTED, ended=T)]

    def test_a_deleted_timeline_was_never_seen(self, digests_with: DigestsWith, store: Store) -> None:
        """Fact 78. After delete nothing is known of its records: retracted and expired ones neither."""
        digests = digests_with(ttl=200, minimum_delay=0, increment_delay=0, maximum_delay=0)
        add_all(digests, "t", numbered([1, 2]))
        digests.retract("t", "r1", now=T)
        digests.maintenance(T, now=T + 200)
        assert [each.fate for each in digests.trace("t", "r2")] == [Fate.EXPIRED]

        digests.delete("t", now=T + 201)

        assert digests.trace("t", "r1") == digests.trace("t", "r2") == []
        assert store.removals("t") == store.removals("never seen")

    def test_a_record_may_have_expired(self, digests_with: DigestsWith) -> None:
        """Fact 78. Expired: `trace` says that it may be so, from when to when, and how many records."""
        digests = digests_with(ttl=200, minimum_delay=0, increment_delay=0, maximum_delay=0)
        add_all(digests, "t", numbered([1, 2]))
        digests.add("t", Record("later", 3, T), now=T + 50)
        digests.maintenance(T - 1, now=T + 210)
        digests.maintenance(T - 1, now=T + 260)

        assert digests.trace("t", "r1") == [
            Sighting(Fate.EXPIRED, ended=T + 260, certain=False, since=T + 210, records=3)
        ]

    def test_the_keys_of_a_digest_that_expired_whole_are_known(self, store: Store) -> None:
        """Fact 78. A frozen digest expires as a whole: its entry in the history has its keys."""
        arrive(store, "t", ["a", "b"], ttl=1_000)
        release(store, open_digest(store), freeze=True)

        expire(store, now=NOW + 1_000)

        [ended] = store.history("t", limit=10)
        assert (ended.outcome, ended.records, set(ended.keys)) == (Outcome.EXPIRED, 2, {"a", "b"})

    def test_a_record_may_have_been_dropped(self, digests_with: DigestsWith) -> None:
        """Fact 78. Dropped: `trace` says that it may be so, how many, and the digest they are counted in."""
        digests = digests_with(capacity=2)
        add_all(digests, "t", numbered(range(5)))
        before = digests.trace("t", "r1")
        with digests.digest("t", now=T + 1) as digest:
            during = digests.trace("t", "r1")
        after = digests.trace("t", "r1")

        assert before == during == [Sighting(Fate.DROPPED, certain=False, records=3)]
        assert after == [Sighting(Fate.DROPPED, digest.id, T + 1, certain=False, records=3)]
        assert [each.fate for each in digests.trace("t", "r4")] == [Fate.DELIVERED]

    def test_a_record_may_have_been_declined(self, digests: Digests) -> None:
        """Fact 78. Declined: `trace` says that it may be so, and since when its timeline is switched off."""
        digests.prefer("t", "off", now=T)
        digests.add("t", Record("a", 1, T), now=T + 1)

        assert digests.trace("t", "a") == [Sighting(Fate.DECLINED, certain=False, since=T)]
        digests.prefer("t", "instant", now=T + 2)
        assert digests.trace("t", "a") == []

    def test_what_is_known_goes_before_what_may_have_happened_later(self, digests_with: DigestsWith) -> None:
        """Fact 78. Delivered, and later records were dropped: the certain fate first. Dropped before: only that."""
        digests = digests_with(capacity=1, minimum_delay=0, increment_delay=0, maximum_delay=0)
        digests.add("t", Record("a", 1, T), now=T)
        deliver(digests, "t", now=T)
        add_all(digests, "t", numbered([1, 2]), now=T + 1)
        next_digest(digests, "t", now=T + 1)

        assert [(each.fate, each.certain) for each in digests.trace("t", "a")] == [
            (Fate.DELIVERED, True),
            (Fate.DROPPED, False),
        ]
        assert [(each.fate, each.certain) for each in digests.trace("t", "r2")] == [(Fate.DELIVERED, True)]

    def test_of_a_large_digest_not_all_keys_are_known(self, digests: Digests) -> None:
        """Fact 78. A digest with more records than the history has keys may have carried any other record."""
        add_all(digests, "t", numbered(range(HISTORY_KEYS + 5)))
        digest = deliver(digests, "t", now=T + 1)

        assert digests.trace("t", "r0") == [
            Sighting(Fate.DELIVERED, digest.id, T + 1, certain=False, since=T + 1, records=5)
        ]

    def test_what_a_hook_left_out_is_known_over_failed_attempts(self, store: Store, digests: Digests) -> None:
        """Fact 78. Left out of a digest: known while it is tried again, and from the history when it has ended."""
        arrive(store, "t", ["a", "b", "c"])
        first = open_digest(store)
        store.remove(first, ["a", "unknown"], now=NOW)
        release(store, first)
        during = digests.trace("t", "a")
        second = open_digest(store)
        store.remove(second, ["c"], now=NOW)
        complete(store, second)

        [ended] = store.history("t", limit=10)
        assert (ended.records, ended.left_out) == (1, ("a", "c"))
        assert during == [Sighting(Fate.LEFT_OUT, first.digest_id)]
        assert digests.trace("t", "a") == [Sighting(Fate.LEFT_OUT, first.digest_id, to_seconds(NOW))]
        assert [each.fate for each in digests.trace("t", "b")] == [Fate.DELIVERED]
        assert digests.trace("t", "unknown") == []

    def test_a_bounded_number_of_left_out_keys_is_known(self, store: Store, digests: Digests) -> None:
        """Fact 78. A digest has the keys of at most 100 records that were left out; beyond, it may be so."""
        arrive(store, "t", numbers(0, HISTORY_KEYS + 2))
        lease = open_digest(store)
        store.remove(lease, numbers(0, HISTORY_KEYS + 1), now=NOW)
        complete(store, lease)

        [ended] = store.history("t", limit=10)
        assert list(ended.left_out) == numbers(0, HISTORY_KEYS)
        [left_out] = digests.trace("t", numbers(0, HISTORY_KEYS + 1)[-1])
        assert (left_out.fate, left_out.digest_id, left_out.certain) == (Fate.LEFT_OUT, lease.digest_id, False)

    def test_a_digest_that_lost_its_last_record_to_a_hook_is_remembered(self, store: Store, digests: Digests) -> None:
        """Fact 78. Nothing was left to send: the history says so, with the keys that were left out."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)
        store.remove(lease, ["a"], now=NOW)
        complete(store, lease)

        [ended] = store.history("t", limit=10)
        assert (ended.outcome, ended.records, ended.left_out) == (Outcome.DISCARDED, 0, ("a",))
        assert digests.trace("t", "a") == [Sighting(Fate.LEFT_OUT, lease.digest_id, to_seconds(NOW))]
        assert store.digests_delivered() == 0

    @pytest.mark.parametrize("mode", ["sync"], indirect=True)
    def test_never_seen_and_too_long_ago_are_different_answers(self, store: Store, digests: Digests) -> None:
        """Fact 78. Once entries of the history are forgotten, a record may have ended before those that are kept."""
        let_wait(digests, "t0")
        never = digests.trace("t0", "a")
        rounds = 0
        while store.kept_since("t0") is None:
            rounds += 1
            assert rounds <= 20 * HISTORY_LIMIT // PAGE_TIMELINES
            now = NOW + rounds * LEASE
            arrive_everywhere(store, [f"t{m}" for m in range(PAGE_TIMELINES)], now=now)
            leases = claim_all(store, now=now)
            for begin in range(0, len(leases), PAGE_TIMELINES):
                store.complete([Completion(lease, 0) for lease in leases[begin : begin + PAGE_TIMELINES]], now=now)

        [forgotten] = digests.trace("t0", "unknown")
        assert never == []
        assert (forgotten.fate, forgotten.certain) == (Fate.FORGOTTEN, False)
        assert forgotten.ended == to_seconds(store.kept_since("t0") or 0)
        assert [each.fate for each in digests.trace("t0", "a")[:1]] == [Fate.DELIVERED]

    def test_a_bounded_number_of_timelines_has_removals(self, store: Store) -> None:
        """Fact 78. Removals are remembered of about a thousand timelines; the first ones are forgotten."""
        timelines = [f"t{n}" for n in range(HISTORY_LIMIT * min(4, store.partitions) + HISTORY_LIMIT // 2)]
        arrive_everywhere(store, timelines, ttl=1_000)
        expire(store, now=NOW + 1_000)
        arrive(store, "last", ["a"])
        store.retract("last", "a", now=NOW + 2_000)

        remembered = [timeline for timeline in timelines if store.removals(timeline).expired]
        forgotten = min({*timelines} - {*remembered}, default=None)
        assert forgotten is not None
        assert store.ledger().expired == len(timelines)
        assert HISTORY_LIMIT // 2 <= len(remembered) < len(timelines)
        assert store.kept_since(forgotten) == NOW + 1_000
        assert store.removals("last").retracted == (("a", NOW + 2_000),)
