"""Leases, at the level of the port: claiming and opening."""

import pytest

from digestif import Busy, InvalidState, StoreError
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_TIMELINES, Lease, QuarantinedRecord, Store
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    ROUNDS,
    arrive,
    arrive_everywhere,
    claim,
    claim_all,
    claim_suspects,
    complete,
    let_wait,
    open_and_take,
    open_digest,
    open_lease,
    record_keys,
    release,
    take_all,
)
from digestif.testing.footprint import assert_nothing_left


class Claims(Suite):
    def test_a_claim_gives_no_more_than_its_limit(self, store: Store) -> None:
        """Fact 15. A claim is bounded: it gives at most `limit` leases, and the caller loops."""
        arrive_everywhere(store, [f"t{n}" for n in range(25)])

        leases = claim_all(store, limit=4)

        assert sorted(lease.timeline for lease in leases) == sorted(f"t{n}" for n in range(25))
        assert len({lease.digest_id for lease in leases}) == 25

    def test_the_earliest_are_claimed_first_within_a_partition(self, store: Store) -> None:
        """Fact 12. Claims, like schedule, give rising times within a partition, whatever the states."""
        for n in (3, 1, 4, 0, 2):
            arrive(store, f"ready{n}", ["a"], now=NOW + 10 * n)
            arrive(store, f"waiting{n}", ["a"], now=NOW, first_delay=10 * n + 5)
        given: list[list[int]] = []

        for partition in range(store.partitions):
            claims = [claim(store, partition, 3, now=NOW + 100) for _ in range(10)]
            given.append([lease.at - NOW for claim in claims for lease in claim.leases])

        assert sorted(at for times in given for at in times) == list(range(0, 50, 5))
        assert all(times == sorted(times) for times in given)

    def test_a_lease_says_what_its_holder_needs(self, store: Store) -> None:
        """Fact 39. A lease carries the token that the caller chose, and its expiry."""
        arrive(store, "t", ["a", "b"])

        claims = [store.claim(p, 10, token="mine", lease=LEASE, now=NOW + 7) for p in range(store.partitions)]
        [lease] = [lease for claimed in claims for lease in claimed.leases]

        assert (lease.timeline, lease.token, lease.until) == ("t", "mine", NOW + 7 + LEASE)
        assert (lease.attempt, lease.lapses, lease.iteration, lease.at) == (1, 0, 0, NOW)
        assert record_keys(take_all(store, lease, now=NOW + 7).records) == ["b", "a"]

    def test_what_a_claim_reads_along_is_what_take_gives(self, store: Store) -> None:
        """Fact 39. A store may answer a claim with digests that it has read: whole, as `take` would give them."""
        arrive(store, "small", ["a", "b", "c"])
        arrive(store, "large", [f"r{n}" for n in range(300)])

        claims = [claim(store, partition, 10) for partition in range(store.partitions)]
        leases = {lease.digest_id: lease for claimed in claims for lease in claimed.leases}
        pages = {of: page for claimed in claims for of, page in claimed.pages.items()}

        assert sorted(lease.timeline for lease in leases.values()) == ["large", "small"]
        assert {of: page._replace(after=None) for of, page in pages.items()} == {
            of: take_all(store, leases[of])._replace(after=None) for of in pages
        }

    def test_a_claim_in_each_partition_gives_no_more_than_its_limit_over_all(self, store: Store) -> None:
        """Fact 15. A claim of several partitions is bounded as one of a single partition, and says what it left."""
        arrive_everywhere(store, [f"t{n}" for n in range(25)])
        partitions = range(store.partitions)
        given: list[Lease] = []

        for _ in range(ROUNDS):
            pages = store.claim_each(partitions, 4, token=fresh_id(), lease=LEASE, now=NOW)
            claimed = [page for page in pages if not isinstance(page, StoreError)]
            assert len(claimed) == len(partitions)
            assert sum(len(page.leases) for page in claimed) <= 4
            given += [lease for page in claimed for lease in page.leases]
            if not any(page.more for page in claimed):
                break

        assert sorted(lease.timeline for lease in given) == sorted(f"t{n}" for n in range(25))
        assert len({lease.digest_id for lease in given}) == 25

    def test_what_waits_is_claimed_when_it_is_due(self, store: Store) -> None:
        """Fact 13. Waiting: due exactly now is claimed, later is not."""
        arrive(store, "due", ["a"], first_delay=100)
        arrive(store, "later", ["a"], first_delay=101)

        leases = claim_all(store, now=NOW + 100)

        assert [lease.timeline for lease in leases] == ["due"]

    def test_an_empty_timeline_is_retired_instead(self, store: Store) -> None:
        """Fact 18. Claimed without any record: idle, without a delivery, and nothing is left."""
        let_wait(store, ["t0", "t1", "t2"], at=NOW + 50)

        claims = [claim(store, p, 10, now=NOW + 50) for p in range(store.partitions)]

        assert sum(claim.retired for claim in claims) == 3
        assert [claim.leases for claim in claims] == [[]] * store.partitions
        assert store.inspect("t0").state == "idle"
        assert_nothing_left(store)

    def test_a_digest_of_which_nothing_is_left_is_retired_too(self, store: Store) -> None:
        """Fact 24. All records of a digest were quarantined, and its worker died: there is nothing to claim."""
        arrive(store, "t", ["a"])
        store.quarantine(open_digest(store), [QuarantinedRecord("a", "letter", "odd")], now=NOW)

        assert claim_suspects(store, now=NOW + LEASE) == []

        assert store.inspect("t").state == "idle"
        assert store.ledger().dead == 1

    def test_a_lapsed_digest_is_claimed_again(self, store: Store) -> None:
        """Fact 40. A dead worker's digest is claimable at its expiry, as a further attempt, and not before."""
        arrive(store, "t", ["a"])
        first = open_digest(store)
        arrive(store, "t", ["b"], now=NOW + 1)
        assert claim_suspects(store, now=NOW + LEASE - 1) == []

        [second] = claim_suspects(store, now=NOW + LEASE)

        assert (second.digest_id, second.attempt, second.lapses) == (first.digest_id, 2, 1)
        taken = take_all(store, second, now=NOW + LEASE)
        assert (record_keys(taken.records), taken.revision) == (["a"], 1)

    def test_a_failed_digest_is_claimed_when_its_retry_is_due(self, store: Store) -> None:
        """Fact 27. Released until a time: claimed from then on, with what arrived since."""
        arrive(store, "t", ["a"])
        first = open_digest(store)
        assert release(store, first, until=NOW + 500)
        arrive(store, "t", ["b"], timestamp=9.0, now=NOW + 1)
        assert claim_all(store, now=NOW + 499) == []

        [second] = claim_all(store, now=NOW + 500)

        assert (second.digest_id, second.attempt, second.lapses) == (first.digest_id, 2, 0)
        taken = take_all(store, second, now=NOW + 500)
        assert (record_keys(taken.records), taken.revision) == (["b", "a"], 2)

    def test_a_paused_timeline_is_not_claimed(self, store: Store) -> None:
        """Fact 53. A paused timeline is not claimed, be it ready, due, lapsed or empty."""
        arrive(store, "ready", ["a"])
        arrive(store, "due", ["a"], first_delay=1)
        arrive(store, "lapsed", ["a"])
        open_digest(store, "lapsed")
        let_wait(store, ["empty"], at=NOW)
        for timeline in ("ready", "due", "lapsed", "empty"):
            store.pause(timeline, True, now=NOW)

        assert claim_all(store, now=NOW + LEASE) == []
        assert claim_suspects(store, now=NOW + LEASE) == []
        assert store.inspect("empty").state == "waiting"

        store.pause("lapsed", False, now=NOW + LEASE)
        assert [lease.timeline for lease in claim_suspects(store, now=NOW + LEASE)] == ["lapsed"]

    @pytest.mark.parametrize("first_delay", [0, 1], ids=["ready", "due"])
    def test_paused_timelines_do_not_hide_the_others(self, store: Store, first_delay: int) -> None:
        """Fact 53. However many paused timelines are due before it, a claim gives the one that is not paused."""
        paused = [f"t{n}" for n in range(2 * PAGE_TIMELINES + 50)]
        arrive_everywhere(store, paused, first_delay=first_delay)
        for timeline in paused:
            store.pause(timeline, True, now=NOW)
        arrive(store, "other", ["a"], now=NOW + 2)

        assert [lease.timeline for lease in claim_all(store, limit=1, now=NOW + 2)] == ["other"]

    def test_two_workers_share_no_claim(self, store: Store) -> None:
        """Fact 22. What one worker has claimed is not given to another."""
        arrive_everywhere(store, [f"t{n}" for n in range(10)])
        one = [claim(store, p, 1) for p in range(store.partitions)]

        other = claim_all(store)

        taken = [lease.timeline for claim in one for lease in claim.leases]
        assert sorted([*taken, *(lease.timeline for lease in other)]) == [f"t{n}" for n in range(10)]

    def test_many_empty_timelines_do_not_hide_a_full_one(self, store: Store) -> None:
        """Fact 18. More empty timelines than the limit are retired before one with a record is claimed."""
        let_wait(store, [f"empty{n}" for n in range(30)], at=NOW)
        arrive(store, "full", ["a"], now=NOW + 1)

        leases = claim_all(store, limit=5, now=NOW + 1)

        assert [lease.timeline for lease in leases] == ["full"]


