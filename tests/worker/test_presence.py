"""Workers note themselves in the store, so that people see which ones live and what they serve."""

import os
import socket
import threading

import pytest

from digestif import Delivered, Digests, LiveWorker, PoliciesDiffer, Policy, WorkerStarted
from digestif.attempts.worker_notes import NAME, is_unhandled, live_workers, note_worker
from digestif.core.workers import (
    LIVE,
    LONGEST_POLICY,
    MOST_PATTERNS,
    MOST_WORKERS,
    WorkerNote,
    noted_patterns,
    noted_policies,
    policy_conflicts,
)
from digestif.stores.memory import MemoryStore
from digestif.testing import Partitioned
from digestif.worker.limits import DEFAULT
from tests.worker.workers import Ear, becomes, working

NOW = 1_700_000_000_000
OFTEN = DEFAULT._replace(presence=0.02)


def a_note(*, seen: int = NOW, patterns: tuple[str, ...] = ("mail:*",), name: str = "w") -> WorkerNote:
    return WorkerNote(name, "host", 1, NOW, seen, patterns)


def test_a_worker_is_silent_from_20_seconds_on() -> None:
    worker = LiveWorker(name="w", host="h", pid=1, since=0, seen=100, patterns=("*",))

    assert worker.silence(now=119.9) is None
    assert worker.silence(now=120) == "not seen for 20 s: it may have died"


def test_a_worker_is_seen_while_it_runs_and_gone_when_it_has_ended() -> None:
    digests = Digests("memory://")
    digests.handler("mail:*")(lambda _: None)
    digests.handler("chat")(lambda _: None)

    with working(digests, tuning=OFTEN, name="ada"):
        assert becomes(lambda: len(digests.workers()) == 1)
        [first] = digests.workers()
        assert becomes(lambda: digests.workers()[0].seen > first.seen)

    assert (first.name, first.host, first.pid) == ("ada", socket.gethostname(), os.getpid())
    assert sorted(first.patterns) == ["chat", "mail:*"]
    assert first.since <= first.seen
    assert digests.workers() == []
    assert digests.store.note(0, NAME) is None


def test_two_workers_of_one_name_are_two() -> None:
    store = MemoryStore()
    engines = [Digests(store), Digests(store)]
    for digests in engines:
        digests.handler("*")(lambda _: None)

    with working(*engines, name="same"):
        assert becomes(lambda: len(engines[0].workers()) == 2)


def test_a_worker_that_died_is_gone_after_a_minute_and_removed_by_the_next_one() -> None:
    store = MemoryStore()
    note_worker(store, "dead", a_note(), now=NOW)

    assert [worker.name for worker in live_workers(store, now=NOW + LIVE)] == ["w"]
    assert live_workers(store, now=NOW + LIVE + 1) == []
    later = NOW + LIVE + 1
    note_worker(store, "next", a_note(seen=later, name="next"), now=later)
    assert b"dead" not in (store.note(0, NAME) or b"")


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
    store.swap_note(0, NAME, None, damaged)

    assert live_workers(store, now=NOW) == []
    note_worker(store, "w", a_note(), now=NOW)
    assert len(live_workers(store, now=NOW)) == 1


def test_a_store_that_does_not_answer_stops_no_worker() -> None:
    """The note lies in partition 0; the others are served."""
    store = Partitioned([MemoryStore(), MemoryStore()])
    digests = Digests(store)
    digests.handler("*")(lambda _: None)
    ear = Ear(digests)
    with working(digests, tuning=OFTEN):
        ear.wait_for(WorkerStarted)
        store.failing.add(0)
        name = next(f"t{n}" for n in range(100) if store.part_of(f"t{n}") == 1)
        digests.add(name, 1)
        ear.wait_for(Delivered)
        store.failing.clear()


def test_nothing_is_said_of_handlers_while_no_worker_is_known() -> None:
    worker = LiveWorker(name="w", host="h", pid=1, since=0, seen=0, patterns=("mail:*",))

    assert not is_unhandled("chat", [])
    assert is_unhandled("chat", [worker])
    assert not is_unhandled("mail:ada", [worker])


def test_where_digesting_is_off_nothing_is_noted() -> None:
    digests = Digests("off://")
    note_worker(digests.store, "w", a_note(), now=NOW)

    assert digests.workers() == []


def a_worker(name: str, policies: dict[str, str], *, since: float = 0, seen: float = 10) -> LiveWorker:
    return LiveWorker(name=name, host=name, pid=1, since=since, seen=seen, patterns=(*policies,), policies=policies)


def test_workers_with_different_policies_for_a_pattern_say_so_once() -> None:
    store = MemoryStore()
    engines = [Digests(store), Digests(store)]
    for digests, policy in zip(engines, [Policy.hourly(), None], strict=True):
        digests.handler("mail:*", policy=policy)(lambda _: None)
        digests.handler("chat")(lambda _: None)
    ears = [Ear(digests) for digests in engines]

    with working(*engines, tuning=OFTEN):
        for ear in ears:
            [told] = ear.wait_for(PoliciesDiffer)
            assert told.pattern == "mail:*"
            here = f"{socket.gethostname()}:{os.getpid()}"
            assert told.policies == f"mail:*: default ({here}) or hourly ({here})"
        [first, *_] = engines[0].workers()
        assert becomes(lambda: engines[0].workers()[0].seen > first.seen + 0.1)

    assert [len(ear.of(PoliciesDiffer)) for ear in ears] == [1, 1]


def test_a_conflict_of_two_hundred_workers_is_one_line_of_ordinary_length() -> None:
    [conflict] = policy_conflicts([a_worker(f"w{n:03}", {"*": f"policy {n % 9}"}) for n in range(200)])

    assert len(conflict.policies) == 9
    assert str(conflict).startswith("*: policy 0 (w000:1, w009:1, w018:1, w027:1, 19 more) or policy 1 (")
    assert str(conflict).endswith(" or 5 more")


def test_workers_with_the_same_policies_and_others_of_older_releases_are_no_conflict() -> None:
    same, same_too = a_worker("a", {"*": "hourly"}), a_worker("b", {"*": "hourly", "mail:*": "default"})
    older = LiveWorker(name="c", host="c", pid=1, since=0, seen=10, patterns=("*",))

    assert policy_conflicts([same, same_too, older]) == []


def test_a_worker_that_died_before_another_began_is_no_conflict() -> None:
    died, next_ = a_worker("a", {"*": "hourly"}, seen=5), a_worker("b", {"*": "default"}, since=6)

    assert policy_conflicts([died, next_]) == []
    assert len(policy_conflicts([died, next_, a_worker("c", {"*": "immediate"})])) == 1


def test_a_note_of_an_older_release_is_read_and_its_reader_ignores_new_fields() -> None:
    old = b'{"a": {"name": "a", "host": "h", "pid": 1, "since": 0, "seen": %d, "patterns": ["*"]}}' % NOW
    store = MemoryStore()
    store.swap_note(0, NAME, None, old.replace(b'"pid"', b'"later": [1], "pid"'))

    [worker] = live_workers(store, now=NOW)

    assert worker.policies == {}


def test_long_policies_are_noted_short_and_stay_different() -> None:
    texts = {"a": "x" * 5000 + "1", "b": "x" * 5000 + "2", "c": "hourly"}

    noted = noted_policies(texts, ["a", "b", "c", "unknown"])

    assert noted["c"] == "hourly"
    assert noted["a"] != noted["b"]
    assert max(map(len, noted.values())) <= LONGEST_POLICY
    assert "unknown" not in noted
