"""Records as values: they unpack and compare by their fields, and give their time as a datetime."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from digestif import Digests, Record


def test_a_record_gives_its_time_as_a_datetime_in_utc() -> None:
    assert Record("k", None, 1_763_452_800.25).datetime == datetime(2025, 11, 18, 8, 0, 0, 250_000, tzinfo=UTC)
    assert Record("k", None, 0).datetime.tzinfo is UTC
    assert Record("k", None, -86400.5).datetime == datetime(1969, 12, 30, 23, 59, 59, 500_000, tzinfo=UTC)


def test_a_datetime_that_was_added_comes_back_as_the_same_moment() -> None:
    at = datetime(2026, 3, 29, 2, 30, 0, 123_456, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    with Digests("memory://") as digests:
        digests.add("t", None, timestamp=at)

        [record] = digests.peek("t")

    assert record.datetime == at


@pytest.mark.parametrize("timestamp", [1e300, -1e12, 253402300800.0, -62135596801.0])
def test_a_time_in_no_year_of_the_calendar_is_refused_with_its_number(timestamp: float) -> None:
    with pytest.raises(ValueError, match=r"seconds since 1970 are in none of the years 1 to 9999") as refused:
        _ = Record("k", None, timestamp).datetime

    assert repr(timestamp) in str(refused.value)


def test_a_record_is_still_its_three_fields() -> None:
    key, value, timestamp = record = Record("k", 1, 2.0)

    assert (key, value, timestamp) == record == Record(*record)
    assert Record._fields == ("key", "value", "timestamp")
    assert hash(record) == hash(Record("k", 1, 2.0))
