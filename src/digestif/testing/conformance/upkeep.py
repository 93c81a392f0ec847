"""Upkeep, at the level of the port: schedule and maintenance in pages, expiry, deletion and sweeping."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from digestif.stores.base import PAGE_RECORDS, PAGE_TIMELINES, QuarantinedRecord, Store
from digestif.stores.reader import Part
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.port import (
    LEASE,
    LONG_AGO,
    NOW,
    ROUNDS,
    arrive,
    arrive_everywhere,
    claim_all,
    complete,
    delete,
    expire,
    let_wait,
    maintain,
    numbers,
    open_digest,
    record_keys,
    release,
    stored,
    sweep,
)
from digestif.testing.footprint import assert_nothing_left


class SchedulePages(Suite):
    def test_a_page_is_bounded_and_says_where_the_next_begins(self, store: Store) -> None:
        """Fact 12. Page size does not change the result: pages of three give the same as one, in the same order."""
        timelines = [f"t{n}" for n in range(20)]
        for n, timeline in enumerate(timelines):
            arrive(store, timeline, ["a"], first_delay=1 + n % 7)
        given: list[tuple[int, str]] = []

        for partition in range(store.partitions):
            pages = list(schedule_pages(store, partition, limit=3))
            assert all(len(page) <= 3 for page in pages)
            times = [at for page in pages for at, _ in page]
            assert times == sorted(times)
            given += [entry for page in pages for entry in page]

        assert sorted(given) == sorted((NOW + 1 + n % 7, timeline) for n, timeline in enumerate(timelines))

    def test_what_is_due_again_meanwhile_is_not_given_again(self, store: Store) -> None:
        """Fact 13. Within one call a timeline is given once, even if it waits and is due again meanwhile."""
        arrive_everywhere(store, [f"t{n}" for n in range(10)], first_delay=1)
        given = []

        for partition in range(store.partitions):
            for page in schedule_pages(store, partition, limit=2):
                for _, timeline in page:
                    given.append(timeline)
                    complete(store, open_digest(store, timeline, now=NOW + 9), now=NOW + 9)

        assert sorted(given) == [f"t{n}" for n in range(10)]

    def test_a_paused_timeline_is_passed_over(self, store: Store) -> None:
        """Fact 53. A paused timeline is not scheduled, and does not stop those behind it."""
        arrive_everywhere(store, [f"t{n}" for n in range(10)], first_delay=1)
        for n in range(9):
            store.pause(f"t{n}", True, now=NOW)

        given = [
            timeline
            for partition in range(store.partitions)
            for page in schedule_pages(store, partition, limit=2)
            for _, timeline in page
        ]

        assert given == ["t9"]


class Maintenance(Suite):
    def test_ready_for_too_long_is_moved_in_pages(self, store: Store) -> None:
        """Fact 27. Ready since the deadline or longer: waiting with the same time, in bounded pages."""
        arrive_everywhere(store, [f"old{n}" for n in range(12)], now=NOW)
        arrive_everywhere(store, [f"new{n}" for n in range(3)], now=NOW + 1)
        first = store.maintain(0, NOW, limit=5, now=NOW + 1)
        assert len(first.moved) <= 5

        rest = maintain(store, NOW, limit=5, now=NOW + 1)

        moved = [*first.moved, *rest.moved]
        assert sorted(moved) == sorted((f"old{n}", NOW) for n in range(12))
        assert (store.inspect("old3").state, store.inspect("old3").at) == ("waiting", NOW)
        assert store.inspect("new0").state == "ready"

    def test_without_a_deadline_ready_ones_are_left_alone(self, store: Store) -> None:
        """Fact 27. Workers expire and lapse by themselves: with no deadline nothing that is ready moves."""
        arrive(store, "t", ["a"])

        assert maintain(store, None, now=NOW + 10**9).moved == []
        assert store.inspect("t").state == "ready"

    def test_lapsed_leases_are_ended(self, store: Store) -> None:
        """Fact 40. Open with a lapsed lease: waiting, its time carried over, the attempt counted as lapsed."""
        arrive(store, "t", ["a"])
        open_digest(store)

        assert maintain(store, LONG_AGO, now=NOW + LEASE - 1).lapsed == []
        assert maintain(store, LONG_AGO, now=NOW + LEASE).lapsed == ["t"]

        slot = store.inspect("t")
        assert (slot.state, slot.at) == ("waiting", NOW)
        [again] = claim_all(store, now=NOW + LEASE)
        assert (again.attempt, again.lapses) == (2, 1)

    def test_a_lapsed_lease_is_ended_though_the_timeline_is_paused(self, store: Store) -> None:
        """Fact 53. Paused and lapsed: waiting, and where it was when it is resumed."""
        arrive(store, "t", ["a"])
        open_digest(store)
        store.pause("t", True, now=NOW)

        assert maintain(store, None, now=NOW + LEASE).lapsed == ["t"]
        assert store.inspect("t").state == "waiting"


class ExpiryPages(Suite):
    @pytest.mark.parametrize("delay", [0, 10**10], ids=["ready", "waiting"])
    def test_pending_records_expire_by_the_ttl_of_their_add(self, store: Store, delay: int) -> None:
        """Fact 45. By arrival and the ttl of its own add; what has none stays."""
        arrive(store, "t", ["short"], ttl=100, first_delay=delay)
        arrive(store, "t", ["long"], ttl=1_000, first_delay=delay)
        arrive(store, "t", ["for ever"], first_delay=delay)

        expired = [expire(store, now=NOW + after) for after in (99, 100, 999, 1_000, 10**9)]

        assert expired == [0, 1, 0, 1, 0]
        assert record_keys(stored(store, "t", Part.PENDING)) == ["for ever"]
        assert store.ledger().expired == 2

    def test_a_failed_digest_expires_record_by_record(self, store: Store) -> None:
        """Fact 45. Unfinished and not open: each record expires by its arrival; with the last the digest ends."""
        arrive(store, "t", ["a"], ttl=100)
        arrive(store, "t", ["b"], ttl=100, now=NOW + 50)
        release(store, open_digest(store, now=NOW + 60), until=NOW + 120, now=NOW + 60)

        assert expire(store, now=NOW + 100) == 1
        assert record_keys(stored(store, "t", Part.DIGEST)) == ["b"]
        assert expire(store, now=NOW + 150) == 1
        assert_nothing_left(store)

    def test_a_shorter_ttl_than_those_before_is_noticed(self, store: Store) -> None:
        """Fact 45. Records with ever shorter times join a ready timeline: each expires by its own."""
        arrive(store, "t", ["for ever"])
        arrive(store, "t", ["long"], ttl=1_000)
        arrive(store, "t", ["short"], ttl=100)

        expired = [expire(store, now=NOW + after) for after in (99, 100, 999, 1_000)]

        assert expired == [0, 1, 0, 1]

    def test_what_joined_a_failed_digest_expires_by_its_own_time(self, store: Store) -> None:
        """Fact 45. Unfinished: a record that was merged into it expires by its own arrival, before the older ones."""
        arrive(store, "t", ["a"], ttl=1_000)
        release(store, open_digest(store))
        arrive(store, "t", ["b"], ttl=100)
        release(store, open_digest(store), until=NOW + 2_000)

        assert expire(store, now=NOW + 100) == 1
        assert record_keys(stored(store, "t", Part.DIGEST)) == ["a"]

    def test_an_open_digest_stays_when_what_is_pending_expires(self, store: Store) -> None:
        """Fact 45. Everything is too old, and a lease lives: what is pending expires, the open digest does not."""
        arrive(store, "t", ["open"], ttl=100)
        lease = open_digest(store)
        arrive(store, "t", ["pending"], ttl=100)

        assert expire(store, now=NOW + 100) == 1

        assert record_keys(stored(store, "t", Part.DIGEST)) == ["open"]
        assert complete(store, lease, now=NOW + 100)

    def test_a_digest_that_may_have_gone_out_stays_while_a_record_does(self, store: Store) -> None:
        """Fact 45. A lapsed digest with a record that never expires does not expire, however old the others are."""
        arrive(store, "t", ["old"], ttl=100)
        arrive(store, "t", ["for ever"])
        open_digest(store)

        maintain(store, LONG_AGO, now=NOW + LEASE)

        assert expire(store, now=NOW + 10**9) == 0

        assert len(record_keys(stored(store, "t", Part.DIGEST))) == 2

    def test_what_can_not_expire_yet_is_not_in_the_way(self, store: Store) -> None:
        """Fact 45. A digest that expires only as a whole keeps no other timeline from expiring."""
        arrive(store, "frozen", ["a"], ttl=100)
        arrive(store, "frozen", ["b"], ttl=10 * LEASE)
        open_digest(store, "frozen")
        arrive(store, "other", ["a"], ttl=LEASE + 5)

        assert maintain(store, LONG_AGO, now=NOW + LEASE, limit=1).lapsed == ["frozen"]
        assert maintain(store, now=NOW + LEASE + 5, limit=1).expired == [("other", 1)]
        assert store.inspect("other").pending == 0

    def test_a_timeline_that_is_not_due_waits_until_it_is(self, store: Store) -> None:
        """Fact 45. Everything expired before it is due: the timeline cools down, then ends without a trace."""
        let_wait(store, ["t"], at=NOW + 500)
        arrive(store, "t", ["a"], ttl=100)
        assert expire(store, now=NOW + 100) == 1
        assert (store.inspect("t").state, store.inspect("t").at) == ("waiting", NOW + 500)

        assert claim_all(store, now=NOW + 500) == []

        assert_nothing_left(store)

    def test_what_expires_is_in_no_later_digest(self, store: Store) -> None:
        """Fact 45. What expired is counted once and comes in no digest; the others do."""
        arrive(store, "t", numbers(0, 1_500), ttl=100)
        arrive(store, "t", ["kept"], now=NOW + 1)

        assert expire(store, now=NOW + 100) == 1_500

        lease = open_digest(store, now=NOW + 100)
        assert record_keys(stored(store, "t", Part.DIGEST)) == ["kept"]
        assert complete(store, lease, now=NOW + 100)
        assert (store.ledger().expired, store.ledger().delivered) == (1_500, 1)
        assert store.verify()


class DeletionPages(Suite):
    def test_many_dead_letters_are_deleted_in_pages(self, store: Store) -> None:
        """Fact 29. More dead letters than a page: deleted in several calls, all counted, nothing left."""
        count = 2 * PAGE_TIMELINES + 10
        arrive(store, "t", numbers(0, count + 5))
        lease = open_digest(store)
        store.quarantine(lease, [QuarantinedRecord(key, f"letter-{key}", "odd") for key in numbers(0, count)], now=NOW)
        arrive(store, "t", ["pending"])

        calls = delete(store, "t")

        assert calls >= 3
        assert store.letters(None, after=None, limit=10) == []
        assert (store.ledger().deleted, store.ledger().dead) == (count + 6, 0)
        sweep(store)
        assert_nothing_left(store)
        assert store.verify()

    def test_what_is_deleted_is_not_found_before_it_is_swept(self, store: Store) -> None:
        """Fact 29. After delete nothing of the timeline is counted or found, though its records are not yet swept."""
        arrive(store, "t", numbers(0, 3_500))
        delete(store, "t")
        arrive(store, "t", ["anew"])

        assert record_keys(stored(store, "t", Part.PENDING)) == ["anew"]
        assert store.ledger().deleted == 3_500
        assert store.verify()

    def test_what_is_deleted_is_swept_in_pages(self, store: Store) -> None:
        """Fact 29. No call sweeps more than a page, and in the end no key or row remains."""
        arrive(store, "t", numbers(0, 3_500))
        delete(store, "t")
        sizes = [sum(store.footprint().values())]

        while store.sweep():
            sizes.append(sum(store.footprint().values()))

        assert all(before - after <= PAGE_RECORDS + 1 for before, after in pairwise(sizes))
        assert_nothing_left(store)


def schedule_pages(store: Store, partition: int, *, limit: int) -> Iterator[list[tuple[int, str]]]:
    """What is due nine milliseconds from now, in pages."""
    after = None
    for _ in range(ROUNDS):
        page = store.schedule(partition, NOW + 9, after=after, limit=limit, now=NOW + 9)
        yield [(due.at, due.timeline) for due in page.entries]
        after = page.after
        if after is None:
            return
    raise AssertionError("the call does not end")
