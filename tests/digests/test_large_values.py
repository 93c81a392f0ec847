"""Values beyond the usual size: where the limit is set, who learns it, and how such records are paged."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from digestif import AsyncDigests, ConfigError, Digests, InvalidRecord, Record, StoreUnavailable
from digestif.additions import ADDED_BYTES
from digestif.core.records import MOST_VALUE_BYTES, VALUE_BYTES
from digestif.core.times import Millis
from digestif.stores.base import PAGE_BYTES, Accepted, Arrival, weight_of_adds
from digestif.stores.memory import MemoryStore
from digestif.stores.registry import open_store
from digestif.transfer import Move

LARGEST = "x" * (MOST_VALUE_BYTES - 2)
ALLOWED = f"?value_bytes={MOST_VALUE_BYTES}"


class Weighing(MemoryStore):
    """A store that notes the weight of each add, and in which thread its notes are read."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[int] = []
        self.readers: list[threading.Thread] = []

    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        self.weights.append(weight_of_adds(batch))
        return super().add(batch, now=now)

    def note(self, partition: int, name: str) -> bytes | None:
        self.readers.append(threading.current_thread())
        return super().note(partition, name)


@pytest.fixture
def store() -> Weighing:
    store = Weighing()
    store.raise_value_bytes(MOST_VALUE_BYTES)
    store.readers.clear()
    return store


def test_what_a_dsn_allows_holds_for_those_that_do_not_say_it(tmp_path: Path) -> None:
    dsn = f"sqlite:///{tmp_path}/digests.db"
    with Digests(dsn) as before, Digests(f"{dsn}{ALLOWED}"), Digests(dsn) as after:
        before.add("t", LARGEST, key="a")
        after.add("t", LARGEST, key="b")
        with Digests(dsn, namespace="other") as other, pytest.raises(InvalidRecord):
            other.add("t", LARGEST)

        assert before.ledger().accepted == 2


def test_a_dsn_that_allows_less_than_the_namespace_is_refused(tmp_path: Path) -> None:
    dsn = f"sqlite:///{tmp_path}/digests.db"
    open_store(f"{dsn}{ALLOWED}").close()

    with pytest.raises(ConfigError, match=f"value_bytes: the namespace allows {MOST_VALUE_BYTES} .* not 300000"):
        open_store(f"{dsn}?value_bytes=300000")


def test_a_store_that_is_away_at_the_start_learns_the_limit_from_the_first_value_that_needs_it() -> None:
    store = MemoryStore()
    swap, store.swap_note = store.swap_note, _away  # type: ignore[method-assign, assignment]
    with pytest.raises(StoreUnavailable):
        store.raise_value_bytes(MOST_VALUE_BYTES)
    store.swap_note = swap  # type: ignore[method-assign]

    with Digests(store) as digests, Digests(store) as other:
        digests.add("t", LARGEST)
        other.add("t", LARGEST)


def _away(*_: object) -> bool:
    raise StoreUnavailable("away")


def test_a_damaged_note_counts_as_the_usual_limit() -> None:
    store = MemoryStore()
    store.swap_note(0, "value_bytes", None, b"many")

    assert store.value_bytes() == VALUE_BYTES


def test_where_digesting_is_off_a_dsn_allows_as_much() -> None:
    with Digests(f"off://{ALLOWED}") as digests:
        assert digests.add("t", LARGEST) is False


def test_a_value_of_usual_size_asks_the_store_for_nothing(store: Weighing) -> None:
    with Digests(store) as digests:
        digests.add("t", "x" * (VALUE_BYTES - 2))

        assert store.readers == []


def test_what_can_never_be_allowed_asks_the_store_for_nothing(store: Weighing) -> None:
    with Digests(store) as digests, pytest.raises(InvalidRecord):
        digests.add("t", LARGEST + "x")

    assert store.readers == []


@pytest.mark.parametrize("add", [AsyncDigests.add, AsyncDigests.accept], ids=["add", "accept"])
def test_no_event_loop_waits_until_a_limit_is_read(store: Weighing, add: object) -> None:
    async def run() -> None:
        async with AsyncDigests(store) as digests:
            await add(digests, "t", LARGEST)  # type: ignore[operator]

    asyncio.run(run())

    assert store.readers
    assert threading.current_thread() not in store.readers


def test_large_records_are_added_in_pages_of_bytes(store: Weighing) -> None:
    sizes = [10, MOST_VALUE_BYTES - 2, 10, *[ADDED_BYTES // 2 - 100] * 40, 10]
    with Digests(store) as digests:
        digests.add_many([("t", Record(f"{number}", "x" * size, 0.0)) for number, size in enumerate(sizes)])

        assert digests.ledger().accepted == len(sizes)
    assert len(store.weights) == 22  # the largest one is alone
    assert sorted(store.weights)[-2] <= ADDED_BYTES


def test_large_records_that_come_together_are_added_in_pages_of_bytes(store: Weighing) -> None:
    async def run() -> None:
        async with AsyncDigests(store) as digests:
            await asyncio.gather(*[digests.add("t", LARGEST, key=f"{number}") for number in range(20)])

    asyncio.run(run())

    assert sum(store.weights) > 20 * MOST_VALUE_BYTES
    assert max(store.weights) <= PAGE_BYTES


def test_a_move_takes_along_what_the_namespace_allows() -> None:
    source, target = MemoryStore(), MemoryStore(namespace="target")
    source.raise_value_bytes(MOST_VALUE_BYTES)
    with Digests(source) as before:
        before.add_many([("t", Record(f"{number}", LARGEST, float(number))) for number in range(5)])

    Move(source, target).run()

    with Digests(target) as after:
        after.add("t", Record("last", LARGEST, 9.0))
        assert after.ledger().pending == 6
        with after.digest("t") as digest:
            assert all(record.value == LARGEST for record in digest)
    assert target.value_bytes() == MOST_VALUE_BYTES
