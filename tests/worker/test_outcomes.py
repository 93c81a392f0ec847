"""How attempts end: delivered, tried again, buried, discarded, put off; and what is told of it."""

import asyncio
from collections.abc import Callable

import pytest

from digestif import (
    Buried,
    Claimed,
    Delivered,
    Digest,
    Digests,
    Discard,
    Discarded,
    Failed,
    Lapsed,
    Policy,
    PutOff,
    Retry,
    RetryLater,
    Unhandled,
    WorkerStarted,
    WorkerStopped,
)
from digestif.attempts.unhandled import UnhandledTimelines
from digestif.stores.base import SuspectGroup
from digestif.testing import FakeClock
from tests.pipelines import claim, end
from tests.worker.workers import Ear, once, rounds, working

NOW = 1_700_000_000.0
POLICY = Policy(minimum_delay=60, attempts=3, lapses=3, retry=Retry(initial=10, factor=2, jitter=0))

Act = Callable[[Digest], object]


@pytest.fixture
def digests() -> Digests:
    return Digests("memory://", policy=POLICY)


def after(digests: Digests, timeline: str = "t") -> tuple[str, float | None]:
    """State, and seconds until it is due."""
    found = digests.timeline(timeline)
    return str(found.state), None if found.due is None else found.due - NOW


def raising(error: BaseException | type[BaseException]) -> Act:
    def act(_: Digest) -> None:
        raise error

    return act


# Delivered


def test_what_a_handler_returns_does_not_matter(digests: Digests) -> None:
    digests.handler("*")(lambda digest: "sent")
    digests.add("t", 1, now=NOW)

    assert once(digests, now=NOW) == 1

    assert after(digests) == ("waiting", 60)
    assert digests.ledger().delivered == 1


def test_a_delivery_is_told_with_its_numbers() -> None:
    digests = Digests("memory://", policy=Policy(capacity=2))
    digests.handler("*")(lambda _: None)
    digests.add_many([("t", n) for n in range(5)], now=NOW)
    ear = Ear(digests)

    once(digests, now=NOW + 7)

    [claimed], [told] = ear.of(Claimed), ear.of(Delivered)
    assert (claimed.timeline, claimed.attempt, claimed.late) == ("t", 1, 7.0)
    assert (told.timeline, told.attempt, told.records, told.dropped, told.late) == ("t", 1, 2, 3, 7.0)
    assert told.digest_id == claimed.digest_id
    assert told.took >= 0


# Failed


def test_a_failure_is_tried_again_after_the_delay_of_the_policy(digests: Digests) -> None:
    digests.handler("*")(raising(ValueError("no route")))
    digests.add("t", 1, now=NOW)
    ear = Ear(digests)

    once(digests, now=NOW)

    assert after(digests) == ("waiting", 10)
    [failed] = ear.of(Failed)
    assert (failed.attempt, failed.records, failed.retry_in) == (1, 1, 10)
    assert failed.reason == "ValueError: no route"


def test_jitter_takes_some_of_the_delay_away_and_never_adds() -> None:
    digests = Digests("memory://", policy=Policy(retry=Retry(initial=10, jitter=0.5)))
    digests.handler("*")(raising(ValueError))
    digests.add_many([(f"t{n}", n) for n in range(50)], now=NOW)

    rounds(digests, now=NOW)

    waits = [after(digests, f"t{n}")[1] or 0 for n in range(50)]
    assert 5 <= min(waits) < max(waits) <= 10
    assert len(set(waits)) > 25


@pytest.mark.parametrize(("seconds", "due"), [(0, 0), (7, 7), (0.25, 0.25), (86_400, 86_400), (None, 10)])
def test_a_handler_may_say_when_it_wants_to_be_called_again(
    digests: Digests, seconds: float | None, due: float
) -> None:
    digests.handler("*")(raising(RetryLater("busy", after=seconds)))
    digests.add("t", 1, now=NOW)
    ear = Ear(digests)

    once(digests, now=NOW)

    assert after(digests) == ("waiting", due)
    assert [(event.reason, event.retry_in) for event in ear.of(Failed)] == [("RetryLater: busy", due)]


