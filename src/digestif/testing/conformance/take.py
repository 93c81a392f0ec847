"""Takes, at the level of the port: digests are merged, trimmed and read in pages under their lease."""

from collections.abc import Sequence

import pytest

from digestif.core.capacity import Stored, weight_of
from digestif.core.terms import Terms
from digestif.stores.base import PAGE_BYTES, PAGE_RECORDS, Arrival, QuarantinedRecord, Store, Take
from digestif.stores.reader import Part
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    ROUNDS,
    arrive,
    complete,
    numbers,
    open_and_take,
    open_digest,
    open_lease,
    record_keys,
    release,
    stored,
    take_all,
)

OVER_A_PAGE = PAGE_RECORDS + 200
LARGE = 200_000  # bytes; a page holds 42 of them
SIZES = {
    "alike": [LARGE] * 60,
    "a mixture": [number * 7919 % 13 * LARGE for number in range(24)],
    "exactly a page": [PAGE_BYTES // 8] * 8,
    "a page and a byte": [PAGE_BYTES // 8] * 8 + [1],
    "one as large as a page": [0, 10, PAGE_BYTES, 10, 0],
    "one larger than a page": [10, PAGE_BYTES + 1, 10],
    "small ones before a large one": [PAGE_BYTES] + [5] * 100,
    "empty ones": [PAGE_BYTES - 1, *[0] * 50, PAGE_BYTES],
}


class Takes(Suite):
    @pytest.mark.parametrize("count", [1, PAGE_RECORDS - 1, PAGE_RECORDS, PAGE_RECORDS + 1, 2 * PAGE_RECORDS + 500])
    def test_a_digest_is_read_in_pages(self, store: Store, count: int) -> None:
        """Fact 23. Any number of records is taken in bounded calls, newest first, each once."""
        arrive(store, "t", numbers(0, count))

        taken = open_and_take(store, "t")

        assert record_keys(taken.records) == numbers(0, count)[::-1]

    def test_pages_do_not_change_while_the_lease_is_held(self, store: Store) -> None:
        """Fact 20. What is added while a digest is open changes no page of it."""
        arrive(store, "t", numbers(0, OVER_A_PAGE))
        lease = open_lease(store)
        first = take_all(store, lease)
        arrive(store, "t", numbers(0, 50))

        second = take_all(store, lease)

        assert second == first
        assert store.inspect("t").pending == 50

    @pytest.mark.parametrize("size", [400, 180])
    def test_several_digests_share_the_page_of_one_call(self, store: Store, size: int) -> None:
        """Fact 23. One call reads at most a page over all its requests, and still every digest comes whole."""
        timelines = [f"t{n}" for n in range(7)]
        for timeline in timelines:
            arrive(store, timeline, numbers(0, size))
        requests = {t: Take(open_lease(store, t), None, True) for t in timelines}
        read: dict[str, list[str]] = {timeline: [] for timeline in timelines}

        while requests:
            answers = dict(zip(requests, store.take(list(requests.values()), now=NOW), strict=True))
            assert 0 < sum(len(taken.records) for taken in answers.values() if taken) <= PAGE_RECORDS
            for timeline, taken in answers.items():
                assert taken is not None
                read[timeline] += record_keys(taken.records)
                requests[timeline] = requests[timeline]._replace(after=taken.after)
                if taken.complete:
                    del requests[timeline]

        assert read == {timeline: numbers(0, size)[::-1] for timeline in timelines}

    def test_ties_are_read_in_the_order_of_arrival_over_pages(self, store: Store) -> None:
        """Fact 44. Ties are broken by arrival, also where a page ends among them."""
        arrive(store, "t", numbers(0, OVER_A_PAGE), timestamp=5.0)

        assert record_keys(open_and_take(store, "t").records) == numbers(0, OVER_A_PAGE)[::-1]


class PagesOfBytes(Suite):
    @pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
    def test_a_page_ends_with_the_record_that_fills_it(self, store: Store, sizes: list[int]) -> None:
        """Fact 67. Whatever the sizes: pages of bounded bytes, together complete, newest first, each record once."""
        arrive_in_sizes(store, "t", sizes)
        lease = open_lease(store)
        pages: list[list[Stored]] = []

        request = Take(lease, None, True)
        for _ in range(ROUNDS):
            [taken] = store.take([request], now=NOW)
            assert taken is not None
            pages.append(taken.records)
            if taken.complete:
                break
            request = request._replace(after=taken.after)

        assert all(weight_of(page[:-1]) < PAGE_BYTES for page in pages)
        assert all(pages[:-1])
        assert len(pages) <= 2 + sum(sizes) // (PAGE_BYTES // 16)  # a store may have smaller ones
        read = [(record.key, record.payload) for page in pages for record in page]
        assert read == [(f"r{n}", payload_of(size)) for n, size in enumerate(sizes)][::-1]

    def test_several_large_digests_share_the_bytes_of_one_call(self, store: Store) -> None:
        """Fact 67. One call reads about a page of bytes over all its requests, and still every digest comes whole."""
        timelines = [f"t{n}" for n in range(6)]
        for timeline in timelines:
            arrive_in_sizes(store, timeline, [LARGE] * 20)
        requests = {t: Take(open_lease(store, t), None, True) for t in timelines}
        read: dict[str, list[str]] = {timeline: [] for timeline in timelines}

        for _ in range(ROUNDS):
            answers = dict(zip(requests, store.take(list(requests.values()), now=NOW), strict=True))
            weight = sum(weight_of(taken.records) for taken in answers.values() if taken)
            assert weight < PAGE_BYTES + store.partitions * LARGE
            for timeline, taken in answers.items():
                assert taken is not None
                read[timeline] += record_keys(taken.records)
                requests[timeline] = requests[timeline]._replace(after=taken.after)
                if taken.complete:
                    del requests[timeline]
            if not requests:
                break

        assert read == {timeline: numbers(0, 20)[::-1] for timeline in timelines}

    def test_a_large_digest_leaves_small_ones_to_the_next_call(self, store: Store) -> None:
        """Fact 67. The first fills the page: of the others it is not said that they are complete before they are."""
        arrive_in_sizes(store, "large", [LARGE] * 50)
        for timeline in ("small", "smaller"):
            arrive(store, timeline, ["a", "b"])
        leases = [open_lease(store, timeline) for timeline in ("large", "small", "smaller")]

        answers = store.take([Take(lease, None, True) for lease in leases], now=NOW)

        for taken, whole in zip(answers, (50, 2, 2), strict=True):
            assert taken is not None
            assert taken.complete is (len(taken.records) == whole)
        assert [len(take_all(store, lease).records) for lease in leases] == [50, 2, 2]

    def test_a_merged_digest_is_read_in_pages_of_bytes(self, store: Store) -> None:
        """Fact 67. A failed digest and newer records, more than a page each: merged, trimmed, complete, in order."""
        arrive_in_sizes(store, "t", [LARGE] * 45)
        release(store, open_digest(store))
        arrive_in_sizes(store, "t", [LARGE + 1] * 45, first=40)

        taken = open_and_take(store, "t", capacity=80)

        assert record_keys(taken.records) == numbers(5, 85)[::-1]
        assert [len(record.payload or b"") for record in taken.records] == [LARGE + 1] * 45 + [LARGE] * 35
        assert (taken.dropped, store.ledger().superseded) == (5, 5)
        assert store.verify()


class Merges(Suite):
    def test_a_merge_takes_the_later_version_of_each_record(self, store: Store) -> None:
        """Fact 27. Old and new records come once each, the later version winning, and the older counts superseded."""
        arrive(store, "t", ["a", "b", "c"], timestamp=1.0)
        release(store, open_digest(store))
        arrive(store, "t", ["b", "d"], timestamp=0.0)

        taken = open_and_take(store, "t")

        assert record_keys(taken.records) == ["c", "a", "d", "b"]
        assert taken.revision == 2
        assert (store.ledger().superseded, store.ledger().open, store.ledger().pending) == (1, 4, 0)

    def test_large_digests_are_merged_in_pages(self, store: Store) -> None:
        """Fact 23. More than a page in the failed digest and more than a page pending: merged in bounded calls."""
        arrive(store, "t", numbers(0, OVER_A_PAGE))
        release(store, open_digest(store))
        arrive(store, "t", numbers(OVER_A_PAGE // 2, OVER_A_PAGE * 2), timestamp=1e6)

        taken = open_and_take(store, "t")

        old_ones = numbers(0, OVER_A_PAGE // 2)
        assert record_keys(taken.records) == numbers(OVER_A_PAGE // 2, OVER_A_PAGE * 2)[::-1] + old_ones[::-1]
        ledger = store.ledger()
        assert (ledger.superseded, ledger.open, ledger.pending) == (OVER_A_PAGE // 2, OVER_A_PAGE * 2, 0)
        assert store.verify()

    def test_a_large_merge_respects_capacity(self, store: Store) -> None:
        """Fact 9. More than a page on both sides and a capacity: exactly the newest are kept, the rest is dropped."""
        arrive(store, "t", numbers(0, OVER_A_PAGE))
        release(store, open_digest(store))
        arrive(store, "t", numbers(OVER_A_PAGE, 2 * OVER_A_PAGE), timestamp=1e6)

        taken = open_and_take(store, "t", capacity=OVER_A_PAGE + 5)

        expected = numbers(OVER_A_PAGE - 5, OVER_A_PAGE * 2)[::-1]
        assert record_keys(taken.records) == expected
        assert taken.dropped == store.ledger().dropped == OVER_A_PAGE - 5
        assert store.verify()

    def test_a_large_merge_keeps_the_newest_whichever_came_first(self, store: Store) -> None:
        """Fact 9. More than a page on both sides, what failed is newer than what came since: the newest are kept."""
        arrive(store, "t", numbers(0, OVER_A_PAGE), timestamp=1e6)
        release(store, open_digest(store))
        arrive(store, "t", numbers(OVER_A_PAGE, 2 * OVER_A_PAGE))

        taken = open_and_take(store, "t", capacity=OVER_A_PAGE + 5)

        later = numbers(2 * OVER_A_PAGE - 5, 2 * OVER_A_PAGE)
        assert record_keys(taken.records) == [*numbers(0, OVER_A_PAGE)[::-1], *later[::-1]]
        assert taken.dropped == OVER_A_PAGE - 5

    def test_a_lower_capacity_trims_in_pages(self, store: Store) -> None:
        """Fact 8. A digest of more than two pages, taken with capacity 2: the newest two, the rest is dropped."""
        arrive(store, "t", numbers(0, 2 * OVER_A_PAGE))

        taken = open_and_take(store, "t", capacity=2)

        assert record_keys(taken.records) == numbers(2 * OVER_A_PAGE - 2, 2 * OVER_A_PAGE)[::-1]
        assert taken.dropped == 2 * OVER_A_PAGE - 2
        assert record_keys(stored(store, "t", Part.DIGEST)) == record_keys(taken.records)
        assert store.verify()

    def test_without_merge_a_failed_digest_stays_as_it_was(self, store: Store) -> None:
        """Fact 26. Taken without merge: the same records, the same revision; the new ones wait."""
        arrive(store, "t", ["a"])
        release(store, open_digest(store))
        arrive(store, "t", ["b"])

        taken = open_and_take(store, "t", merge=False)

        assert (record_keys(taken.records), taken.revision) == (["a"], 1)
        assert store.inspect("t").pending == 1

    def test_what_may_have_gone_out_is_not_trimmed(self, store: Store) -> None:
        """Fact 26. Taken again without merge, under a lower capacity: the same records under the same revision."""
        arrive(store, "t", ["a", "b", "c"])
        release(store, open_digest(store))

        taken = open_and_take(store, "t", capacity=1, merge=False)

        assert (record_keys(taken.records), taken.revision, taken.dropped) == (["c", "b", "a"], 1, 0)

    def test_several_digests_share_the_page_that_one_call_merges(self, store: Store) -> None:
        """Fact 23. One call merges at most a page over all its requests, and still every digest comes whole."""
        timelines = [f"t{n}" for n in range(4)]
        for timeline in timelines:
            arrive(store, timeline, ["old"])
            release(store, open_digest(store, timeline))
            arrive(store, timeline, numbers(0, 400))
        leases = [open_lease(store, timeline) for timeline in timelines]

        store.take([Take(lease, None, merge=True) for lease in leases], now=NOW)

        digests = [store.inspect(timeline).digest for timeline in timelines]
        merged = [digest for digest in digests if digest is not None and digest.settled and not digest.deciding]
        assert 400 * len(merged) <= PAGE_RECORDS
        assert [len(take_all(store, lease).records) for lease in leases] == [401] * 4
        assert store.verify()

    def test_a_lapsed_digest_is_neither_merged_nor_trimmed(self, store: Store) -> None:
        """Fact 40. After a lapse exactly the same digest, whatever arrived and whatever the capacity is now."""
        arrive(store, "t", ["a", "b", "c"])
        open_digest(store)
        arrive(store, "t", ["d"])

        taken = open_and_take(store, "t", capacity=1, now=NOW + LEASE)

        assert (record_keys(taken.records), taken.revision, taken.dropped) == (["c", "b", "a"], 1, 0)

    @pytest.mark.parametrize("counted", [True, False])
    def test_a_digest_that_nothing_joined_keeps_its_key(self, store: Store, counted: bool) -> None:
        """Fact 26. The idempotency key stays over any number of reported failures, until a record joins."""
        arrive(store, "t", ["a"])
        revisions = []
        for _ in range(3):
            lease = open_lease(store)
            revisions.append(take_all(store, lease).revision)
            release(store, lease, counted=counted)
        arrive(store, "t", ["b"])

        taken = open_and_take(store, "t")

        assert revisions == [1, 1, 1]
        assert (record_keys(taken.records), taken.revision) == (["b", "a"], 2)

    @pytest.mark.parametrize("counted", [True, False])
    def test_under_a_lower_capacity_a_digest_that_was_read_stays_whole(self, store: Store, counted: bool) -> None:
        """Fact 26. One key stands for the same records, also if the policy changed and the attempt did not count."""
        arrive(store, "t", ["a", "b", "c"])
        release(store, open_digest(store), counted=counted)

        taken = open_and_take(store, "t", capacity=1, max_bytes=1)

        assert (record_keys(taken.records), taken.revision, taken.dropped) == (["c", "b", "a"], 1, 0)

    @pytest.mark.parametrize("limit", [{"capacity": 1}, {"max_bytes": 1}])
    def test_a_digest_that_no_attempt_has_read_is_still_trimmed(self, store: Store, limit: dict[str, int]) -> None:
        """Fact 67. Put off before it was read: the limits of the next attempt hold, under the same key."""
        arrive(store, "t", ["a", "b", "c"])
        release(store, open_lease(store), counted=False, read=False)

        taken = open_and_take(store, "t", **limit)

        assert (record_keys(taken.records), taken.revision, taken.dropped) == (["c"], 1, 2)
        assert store.verify()

    def test_a_count_of_dropped_records_joins_a_failed_digest_under_another_key(self, store: Store) -> None:
        """Fact 26. What capacity pushed out since is told by the digest that comes next: its content has changed."""
        arrive(store, "t", ["a"])
        release(store, open_digest(store))
        arrive(store, "t", ["b", "c"], capacity=1)
        store.retract("t", "c", now=NOW)

        taken = open_and_take(store, "t")

        assert (record_keys(taken.records), taken.revision, taken.dropped) == (["a"], 2, 1)

    def test_what_no_attempt_has_read_leaves_a_digest_under_its_key(self, store: Store) -> None:
        """Fact 26. Records that expire or are removed raise the revision only if an attempt may have carried them."""
        arrive(store, "t", ["a", "b"])
        release(store, open_lease(store), counted=False, read=False)
        lease = open_lease(store)

        assert store.remove(lease, ["a"], now=NOW) == 1
        release(store, lease)
        assert store.remove(open_lease(store), ["b"], now=NOW) == 2


class Quarantine(Suite):
    def test_records_leave_the_digest_as_dead_letters_of_their_own(self, store: Store) -> None:
        """Fact 24. Quarantined records are counted dead, each with its error; the others are delivered."""
        arrive(store, "t", ["a", "b", "c"])
        lease = open_digest(store)

        done = store.quarantine(
            lease, [QuarantinedRecord("a", "letter-a", "odd"), QuarantinedRecord("c", "letter-c", "no")], now=NOW
        )

        assert done is True
        assert record_keys(stored(store, "t", Part.DIGEST)) == ["b"]
        assert (store.ledger().dead, store.ledger().open) == (2, 1)
        letters = {letter.id: letter for letter in store.letters("t", after=None, limit=10)}
        assert {name: (letter.reason, letter.records) for name, letter in letters.items()} == {
            "letter-a": ("odd", 1),
            "letter-c": ("no", 1),
        }
        assert record_keys(store.letter_records("letter-c", after=None, limit=10)) == ["c"]
        assert complete(store, lease)
        assert store.ledger().delivered == 1
        assert store.verify()

    def test_a_digest_whose_records_are_all_quarantined_is_completed_as_an_empty_one(self, store: Store) -> None:
        """Fact 24. Nothing is left of the digest: it is completed as an empty one, and the timeline is idle."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)
        store.quarantine(lease, [QuarantinedRecord("a", "letter", "odd")], now=NOW)

        assert complete(store, lease, cool_down=500)

        assert store.inspect("t").state == "idle"
        assert store.inspect("t").last is None
        assert (store.ledger().dead, store.ledger().delivered) == (1, 0)

    def test_a_whole_page_can_be_quarantined(self, store: Store) -> None:
        """Fact 24. One call quarantines a page of records."""
        arrive(store, "t", numbers(0, PAGE_RECORDS))
        lease = open_digest(store)

        store.quarantine(
            lease, [QuarantinedRecord(key, f"letter-{key}", "odd") for key in numbers(0, PAGE_RECORDS)], now=NOW
        )

        assert (store.ledger().dead, store.ledger().open) == (PAGE_RECORDS, 0)
        assert store.verify()


def arrive_in_sizes(store: Store, timeline: str, sizes: Sequence[int], *, first: int = 0) -> None:
    """Add records whose payloads have so many bytes, each a second newer than the last."""
    for number, size in enumerate(sizes, first):
        store.add([Arrival(timeline, f"r{number}", payload_of(size), float(number), None, Terms())], now=NOW)


def payload_of(size: int) -> bytes:
    return bytes([size % 251]) * size
