"""A note is changed by many processes at a time, and no change is lost."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from digestif import Store, StoreError, StoreUnavailable
from digestif.ids import fresh_id
from digestif.stores.memory import MemoryStore
from digestif.stores.note import TRIES, Note, Updated
from digestif.stores.registry import open_store
from tests.transfer.stores import KINDS, dsn_of

Counts = dict[str, int]


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Two processes' views of one store; memory has only one."""
    with dsn_of(request.param, tmp_path, emptied=False) as dsn:
        namespace = f"d-{fresh_id()}"
        first = open_store(dsn, namespace=namespace)
        second = first if request.param == "memory" else open_store(dsn, namespace=namespace)
        yield first, second
        first.close()
        second.close()


def counts(store: Store) -> Note[Counts]:
    partition = store.partitions - 1
    return Note(store, "counts", decode=msgspec.json.Decoder(Counts).decode, empty=Counts(), partition=partition)


def stored(store: Store) -> bytes | None:
    return store.note(store.partitions - 1, "counts")


def counted(found: Counts, name: str) -> Counts:
    return {**found, name: found.get(name, 0) + 1}


def test_what_one_process_writes_another_one_reads(stores: tuple[Store, Store]) -> None:
    one, other = map(counts, stores)

    assert one.read() == {}
    assert one.update(lambda found: counted(found, "a")) == Updated({}, {"a": 1})
    assert other.update(lambda found: counted(found, "b")) == Updated({"a": 1}, {"a": 1, "b": 1})
    assert one.read() == {"a": 1, "b": 1}


def test_an_update_begins_again_if_another_process_was_quicker(stores: tuple[Store, Store]) -> None:
    one, other = map(counts, stores)
    given = []

    def overtaken(found: Counts) -> Counts:
        given.append(found)
        if len(given) <= 2:
            other.update(lambda found: counted(found, "b"))
        return counted(found, "a")

    assert one.update(overtaken) == Updated({"b": 2}, {"b": 2, "a": 1})
    assert given == [{}, {"b": 1}, {"b": 2}]


def test_updates_at_the_same_time_lose_nothing(stores: tuple[Store, Store]) -> None:
    notes = list(map(counts, stores)) * 2

    with ThreadPoolExecutor(len(notes)) as threads:
        for note in notes:
            for _ in range(20):
                threads.submit(note.update, lambda found: counted(found, "a"))

    assert notes[0].read() == {"a": 80}


def test_an_empty_value_is_stored_as_no_note(stores: tuple[Store, Store]) -> None:
    store, _ = stores
    counts(store).update(lambda _: {"a": 1})
    assert stored(store) == b'{"a":1}'

    assert counts(store).update(lambda _: {}) == Updated({"a": 1}, {})

    assert stored(store) is None


@pytest.mark.parametrize("damaged", [b"{", b"[]", b'{"a":"b"}', b'{"\xff":1}'])
def test_a_damaged_note_counts_as_empty_and_is_replaced(stores: tuple[Store, Store], damaged: bytes) -> None:
    store, _ = stores
    store.swap_note(store.partitions - 1, "counts", None, damaged)

    assert counts(store).read() == {}
    assert counts(store).update(lambda found: counted(found, "a")).before == {}

    assert stored(store) == b'{"a":1}'


class Busy(MemoryStore):
    """Other processes change every note just before it is written."""

    swaps = 0

    def swap_note(self, partition: int, name: str, old: bytes | None, new: bytes | None) -> bool:
        self.swaps += 1
        return False


def test_an_equal_value_is_not_written() -> None:
    store = Busy()

    assert counts(store).update(lambda found: {**found}) == Updated({}, {})

    assert store.swaps == 0


def test_an_update_that_is_always_overtaken_says_so_in_the_end() -> None:
    store = Busy()

    with pytest.raises(StoreUnavailable, match=r"'counts' was not changed: .* 1,000 times; try again later"):
        counts(store).update(lambda _: {"a": 1})

    assert store.swaps == TRIES


def test_a_decoder_may_refuse_damage() -> None:
    def decode(found: bytes) -> bytes:
        raise StoreError(f"damaged: {found!r}")

    store = MemoryStore()
    note = Note(store, "n", decode=decode, encode=bytes, empty=b"")
    assert note.update(lambda _: b"kept").after == b"kept"

    with pytest.raises(StoreError, match="damaged: b'kept'"):
        note.read()
    with pytest.raises(StoreError, match="damaged: b'kept'"):
        note.update(lambda _: b"other")
    assert store.note(0, "n") == b"kept"
