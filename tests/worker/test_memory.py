"""How much a worker holds: digests count as what they take in memory, not as what is stored of them."""

import threading
import tracemalloc
from pathlib import Path

import pytest

from digestif import Delivered, Digest, Digests, PutOff, Record
from digestif.attempts.room import Room
from digestif.attempts.stages import Carried
from tests.pipelines import claim
from tests.service.old_values import TEXTS, AsIs
from tests.worker.workers import PATIENCE, Ear, working

LISTS = TEXTS["lists"]
GROWTH = 10  # at least: an empty list takes 64 bytes, of which three are stored


def holding(text: bytes, *, timelines: int, records: int = 1) -> Digests:
    """An engine whose store has values of an older time."""
    digests = Digests("memory://")
    planted = Digests(digests.store, codec=AsIs())
    for timeline in range(timelines):
        planted.add_many([(f"t{timeline}", Record(f"k{record}", text, record)) for record in range(records)])
    return digests


@pytest.mark.parametrize("kind", ["lists", "nested", "objects"])
def test_a_claim_takes_as_many_digests_as_fit_once_they_are_decoded(kind: str) -> None:
    digests = holding(TEXTS[kind], timelines=20)
    digests.handler("*")(lambda _: None)

    page = claim(digests.engine.pipeline(), 20, room=Room(memory=8 * GROWTH * len(TEXTS[kind])))

    assert 1 <= len(page.deliveries) <= 8
    assert len(page.deliveries) + len(page.judged) == 20
    assert page.reasons == {"the worker holds enough records"}
    assert {judged.carried for judged in page.judged} == {Carried()}


def test_texts_count_as_little_more_than_what_is_stored() -> None:
    digests = holding(TEXTS["text"], timelines=20)
    digests.handler("*")(lambda _: None)

    page = claim(digests.engine.pipeline(), 20, room=Room(memory=11 * len(TEXTS["text"])))

    assert len(page.deliveries) == 10


def test_a_claim_does_not_hold_records_as_they_are_stored_and_decoded_together(tmp_path: Path) -> None:
    digests = Digests(f"sqlite:///{tmp_path / 'd.db'}")
    digests.handler("*")(lambda _: None)
    digests.add_many([(f"t{n}", Record("k", f"{n:07}" * 30_000, 0)) for n in range(20)])
    pipeline = digests.engine.pipeline()

    tracemalloc.start()
    try:
        page = claim(pipeline, 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    weight = sum(delivery.loaded.weight for delivery in page.deliveries)
    assert len(page.deliveries) == 20
    assert weight <= peak < 1.5 * weight
    digests.close()


@pytest.mark.parametrize("codec", ["zstd", "tests.worker.test_memory:Short"])
def test_values_of_other_codecs_count_as_more_than_what_is_stored(codec: str) -> None:
    digests = Digests("memory://", codec=codec)
    digests.handler("*")(lambda _: None)
    for number in range(10):
        digests.add(f"t{number}", [[]] * 10_000)

    page = claim(digests.engine.pipeline(), 10, room=Room(memory=100_000))

    assert len(page.deliveries) == 1  # the first goes in any case


class Short:
    """A codec that stores any list as its length, in many digits."""

    @staticmethod
    def encode(value: list[object]) -> bytes:
        return b"%040000d" % len(value)

    @staticmethod
    def decode(payload: bytes) -> list[object]:
        return [[] for _ in range(int(payload[-10:]))]


def test_a_first_digest_that_is_too_large_is_given_back_while_others_hold_memory() -> None:
    digests = holding(LISTS, timelines=1)
    digests.handler("*")(lambda _: None)
    room = Room(memory=1000, most=len(LISTS))

    page = claim(digests.engine.pipeline(), 1, room=room)

    assert not page.deliveries
    assert room.was_too_small


def test_a_digest_that_is_larger_than_all_of_the_memory_is_delivered_alone() -> None:
    digests = holding(LISTS, timelines=3)
    ear, running, most = Ear(digests), threading.Semaphore(1), []

    @digests.handler("*")
    def alone(_: Digest) -> None:
        most.append(running.acquire(blocking=False))
        threading.Event().wait(0.02)
        running.release()

    with working(digests, memory=100_000):
        ear.wait_for(Delivered, 3)

    assert most == [True] * 3


def test_a_large_digest_waits_for_small_ones_and_is_next() -> None:
    digests = holding(LISTS, timelines=1)
    ear, released = Ear(digests), threading.Event()
    digests.handler("small:*")(lambda _: released.wait(PATIENCE))
    digests.handler("t0")(lambda _: None)
    digests.add("small:1", "x" * 60_000)

    with working(digests, memory=100_000):
        ear.wait_for(PutOff, 1)
        assert not ear.of(Delivered)
        released.set()
        ear.wait_for(Delivered, 2)

    assert [event.timeline for event in ear.of(Delivered)] == ["small:1", "t0"]
