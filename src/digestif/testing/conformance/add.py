"""Adding: which record makes its timeline ready, and what an add does to one that waits."""

import pytest

from digestif import Digests, Record
from digestif.core.terms import Terms
from digestif.stores.base import Arrival, Store
from digestif.testing.conformance.actions import DAY, T, add_all, assert_leaves_at, deliver, keys, let_wait, numbered
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.conformance.port import NOW, arrive, maintain

dated = pytest.mark.parametrize("timestamp", [T - DAY, T + 365 * DAY, 0.0, -1e9, 9e10])


class Arrivals(Suite):
    def test_the_first_record_of_an_unknown_timeline_makes_it_ready(self, digests: Digests) -> None:
        """Fact 1. An unknown timeline: add answers exactly True and the timeline is ready."""
        answer = digests.add("t", "hello", now=T)

        assert answer is True
        assert digests.timeline("t").state == "ready"
        assert digests.timeline("t").pending == 1

    def test_a_further_record_of_a_ready_timeline_changes_nothing(self, digests: Digests) -> None:
        """Fact 2. A ready timeline: add answers exactly False; its ready time stays, whatever the timestamp."""
        digests.add("t", "first", now=T)

        answers = [digests.add("t", "more", timestamp=T + offset, now=T + 5) for offset in (-DAY, 0, DAY)]

        assert [answer is False for answer in answers] == [True, True, True]
        assert digests.timeline("t").state == "ready"
        assert digests.maintenance(T, now=T + 5) == 1  # it was ready since T
        assert digests.timeline("t").due == T

    def test_a_record_moves_a_waiting_timeline_by_the_increment(self, digests_with: DigestsWith) -> None:
        """Fact 3. Waiting, due T, last delivery T, increment 1, maximum 10: add makes it due T+1, answers False."""
        digests = digests_with(minimum_delay=0, increment_delay=1, maximum_delay=10)
        let_wait(digests, "t", due=T, last=T)

        answer = digests.add("t", "more", now=T)

        assert answer is False
        assert digests.timeline("t").state == "waiting"
        assert digests.timeline("t").due == T + 1

    def test_each_record_of_a_call_has_its_own_policy(self, store: Store) -> None:
        """Fact 7. Records of several policies in one call of the port: each is placed, and expires, by its own."""
        arrive(store, "ready", ["a"])
        arrive(store, "steady", ["a"])
        delays = {"soon": Terms(first_delay=10), "later": Terms(first_delay=20)}
        ttls = {"steady": Terms(), "ready": Terms(ttl=100)}

        batch = [Arrival(timeline, "b", b"b", 0.0, None, terms) for timeline, terms in (delays | ttls).items()]
        store.add(batch, now=NOW)

        assert [store.inspect(timeline).at for timeline in delays] == [NOW + 10, NOW + 20]
        assert maintain(store, now=NOW + 100).expired == [("ready", 1)]

    def test_increments_end_at_the_maximum_after_the_last_delivery(self, digests_with: DigestsWith) -> None:
        """Fact 3. Waiting, due T, last delivery T, increment 1, maximum 10: twenty adds make it due T+10."""
        digests = digests_with(minimum_delay=0, increment_delay=1, maximum_delay=10)
        let_wait(digests, "t", due=T, last=T)

        dues = []
        for _ in range(20):
            digests.add("t", "more", now=T)
            dues.append(digests.timeline("t").due)

        assert dues == [T + min(n, 10) for n in range(1, 21)]

    def test_the_cap_may_move_a_waiting_timeline_earlier(self, digests: Digests) -> None:
        """Fact 4. Waiting, due T+1, last delivery T, maximum 0 given to the call: add makes it due T."""
        let_wait(digests, "t", due=T + 1, last=T)

        answer = digests.add("t", "more", maximum_delay=0, now=T)

        assert answer is False
        assert digests.timeline("t").due == T

    def test_a_timeline_that_was_never_delivered_stays_where_it_is(self, digests: Digests) -> None:
        """Fact 4. Waiting and never delivered, due T: an add at T+100 leaves T."""
        digests.add("t", "first", first_delay=60, now=T - 60)

        answer = digests.add("t", "more", now=T + 100)

        assert answer is False
        assert digests.timeline("t").state == "waiting"
        assert digests.timeline("t").due == T

    def test_the_same_key_again_replaces_the_record(self, digests: Digests) -> None:
        """Fact 6. The same record key added again: one record, with the new value and timestamp."""
        digests.add("t", Record("a", "old", T + 9), now=T)

        digests.add("t", Record("a", "new", T - 9), now=T + 1)

        assert digests.timeline("t").pending == 1
        assert list(deliver(digests, "t")) == [Record("a", "new", T - 9)]
        assert digests.ledger().superseded == 1
        assert digests.ledger().delivered == 1

    def test_a_record_without_key_and_timestamp_gets_them(self, digests: Digests) -> None:
        """Fact 5. An added record reads back equal; a key and a time that were not given are chosen for it."""
        digests.add("t", "one", now=T)
        digests.add("t", "two", now=T + 1.5)

        digest = deliver(digests, "t", now=T + 2)

        assert [record.value for record in digest] == ["two", "one"]
        assert [record.timestamp for record in digest] == [T + 1.5, T]
        assert len({record.key for record in digest}) == 2

    def test_delays_given_to_add_override_the_policy(self, digests_with: DigestsWith) -> None:
        """Fact 7. Delays passed to add override the policy; omitted ones fall back."""
        digests = digests_with(first_delay=5, minimum_delay=10, increment_delay=20, maximum_delay=100)
        for timeline in "abcd":
            digests.add(timeline, "delivered before", first_delay=0, now=T)
            deliver(digests, timeline, now=T)

        digests.add("a", "more", now=T)
        digests.add("b", "more", increment_delay=3, now=T)
        digests.add("c", "more", maximum_delay=12, now=T)
        digests.add("d", "more", increment_delay=70, now=T)
        digests.add("e", "first", now=T)
        digests.add("f", "first", first_delay=50, now=T)

        assert [digests.timeline(key).due for key in "abcdef"] == [T + 30, T + 13, T + 12, T + 80, T + 5, T + 50]

    def test_a_first_delay_of_zero_given_to_add_makes_it_ready(self, digests_with: DigestsWith) -> None:
        """Fact 7. Delays passed to add override the policy, zero too."""
        digests = digests_with(first_delay=5)

        assert digests.add("t", "first", first_delay=0, now=T) is True
        assert digests.timeline("t").state == "ready"

    @dated
    def test_the_time_of_the_event_never_decides_when_things_run(self, digests: Digests, timestamp: float) -> None:
        """Fact 41. Records dated yesterday, next year, 1970 or before it: due times are those of the engine's clock."""
        answer = digests.add("t", Record("a", 1, timestamp), now=T)
        first = deliver(digests, "t", 60, now=T)
        digests.add("t", Record("b", 2, timestamp), increment_delay=5, now=T + 1)

        assert answer is True
        assert first[0].timestamp == timestamp
        assert digests.timeline("t").due == T + 65
        assert_leaves_at(digests, "t", T + 65)

    @dated
    def test_a_lost_dispatch_is_found_again_whatever_the_time_of_the_event(
        self, digests: Digests, timestamp: float
    ) -> None:
        """Fact 41. When a timeline became ready is a time of the engine's clock: maintenance goes by that."""
        digests.add("t", Record("a", 1, timestamp), now=T)

        assert digests.maintenance(T - 0.001, now=T) == 0
        assert digests.maintenance(T, now=T) == 1
        assert list(digests.schedule(T, now=T)) == [("t", T)]

    @dated
    def test_first_delays_silence_and_deadlines_count_from_the_arrival(
        self, digests_with: DigestsWith, timestamp: float
    ) -> None:
        """Fact 41. Delays and deadlines count from the arrival of a record, not from the time of its event."""
        digests = digests_with(first_delay=60, quiet=60, maximum_delay=100, minimum_delay=0)
        digests.add("calm", Record("a", 1, timestamp), now=T)
        digests.add("urgent", Record("a", 1, timestamp), within=10, now=T)

        assert [digests.timeline(name).due for name in ("calm", "urgent")] == [T + 60, T + 10]
        digests.add("calm", Record("b", 1, timestamp), now=T + 50)
        assert digests.timeline("calm").due == T + 100

    def test_many_records_are_added_in_their_order(self, digests: Digests) -> None:
        """Fact 1. Of several records in one call, the first of each unknown timeline answers True."""
        items = [("a", Record("1", 1, T)), ("b", Record("1", 2, T)), ("a", Record("2", 3, T)), ("a", Record("1", 4, T))]

        answers = digests.add_many(items, now=T)

        assert answers == [True, True, False, False]
        assert [(record.key, record.value) for record in deliver(digests, "a")] == [("1", 4), ("2", 3)]
        assert keys(deliver(digests, "b")) == ["1"]

    def test_more_records_than_a_page_are_added_in_one_call(self, digests: Digests) -> None:
        """Fact 1. A call with more than a page of records answers for each of them."""
        answers = add_all(digests, "t", numbered(range(2_500)))

        assert answers == [True] + [False] * 2_499
        assert digests.timeline("t").pending == 2_500
