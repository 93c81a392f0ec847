"""What a worker reads: one digest that can't be read takes no neighbour along, and no more is read than fits."""

import asyncio
from collections.abc import Sequence

import pytest

from digestif import Delivered, Digest, Digests, Failed, Policy, PutOff, Returned, Worker
from digestif.attempts.room import Room
from digestif.core.times import Millis
from digestif.stores.base import Take, Taken
from digestif.stores.memory import MemoryStore
from tests.pipelines import claim
from tests.worker.workers import Ear

T = 1_700_000_000.0


class Poor(MemoryStore):
    """Reading the digest of `bad`, or several at once, fails."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def take(self, requests: Sequence[Take], *, now: Millis | None) -> list[Taken | None]:
        if len(requests) > 1 or requests[0].lease.timeline == "bad":
            raise self._error
        return super().take(requests, now=now)


@pytest.mark.parametrize("error", [MemoryError(), ValueError("odd")], ids=repr)
def test_a_digest_that_can_not_be_read_fails_alone(error: Exception) -> None:
    digests = Digests(Poor(error))
    ear = Ear(digests)
    digests.handler("*")(lambda digest: None)
    for timeline in ("bad", "good", "better"):
        digests.add(timeline, 1, now=T)

    asyncio.run(Worker(digests).run_once(T))

    assert {event.timeline for event in ear.of(Delivered)} == {"good", "better"}
    assert [(event.timeline, event.error) for event in ear.of(Failed)] == [("bad", error)]


def test_what_is_read_one_by_one_fits_into_the_room_too() -> None:
    digests = Digests(Poor(MemoryError()), policy=Policy(attempts=1))
    digests.handler("*")(lambda digest: None)
    for number in range(5):
        digests.add(f"t{number}", "x" * 1000, now=T)

    page = claim(digests.engine.pipeline(T), 10, room=Room(memory=10_000))

    assert len(page.deliveries) == 2  # the third would not fit
    assert page.reasons == {"the worker holds enough records"}


def test_a_worker_whose_task_is_cancelled_gives_back_what_its_handlers_had_begun() -> None:
    """It may have gone out: it is frozen, and no failure is counted."""
    digests = Digests("memory://")
    ear = Ear(digests)
    digests.add("t", 1)
    begun = asyncio.Event()

    @digests.handler("t")
    async def send(_: Digest) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def work() -> None:
        serving = asyncio.create_task(digests.serve())
        await begun.wait()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.wait([serving])

    asyncio.run(work())

    assert [event.begun for event in ear.of(Returned)] == [True]
    assert not ear.of(Failed)
    assert not ear.of(PutOff)
