"""Where a search for due timelines begins, while the server can't remove dead versions."""

from collections.abc import Iterator

import pytest

from digestif import Digests, Policy
from digestif.core.times import Millis
from digestif.stores.base import Completion
from digestif.stores.postgres.search import MARGIN, START, Floors, SearchFloors
from digestif.testing.servers import becomes_true
from tests.stores.postgres.searches import slow_searches

NOW: Millis = 10_000_000
WAITING, READY, UNTIL = range(3)


def learned(*found: tuple[int, Millis], full: bool = False, took: float = 1.0, longest_seconds: float = 30.0) -> Floors:
    floors = SearchFloors(longest_seconds=longest_seconds)
    floors.learn(Floors(), found, full=full, now=NOW, took=took)
    return floors.floors()


def test_a_quick_search_leaves_nothing_behind() -> None:
    assert learned((WAITING, 5_000), took=0.001) == Floors() == (START, START, START)


def test_after_a_slow_search_the_next_begins_a_little_before_the_lowest_of_each_order() -> None:
    found = (READY, 4_000_000), (WAITING, 5_000_000), (WAITING, 6_000_000)

    assert learned(*found) == (5_000_000 - MARGIN, 4_000_000 - MARGIN, NOW - MARGIN)


def test_an_order_that_a_full_page_does_not_show_begins_no_later_than_the_page_ends() -> None:
    assert learned((READY, 4_000_000), (READY, 4_500_000), full=True).waiting == 4_500_000 - MARGIN


def test_what_became_ready_before_its_time_raises_no_floor_above_now() -> None:
    assert learned((READY, NOW + 5_000)).ready == NOW - MARGIN


def test_a_search_from_the_start_is_made_again_when_the_time_is_over() -> None:
    assert learned((WAITING, 5_000_000), longest_seconds=0.0) == Floors()


@pytest.fixture
def digests(url: str) -> Iterator[Digests]:
    with slow_searches(url, Policy(minimum_delay=0)) as digests:
        yield digests


def claimed(digests: Digests, *, now: Millis | None = None) -> list[str]:
    leases = digests.store.claim(0, 10, token="w", lease=30_000, now=now).leases
    digests.store.complete([Completion(lease, 0) for lease in leases], now=now)
    return [lease.timeline for lease in leases]


def test_what_comes_to_lie_below_the_floor_is_found_by_the_next_search_from_the_start(url: str) -> None:
    with slow_searches(url, Policy(minimum_delay=0), longest_seconds=0.3) as digests:
        digests.add("early", 1, now=1000.0)
        digests.pause("early")
        assert claimed(digests) == []
        digests.resume("early")

        assert becomes_true(lambda: claimed(digests) == ["early"])


def test_a_time_of_the_callers_choice_is_looked_for_from_the_start(digests: Digests) -> None:
    digests.add("early", 1, now=1000.0)
    digests.pause("early")
    assert claimed(digests) == []
    digests.resume("early")

    assert claimed(digests) == []  # the floor is above it
    assert claimed(digests, now=2_000_000) == ["early"]
