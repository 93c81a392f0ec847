"""What `transfer` needs of a store: exports that can be repeated, aborted and committed, and imports in pages.

    class TestMovesOfMyStore(TransferConformance):
        @pytest.fixture
        def store(self) -> Iterator[MyStore]: ...  # a Store and a TransferStore, fresh and empty

Every parcel travels between this store and one in memory.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from digestif.core.capacity import Cursor, age_order
from digestif.core.ledger import Ledger
from digestif.core.machine import IDLE
from digestif.core.records import State
from digestif.core.transfer import FOREVER
from digestif.errors import Busy
from digestif.stores.base import Burial, LeaseEnd, Requeued
from digestif.stores.memory import MemoryStore
from digestif.stores.reader import Part
from digestif.stores.transfer import ExportedRecord, Fence, ImportPage, ImportProgress, Parcel, ParcelKind
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.moves import Moves
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    bury,
    claim_all,
    claim_suspects,
    complete,
    maintain,
    numbers,
    open_digest,
    open_lease,
    record_keys,
    release,
    requeue,
    stored,
    sweep,
)

Movable = Any  # a Store that is a TransferStore, too
LATER = NOW + LEASE
MOVE = "leaving:m"  # begins the name of every note of these moves
COUNTS = {"delivered": 3, "superseded": 0, "dropped": 0, "expired": 0, "deleted": 2}


class Exports(Suite):
    def test_an_export_carries_the_pending_records_oldest_first(self, store: Movable) -> None:
        arrive(store, "t", numbers(0, 5), within=60_000, ttl=90_000)

        parcel = begin(store)

        assert (parcel.timeline, parcel.kind, parcel.records) == ("t", ParcelKind.PENDING, 5)
        exported = read(store, parcel)
        assert record_keys(item.record for item in exported) == numbers(0, 5)
        assert {(item.deadline, item.expires) for item in exported} == {(NOW + 60_000, NOW + 90_000)}

    def test_an_unfinished_digest_is_exported_before_what_is_pending(self, store: Movable) -> None:
        arrive(store, "t", ["a"])
        release(store, open_digest(store), until=LATER)
        arrive(store, "t", ["b"])

        first = begin(store)
        assert (first.kind, record_keys(item.record for item in read(store, first))) == (ParcelKind.DIGEST, ["a"])
        assert store.commit_export([first], now=NOW) == [True]
        second = begin(store)

        assert (second.kind, record_keys(item.record for item in read(store, second))) == (ParcelKind.PENDING, ["b"])

    def test_a_timeline_that_is_idle_or_leased_is_not_exported(self, store: Movable) -> None:
        arrive(store, "t", ["a"])
        lease = open_digest(store)

        assert store.begin_export(["t", "idle"], token="m", now=NOW) == [None, None]
        assert complete(store, lease)

    def test_a_lapsed_digest_is_exported_frozen(self, store: Movable) -> None:
        """It may have gone out."""
        arrive(store, "t", ["a"])
        open_digest(store)

        parcel = begin(store, now=LATER)

        assert parcel.slot.digest is not None
        assert (parcel.slot.digest.frozen, parcel.slot.digest.lapses) == (True, 1)

    def test_the_lease_of_an_export_does_not_end_early(self, store: Movable) -> None:
        """It lies in the year 10000, which is no fault of a clock."""
        arrive(store, "t", ["a"])
        begin(store)

        assert store.leases_beyond(NOW, limit=1000) == []
        assert store.end_leases([LeaseEnd("t", FOREVER)], now=NOW) == [False]
        assert store.inspect("t").until == FOREVER

    def test_an_export_that_is_begun_again_is_the_same(self, store: Movable) -> None:
        arrive(store, "t", ["a"])
        parcel = begin(store)
        arrive(store, "t", ["b"])

        [again] = store.begin_export(["t"], token="another", now=NOW)

        assert (again.id, again.kind, again.records) == (parcel.id, parcel.kind, 1)
        assert read(store, again) == read(store, parcel)

    def test_an_exported_timeline_accepts_records_and_is_not_opened(self, store: Movable) -> None:
        arrive(store, "t", ["a"])
        parcel = begin(store)

        assert arrive(store, "t", ["b"], now=LATER) == [False]
        assert claim_all(store, now=NOW + 10**9) == []
        assert claim_suspects(store, alone=True, now=NOW + 10**9) == []
        with pytest.raises(Busy):
            open_lease(store, now=NOW + 10**9)
        assert not maintain(store, NOW, now=NOW + 10**6).lapsed

        assert store.commit_export([parcel], now=NOW) == [True]
        assert record_keys(stored(store, "t", Part.PENDING)) == ["b"]
        assert store.ledger() == Ledger(accepted=1, pending=1)
        assert store.verify()

    def test_a_dead_letter_of_an_exported_timeline_is_not_requeued(self, store: Movable) -> None:
        letter_id = bury(store, ["a"])
        arrive(store, "t", ["b"])
        begin(store)

        for force in (False, True):
            with pytest.raises(Busy, match="another store"):
                requeue(store, letter_id, force=force)
        assert store.ledger() == Ledger(accepted=2, open=1, dead=1)
        store.abort_export(["t"], now=NOW)

        assert requeue(store, letter_id) == [Requeued(1, 0, more=False)]
        assert store.verify()

    def test_a_committed_export_leaves_nothing(self, store: Movable) -> None:
        arrive(store, "t", numbers(0, 3))
        parcel = begin(store)

        assert store.commit_export([parcel], now=NOW) == [True]
        assert store.commit_export([parcel], now=NOW) == [False]
        sweep(store)

        assert store.inspect("t") == IDLE
        assert store.ledger() == Ledger()
        assert not any(store.footprint().values())

    def test_an_aborted_export_stays_as_an_unfinished_digest(self, store: Movable) -> None:
        arrive(store, "t", ["a"])
        parcel = begin(store)
        arrive(store, "t", ["b"])

        assert store.abort_export(["t", "other"], now=NOW) == [True, False]
        assert store.abort_export(["t"], now=NOW) == [False]

        assert store.commit_export([parcel], now=NOW) == [False]
        slot = store.inspect("t")
        assert (slot.state, slot.parked, slot.pending) == (State.READY, None, 1)
        assert record_keys(stored(store, "t", Part.DIGEST)) == ["a"]
        assert store.ledger() == Ledger(accepted=2, pending=1, open=1)
        assert store.verify()

    def test_a_dead_letter_is_exported_once(self, store: Movable) -> None:
        parcel = letter_in(store, records=3)

        assert record_keys(item.record for item in read(store, parcel)) == numbers(0, 3)
        assert store.commit_export([parcel], now=NOW) == [True]
        assert store.commit_export([parcel], now=NOW) == [False]

        assert read(store, parcel) == []
        assert store.letters(None, after=None, limit=10) == []
        assert store.ledger() == Ledger()

    def test_counts_are_exported_once(self, store: Movable) -> None:
        """A call that is repeated gives the same counts, and takes no more out of the ledger."""
        arrive(store, "t", ["a"])
        complete(store, open_digest(store))
        arrive(store, "t", ["b"])

        pages = [[store.export_counts(each, f"{MOVE}-past-{each}") for _ in "12"] for each in range(store.partitions)]

        assert all(first == second for first, second in pages)
        assert sum(first["delivered"] for first, _ in pages) == 1
        assert store.ledger() == Ledger(accepted=1, pending=1)


class Imports(Suite):
    @pytest.fixture
    def source(self) -> MemoryStore:
        return MemoryStore(namespace="source")

    def test_pending_records_arrive_with_their_times(self, store: Movable, source: MemoryStore) -> None:
        arrive(source, "t", ["first"])
        complete(source, open_digest(source), cool_down=600_000)
        arrive(source, "t", numbers(0, 5), within=60_000, ttl=90_000)
        parcel, was = begin(source), source.inspect("t")

        pages = import_in_pages(store, source, parcel, size=2)

        assert [(page.done, page.whole) for page in pages] == [(2, False), (4, False), (5, True)]
        slot = store.inspect("t")
        assert (slot.state, slot.at, slot.last) == (State.WAITING, NOW + 60_000, was.last)
        assert (slot.pending, slot.deadline, slot.expires) == (5, NOW + 60_000, NOW + 90_000)
        assert record_keys(stored(store, "t", Part.PENDING)) == numbers(0, 5)[::-1]
        assert store.ledger() == Ledger(accepted=5, pending=5)
        assert store.verify()

    def test_a_digest_arrives_with_its_attempts(self, store: Movable, source: MemoryStore) -> None:
        parcel = digest_in(source, records=5)
        was = parcel.slot.digest

        import_in_pages(store, source, parcel, size=2)

        slot = store.inspect("t")
        assert (slot.state, slot.at, slot.parked) == (State.WAITING, LATER, None)
        assert was is not None
        assert (slot.digest.id, slot.digest.attempt, slot.digest.records) == (was.id, was.attempt, 5)
        assert store.ledger() == Ledger(accepted=5, open=5)
        assert store.verify()

    def test_what_is_exported_here_arrives_elsewhere(self, store: Movable) -> None:
        target = MemoryStore(namespace="target")
        parcel = digest_in(store, records=5)

        import_in_pages(target, store, parcel, size=2)
        store.commit_export([parcel], now=NOW)

        assert record_keys(stored(target, "t", Part.DIGEST)) == numbers(0, 5)[::-1]
        assert target.verify()
        assert store.ledger() == Ledger()

    @pytest.mark.parametrize("of", ParcelKind)
    def test_a_page_that_is_repeated_or_not_the_next_changes_nothing(
        self, store: Movable, source: MemoryStore, of: ParcelKind
    ) -> None:
        parcel = parcel_in(source, of, records=3)
        records = read(source, parcel)
        import_page(store, ImportPage(parcel, 0, records[:1]))
        ledger = store.ledger()

        for done, page in [(0, records[:1]), (2, records[2:]), (0, records)]:
            assert import_page(store, ImportPage(parcel, done, page)).done == 1
        assert store.ledger() == ledger

        assert import_page(store, ImportPage(parcel, 1, records[1:])).whole
        assert import_page(store, ImportPage(parcel, 1, records[1:])).whole
        assert store.ledger().accepted == 3
        assert store.verify()

    def test_of_two_versions_the_one_with_the_later_timestamp_stays(self, store: Movable, source: MemoryStore) -> None:
        arrive(source, "t", ["older", "newer"], timestamp=5.0)
        arrive(store, "t", ["older"], timestamp=9.0)
        arrive(store, "t", ["newer"], timestamp=1.0)

        import_in_pages(store, source, begin(source), size=9)

        times = {record.key: record.timestamp for record in stored(store, "t", Part.PENDING)}
        assert times == {"older": 9.0, "newer": 5.0}
        assert store.ledger() == Ledger(accepted=4, pending=2, superseded=2)
        assert store.verify()

    def test_a_digest_waits_until_the_timelines_own_has_ended(self, store: Movable, source: MemoryStore) -> None:
        parcel = digest_in(source, records=1)
        page = ImportPage(parcel, 0, read(source, parcel))
        arrive(store, "t", ["own"])
        lease = open_digest(store)

        assert store.import_pages([page], fence=None, now=NOW) == [None]
        complete(store, lease)

        assert import_page(store, page).whole

    def test_a_digest_can_not_be_opened_before_it_is_whole(self, store: Movable, source: MemoryStore) -> None:
        parcel = digest_in(source, records=3)
        records = read(source, parcel)
        import_page(store, ImportPage(parcel, 0, records[:2]))

        assert claim_all(store, now=NOW + 10**9) == []
        assert claim_suspects(store, now=NOW + 10**9) == []
        with pytest.raises(Busy):
            open_lease(store, now=NOW + 10**9)
        import_page(store, ImportPage(parcel, 2, records[2:]))

        [lease] = claim_all(store, now=LATER)
        assert parcel.slot.digest is not None
        assert lease.digest_id == parcel.slot.digest.id

    def test_a_dead_letter_can_not_be_seen_before_it_is_whole(self, store: Movable, source: MemoryStore) -> None:
        parcel = letter_in(source, records=3)
        records = read(source, parcel)
        assert parcel.letter is not None
        import_page(store, ImportPage(parcel, 0, records[:2]))

        assert store.letters(None, after=None, limit=10) == []
        assert store.letter(parcel.letter.id) is None
        assert not store.replay(parcel.letter.id, now=NOW)
        assert requeue(store, parcel.letter.id) == requeue(store, f"coming:{parcel.id}") == []
        assert store.verify()
        import_page(store, ImportPage(parcel, 2, records[2:]))

        assert store.letters(None, after=None, limit=10) == [parcel.letter]
        assert store.ledger() == Ledger(accepted=3, dead=3)
        assert store.verify()

    @pytest.mark.parametrize("of", [ParcelKind.DIGEST, ParcelKind.LETTER])
    def test_an_aborted_import_leaves_nothing(self, store: Movable, source: MemoryStore, of: ParcelKind) -> None:
        parcel = parcel_in(source, of, records=3)
        import_page(store, ImportPage(parcel, 0, read(source, parcel)[:2]))

        for _ in "12":
            store.abort_import([parcel], now=NOW)
        sweep(store)

        assert store.inspect("t") == IDLE
        assert store.ledger() == Ledger()
        assert not any(store.footprint().values())

    def test_an_import_whose_timeline_was_deleted_begins_anew(self, store: Movable, source: MemoryStore) -> None:
        parcel = digest_in(source, records=3)
        records = read(source, parcel)
        import_page(store, ImportPage(parcel, 0, records[:2]))
        store.delete("t", now=NOW)

        assert import_page(store, ImportPage(parcel, 2, records[2:])) == ImportProgress()
        assert import_page(store, ImportPage(parcel, 0, records)).whole

        assert store.ledger() == Ledger(accepted=5, open=3, deleted=2)
        assert store.verify()

    def test_progress_is_noted_until_it_is_deleted(self, store: Movable, source: MemoryStore) -> None:
        parcel = parcel_in(source, ParcelKind.PENDING, records=3)
        records = read(source, parcel)
        assert store.progress([parcel]) == [ImportProgress()]
        import_page(store, ImportPage(parcel, 0, records[:2]))

        assert store.progress([parcel]) == [ImportProgress(done=2, after=age_order(records[1].record))]
        store.delete_progress([parcel])

        assert store.progress([parcel]) == [ImportProgress()]

    def test_notes_are_deleted_by_the_beginning_of_their_names(self, store: Movable) -> None:
        names = [f"{MOVE}-target", f"{MOVE}-past-0", "leaving:n-target", "move"]
        for partition in range(store.partitions):
            for name in names:
                assert store.swap_note(partition, name, None, b"1")

        store.delete_notes(f"{MOVE}-")

        for partition in range(store.partitions):
            assert [store.note(partition, name) for name in names] == [None, None, b"1", b"1"]

    def test_only_the_holder_of_the_fence_imports(self, store: Movable, source: MemoryStore) -> None:
        parcel = parcel_in(source, ParcelKind.PENDING, records=1)
        page = ImportPage(parcel, 0, read(source, parcel))
        mine, theirs = (Fence(f"{MOVE}-target", holder) for holder in (b"me", b"them"))
        for partition in range(store.partitions):
            store.swap_note(partition, mine.name, None, mine.holder)

        with pytest.raises(Busy):
            store.import_pages([page], fence=theirs, now=NOW)
        with pytest.raises(Busy):
            store.import_counts(f"{MOVE}-past-0", COUNTS, fence=theirs)
        assert store.ledger() == Ledger()

        assert store.import_pages([page], fence=mine, now=NOW)[0].whole
        store.import_counts(f"{MOVE}-past-0", COUNTS, fence=mine)
        assert store.ledger() == Ledger(accepted=6, pending=1, delivered=3, deleted=2)

    def test_counts_are_imported_once_for_each_name(self, store: Movable) -> None:
        for name in ("0", "0", "1"):
            store.import_counts(f"{MOVE}-past-{name}", COUNTS, fence=None)

        assert store.ledger() == Ledger(accepted=10, delivered=6, deleted=4)
        assert store.verify()

    def test_of_many_threads_that_write_a_note_one_succeeds(self, store: Movable) -> None:
        arrive(store, "t", ["a"])
        with ThreadPoolExecutor(4) as threads:
            for number in range(10):
                name = f"note-{number}"
                asked = [threads.submit(store.swap_note, 0, name, None, str(who).encode()) for who in range(4)]
                assert sum(each.result() for each in asked) == 1
            for taken in [threads.submit(store.import_counts, "counts", COUNTS, fence=None) for _ in range(4)]:
                taken.result()

        assert store.ledger() == Ledger(accepted=6, pending=1, delivered=3, deleted=2)


class TransferConformance(Exports, Imports, Moves):
    """Every fact that a move needs of a store. Subclass it with a fixture `store`: fresh, empty, a TransferStore."""


def begin(store: Movable, timeline: str = "t", *, now: int = NOW) -> Parcel:
    """Begin to export a timeline that can be exported."""
    [parcel] = store.begin_export([timeline], token="m", now=now)
    assert parcel is not None
    return parcel  # type: ignore[no-any-return]


def parcel_in(store: Movable, kind: ParcelKind, *, records: int) -> Parcel:
    """A parcel of each kind."""
    if kind is ParcelKind.DIGEST:
        return digest_in(store, records=records)
    if kind is ParcelKind.LETTER:
        return letter_in(store, records=records)
    arrive(store, "t", numbers(0, records))
    return begin(store)


def digest_in(store: Movable, *, records: int) -> Parcel:
    """An unfinished digest, to be tried again at LATER."""
    arrive(store, "t", numbers(0, records))
    release(store, open_digest(store), until=LATER)
    return begin(store)


def letter_in(store: Movable, *, records: int) -> Parcel:
    """A dead letter of an idle timeline."""
    arrive(store, "t", numbers(0, records))
    store.bury([Burial(open_digest(store), "no luck", cool_down=0)], now=NOW)
    claim_all(store)
    [letter] = store.letters(None, after=None, limit=10)
    return Parcel(f"{MOVE}-letter-{letter.id}", "t", ParcelKind.LETTER, letter.records, IDLE, letter)


def read(store: Movable, parcel: Parcel, *, size: int = 2) -> list[ExportedRecord]:
    """All records of a parcel, page by page."""
    records: list[ExportedRecord] = []
    after: Cursor | None = None
    while page := store.read_export([(parcel, after)], limit=size)[0]:
        assert len(page) <= size
        records += page
        after = age_order(page[-1].record)
    return records


def import_page(store: Movable, page: ImportPage) -> ImportProgress:
    [progress] = store.import_pages([page], fence=None, now=NOW)
    assert progress is not None
    return progress  # type: ignore[no-any-return]


def import_in_pages(store: Movable, source: Movable, parcel: Parcel, *, size: int) -> list[ImportProgress]:
    records = read(source, parcel)
    return [
        import_page(store, ImportPage(parcel, done, records[done : done + size]))
        for done in range(0, len(records), size)
    ]
