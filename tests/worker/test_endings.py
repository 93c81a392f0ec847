"""Attempts that are judged and have still to end: tried again apart from the rest, given up at the stop."""

import asyncio
from collections.abc import Callable

import pytest

from digestif import Delivered, Digests, Event, Policy, StoreFailed, Unsettled
from digestif.attempts.pipeline import Pipeline
from digestif.core.verdicts import DELIVERED
from digestif.stores.memory import MemoryStore
from digestif.testing.partitioned import Partitioned
from digestif.threads import DaemonThreads
from digestif.worker.endings import Endings
from digestif.worker.limits import Limits, Tuning
from digestif.worker.loop import Loop
from tests.pipelines import claim
from tests.worker.workers import LONG, PATIENCE

SILENT, OTHER = "silent", "b"  # in two parts of the store
SOON = Tuning(pauses=(0.005, 0.01))
LATE = Tuning(pauses=(LONG, LONG), last_calls=0.05)


@pytest.fixture
def store() -> Partitioned:
    store = Partitioned([MemoryStore(), MemoryStore()])
    assert store.part_of(SILENT) != store.part_of(OTHER)
    return store


@pytest.fixture
def digests(store: Partitioned) -> Digests:
    digests = Digests(store, policy=Policy(minimum_delay=0))
    digests.handler("*")(lambda _: None)
    digests.add_many([(SILENT, 1), (OTHER, 1)])
    return digests


class Heard:
    """Events in their order, and the event loop's signal that one has come."""

    def __init__(self, digests: Digests, act: Callable[[Event], None] = lambda _: None) -> None:
        self.events: list[Event] = []
        self._act = act
        self._loop = asyncio.get_running_loop()
        self._came = asyncio.Event()
        digests.subscribe(self._hear)

    def _hear(self, event: Event) -> None:
        self._act(event)
        self.events.append(event)
        self._loop.call_soon_threadsafe(self._came.set)

    def of(self, kind: type[Event]) -> list[str | None]:
        return [getattr(event, "timeline", None) for event in self.events if isinstance(event, kind)]

    async def until(self, kind: type[Event]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not self.of(kind):
                self._came.clear()
                await self._came.wait()


class Pauses(Tuning):
    """Pauses without length: those after which failure in a row, and a store that heals in the second one."""

    failures: list[int]
    store: Partitioned

    def pause(self, failures: int) -> float:
        self.failures.append(failures)
        if len(self.failures) == 2:
            self.store.failing.clear()
        return 0.0


def endings_of(pipeline: Pipeline, tuning: Tuning) -> Endings:
    return Endings(pipeline, DaemonThreads(2, "endings"), on_ended=lambda: None, tuning=tuning)


def test_attempts_of_a_part_that_does_not_answer_hold_up_no_others_and_are_given_up_at_the_stop(
    store: Partitioned, digests: Digests
) -> None:
    async def end() -> None:
        pipeline, heard = digests.engine.pipeline(), Heard(digests)
        endings = endings_of(pipeline, LATE)
        first, second = sorted(claim(pipeline).deliveries, key=lambda each: each.timeline != SILENT)
        store.failing.add(store.part_of(SILENT))

        endings.end([first.judged(DELIVERED)])
        await heard.until(StoreFailed)
        endings.end([second.judged(DELIVERED)])
        await heard.until(Delivered)

        assert heard.of(Delivered) == [OTHER]
        assert len(heard.of(StoreFailed)) == 1  # the next try comes after a pause
        assert endings.is_busy
        await endings.close()
        assert heard.of(Unsettled) == [SILENT]
        assert not endings.is_busy

    asyncio.run(end())


def test_once_the_store_answers_the_rest_is_ended_without_further_pauses(
    store: Partitioned, digests: Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = Pauses()
    pauses.failures, pauses.store = [], store
    monkeypatch.setattr("digestif.worker.endings.PAGE_TIMELINES", 1)
    digests.add_many([(f"t{number}", number) for number in range(8)])

    async def end() -> None:
        pipeline, heard = digests.engine.pipeline(), Heard(digests)
        judged = [each.judged(DELIVERED) for each in claim(pipeline, 10).deliveries]
        endings = endings_of(pipeline, pauses)
        store.failing.update({0, 1})

        endings.end(judged)
        async with asyncio.timeout(PATIENCE):
            await endings.finished()

        assert len(heard.of(Delivered)) == 10
        assert pauses.failures == [1, 2]

    asyncio.run(end())


def test_attempts_that_come_after_the_stop_are_given_up(digests: Digests) -> None:
    async def end() -> None:
        pipeline, heard = digests.engine.pipeline(), Heard(digests)
        endings = endings_of(pipeline, LATE)
        late = [each.judged(DELIVERED) for each in claim(pipeline).deliveries]

        await endings.close()
        endings.end(late)

        assert set(heard.of(Unsettled)) == {SILENT, OTHER}
        assert not endings.is_busy

    asyncio.run(end())


def test_a_loop_is_idle_once_the_store_has_answered_after_all(store: Partitioned, digests: Digests) -> None:
    def heal(event: Event) -> None:
        if isinstance(event, StoreFailed):
            store.failing.clear()

    async def deliver() -> None:
        loop, heard = Loop(digests.engine.pipeline(), Limits(4, 4, 1 << 20), tuning=SOON), Heard(digests, heal)
        digests.handler(SILENT)(lambda _: store.failing.add(store.part_of(SILENT)))
        await loop.run_once()

        await loop.idle()

        assert len(heard.of(StoreFailed)) == 1
        assert set(heard.of(Delivered)) == {SILENT, OTHER}
        await loop.wind_down(0)

    asyncio.run(deliver())


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), StopIteration(), asyncio.CancelledError()])
def test_attempts_that_an_error_keeps_from_ending_are_reported_and_not_renewed(
    digests: Digests, error: BaseException
) -> None:
    """A user's clock or channel function may raise. The attempts of later pages end as usual."""

    async def end() -> None:
        heard, pipeline = Heard(digests), digests.engine.pipeline()
        first, second = claim(pipeline).deliveries
        endings = endings_of(pipeline, SOON)
        failing = [error]

        def fail_once() -> int | None:
            if failing:
                raise failing.pop()
            return None

        pipeline.now = fail_once
        endings.end([first.judged(DELIVERED)])
        await endings.finished()
        endings.end([second.judged(DELIVERED)])
        await endings.finished()

        assert heard.of(Unsettled) == [first.timeline]
        assert heard.of(Delivered) == [second.timeline]
        assert heard.of(StoreFailed) != []
        assert not first.held.is_running
        assert list(pipeline.leases._held) == []

    asyncio.run(end())
