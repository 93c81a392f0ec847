"""Listing, at the level of the port: scan, records, dead letters and history, in pages."""

import pytest

from digestif import Outcome
from digestif.stores.base import (
    HISTORY_KEYS,
    HISTORY_LIMIT,
    PAGE_TIMELINES,
    Burial,
    Completion,
    QuarantinedRecord,
    Store,
)
from digestif.stores.reader import Part
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.keys import HOSTILE
from digestif.testing.conformance.port import (
    NOW,
    arrive,
    arrive_everywhere,
    claim_all,
    complete,
    delete,
    numbers,
    open_digest,
    record_keys,
    seconds,
    stored,
)


class TimelinePages(Suite):
    @pytest.mark.parametrize("limit", [1, 7, 200])
    def test_timelines_are_scanned_in_the_order_of_their_code_points(self, store: Store, limit: int) -> None:
        """Fact 43. Hostile keys: scanned in the order of their code points, each once, in pages."""
        arrive_everywhere(store, HOSTILE)
        found: list[str] = []

        while page := store.scan(prefix="", after=found[-1] if found else None, limit=limit):
            assert len(page) <= limit
            found += [timeline for timeline, _ in page]

        assert found == sorted(HOSTILE)

    def test_a_prefix_is_taken_to_the_letter(self, store: Store) -> None:
        """Fact 43. Hostile keys: a prefix finds exactly the timelines that begin with it."""
        arrive_everywhere(store, HOSTILE)

        for prefix in ["a", "a:", "%", "_", "a_", "A", "é", "\0", "\U0010ffff", "😀", "x" * 511, "none"]:
            found = [timeline for timeline, _ in store.scan(prefix=prefix, after=None, limit=200)]
            assert found == sorted(key for key in HOSTILE if key.startswith(prefix))
            assert store.count_timelines(prefix, most=200) == len(found)

    def test_counting_timelines_may_end_early(self, store: Store) -> None:
        """Fact 88. A limit on the timelines of a prefix: a count that reaches it is at least as high."""
        arrive_everywhere(store, [f"{tenant}:{number}" for tenant in "abc" for number in range(5)])

        assert [store.count_timelines(prefix, most=100) for prefix in ("", "b:", "d:")] == [15, 5, 0]
        assert 3 <= store.count_timelines("b:", most=3) <= 5

    def test_a_scan_shows_each_timeline_as_it_is(self, store: Store) -> None:
        """Fact 1. What scan says of a timeline is what inspect says, paused idle ones too."""
        arrive(store, "ready", ["a"])
        arrive(store, "waiting", ["a"], first_delay=5)
        store.pause("idle", True, now=NOW)

        found = dict(store.scan(prefix="", after=None, limit=10))

        assert sorted(found) == ["idle", "ready", "waiting"]
        assert all(store.inspect(timeline) == slot for timeline, slot in found.items())


class RecordPages(Suite):
    def test_records_are_read_in_pages_newest_first(self, store: Store) -> None:
        """Fact 16. Records read without taking them: newest first, ties by arrival, each once."""
        arrive(store, "t", numbers(0, 20))
        open_digest(store)
        arrive(store, "t", numbers(10, 30), timestamp=3.0)

        assert record_keys(stored(store, "t", Part.DIGEST, limit=7)) == numbers(0, 20)[::-1]
        assert record_keys(stored(store, "t", Part.PENDING, limit=7)) == numbers(10, 30)[::-1]

    @pytest.mark.parametrize("limit", [1, 7, 100])
    def test_records_of_one_moment_are_read_in_pages_the_latest_first(self, store: Store, limit: int) -> None:
        """Fact 44. Ties are broken by arrival, also of those that were added again, and also over pages."""
        arrive(store, "t", numbers(0, 20), timestamp=3.0)
        arrive(store, "t", ["r5"], timestamp=3.0)

        found = record_keys(stored(store, "t", Part.PENDING, limit=limit))

        assert found == ["r5", *(key for key in numbers(0, 20)[::-1] if key != "r5")]

    def test_a_record_is_found_in_each_part_that_holds_it(self, store: Store) -> None:
        """Fact 38. A record key that was added again during its digest is found twice, each version where it is."""
        arrive(store, "t", ["a", "only in the digest"], timestamp=1.0)
        open_digest(store)
        arrive(store, "t", ["a", "only pending"], timestamp=2.0)

        versions = {key: store.find("t", key) for key in ("a", "only in the digest", "only pending", "unknown")}

        assert {part: record.timestamp for part, record in versions["a"].items()} == {
            Part.DIGEST: 1.0,
            Part.PENDING: 2.0,
        }
        assert list(versions["only in the digest"]) == [Part.DIGEST]
        assert list(versions["only pending"]) == [Part.PENDING]
        assert versions["unknown"] == {}


