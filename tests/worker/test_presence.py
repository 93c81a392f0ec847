"""A worker notes itself in the store while it runs, and says so if others have other policies."""

import os
import socket

from digestif import Delivered, Digests, PoliciesDiffer, Policy, WorkerStarted
from digestif.stores.memory import MemoryStore
from digestif.testing import Partitioned
from digestif.worker.limits import DEFAULT
from tests.worker.workers import Ear, becomes, working

OFTEN = DEFAULT._replace(presence=0.02)


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
    assert digests.store.note(0, "workers") is None


def test_two_workers_of_one_name_are_two() -> None:
    store = MemoryStore()
    engines = [Digests(store), Digests(store)]
    for digests in engines:
        digests.handler("*")(lambda _: None)

    with working(*engines, name="same"):
        assert becomes(lambda: len(engines[0].workers()) == 2)


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
