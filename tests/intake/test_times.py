"""Times and durations as callers have them: datetimes with a zone, timedeltas, and seconds."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from digestif import (
    AsyncDigests,
    Budget,
    ConfigError,
    Digests,
    Exponential,
    Intervals,
    InvalidRecord,
    Policy,
    Record,
    Retry,
    RetryLater,
    Unavailable,
    Window,
    Worker,
)
from digestif.channels import DeliveryFailed

HOUR = timedelta(hours=1)
NAIVE = datetime(2026, 1, 2, 9, 30)  # noqa: DTZ001  # that is the point
BERLIN = NAIVE.replace(tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.fixture
def digests() -> Digests:
    return Digests("memory://", policy=Policy(first_delay=60))


# Timestamps


@pytest.mark.parametrize("at", [BERLIN, BERLIN.astimezone(UTC)], ids=["Berlin", "UTC"])
def test_a_timestamp_may_be_a_datetime_with_a_zone(digests: Digests, at: datetime) -> None:
    digests.add("t", 1, timestamp=at)
    digests.add("t", Record("k", 1, cast("float", at)))  # it reads back as seconds

    assert {record.timestamp for record in digests.peek("t")} == {1767342600.0}


@pytest.mark.parametrize(
    "add", [lambda d: d.add("t", 1, timestamp=NAIVE), lambda d: d.add("t", Record("k", 1, cast("float", NAIVE)))]
)
def test_a_datetime_without_a_zone_is_refused_with_what_to_do(digests: Digests, add: Callable[[Digests], Any]) -> None:
    with pytest.raises(InvalidRecord, match=r"timestamp: .* has no time zone.*tzinfo=UTC.*astimezone"):
        add(digests)

    assert digests.ledger().accepted == 0


@pytest.mark.parametrize("timestamp", [10**11, 1e11, 1_767_346_200_000, 1_767_346_200_000_000, 1e300])
def test_milliseconds_are_refused_as_such(digests: Digests, timestamp: float) -> None:
    with pytest.raises(InvalidRecord, match=r"milliseconds.*divide milliseconds by 1000"):
        digests.add("t", 1, timestamp=timestamp)
    with pytest.raises(InvalidRecord, match=r"record 1: timestamp: .* milliseconds"):
        digests.add_many([("t", 1), ("t", Record("k", 1, timestamp))])


def test_the_largest_number_of_seconds_is_just_below(digests: Digests) -> None:
    digests.add("t", 1, timestamp=1e11 - 1)
    digests.add("t", 1, timestamp=-1e300)

    assert [record.timestamp for record in digests.peek("t")] == [1e11 - 1, -1e300]


# Durations


DURATIONS = ["first_delay", "minimum_delay", "increment_delay", "maximum_delay", "quiet", "ttl", "give_up_after"]


@pytest.mark.parametrize("field", DURATIONS)
@pytest.mark.parametrize("given", [timedelta(minutes=90), timedelta(milliseconds=250)], ids=str)
def test_a_policy_with_a_timedelta_is_the_one_with_its_seconds(field: str, given: timedelta) -> None:
    others: dict[str, Any] = {"minimum_delay": 0, "maximum_delay": 7200} if field != "maximum_delay" else {}
    others |= {"ttl": 86400} if field != "ttl" else {"maximum_delay": 0}
    others |= {"minimum_delay": 0} if field == "maximum_delay" else {}
    by_delta, by_seconds = ({**others, field: it} for it in (given, given.total_seconds()))

    assert Policy(**by_delta) == Policy(**by_seconds)
    assert str(Policy(**by_delta)) == str(Policy(**by_seconds))
    assert Policy.parse(str(Policy(**by_delta))) == Policy(**by_seconds)
    assert hash(Policy(**by_delta)) == hash(Policy(**by_seconds))


@pytest.mark.parametrize(
    ("by_delta", "by_seconds"),
    [
        (Retry(initial=HOUR, maximum=2 * HOUR), Retry(initial=3600, maximum=7200)),
        (Exponential(HOUR, 2), Exponential(3600, 2)),
        (Intervals({0: HOUR, 1: 60}, 2 * HOUR), Intervals({0: 3600, 1: 60}, 7200)),
        (Budget(3, per=HOUR), Budget(3, per=3600)),
        (Window.daily("09:00", tz="UTC", jitter=HOUR), Window.daily("09:00", tz="UTC", jitter=3600)),
        (Policy.debounce(HOUR, 2 * HOUR), Policy.debounce(3600, 7200)),
        (Policy.daily("09:00", tz="UTC", jitter=HOUR), Policy.daily("09:00", tz="UTC", jitter=3600)),
        (Policy.stepped(lambda _: HOUR).first_delay, 3600.0),
        (RetryLater(after=HOUR).after, 3600),
        (Unavailable("away", after=HOUR).after, 3600),
        (DeliveryFailed("away", after=HOUR).after, 3600),
    ],
)
def test_whatever_has_durations_takes_timedeltas(by_delta: object, by_seconds: object) -> None:
    assert by_delta == by_seconds
    assert repr(by_delta) == repr(by_seconds)


@pytest.mark.parametrize("name", ["first_delay", "within"])
def test_an_add_takes_timedeltas(digests: Digests, name: str) -> None:
    digests.add("t", 1, **{name: timedelta(seconds=7)}, now=100)  # type: ignore[arg-type]

    assert digests.timeline("t", now=100).due == 107


def test_a_digest_takes_its_cool_down_as_a_timedelta(digests: Digests) -> None:
    digests.add("t", 1, first_delay=0, now=100)
    with digests.digest("t", HOUR, now=100):
        pass

    assert digests.timeline("t", now=100).due == 3700


def test_async_calls_take_them_too() -> None:
    async def deliver() -> float | None:
        async with AsyncDigests("memory://", lease=timedelta(minutes=1)) as digests:
            await digests.add("t", 1, timestamp=BERLIN, first_delay=timedelta(0), now=100)
            async with digests.digest("t", HOUR, now=100) as digest:
                assert digest[0].timestamp == 1767342600.0
            return (await digests.timeline("t", now=100)).due

    assert asyncio.run(deliver()) == 3700


def test_engines_and_workers_take_timedeltas() -> None:
    worker = Worker(
        Digests("memory://", lease=timedelta(minutes=1)), poll=timedelta(seconds=2), grace=HOUR, start_timeout=HOUR
    )

    assert (worker._poll, worker._grace, worker._start_timeout) == (2, 3600, 3600)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda given: Policy(first_delay=given),
        lambda given: Retry(initial=given),
        lambda given: Budget(1, per=given),
        lambda given: Digests("memory://", lease=given),
        lambda given: Digests("memory://").add("t", 1, first_delay=given),
        lambda given: Worker(Digests("memory://"), poll=given),
    ],
)
@pytest.mark.parametrize("given", [timedelta(seconds=-1), timedelta(days=200_000)], ids=["negative", "548 years"])
def test_a_timedelta_out_of_range_is_refused(wrong: Callable[[timedelta], object], given: timedelta) -> None:
    with pytest.raises(ConfigError):
        wrong(given)


def test_a_factor_is_no_duration() -> None:
    with pytest.raises(ConfigError, match=r"retry\.factor"):
        Retry(factor=HOUR)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "advice"), [("10m", "; write 600"), ("1h30m", "; write 5400"), ("soon", "")])
def test_a_deadline_that_is_a_text_is_refused_with_its_seconds(text: str, advice: str) -> None:
    with pytest.raises(InvalidRecord, match=rf"^within: '{text}' is not a number of seconds from 0 to [^;]*{advice}$"):
        Digests("memory://").add("t", 1, within=text)  # type: ignore[arg-type]  # on purpose
