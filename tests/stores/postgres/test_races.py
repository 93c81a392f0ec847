"""Two callers who do the same at the same time: it happens once, and is counted once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from digestif import Digests, Policy
from tests.stores.postgres.servers import empty_database

MANY = 12


@pytest.fixture
def digests() -> Iterator[Digests]:
    with empty_database() as url, Digests(url, policy=Policy(attempts=1)) as digests:
        yield digests


def bury(digests: Digests, timeline: str) -> str:
    digests.add(timeline, 1)
    with pytest.raises(ZeroDivisionError), digests.digest(timeline) as digest:
        raise ZeroDivisionError
    return digest.id


def at_once(*calls: Callable[[], bool]) -> list[bool]:
    together = Barrier(len(calls))

    def run(call: Callable[[], bool]) -> bool:
        together.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def test_a_dead_letter_is_discarded_once(digests: Digests) -> None:
    for number in range(MANY):
        letter = bury(digests, f"t{number}")
        assert sum(at_once(*[lambda letter=letter: digests.discard(letter)] * 4)) == 1

    assert (digests.ledger().dead, digests.ledger().deleted) == (0, MANY)
    assert digests.verify()


def test_a_timeline_may_be_made_by_a_pause_and_an_add_at_once(digests: Digests) -> None:
    for number in range(MANY):
        name = f"t{number}"
        at_once(lambda name=name: digests.pause(name), lambda name=name: digests.add(name, 1))  # type: ignore[misc]

        assert (digests.timeline(name).paused, digests.timeline(name).pending) == (True, 1)
    assert digests.verify()
