"""Workers note themselves in the store, so that people see which ones live and what they serve."""

import threading

import pytest

from digestif import Digests, LiveWorker
from digestif.core.workers import LIVE, MOST_PATTERNS, MOST_WORKERS, WorkerNote, noted_patterns
from digestif.notes.workers import is_unhandled, live_workers, note_worker
from digestif.stores.memory import MemoryStore

NOW = 1_700_000_000_000


def a_note(*, seen: int = NOW, patterns: tuple[str, ...] = ("mail:*",), name: str = "w") -> WorkerNote:
    return WorkerNote(name, "host", 1, NOW, seen, patterns)


def test_a_worker_that_died_is_gone_after_a_minute_and_removed_by_the_next_one() -> None:
    store = MemoryStore()
    note_worker(store, "dead", a_note(), now=NOW)

    assert [worker.name for worker in live_workers(store, now=NOW + LIVE)] == ["w"]
    assert live_workers(store, now=NOW + LIVE + 1) == []
    later = NOW + LIVE + 1
    note_worker(store, "next", a_note(seen=later, name="next"), now=later)
    assert b"dead" not in (store.note(0, "workers") or b"")


def test_a_worker_that_was_seen_by_a_clock_that_was_set_back_is_gone() -> None:
    store = MemoryStore()
    note_worker(store, "dead", a_note(), now=NOW)

    assert [worker.name for worker in live_workers(store, now=NOW - LIVE)] == ["w"]
    assert live_workers(store, now=NOW - LIVE - 1) == []


def test_many_workers_at_once_lose_no_entry() -> None:
    store = MemoryStore()

    def note(number: int) -> None:
        note_worker(store, f"w{number}", a_note(name=f"w{number}"), now=NOW)

    threads = [threading.Thread(target=note, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(live_workers(store, now=NOW)) == 8


def test_the_note_is_bounded_and_a_full_one_claims_nothing() -> None:
    store = MemoryStore()
    for number in range(MOST_WORKERS + 5):
        note_worker(store, f"w{number}", a_note(), now=NOW)

    workers = live_workers(store, now=NOW)

    assert len(workers) == MOST_WORKERS
    assert not is_unhandled("chat", workers)
    assert len(noted_patterns([f"p{n}" for n in range(500)])) == MOST_PATTERNS
    assert noted_patterns([f"p{n}" for n in range(500)])[-1] == noted_patterns(["x" * 500])[-1] == "*"


@pytest.mark.parametrize("damaged", [b"", b"[]", b'{"w": 1}', b"\xff"])
def test_a_note_that_cannot_be_read_counts_as_none(damaged: bytes) -> None:
    store = MemoryStore()
    store.swap_note(0, "workers", None, damaged)

    assert live_workers(store, now=NOW) == []
    note_worker(store, "w", a_note(), now=NOW)
    assert len(live_workers(store, now=NOW)) == 1


def test_nothing_is_said_of_handlers_while_no_worker_is_known() -> None:
    worker = LiveWorker(name="w", host="h", pid=1, since=0, seen=0, patterns=("mail:*",))

    assert not is_unhandled("chat", [])
    assert is_unhandled("chat", [worker])
    assert not is_unhandled("mail:ada", [worker])


def test_where_digesting_is_off_nothing_is_noted() -> None:
    digests = Digests("off://")
    note_worker(digests.store, "w", a_note(), now=NOW)

    assert digests.workers() == []


def test_a_note_of_an_older_release_is_read_and_its_reader_ignores_new_fields() -> None:
    old = b'{"a": {"name": "a", "host": "h", "pid": 1, "since": 0, "seen": %d, "patterns": ["*"]}}' % NOW
    store = MemoryStore()
    store.swap_note(0, "workers", None, old.replace(b'"pid"', b'"later": [1], "pid"'))

    [worker] = live_workers(store, now=NOW)

    assert worker.policies == {}
