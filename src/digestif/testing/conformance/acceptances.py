"""The answer to a record that was accepted: its key, and when its timeline is delivered next."""

from typing import Any

import pytest

from digestif import Addition, Digests, InvalidRecord, Record
from digestif.core.terms import Terms
from digestif.stores.base import Accepted, Arrival, Store
from digestif.testing.conformance.actions import T, deliver, let_wait
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.conformance.port import NOW, open_digest, release
from digestif.testing.conformance.windows import clock, nine


class Acceptances(Suite):
    def test_the_first_record_is_due_at_once(self, digests: Digests) -> None:
        """Fact 72. An unknown timeline: it is ready, and due now. The key is the given one, or one that was chosen."""
        given = digests.accept("t", "hello", key="a", now=T)
        chosen = digests.accept("u", "hello", now=T)

        assert (given.key, given.ready, given.due) == ("a", True, T)
        assert digests.peek("u", now=T)[0].key == chosen.key

    def test_a_record_says_where_it_moved_its_timeline(self, digests_with: DigestsWith) -> None:
        """Fact 72. Waiting, due T, increment 1: the answer is the due time that `timeline` shows afterwards."""
        digests = digests_with(minimum_delay=0, increment_delay=1, maximum_delay=10)
        let_wait(digests, "t", due=T, last=T)

        answers = [digests.accept("t", "more", now=T) for _ in range(3)]

        assert [(answer.ready, answer.due) for answer in answers] == [(False, T + 1), (False, T + 2), (False, T + 3)]
        assert digests.timeline("t").due == T + 3

    def test_a_record_that_joins_a_ready_timeline_is_due_with_it(self, digests: Digests) -> None:
        """Fact 72. Ready since T: a record at T+5 does not change when it is due."""
        digests.accept("t", "first", now=T)

        answers = [digests.accept("t", n, now=T + 5) for n in range(2)]

        assert [(answer.ready, answer.due) for answer in answers] == [(False, T)] * 2

    def test_what_waits_for_a_retry_is_due_at_the_retry(self, store: Store) -> None:
        """Fact 72. A digest that failed is tried again at NOW+500: so is what joins meanwhile."""
        [accepted] = store.add([_asking("t")], now=NOW)
        lease = open_digest(store)
        release(store, lease, until=NOW + 500)

        [joined] = store.add([_asking("t")], now=NOW + 1)

        assert accepted == Accepted(ready=True, due=NOW)
        assert joined == Accepted(due=NOW + 500)

    def test_while_it_is_open_paused_or_off_no_due_time_is_known(self, digests: Digests) -> None:
        """Fact 72. Open, paused and switched off: the record is accepted, or declined, and there is no due time."""
        digests.add("open", 1, now=T)
        digests.pause("paused", now=T)
        digests.prefer("off", "off", now=T)

        with digests.digest("open", now=T):
            answers = [digests.accept(timeline, 2, now=T) for timeline in ("open", "paused", "off")]

        assert [(answer.ready, answer.due) for answer in answers] == [(False, None)] * 3

    def test_a_window_decides_when_it_is_due(self, digests_with: DigestsWith) -> None:
        """Fact 72. Daily at nine: a record at noon is due at nine of the next day."""
        digests = digests_with(**nine())

        assert digests.accept("t", 1, now=clock("12:00")).due == clock("09:00", day=1)

    def test_many_records_say_what_became_of_each(self, digests: Digests) -> None:
        """Fact 72. Two timelines, one of them twice, each with its own key: answers in the order of the records."""
        additions: list[tuple[str, Any] | Addition] = [
            ("a", Record("x", 1, T)),
            Addition("b", 1, key="y", within=60),
            Addition("a", 2, key="z"),
        ]

        answers = digests.accept_many(additions, now=T)

        assert [(each.key, each.ready, each.due) for each in answers] == [
            ("x", True, T),
            ("y", True, T),
            ("z", False, T),
        ]
        assert digests.timeline("a").pending == 2

    def test_more_than_a_page_is_answered_in_order(self, digests: Digests) -> None:
        """Fact 72. 1,500 records of 30 timelines in two calls of the store: the keys come back in their order."""
        additions = [Addition(f"t{n % 30}", n, key=f"k{n}") for n in range(1500)]

        answers = digests.accept_many(additions, now=T)

        assert [answer.key for answer in answers] == [f"k{n}" for n in range(1500)]
        assert sum(answer.ready for answer in answers) == 30
        assert {answer.due for answer in answers} == {T}

    def test_valid_records_are_accepted_beside_wrong_ones(self, digests: Digests) -> None:
        """Fact 72. A wrong key and a value that can't be stored: the others are accepted, each has its answer."""
        wrong = [Addition("", 2), Addition("t", {1: object()})]
        additions: list[tuple[str, Any] | Addition] = [Addition("t", 1, key="a"), *wrong, ("t", Record("d", 4, T))]

        first, second, third, fourth = digests.accept_valid(additions, now=T)

        assert isinstance(second, InvalidRecord)
        assert isinstance(third, InvalidRecord)
        assert [getattr(each, "key", None) for each in (first, fourth)] == ["a", "d"]
        assert digests.ledger().accepted == 2

    def test_one_wrong_record_of_many_keeps_all_from_being_accepted(self, digests: Digests) -> None:
        """Fact 72. `accept_many` is all or nothing, as `add_many` is."""
        with pytest.raises(InvalidRecord, match="record 1: "):
            digests.accept_many([Addition("t", 1), Addition("t", 2, within=-1)], now=T)

        assert digests.ledger().accepted == 0

    def test_the_answers_of_dropped_records_are_those_of_add(self, store: Store) -> None:
        """Fact 72. Capacity 2, four records that ask: dropped ones are counted as without the question."""
        batch = [_asking("t", f"r{n}", Terms(capacity=2), timestamp=float(n)) for n in range(4)]

        answers = store.add(batch, now=NOW)

        assert answers == [
            Accepted(ready=True, due=NOW),
            Accepted(due=NOW),
            Accepted(dropped=1, due=NOW),
            Accepted(dropped=1, due=NOW),
        ]

    def test_a_timeline_that_was_delivered_is_due_by_its_cool_down(self, digests_with: DigestsWith) -> None:
        """Fact 72. Delivered at T, cool-down 60, increment 30: the first record after it is due T+90."""
        digests = digests_with(minimum_delay=60, increment_delay=30, maximum_delay=600)
        digests.accept("t", 1, now=T)
        deliver(digests, "t", now=T)

        assert digests.accept("t", 2, now=T + 10).due == T + 90


def _asking(timeline: str, key: str = "k", terms: Terms | None = None, *, timestamp: float = 0.0) -> Arrival:
    return Arrival(timeline, key, b"1", timestamp, None, terms or Terms(), asks_due=True)