class LetterPages(Suite):
    def bury_each(self, store: Store, timelines: list[str]) -> list[str]:
        """Bury a digest of each, a millisecond apart; gives the ids in that order."""
        ids = []
        for n, timeline in enumerate(timelines):
            arrive(store, timeline, ["a"], now=NOW + n)
            store.flush(timeline, now=NOW + n)
            lease = open_digest(store, timeline, now=NOW + n)
            store.bury([Burial(lease, f"reason {n}", 0)], now=NOW + n)
            ids.append(lease.digest_id)
        return ids

    @pytest.mark.parametrize("limit", [1, 3, 100])
    def test_letters_come_in_the_order_of_their_burial(self, store: Store, limit: int) -> None:
        """Fact 24. Dead letters are listed in the order in which they were buried, in pages, each once."""
        ids = self.bury_each(store, ["t", "u", "t", "v", "u", "t", "a"])
        found: list[str] = []

        while page := store.letters(None, after=found[-1] if found else None, limit=limit):
            assert len(page) <= limit
            found += [letter.id for letter in page]

        assert found == ids

    @pytest.mark.parametrize("limit", [1, 2, 100])
    def test_letters_of_one_moment_come_in_the_order_of_their_burial(self, store: Store, limit: int) -> None:
        """Fact 24. Of dead letters with the same time, those that were buried first come first, in pages, each once."""
        ids = ["e", "b", "d", "a", "c"]
        arrive(store, "t", numbers(0, len(ids)))
        store.quarantine(
            open_digest(store), [QuarantinedRecord(f"r{n}", id, "broken") for n, id in enumerate(ids)], now=NOW
        )
        found: list[str] = []

        while page := store.letters("t", after=found[-1] if found else None, limit=limit):
            found += [letter.id for letter in page]

        assert found == ids
        assert [letter.id for letter in store.letters(None, after=None, limit=100)] == ids

    def test_letters_of_one_timeline(self, store: Store) -> None:
        """Fact 24. Dead letters of one timeline, in pages."""
        ids = self.bury_each(store, ["t", "u", "t", "t"])

        first = store.letters("t", after=None, limit=2)
        second = store.letters("t", after=first[-1].id, limit=2)

        assert [letter.id for letter in [*first, *second]] == [ids[0], ids[2], ids[3]]

    def test_the_latest_letter_with_a_record_is_found(self, store: Store) -> None:
        """Fact 24. Of several dead letters that hold a record key, the latest is found; in its timeline only."""
        ids = self.bury_each(store, ["t", "t", "u"])

        found = store.letter_with("t", "a")

        assert found is not None
        assert found.id == ids[1]
        assert store.letter_with("t", "unknown") is None
        assert store.letter_with("unknown", "a") is None


class HistoryPages(Suite):
    def test_history_tells_the_latest_first(self, store: Store) -> None:
        """Fact 17. A completed digest is remembered: its id, records, attempts and times."""
        arrive(store, "t", ["a", "b"])
        first = open_digest(store, now=NOW + 1)
        complete(store, first, now=NOW + 2)
        arrive(store, "t", ["c"], now=NOW + 3)
        [second] = claim_all(store, now=NOW + 3)
        store.bury([Burial(second, "poison", 0)], now=NOW + 4)

        latest, earlier = store.history("t", limit=10)

        assert (earlier.id, earlier.outcome, earlier.records) == (first.digest_id, Outcome.DELIVERED, 2)
        assert (earlier.opened, earlier.ended, earlier.keys) == (seconds(NOW + 1), seconds(NOW + 2), ("b", "a"))
        assert (latest.id, latest.outcome, latest.reason) == (second.digest_id, Outcome.DEAD, "poison")
        assert store.history("other", limit=10) == []

    def test_an_entry_names_a_bounded_number_of_records(self, store: Store) -> None:
        """Fact 30. History is bounded: an entry names the newest hundred records, and counts them all."""
        arrive(store, "t", numbers(0, 250))
        complete(store, open_digest(store))

        [ended] = store.history("t", limit=10)

        assert ended.records == 250
        assert list(ended.keys) == numbers(0, 250)[::-1][:HISTORY_KEYS]

    def test_history_keeps_a_bounded_number_of_digests(self, store: Store) -> None:
        """Fact 30. History is bounded: about the last thousand digests of a namespace."""
        rounds = HISTORY_LIMIT // PAGE_TIMELINES + 2
        for n in range(rounds):
            now = NOW + n
            arrive_everywhere(store, [f"t{m}" for m in range(PAGE_TIMELINES)], now=now)
            leases = claim_all(store, now=now)
            for begin in range(0, len(leases), PAGE_TIMELINES):
                store.complete([Completion(lease, 0) for lease in leases[begin : begin + PAGE_TIMELINES]], now=now)

        history = store.history(None, limit=10 * HISTORY_LIMIT)

        assert HISTORY_LIMIT // 2 <= len(history) <= HISTORY_LIMIT
        assert [ended.ended for ended in history] == sorted((ended.ended for ended in history), reverse=True)
        assert history[0].ended == seconds(NOW + rounds - 1)

    def test_history_is_cut_to_the_limit(self, store: Store) -> None:
        """Fact 30. History is bounded: a caller gets no more than it asked for."""
        for n in range(5):
            arrive(store, f"t{n}", ["a"], now=NOW + n)
            complete(store, open_digest(store, f"t{n}", now=NOW + n), now=NOW + n)

        assert [ended.timeline for ended in store.history(None, limit=2)] == ["t4", "t3"]

    def test_a_deleted_timeline_has_no_history(self, store: Store) -> None:
        """Fact 29. After delete its history is gone, that of others stays."""
        for timeline in ("t", "u"):
            arrive(store, timeline, ["a"])
            complete(store, open_digest(store, timeline))

        delete(store, "t")

        assert [ended.timeline for ended in store.history(None, limit=10)] == ["u"]
