"""Many records at once are accepted page by page; an error says of each of them what is known."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from digestif import Addition, Digests, Overloaded, Record, StoreUnavailable
from digestif.core.times import Millis
from digestif.stores.base import PAGE_RECORDS, Accepted, Arrival
from digestif.stores.memory import MemoryStore

MANY = 2 * PAGE_RECORDS + 10
RECORDS = [("t", Record(f"{number}", number, 0.0)) for number in range(MANY)]


class FullAfterAPage(MemoryStore):
    """Takes a page, and of the second one the first record."""

    answers: tuple[bool | None, ...] | None = (False, *[None] * (PAGE_RECORDS - 1))

    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        if self.ledger().accepted < PAGE_RECORDS:
            return super().add(batch, now=now)
        error = Overloaded("full")
        raise error if self.answers is None else error.knowing(self.answers)


ADDS: dict[str, Callable[[Digests, Any], object]] = {
    "add_many": Digests.add_many,
    "accept_many": Digests.accept_many,
    "accept_valid": Digests.accept_valid,
}


@pytest.mark.parametrize("add", ADDS.values(), ids=ADDS)
@pytest.mark.parametrize("known", [1, 0])
def test_an_error_in_a_later_page_knows_every_record(add: Callable[[Digests, Any], object], known: int) -> None:
    store = FullAfterAPage()
    store.answers = store.answers if known else None
    expected = (True, *[False] * (PAGE_RECORDS - 1 + known), *[None] * (MANY - PAGE_RECORDS - known))

    with Digests(store) as digests, pytest.raises(Overloaded) as caught:
        add(digests, RECORDS)

    assert caught.value.answers == expected


def test_so_does_one_beside_records_that_are_not_valid() -> None:
    with Digests(FullAfterAPage()) as digests, pytest.raises(Overloaded) as caught:
        digests.accept_valid([Addition("t", float("nan")), *RECORDS])

    assert caught.value.answers is not None
    assert caught.value.answers[:3] == (None, True, False)
    assert len(caught.value.answers) == MANY + 1


def test_of_a_single_page_no_more_is_known_than_the_store_says() -> None:
    class Gone(MemoryStore):
        def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
            raise StoreUnavailable("gone")

    with Digests(Gone()) as digests, pytest.raises(StoreUnavailable) as caught:
        digests.add_many(RECORDS[:5])

    assert caught.value.answers is None