class Openings(Suite):
    def test_a_ready_timeline_is_opened(self, store: Store) -> None:
        """Fact 16. Open gives a lease and the digest all that was pending."""
        arrive(store, "t", ["a", "b"])

        lease = store.open("t", token="mine", lease=LEASE, now=NOW)

        assert (lease.timeline, lease.token, lease.until, lease.attempt) == ("t", "mine", NOW + LEASE, 1)
        taken = take_all(store, lease)
        assert [(record.key, record.payload) for record in taken.records] == [("b", b"b"), ("a", b"a")]
        assert (taken.revision, taken.dropped) == (1, 0)
        assert (store.ledger().pending, store.ledger().open) == (0, 2)

    def test_what_is_not_ready_is_refused_and_unchanged(self, store: Store) -> None:
        """Fact 21. Open raises InvalidState for a waiting, unknown or paused timeline."""
        arrive(store, "waiting", ["a"], first_delay=1)
        arrive(store, "paused", ["a"])
        store.pause("paused", True, now=NOW)

        for timeline in ("waiting", "paused", "unknown"):
            before = store.inspect(timeline)
            with pytest.raises(InvalidState) as refused:
                open_lease(store, timeline, now=NOW + 5)
            assert not isinstance(refused.value, Busy)
            assert store.inspect(timeline) == before

    def test_an_open_timeline_is_busy_until_its_lease_lapses(self, store: Store) -> None:
        """Fact 22. While one worker has it open a second gets Busy; at the expiry it takes over."""
        arrive(store, "t", ["a"])
        first = open_digest(store)
        with pytest.raises(Busy):
            open_lease(store, now=NOW + LEASE - 1)

        second = open_lease(store, now=NOW + LEASE)

        assert (second.digest_id, second.attempt, second.lapses) == (first.digest_id, 2, 1)

    def test_an_empty_timeline_gives_an_empty_digest(self, store: Store) -> None:
        """Fact 18. Ready without records: an empty digest; completed, the timeline is idle and nothing is left."""
        let_wait(store, ["t"], at=NOW)
        store.flush("t", now=NOW)
        lease = open_lease(store)
        assert take_all(store, lease).records == []

        assert complete(store, lease) is True

        assert_nothing_left(store)

    def test_the_next_digest_has_an_identity_of_its_own(self, store: Store) -> None:
        """Fact 40. A digest's id is its own: the next one has another, and begins at revision 1."""
        arrive(store, "t", ["a"])
        first = open_digest(store)
        complete(store, first)
        arrive(store, "t", ["b"])

        [second] = claim_all(store)

        assert second.digest_id != first.digest_id
        assert (second.attempt, second.iteration) == (1, 1)
        assert take_all(store, second).revision == 1

    def test_a_failed_opening_is_as_if_it_had_not_been(self, store: Store) -> None:
        """Fact 25. Released without a time: ready again, due and ready since when it was before."""
        arrive(store, "t", ["a"])
        before = store.inspect("t")
        lease = open_digest(store, now=NOW + 5)

        assert release(store, lease, now=NOW + 6) is True

        after = store.inspect("t")
        assert (after.state, after.at, after.since) == (before.state, before.at, before.since)
        assert open_and_take(store, "t", now=NOW + 7).revision == 1
