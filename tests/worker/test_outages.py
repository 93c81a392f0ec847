"""The store does not answer for a while: the worker says so, goes on by itself, and loses nothing."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from digestif import (
    Claimed,
    Delivered,
    Digest,
    Digests,
    Ended,
    PartitionFailed,
    Policy,
    Store,
    StoreFailed,
    StoreUnavailable,
    Unsettled,
    WorkerStarted,
)
from digestif.clock import monotonic
from digestif.stores.memory import MemoryStore
from digestif.testing import Partitioned
from digestif.testing.postgres import PostgresServer
from digestif.testing.servers import RedisServer, free_port
from digestif.worker.limits import Tuning
from tests.worker.workers import PATIENCE, Ear, tuned, working

pytestmark = pytest.mark.long

POLICY = Policy(minimum_delay=60)
IMPATIENT = Tuning(pauses=(0.01, 0.1))
TOLD_SECONDS = 5.0  # in which a reason is told


@pytest.fixture
def store() -> Partitioned:
    return Honest([MemoryStore(namespace="d") for _ in range(3)])


@pytest.fixture
def digests(store: Partitioned) -> Digests:
    return Digests(store, policy=POLICY)


class Honest(Partitioned):
    """Of a batch of which only some parts fail it tells what the others answered, as stores do."""

    def _under_leases(
        self, verb: str, items: Sequence[Any], call: Callable[[Store, list[Any]], list[Any]]
    ) -> list[Any]:
        error, answers = None, []
        for item in items:
            try:
                answers += call(self._home(item.lease.timeline), [item])
            except StoreUnavailable as failure:
                error = failure
                answers.append(None)
        if error is not None:
            raise error.knowing(answers)
        return answers


def test_a_worker_goes_on_when_the_store_is_back(store: Partitioned, digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    digests.add_many([(f"t{n}", n) for n in range(9)])
    ear = Ear(digests)
    store.failing = {0, 1, 2}
    with working(digests, tuning=IMPATIENT, poll=0.01):
        ear.wait_for(StoreFailed, 3)
        store.failing = set()
        ear.wait_for(Delivered, 9)

    assert digests.ledger().delivered == 9


def test_a_store_that_is_away_when_the_worker_starts_and_stops(store: Partitioned, digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    ear = Ear(digests)
    store.failing = {0, 1, 2}

    with working(digests, tuning=IMPATIENT, poll=0.01):
        ear.wait_for(WorkerStarted)
        ear.wait_for(StoreFailed)


def test_a_store_that_was_never_reached_ends_the_worker(store: Partitioned, digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    store.failing = {0, 1, 2}

    with pytest.raises(StoreUnavailable, match=r"not answered once in 0.1 s \(.*\); check its address.*--wait"):
        tuned(digests, IMPATIENT, poll=0.01, start_timeout=0.1).run()


def test_a_worker_may_be_told_to_wait_for_its_store(store: Partitioned, digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    digests.add("t", 1)
    ear = Ear(digests)
    store.failing = {0, 1, 2}
    with working(digests, tuning=IMPATIENT, poll=0.01, start_timeout=None):
        ear.wait_for(StoreFailed, 3)
        store.failing = set()
        ear.wait_for(Delivered)


def test_a_store_that_was_reached_once_is_waited_for(store: Partitioned, digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    digests.add("before", 1)
    ear = Ear(digests)
    with working(digests, tuning=IMPATIENT, poll=0.01, start_timeout=0.2):
        ear.wait_for(Delivered)
        store.failing = {0, 1, 2}
        failures = len(ear.wait_for(StoreFailed, 10))  # for longer than that
        ear.wait_for(StoreFailed, failures + 5)
        store.failing = set()
        digests.add("after", 1)
        ear.wait_for(Delivered, 2)


class Speechless(MemoryStore):
    """A store whose calls neither answer nor fail."""

    released = threading.Event()

    def time(self, partition: int) -> int:
        self.released.wait(PATIENCE)
        return super().time(partition)


def test_a_store_that_says_nothing_is_told_of() -> None:
    store = Speechless(namespace="d")
    digests = Digests(store)
    digests.handler("*")(lambda _: None)
    ear = Ear(digests)
    with working(digests, tuning=Tuning(reach=0.1), poll=0.01):
        try:
            [failed] = ear.wait_for(StoreFailed)
        finally:
            store.released.set()

    assert failed.operation == "connect"
    assert "has not answered for 0.1 s" in str(failed.error)


WRONG = {  # a server that is not there, and a name of none; {} is a port where nobody listens
    "postgresql://nobody:secret@127.0.0.1:{}/none": "refused",
    "redis://:secret@127.0.0.1:{}": "refused",
    "postgresql://nobody:secret@nowhere.invalid/none": "nowhere.invalid",
    "redis://:secret@nowhere.invalid": "nowhere.invalid",
}


@pytest.mark.parametrize("dsn", WRONG)
def test_a_worker_with_a_wrong_address_says_so_in_seconds_and_ends(dsn: str) -> None:
    """The store itself would try for longer."""
    digests = Digests(dsn.format(free_port()))
    digests.handler("*")(lambda _: None)
    ear = Ear(digests)
    began = monotonic()

    with pytest.raises(StoreUnavailable, match="not answered once"):
        tuned(digests, IMPATIENT._replace(last_calls=0.1), start_timeout=0.5).run()

    [failed] = [event for event in ear.of(StoreFailed) if event.operation == "connect"]
    assert WRONG[dsn] in str(failed.error)
    assert "secret" not in str(failed)
    assert monotonic() - began < TOLD_SECONDS
    digests.close()


def test_a_worker_may_be_started_before_its_server() -> None:
    """It neither dies of it nor has to be started again."""
    with PostgresServer(fsync=False) as server, Digests(f"{server.url}?timeout=1", policy=POLICY) as digests:
        digests.handler("*")(lambda _: None)
        ear = Ear(digests)
        server.stop()
        with working(digests, tuning=IMPATIENT, poll=0.05):
            ear.wait_for(WorkerStarted)
            ear.wait_for(StoreFailed)
            server.start()
            digests.add("t", 1)
            ear.wait_for(Delivered)


def test_one_partition_that_fails_does_not_stop_the_others(store: Partitioned, digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    timelines = [f"t{n}" for n in range(30)]
    digests.add_many([(timeline, 1) for timeline in timelines])
    served = {timeline for timeline in timelines if store.part_of(timeline) != 1}
    ear = Ear(digests)
    store.failing = {1}
    with working(digests, tuning=IMPATIENT, poll=0.01):
        assert {event.timeline for event in ear.wait_for(Delivered, len(served))} == served
        assert {event.partition for event in ear.wait_for(PartitionFailed)} == {1}
        store.failing = set()
        ear.wait_for(Delivered, len(timelines))


@pytest.mark.parametrize("outcome", ["delivered", "failed"])
def test_what_ended_while_the_store_was_away_is_told_when_it_is_back(
    store: Partitioned, digests: Digests, outcome: str
) -> None:
    """The handler is not called again: the worker remembers how it ended."""
    begun, released = threading.Event(), threading.Event()
    calls: list[Digest] = []

    @digests.handler("*")
    def handler(digest: Digest) -> None:
        calls.append(digest)
        begun.set()
        released.wait(PATIENCE)
        if outcome == "failed":
            raise ValueError

    digests.add("t", 1)
    ear = Ear(digests)
    with working(digests, tuning=IMPATIENT, poll=0.01):
        assert begun.wait(PATIENCE)
        store.failing = {0, 1, 2}
        released.set()
        while "end" not in {event.operation for event in ear.wait_for(StoreFailed)}:
            ear.wait_for(StoreFailed, len(ear.of(StoreFailed)) + 1)
        store.failing = set()
        assert digests.backlog() is not None
        threading.Event().wait(0.3)

    assert len(calls) == 1
    assert digests.timeline("t").state == "waiting"
    assert digests.ledger().delivered == (outcome == "delivered")


@pytest.mark.parametrize("verb", ["claim", "complete"])
def test_what_hangs_when_the_worker_ends_is_told_as_unsettled(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """One ending for each attempt, although the store answers after all when nobody listens any more."""
    store = MemoryStore(namespace="d")
    digests = Digests(store)
    digests.handler("*")(lambda _: None)
    digests.add("t", 1)
    ear = Ear(digests)
    hanging, released = threading.Event(), threading.Event()
    call = getattr(store, verb)

    def hang(*arguments: Any, **options: Any) -> Any:
        hanging.set()
        assert released.wait(PATIENCE)
        return call(*arguments, **options)

    monkeypatch.setattr(store, verb, hang)

    async def serve() -> None:
        serving = asyncio.create_task(tuned(digests, IMPATIENT._replace(last_calls=0.1), poll=0.01).serve())
        await asyncio.to_thread(hanging.wait, PATIENCE)
        serving.cancel()
        await asyncio.wait([serving])
        released.set()
        await asyncio.to_thread(ear.wait_for, Ended)

    asyncio.run(serve())

    [ended] = ear.of(Ended)
    assert isinstance(ended, Unsettled)
    assert ended.ending == {"claim": "returned", "complete": "delivered"}[verb]
    assert len(ear.of(Claimed)) == 1


def test_a_part_that_does_not_answer_does_not_hold_up_the_ends_of_others(store: Partitioned, digests: Digests) -> None:
    begun, released = threading.Semaphore(0), threading.Event()

    @digests.handler("*")
    def handler(_: Digest) -> None:
        begun.release()
        released.wait(PATIENCE)

    timelines = [f"t{n}" for n in range(8)]
    digests.add_many([(timeline, 1) for timeline in timelines])
    well = {timeline for timeline in timelines if store.part_of(timeline) != 2}
    assert 0 < len(well) < 8
    ear = Ear(digests)
    with working(digests, tuning=IMPATIENT, poll=0.01, threads=16):
        for _ in timelines:
            assert begun.acquire(timeout=PATIENCE)
        store.failing = {2}
        released.set()
        assert {event.timeline for event in ear.wait_for(Delivered, len(well))} == well
        store.failing = set()
        ear.wait_for(Delivered, 8)

    assert digests.verify()


def test_a_claim_that_waits_for_one_server_does_not_hold_up_what_others_have(monkeypatch: pytest.MonkeyPatch) -> None:
    class Divided(Partitioned):
        is_divided = True

    store = Divided([MemoryStore(namespace="d") for _ in range(3)])
    digests = Digests(store, policy=POLICY)
    digests.handler("*")(lambda _: None)
    ear = Ear(digests)
    armed, hanging, released = threading.Event(), threading.Event(), threading.Event()
    claim = store.parts[0].claim

    def hang_once(*arguments: Any, **options: Any) -> Any:
        if armed.is_set() and not hanging.is_set():
            hanging.set()
            assert released.wait(PATIENCE)
        return claim(*arguments, **options)

    monkeypatch.setattr(store.parts[0], "claim", hang_once)
    digests.add("first", 1)
    with working(digests, tuning=IMPATIENT._replace(slow=0.05), poll=0.01):
        ear.wait_for(Delivered)  # from now on one claim at a time looks for more
        armed.set()
        assert hanging.wait(PATIENCE)
        digests.add_many([(f"t{n}", n) for n in range(9)])

        ear.wait_for(Delivered, 10)
        assert not released.is_set()
        released.set()


@pytest.fixture(params=["redis", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer | PostgresServer]:
    if request.param == "redis":
        with RedisServer(appendonly=True) as redis:
            yield redis
    else:
        with PostgresServer() as postgres:
            yield postgres


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_worker_goes_on_when_the_server_is_started_again(server: RedisServer | PostgresServer, end: str) -> None:
    impatience = "patience=0.3" if isinstance(server, RedisServer) else "timeout=2"
    with Digests(f"{server.url}?{impatience}", policy=POLICY, lease=2) as digests:
        digests.handler("*")(lambda _: None)
        ear = Ear(digests)
        with working(digests, tuning=IMPATIENT, poll=0.05):
            digests.add("before", 1)
            ear.wait_for(Delivered)
            getattr(server, end)()
            ear.wait_for(StoreFailed)
            server.start()
            digests.add("after", 1)
            assert [event.timeline for event in ear.wait_for(Delivered, 2)] == ["before", "after"]
        assert digests.verify()