def test_called_again_later_counts_as_an_attempt(digests: Digests) -> None:
    digests.handler("*")(raising(RetryLater(after=1)))
    digests.add("t", 1, now=NOW)

    for second in range(3):
        once(digests, now=NOW + second)

    [letter] = digests.dead_letters()
    assert letter.reason.startswith("RetryLater: ")


def test_the_last_attempt_buries_and_the_timeline_goes_on(digests: Digests) -> None:
    digests.handler("*")(raising(ValueError("never")))
    digests.add("t", 1, now=NOW)
    ear = Ear(digests)

    for now in (0, 10, 30):
        once(digests, now=NOW + now)

    [buried] = ear.of(Buried)
    assert (buried.attempt, buried.records, buried.reason) == (3, 1, "ValueError: never")
    assert [event.retry_in for event in ear.of(Failed)] == [10, 20]
    assert after(digests) == ("waiting", 90)
    assert digests.dead_letters()[0].id == buried.digest_id


def test_newer_records_join_a_digest_that_failed(digests: Digests) -> None:
    seen: list[tuple[str, list[str]]] = []

    @digests.handler("*")
    def fail_once(digest: Digest) -> None:
        seen.append((digest.idempotency_key, [record.key for record in digest]))
        if len(seen) == 1:
            raise ValueError

    digests.add("t", 1, key="old", timestamp=NOW, now=NOW)
    once(digests, now=NOW)
    digests.add("t", 2, key="new", timestamp=NOW + 1, now=NOW + 1)
    once(digests, now=NOW + 10)

    [(first, old), (second, both)] = seen
    assert (old, both) == (["old"], ["new", "old"])
    assert first.rpartition(".")[0] == second.rpartition(".")[0]
    assert first != second


# Not wanted


def test_a_digest_that_nobody_wants_counts_as_deleted(digests: Digests) -> None:
    digests.handler("*")(raising(Discard("unsubscribed")))
    digests.add("t", 1, now=NOW)
    ear = Ear(digests)

    once(digests, now=NOW)

    assert after(digests) == ("waiting", 60)
    assert (digests.ledger().deleted, digests.ledger().dead) == (1, 0)
    assert digests.dead_letters() == []
    assert [(event.records, event.reason) for event in ear.of(Discarded)] == [(1, "Discard: unsubscribed")]
    assert digests.verify()


def test_only_the_timelines_whose_audience_is_gone_are_deleted(digests: Digests) -> None:
    """In a batch, each digest has its own answer."""
    answers = {"a": Discard("has left", delete=True), "b": Discard("old news"), "c": None}
    digests.handler("*", batch=3)(lambda some: [answers[digest.timeline] for digest in some])
    for timeline in answers:
        digests.add(timeline, 1, now=NOW)
    ear = Ear(digests)

    once(digests, now=NOW)

    assert [line.key for line in digests.timelines()] == ["b", "c"]
    assert (digests.ledger().deleted, digests.ledger().delivered) == (2, 1)
    assert [event.timeline for event in ear.of(Discarded)] == ["a", "b"]
    assert digests.verify()


# Odd errors


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


ODD: list[BaseException | type[BaseException]] = [
    StopIteration("enough"),
    StopAsyncIteration(),
    GeneratorExit(),
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError("by itself"),
    TimeoutError(),
    MemoryError(),
    RecursionError(),
    BaseExceptionGroup("several", [SystemExit(), ValueError()]),
    Wordless(),
    AssertionError,
]


