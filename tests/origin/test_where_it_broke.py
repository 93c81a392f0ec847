"""Where the origin broke: its sizes, its lost records and its stuck timelines, each walked through here."""

import pytest

from digestif import Digests, Record, Store
from digestif.stores.base import PAGE_RECORDS
from digestif.testing.conformance.actions import DAY, T, add_all, deliver, fail, keys, let_wait, numbered, scheduled
from digestif.testing.conformance.base import DigestsWith
from digestif.testing.partitioned import Partitioned
from tests.origin.steps import deliver_when_due, due
from tests.origin.stores import OnEveryStore

pytestmark = pytest.mark.long

DATES = {
    "yesterday": T - DAY,
    "in 1970": 0.0,
    "before 1970": -1e9,
    "in a minute": T + 60,
    "next year": T + 365 * DAY,
    "in 2,900 years": 9.5e10,
}


class TestSizes(OnEveryStore):
    @pytest.fixture
    def watched(self, store: Store) -> Partitioned:
        """The store, with a note of the largest page of each verb."""
        return Partitioned([store])

    def test_more_than_four_thousand_timelines_may_be_due_at_once(
        self, digests_with: DigestsWith, watched: Partitioned
    ) -> None:
        """Fact 15. 4,001 due: the origin moved them in one call, which failed for good from 4,000 on."""
        digests = digests_with(over=watched)
        timelines = [f"t{n}" for n in range(4_001)]
        digests.add_many([(timeline, "an event") for timeline in timelines], first_delay=60, now=T)

        given = scheduled(digests, T + 60)

        assert sorted(given) == sorted(timelines)
        assert 0 < watched.largest["schedule"] <= 1_000  # a store may give smaller pages

    def test_more_than_eight_thousand_records_may_be_in_one_digest(
        self, digests_with: DigestsWith, watched: Partitioned
    ) -> None:
        """Fact 23. 7,998 in a failed digest, 8,192 in the next try: the origin failed for good from 7,998 on."""
        digests = digests_with(over=watched)
        add_all(digests, "t", numbered(range(7_998)))
        first = fail(digests, "t")
        add_all(digests, "t", numbered(range(7_998, 8_192)))

        second = deliver(digests, "t", 0)

        assert keys(first) == [f"r{n}" for n in range(7_997, -1, -1)]
        assert keys(second) == [f"r{n}" for n in range(8_191, -1, -1)]
        assert digests.ledger().delivered == 8_192
        assert 0 < watched.largest["take"] <= PAGE_RECORDS
        assert 0 < watched.largest["add"] <= PAGE_RECORDS


class TestTimesOfEvents(OnEveryStore):
    def test_the_date_of_an_event_does_not_decide_when_it_is_delivered(self, digests: Digests) -> None:
        """Facts 1, 2, 3, 17. Ready at once, 300 s of cool-down, 30 s of increment, as for an event of now."""
        for date, timestamp in DATES.items():
            assert digests.add(date, Record("first", 1, timestamp), now=T) is True
            assert digests.explain(date, now=T).facts["due"] == T
            assert keys(deliver(digests, date, now=T)) == ["first"]
            digests.add(date, Record("second", 2, timestamp), now=T + 1)
        assert {due(digests, date) for date in DATES} == {T + 330}

        assert scheduled(digests, T + 329.999) == []
        assert sorted(scheduled(digests, T + 330)) == sorted(DATES)
        for date, timestamp in DATES.items():
            assert list(deliver(digests, date, now=T + 330)) == [Record("second", 2, timestamp)]

    def test_the_date_of_an_event_does_not_hide_a_lost_dispatch(self, digests: Digests) -> None:
        """Facts 27, 28. The origin ordered its ready set by date, and maintenance did not see what lay ahead."""
        for date, timestamp in DATES.items():
            digests.add(date, Record("a", 1, timestamp), now=T)

        assert digests.maintenance(now=T + 299) == 0
        assert digests.maintenance(now=T + 300) == len(DATES)
        assert sorted(scheduled(digests, T + 300)) == sorted(DATES)

    def test_the_date_of_an_event_sorts_it(self, digests: Digests) -> None:
        """Fact 16. Whatever their arrival, the newest by date comes first; what has one date comes by arrival."""
        for n, timestamp in enumerate(DATES.values()):
            digests.add("t", Record(f"{n}", n, timestamp), now=T)
        for key in ("z", "a", "m"):
            digests.add("t", Record(key, key, T), now=T)

        assert keys(deliver(digests, "t")) == ["5", "4", "3", "m", "a", "z", "0", "1", "2"]


class TestLoss(OnEveryStore):
    def test_an_event_that_is_reported_again_during_its_delivery_comes_in_the_next_digest(
        self, digests: Digests
    ) -> None:
        """Facts 6, 20. One healthy worker: the origin's close removed the value that the later version stands on."""
        digests.add("t", Record("a", "first report", T), now=T)

        with digests.digest("t", now=T + 1) as first:
            digests.add("t", Record("a", "second report", T + 1), now=T + 1)

        assert list(first) == [Record("a", "first report", T)]
        assert list(deliver_when_due(digests)) == [Record("a", "second report", T + 1)]
        assert (digests.ledger().delivered, digests.ledger().superseded) == (2, 0)

    def test_an_event_that_waits_for_hours_is_still_there(self, digests: Digests) -> None:
        """Facts 17, 28. The origin let data expire after an hour; here six days without a scheduler do no harm."""
        let_wait(digests, "t", due=T + 300, last=T)
        add_all(digests, "t", numbered(range(3)))

        digests.maintenance(now=T + 6 * DAY)

        assert scheduled(digests, T + 6 * DAY) == ["t"]
        assert keys(deliver(digests, "t", now=T + 6 * DAY)) == ["r2", "r1", "r0"]

    def test_what_does_expire_is_counted(self, digests: Digests) -> None:
        """Facts 17, 28. After the seven days of the default, by arrival and by maintenance, never by itself."""
        let_wait(digests, "t", due=T + 300, last=T)
        digests.add("t", Record("old", 1, T), now=T)
        digests.add("t", Record("young", 2, T), now=T + 60)

        digests.maintenance(now=T + 7 * DAY)

        assert digests.ledger().expired == 1
        scheduled(digests, T + 7 * DAY)
        assert keys(deliver(digests, "t", now=T + 7 * DAY)) == ["young"]

    def test_a_timeline_may_be_named_like_a_part_of_another(self, digests: Digests) -> None:
        """Facts 16, 29. `a:d` was where the origin kept the open digest of `a`."""
        for timeline in ("a", "a:d", "a:l", "a:r:x"):
            digests.add(timeline, Record("x", timeline, T), now=T)
        fail(digests, "a")
        digests.delete("a", now=T)

        assert [deliver(digests, timeline)[0].value for timeline in ("a:d", "a:l", "a:r:x")] == ["a:d", "a:l", "a:r:x"]
