"""The pipeline by hand: its steps in their order, stopped between any two, and interleaved with a second worker."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from digestif import AsyncDigests, Digest, Digests, Policy, Record, StaleLease, StoreUnavailable
from digestif.attempts.delivery import Delivery
from digestif.attempts.judgement import judge
from digestif.attempts.room import Room
from digestif.attempts.steps import Call, Deliver, Finished, NotBegun, Steps, follow, run, send
from digestif.deliveries import deliver_blocking
from digestif.events import Claimed, Delivered, Ended, Failed, LeaseLost, Returned, Unsettled
from digestif.testing import FakeClock
from tests.pipelines import claim_suspects, end
from tests.worker.workers import Ear, once

LEASE = 30.0
STEPS = 8  # more than an attempt has: places beyond its end stop nothing
SENT = "deliver"  # the step at which the digest goes out
ORDER = ["open", "take", SENT, "note channels", "complete"]
LATE = ["open", "take", "look at channels", "complete", SENT, "note channels"]  # at most once


class Scene(NamedTuple):
    """An engine with one ready timeline, whose handler notes what it delivers."""

    digests: Digests
    clock: FakeClock
    ear: Ear
    sent: list[Digest]

    def steps(self) -> Steps[bool]:
        handler = self.digests.engine.handlers.required("t")
        return self.digests.engine.pipeline().deliver("t", handler)


@pytest.fixture(params=[False, True], ids=["at least once", "at most once"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    clock = FakeClock()
    with Digests("memory://", policy=Policy(minimum_delay=60), lease=LEASE, clock=clock) as digests:
        sent: list[Digest] = []
        digests.handler("t", at_most_once=request.param)(sent.append)
        digests.add("t", Record("a", 1, 0.0))
        yield Scene(digests, clock, Ear(digests), sent)


class Left(BaseException):
    """A program stops driving."""


def leaving(stop: int) -> Callable[[int, str], None]:
    """Return what `drive` calls before each step, for a program that stops at this one."""

    def leave(number: int, name: str) -> None:
        if number == stop:
            raise Left

    return leave


def drive(steps: Steps[Any], *, before: Callable[[int, str], None] = lambda number, name: None) -> list[str]:
    """Drive steps one by one; return their names. What `before` raises, a step raises instead of being done."""
    names: list[str] = []
    step = send(steps)
    while not isinstance(step, Finished):
        assert isinstance(step, Call | Deliver)
        names.append(SENT if isinstance(step, Deliver) else step.name)
        answer: Any = None
        error: Exception | None = None
        try:
            before(len(names) - 1, names[-1])
            answer = deliver_blocking(step) if isinstance(step, Deliver) else step.run()
        except Exception as failure:  # noqa: BLE001  # thrown into the steps, as drivers do
            error = failure
        step = send(steps, answer, error)
    return names


def test_the_steps_of_a_delivery_come_in_the_order_of_its_life(scene: Scene) -> None:
    names = drive(scene.steps())

    assert names == (LATE if scene.digests.engine.handlers.required("t").at_most_once else ORDER)
    assert [type(event) for event in scene.ear.of(Ended)] == [Delivered]


@pytest.mark.parametrize("stop", range(STEPS))
def test_an_attempt_that_is_left_between_two_steps_ends_with_one_event_and_loses_nothing(
    scene: Scene, stop: int
) -> None:
    """As if its caller had been interrupted there. Another attempt delivers what this one did not."""
    steps = scene.steps()

    try:
        drive(steps, before=leaving(stop))
    except Left:
        steps.close()

    begun, ended = scene.ear.of(Claimed), scene.ear.of(Ended)
    assert len(begun) == len(ended)
    assert scene.digests.ledger().balanced
    assert scene.digests.verify()

    for _ in range(3):
        scene.clock.advance(LEASE)
        once(scene.digests)
    ledger = scene.digests.ledger()
    assert (ledger.pending, ledger.open, ledger.delivered) == (0, 0, 1)
    many = len(scene.sent)
    assert many <= 1 if scene.digests.engine.handlers.required("t").at_most_once else many >= 1
    assert len({digest.idempotency_key for digest in scene.sent}) <= 1


@pytest.mark.parametrize("stop", range(1, STEPS))
def test_a_claim_that_is_left_between_two_steps_ends_its_attempts_and_renews_no_lease(scene: Scene, stop: int) -> None:
    pipeline = scene.digests.engine.pipeline()
    steps = pipeline.claim(10, room=Room())

    try:
        drive(steps, before=leaving(stop))
    except Left:
        steps.close()
    else:
        return  # there are fewer steps

    assert [type(event) for event in scene.ear.of(Ended)] == [Unsettled]
    scene.clock.advance(LEASE - 1)
    pipeline.renew()
    scene.clock.advance(LEASE - 1)
    once(scene.digests)
    assert scene.digests.ledger().delivered == 1


@pytest.mark.parametrize("place", range(1, STEPS))
def test_a_lease_that_is_lost_between_two_steps_changes_nothing_any_more(scene: Scene, place: int) -> None:
    """A second worker takes the digest over and delivers it; what the first one still asks for is refused."""
    ledgers = []

    def take_over(number: int, name: str) -> None:
        if number == place:
            scene.clock.advance(LEASE)
            second = scene.digests.engine.pipeline()
            taken = claim_suspects(second, 1, alone=False)
            end(second, *[judge(each, None) for each in taken.deliveries])
            ledgers.append(scene.digests.ledger())

    steps = scene.steps()
    try:
        drive(steps, before=take_over)
    except StaleLease:
        assert ledgers == [scene.digests.ledger()]

    events = scene.ear.of(Ended)
    assert len(events) == len(scene.ear.of(Claimed))
    assert scene.digests.ledger().delivered == 1
    assert sum(isinstance(event, Delivered) for event in events) == 1
    names = LATE if scene.digests.engine.handlers.required("t").at_most_once else ORDER
    is_lost = place <= names.index("complete")  # later, the digest has left the store
    assert [type(event) for event in events if not isinstance(event, Delivered)] == [LeaseLost] * is_lost
    assert scene.digests.verify()


@pytest.mark.parametrize("place", range(STEPS))
def test_a_store_that_fails_at_any_step_leaves_a_digest_that_comes_again(scene: Scene, place: int) -> None:
    def fail(number: int, name: str) -> None:
        if number == place and name != SENT:
            raise StoreUnavailable("the store is away")

    with suppress(StoreUnavailable):
        drive(scene.steps(), before=fail)

    assert len(scene.ear.of(Claimed)) == len(scene.ear.of(Ended))
    for _ in range(3):
        scene.clock.advance(LEASE + 90)
        once(scene.digests)
    assert scene.digests.ledger().delivered == 1
    assert scene.digests.ledger().open == 0


def test_a_handler_that_was_not_begun_is_given_back_unfrozen(scene: Scene) -> None:
    steps = scene.steps()
    step = follow(steps, send(steps))
    assert isinstance(step, Deliver)

    with pytest.raises(NotBegun):
        follow(steps, send(steps, error=NotBegun()))

    if scene.digests.engine.handlers.required("t").at_most_once:
        assert never_again(scene) == ["interrupted before it was delivered"]
    else:
        assert [event.begun for event in scene.ear.of(Returned)] == [False]
        scene.digests.deliver("t")
        assert [digest.attempt for digest in scene.sent] == [1]


def test_steps_that_are_forgotten_before_their_end_report_that(scene: Scene) -> None:
    steps = scene.steps()
    follow(steps, send(steps))

    del steps

    assert len(scene.ear.of(Ended)) == 1
    if scene.digests.engine.handlers.required("t").at_most_once:
        assert never_again(scene) == ["interrupted while it was delivered"]
    else:
        assert [event.ending for event in scene.ear.of(Unsettled)] == ["returned"]


def never_again(scene: Scene) -> list[str]:
    """Return why digests failed that do not come again."""
    return [event.reason for event in scene.ear.of(Failed) if event.retry_in is None]


def test_both_drivers_give_the_same_answers_and_events() -> None:
    """A handler that fails, and then delivers: the events are the same, blocking and on an event loop."""

    def scene() -> tuple[FakeClock, Callable[[Digest], None]]:
        failures = [ValueError("no")]

        def handler(_: Digest) -> None:
            if failures:
                raise failures.pop()

        return FakeClock(), handler

    def blocking() -> list[str]:
        clock, handler = scene()
        with Digests("memory://", clock=clock) as digests:
            ear = Ear(digests)
            digests.handler("t")(handler)
            digests.add("t", 1)
            answers = [digests.deliver("t")]
            clock.advance(3600)
            digests.flush("t")
            answers.append(digests.deliver("t"))
            return [*map(str, answers), *names_of(ear)]

    async def on_a_loop() -> list[str]:
        clock, handler = scene()
        async with AsyncDigests("memory://", clock=clock) as digests:
            ear = Ear(digests.sync)
            digests.handler("t")(handler)
            await digests.add("t", 1)
            answers = [await digests.deliver("t")]
            clock.advance(3600)
            await digests.flush("t")
            answers.append(await digests.deliver("t"))
            return [*map(str, answers), *names_of(ear)]

    names = blocking()
    assert names == asyncio.run(on_a_loop())
    assert [each for each in names if each in ("False", "True", "Failed", "Delivered")] == [
        "False",
        "True",
        "Failed",
        "Delivered",
    ]


def names_of(ear: Ear) -> list[str]:
    return [type(event).__name__ for event in ear.events]


def test_a_worker_takes_the_same_steps_a_page_at_a_time() -> None:
    with Digests("memory://") as digests:
        digests.handler("*")(lambda _: None)
        digests.add_many([("a", 1), ("b", 1)])
        pipeline = digests.engine.pipeline()
        claiming = drive(steps := pipeline.claim(10, room=Room()))
        del steps
        page = run(pipeline.claim(10, room=Room()))

        assert claiming == ["claim", "take"]
        assert page.loaded == []


def test_a_page_ends_with_one_call_for_each_way_to_end() -> None:
    with Digests("memory://") as digests:
        digests.handler("*")(lambda _: None)
        digests.add_many([(name, 1) for name in "abcd"])
        pipeline = digests.engine.pipeline()
        page = run(pipeline.claim(10, room=Room()))
        errors = [None, None, ValueError("no"), ValueError("no")]
        judged = [judge(Delivery(each), error) for each, error in zip(page.loaded, errors, strict=True)]

        assert drive(pipeline.end(judged)) == ["note channels", "complete", "release", "keep failures"]
        assert (digests.ledger().delivered, digests.ledger().open) == (2, 2)