@pytest.mark.parametrize("error", ODD, ids=lambda error: getattr(error, "__name__", type(error).__name__))
@pytest.mark.parametrize("kind", ["function", "coroutine", "function that gives a coroutine"])
def test_whatever_a_handler_raises_is_a_failure_of_its_digest_only(
    digests: Digests, error: BaseException | type[BaseException], kind: str
) -> None:
    """Neither does the worker end, nor hang, nor do others suffer."""

    async def coroutine(_: Digest) -> None:
        raise error

    handler = {"function": raising(error), "coroutine": coroutine}.get(kind, lambda digest: coroutine(digest))
    digests.handler("odd")(handler)
    digests.handler("fine")(lambda _: None)
    ear = Ear(digests)
    with working(digests, poll=0.01):
        digests.add("odd", 1)
        ear.wait_for(Failed)
        digests.add("fine", 1)
        ear.wait_for(Delivered)

    [failed] = ear.of(Failed)
    assert failed.timeline == "odd"
    assert failed.reason
    assert digests.timeline("odd").state == "waiting"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_after_an_interrupt_of_a_single_delivery_it_comes_again_exactly_as_it_was(
    digests: Digests, error: type[BaseException]
) -> None:
    """Nobody knows whether it went out; the interrupt goes on to the caller."""
    digests.handler("*")(raising(error))

    with pytest.raises(error):
        digests.notify("t", 1, now=NOW)

    digests.add("t", 2, now=NOW)
    with digests.digest("t", now=NOW) as again:
        assert ([record.value for record in again], again.revision, again.attempt) == ([1], 1, 1)


def test_a_policy_that_fails_is_a_failure_of_the_digest() -> None:
    """Its backoff raises: the attempt counts, and in the end there is a dead letter."""

    def backoff(_: int) -> float:
        if armed:
            raise ZeroDivisionError
        return 1.0

    armed = False
    policy = Policy(backoff=backoff, maximum_delay=3600, attempts=2, retry=Retry(initial=10, jitter=0))
    digests = Digests("memory://", policy=policy)
    digests.handler("*")(lambda _: None)
    digests.add("t", 1, now=NOW)
    armed = True

    for now in (0, 10):
        once(digests, now=NOW + now)

    assert len(digests.dead_letters()) == 1
    assert digests.verify()


# At most once


def test_at_most_once_a_digest_is_completed_before_its_handler_is_called(digests: Digests) -> None:
    seen: list[tuple[int, str]] = []

    @digests.handler("*", at_most_once=True)
    def look(digest: Digest) -> None:
        seen.append((digests.ledger().delivered, str(digests.timeline(digest.timeline).state)))

    digests.add("t", 1, now=NOW)
    once(digests, now=NOW)

    assert seen == [(1, "waiting")]


def test_at_most_once_a_failure_is_told_and_never_tried_again(digests: Digests) -> None:
    digests.handler("*", at_most_once=True)(raising(ValueError("gone")))
    digests.add("t", 1, now=NOW)
    ear = Ear(digests)

    for now in (0, 10, 60):
        once(digests, now=NOW + now)

    [failed] = ear.of(Failed)
    assert (failed.retry_in, failed.reason) == (None, "ValueError: gone")
    assert (digests.ledger().delivered, digests.ledger().open) == (1, 0)


# Poison


def test_a_digest_that_ends_its_workers_becomes_a_dead_letter_without_being_run() -> None:
    clock = FakeClock(NOW)
    digests = Digests("memory://", policy=POLICY, lease=30, clock=clock)
    runs: list[Digest] = []
    digests.handler("*")(runs.append)
    digests.add("t", 1)
    ear = Ear(digests)
    lapse(digests, clock, alone=[False, True, True, True])

    once(digests)

    assert runs == []
    [buried] = ear.of(Buried)
    assert buried.reason == "its lease lapsed 3 times while it was tried alone: it ends its workers"
    assert (buried.records, buried.error) == (1, None)
    assert ear.of(Lapsed) == [Lapsed(timeline="t")]
    assert digests.dead_letters()[0].id == buried.digest_id
    assert digests.timeline("t").state == "waiting"
    assert digests.verify()


