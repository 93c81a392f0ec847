"""Which digests are new to the clients of the event stream, from one look at the history to the next."""

import pytest

from digestif.core.records import HistoryEntry, Outcome
from digestif.service.api import digest_feed
from digestif.service.api.digest_feed import BEGINNING, DigestFeed, missed, number_of


def ended(at: float, name: str = "d") -> HistoryEntry:
    return HistoryEntry(
        id=name,
        timeline="t",
        outcome=Outcome.DELIVERED,
        revision=1,
        attempts=1,
        records=1,
        dropped=0,
        opened=at,
        ended=at,
    )


def history(first: int, last: int) -> list[HistoryEntry]:
    """Digests that ended at these seconds, the latest first."""
    return [ended(at) for at in range(last, first - 1, -1)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_feed, "HISTORY_LIMIT", 10)
    monkeypatch.setattr(digest_feed, "RECENT", 4)


def test_new_digests_come_once_the_oldest_first() -> None:
    feed = DigestFeed(history(1, 3))

    assert feed.take(history(2, 5)) == [ended(4), ended(5)]
    assert feed.take(history(2, 5)) == []


def test_a_digest_that_is_committed_after_one_that_ended_later_is_new() -> None:
    feed = DigestFeed([ended(3), ended(1)])

    assert feed.take([ended(2), ended(3), ended(1)]) == [ended(2)]


def test_of_two_that_ended_at_once_the_second_is_new() -> None:
    feed = DigestFeed([ended(1, "a")])

    assert feed.take([ended(1, "b"), ended(1, "a")]) == [ended(1, "b")]


def test_digests_behind_a_full_history_are_never_new() -> None:
    feed = DigestFeed(history(11, 20))
    feed.take(history(15, 24))

    assert feed.take(history(1, 10)) == []
    assert feed.take(history(11, 20)) == []


def test_a_look_reaches_the_known_digests_if_its_older_half_is_known() -> None:
    feed = DigestFeed(history(1, 10))

    assert feed.is_reached_by(history(9, 12))
    assert not feed.is_reached_by(history(10, 13))
    assert DigestFeed([]).is_reached_by([])


def test_there_is_a_gap_if_all_of_a_full_history_is_new() -> None:
    feed = DigestFeed(history(1, 10))

    assert not feed.has_gap_to(history(10, 19))
    assert feed.has_gap_to(history(11, 20))
    assert not DigestFeed([]).has_gap_to(history(1, 9))


def test_a_client_that_saw_no_digest_resumes_behind_the_last_one_before_it_came() -> None:
    feed = DigestFeed(history(1, 3))

    assert missed(history(1, 5), feed.last) == [ended(4), ended(5)]
    assert missed(history(1, 2), DigestFeed([]).last) == [ended(1), ended(2)]
    assert DigestFeed([]).last == BEGINNING


@pytest.mark.parametrize(("last", "first"), [(number_of(ended(3, "deleted")), 3), ("nonsense", 1), ("", 1)])
def test_a_client_whose_last_digest_is_gone_resumes_at_its_time(last: str, first: int) -> None:
    assert missed(history(1, 5), last) == [ended(at) for at in range(first, 6)]


def test_a_client_that_names_no_digest_missed_none() -> None:
    assert missed(history(1, 5), None) == []