@pytest.mark.parametrize("alone", [[False] * 9, [True] * 3, [False, True, True, False, False]])
def test_a_digest_is_run_again_as_long_as_it_may_have_been_another_that_ended_its_workers(alone: list[bool]) -> None:
    """Only lapses alone count, and of these not the first lapse of all."""
    clock = FakeClock(NOW)
    digests = Digests("memory://", policy=POLICY, lease=30, clock=clock)
    runs: list[Digest] = []
    digests.handler("*")(runs.append)
    digests.add("t", 1)
    lapse(digests, clock, alone=alone)

    once(digests)

    assert [digest.attempt for digest in runs] == [len(alone) + 1]
    assert digests.ledger().delivered == 1


def lapse(digests: Digests, clock: FakeClock, *, alone: list[bool]) -> None:
    """Let workers die one after the other that have the one timeline, alone or beside others."""
    digests.store.claim(0, 1, token=str(clock()), lease=30_000, now=int(clock() * 1000))
    clock.advance(30)
    for is_alone in alone[1:]:
        group = SuspectGroup(1, 1, is_alone)
        digests.store.claim_suspects(0, group, token=str(clock()), lease=30_000, now=int(clock() * 1000))
        clock.advance(30)


def test_poison_is_told_by_a_single_delivery_too() -> None:
    clock = FakeClock(NOW)
    digests = Digests("memory://", policy=POLICY, lease=30, clock=clock)
    digests.handler("*")(lambda _: None)
    digests.add("t", 1)
    ear = Ear(digests)
    for _ in range(4):
        digests.store.open("t", token=str(clock()), lease=30_000, now=int(clock() * 1000), alone=True)  # and dies
        clock.advance(30)

    digests.maintenance()
    for entry in digests.schedule():
        with pytest.raises(Exception, match="is now a dead letter"):
            digests.deliver(entry.key)

    assert [event.records for event in ear.of(Buried)] == [1]


# Without a handler


def test_a_timeline_that_nobody_delivers_is_put_off_and_the_attempt_does_not_count(digests: Digests) -> None:
    """By the same worker longer and longer, up to a minute: another one may know it."""
    digests.handler("known")(lambda _: None)
    digests.add("unknown", 1, now=NOW)
    ear = Ear(digests)
    pipeline = digests.engine.pipeline(NOW)

    for _ in range(10):
        digests.flush("unknown", now=NOW)
        end(pipeline, *claim(pipeline, 5).judged)

    delays = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]
    assert [(event.timeline, event.retry_in) for event in ear.of(PutOff)] == [("unknown", delay) for delay in delays]
    assert after(digests, "unknown") == ("waiting", 60)
    seen: list[Digest] = []
    digests.handler("unknown")(seen.append)
    once(digests, now=NOW + 600)
    assert [digest.attempt for digest in seen] == [1]


def test_timelines_that_nobody_delivers_are_told_once_a_minute_with_their_number(digests: Digests) -> None:
    clock = FakeClock(NOW)
    digests.handler("known")(lambda _: None)
    ear = Ear(digests)
    pipeline = digests.engine.pipeline(NOW)
    pipeline.unhandled = UnhandledTimelines(digests.events, clock=clock)

    for second, timeline in ((0, "a"), (1, "b"), (59.9, "c"), (60, "d"), (119.9, "e"), (120, "f")):
        clock.set(NOW + second)
        digests.add(timeline, 1, now=NOW)
        end(pipeline, *claim(pipeline, 5).judged)

    told = [(event.timeline, event.timelines) for event in ear.of(Unhandled)]
    assert told == [("a", 1), ("d", 3), ("f", 2)]


def test_a_worker_tells_when_it_starts_and_what_it_did_when_it_stops(digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    digests.add_many([(f"t{n}", n) for n in range(5)])
    ear = Ear(digests)

    with working(digests, name="ada"):
        ear.wait_for(Delivered, 5)

    assert ear.events[0] == WorkerStarted(worker="ada", store="memory://", handlers=("*",))
    assert ear.events[-1] == WorkerStopped(worker="ada", delivered=5, returned=0)
