"""Calendar windows: times at which digests leave, hours outside of which none does, and what passes them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest

from digestif import Busy, ConfigError, Digest, Digests, InvalidState, Policy, Record, Retry, Window
from digestif.stores.base import Store
from digestif.testing.conformance.actions import (
    DAY,
    add_all,
    assert_leaves_at,
    deliver,
    fail,
    keys,
    numbered,
    scheduled,
)
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.conformance.deliver import failing, sent_by, tick, work
from digestif.testing.footprint import assert_nothing_left

BERLIN = "Europe/Berlin"
MONDAY = datetime.fromisoformat("2024-01-15T00:00+01:00").timestamp()  # midnight in Berlin
NO_DELAYS: dict[str, Any] = {"minimum_delay": 0, "increment_delay": 0, "maximum_delay": 0}
SOON = Retry(initial=10, factor=1, jitter=0)

Deliverer = Callable[[Digests, float], None]


def by_worker(digests: Digests, now: float) -> None:
    work(digests, now=now)


def by_ticks(digests: Digests, now: float) -> None:
    """Deliver what was dispatched, and then what an external scheduler finds."""
    for timeline in digests.timelines(state="ready"):
        with suppress(InvalidState):
            digests.deliver(timeline.key, now=now)
    tick(digests, now=now)


either_way = pytest.mark.parametrize("run", [by_worker, by_ticks], ids=["worker", "ticks"])


def clock(text: str, *, day: int = 0) -> float:
    """A time of the day in Berlin, on that Monday or days later."""
    hours, minutes, *seconds = text.split(":")
    return MONDAY + day * DAY + int(hours) * 3600 + int(minutes) * 60 + float(seconds[0] if seconds else 0)


def instant(text: str) -> float:
    """A time with its offset from UTC, so that no calendar of the product is trusted."""
    return datetime.fromisoformat(text).timestamp()


def nine(**options: Any) -> dict[str, Any]:
    """The options of a policy: each day at 09:00 in Berlin."""
    return {**NO_DELAYS, "window": Window.daily("09:00", tz=BERLIN, **options)}


def night(**options: Any) -> dict[str, Any]:
    """The options of a policy: quiet from 22:00 to 07:00 in Berlin, five minutes between two digests."""
    return {"minimum_delay": 300, "increment_delay": 0, "window": Window.quiet("22:00-07:00", tz=BERLIN, **options)}


def deliveries(
    digests: Digests, run: Deliverer, sent: Sequence[Digest], moments: Sequence[float]
) -> list[tuple[float, list[str]]]:
    """Let something deliver at each of these moments; when digests left, and with which records."""
    found = []
    for moment in moments:
        before = len(sent)
        run(digests, moment)
        found += [(moment, keys(digest)) for digest in sent[before:]]
    return found


class Times(Suite):
    """Daily, weekly and the like: due at the next of these times, and then whenever a worker gets to it."""

    @either_way
    def test_records_of_a_day_leave_in_one_digest_at_the_next_time(
        self, digests_with: DigestsWith, run: Deliverer
    ) -> None:
        """Fact 55. Daily at 09:00 in Berlin, records at 10:00 and 23:00: one digest, at 09:00 the next day."""
        digests = digests_with(**nine())
        sent = sent_by(digests, "t")

        answers = [digests.add("t", Record(time, 1, 0.0), now=clock(time)) for time in ("10:00", "23:00")]
        moments = [clock("10:00"), clock("23:00"), clock("08:59:59.999", day=1), clock("09:00", day=1)]
        left = deliveries(digests, run, sent, [*moments, clock("09:01", day=1), clock("23:00", day=1)])

        assert answers == [False, False]
        assert left == [(clock("09:00", day=1), ["23:00", "10:00"])]
        assert digests.ledger().delivered == 2

    def test_the_due_time_is_the_next_of_them(self, digests_with: DigestsWith) -> None:
        """Fact 55. `timeline().due` and `schedule` tell the time at which the digest leaves."""
        digests = digests_with(**nine())

        digests.add("t", "a", now=clock("10:00"))

        assert (digests.timeline("t").state, digests.timeline("t").due) == ("waiting", clock("09:00", day=1))
        assert_leaves_at(digests, "t", clock("09:00", day=1))

    def test_a_first_record_at_that_very_time_leaves_at_once(self, digests_with: DigestsWith) -> None:
        """Fact 55. Add answers True only if the digest may leave now."""
        digests = digests_with(**nine())

        answers = [digests.add(time, "a", now=clock(time)) for time in ("08:59:59.999", "09:00", "09:00:00.001")]

        assert answers == [False, True, False]
        assert digests.timeline("08:59:59.999").due == clock("09:00")
        assert digests.timeline("09:00").state == "ready"
        assert digests.timeline("09:00:00.001").due == clock("09:00", day=1)

    def test_a_notification_waits_for_its_time(self, digests_with: DigestsWith) -> None:
        """Fact 55. notify delivers at once only at one of the times."""
        digests = digests_with(**nine())
        sent = sent_by(digests, "*")

        answers = [digests.notify(time, "a", key=time, now=clock(time)) for time in ("08:00", "09:00", "10:00")]

        assert answers == [False, True, False]
        assert [keys(digest) for digest in sent] == [["09:00"]]

    @pytest.mark.parametrize(
        ("time", "days"),
        [
            ("09:00", ["2024-03-30T09:00+01:00", "2024-03-31T09:00+02:00", "2024-04-01T09:00+02:00"]),
            ("09:00", ["2024-10-26T09:00+02:00", "2024-10-27T09:00+01:00", "2024-10-28T09:00+01:00"]),
            ("02:30", ["2024-03-30T02:30+01:00", "2024-03-31T03:00+02:00", "2024-04-01T02:30+02:00"]),
            ("02:30", ["2024-10-26T02:30+02:00", "2024-10-27T02:30+02:00", "2024-10-28T02:30+01:00"]),
        ],
        ids=["a day of 23 hours", "a day of 25 hours", "a time that there is not", "a time that comes twice"],
    )
    @either_way
    def test_on_the_days_of_the_clock_change_there_is_exactly_one(
        self, digests_with: DigestsWith, run: Deliverer, time: str, days: list[str]
    ) -> None:
        """Fact 55. In the gap the time is its end, in the overlap the first one; never twice, never skipped."""
        digests = digests_with(**NO_DELAYS, window=Window.daily(time, tz=BERLIN))
        sent = sent_by(digests, "t")
        expected = [instant(day) for day in days]

        left = []
        now = expected[0] - 60
        for due in expected:
            digests.add("t", "a", key="a", now=now)
            left += deliveries(digests, run, sent, [now, due - 0.001, due, due + 60])
            now = due + 60

        assert left == [(due, ["a"]) for due in expected]

    @either_way
    def test_a_late_worker_still_delivers(self, digests_with: DigestsWith, run: Deliverer) -> None:
        """Fact 55. Nothing runs at 09:00: a worker that comes at 09:40 delivers, with what came since."""
        digests = digests_with(**nine())
        sent = sent_by(digests, "t")
        for time in ("08:00", "09:20"):
            digests.add("t", Record(time, 1, clock(time)), now=clock(time))

        left = deliveries(digests, run, sent, [clock("09:40"), clock("10:00"), clock("23:00")])

        assert left == [(clock("09:40"), ["09:20", "08:00"])]

    def test_a_time_that_has_come_is_not_put_off(self, digests_with: DigestsWith) -> None:
        """Fact 55. However many records come after 09:00, a digest that was not taken yet stays due at 09:00."""
        daily = Window.daily("09:00", tz=BERLIN)
        digests = digests_with(minimum_delay=0, increment_delay=7200, maximum_delay=86_400, window=daily)
        digests.add("t", "a", now=clock("08:00"))
        digests.flush("t", now=clock("08:00"))
        deliver(digests, "t", now=clock("08:00"))
        digests.add("t", "b", increment_delay=0, now=clock("08:00"))

        for minutes in range(5):
            digests.add("t", minutes, now=clock("09:00") + 60 * minutes)

        assert digests.timeline("t").due == clock("09:00")

    @either_way
    def test_after_a_late_delivery_the_next_one_is_on_time(self, digests_with: DigestsWith, run: Deliverer) -> None:
        """Fact 55. Delivered at 09:40; the next one leaves at 09:00 tomorrow."""
        digests = digests_with(**nine())
        sent = sent_by(digests, "t")
        digests.add("t", "a", key="a", now=clock("08:00"))
        run(digests, clock("09:40"))
        digests.add("t", "b", key="b", now=clock("09:41"))

        left = deliveries(digests, run, sent, [clock("09:50"), clock("08:59", day=1), clock("09:00", day=1)])

        assert left == [(clock("09:00", day=1), ["b"])]

    @either_way
    def test_closed_at_exactly_that_time_the_next_is_tomorrows(self, digests_with: DigestsWith, run: Deliverer) -> None:
        """Fact 55. Closed at 09:00 with no cool-down, and a record comes at 09:00: it leaves tomorrow."""
        digests = digests_with(**nine())
        sent = sent_by(digests, "t")
        digests.add("t", "a", key="a", now=clock("08:00"))
        run(digests, clock("09:00"))

        digests.add("t", "b", key="b", now=clock("09:00"))

        assert [keys(digest) for digest in sent] == [["a"]]
        assert digests.timeline("t").due == clock("09:00", day=1)
        left = deliveries(digests, run, sent, [clock("09:00"), clock("09:00", day=1)])
        assert left == [(clock("09:00", day=1), ["b"])]

    @either_way
    def test_a_failed_attempt_is_retried_by_its_ladder(self, digests_with: DigestsWith, run: Deliverer) -> None:
        """Fact 55. A failed attempt at 09:00 is retried at once by its ladder, not tomorrow."""
        digests = digests_with(**nine(), retry=SOON)
        sent = failing(digests, "t", times=2)
        digests.add("t", "a", key="a", now=clock("08:00"))

        left = deliveries(digests, run, sent, [clock("09:00") + seconds for seconds in (0, 9, 10, 20, 30)])

        assert [moment - clock("09:00") for moment, _ in left] == [0, 10, 20]
        assert [digest.attempt for digest in sent] == [1, 2, 3]
        assert digests.ledger().delivered == 1

    def test_a_block_that_raised_may_be_entered_again_at_once(self, digests_with: DigestsWith) -> None:
        """Fact 55. The times do not bind retries, of a block neither."""
        digests = digests_with(**nine())
        digests.add("t", "a", key="a", now=clock("09:00"))
        fail(digests, "t", now=clock("09:00"))

        assert keys(deliver(digests, "t", now=clock("09:05"))) == ["a"]

    def test_the_cool_down_comes_first_and_then_the_next_time(self, digests_with: DigestsWith) -> None:
        """Fact 55. Hourly on the hour, 90 minutes of cool-down after 09:00: due at 11:00."""
        window = Window.cron("0 * * * *", tz=BERLIN)
        digests = digests_with(minimum_delay=5400, increment_delay=0, maximum_delay=5400, window=window)
        digests.add("t", "a", now=clock("09:00"))
        deliver(digests, "t", now=clock("09:00"))

        digests.add("t", "b", now=clock("09:10"))

        assert digests.timeline("t").due == clock("11:00")

    def test_increments_move_the_time_by_the_delays_alone(self, digests_with: DigestsWith) -> None:
        """Fact 55. Each record puts it off by 20 minutes: due on the hour, and on the next one after that."""
        digests = digests_with(
            minimum_delay=600, increment_delay=1200, maximum_delay=7200, window=Window.cron("0 * * * *", tz=BERLIN)
        )
        digests.add("t", "a", now=clock("09:00"))
        deliver(digests, "t", now=clock("09:00"))

        dues = []
        for minute in range(5):
            digests.add("t", minute, now=clock(f"09:0{minute}"))
            dues.append(digests.timeline("t").due)

        assert dues == [clock("10:00"), clock("10:00"), clock("11:00"), clock("11:00"), clock("11:00")]

    def test_enough_records_wait_for_the_next_time_too(self, digests_with: DigestsWith) -> None:
        """Fact 55. max_records=2 cuts the delays, not the window."""
        digests = digests_with(
            minimum_delay=7200,
            increment_delay=0,
            maximum_delay=7200,
            max_records=2,
            window=Window.cron("0 * * * *", tz=BERLIN),
        )
        digests.add("t", "a", now=clock("09:00"))
        deliver(digests, "t", now=clock("09:00"))

        dues = []
        for name in ("b", "c"):
            digests.add("t", name, now=clock("09:10"))
            dues.append(digests.timeline("t").due)

        assert dues == [clock("11:00"), clock("10:00")]

    def test_several_times_a_day(self, digests_with: DigestsWith) -> None:
        """Fact 55. At 09:00 and at 17:00: whichever comes first."""
        digests = digests_with(**NO_DELAYS, window=Window.daily("09:00", "17:00", tz=BERLIN))

        for time in ("08:00", "12:00", "18:00"):
            digests.add(time, "a", now=clock(time))

        assert digests.timeline("08:00").due == clock("09:00")
        assert digests.timeline("12:00").due == clock("17:00")
        assert digests.timeline("18:00").due == clock("09:00", day=1)

    def test_the_zone_may_depend_on_the_timeline(self, digests_with: DigestsWith) -> None:
        """Fact 55. 09:00 for each of them where they live."""
        zones = {"ada": "Europe/Berlin", "mio": "Asia/Tokyo"}
        digests = digests_with(**NO_DELAYS, window=Window.daily("09:00", tz=lambda timeline: zones[timeline]))

        for timeline in zones:
            digests.add(timeline, "a", now=clock("12:00"))

        assert digests.timeline("ada").due == instant("2024-01-16T09:00+01:00")
        assert digests.timeline("mio").due == instant("2024-01-16T09:00+09:00")

    def test_times_inside_hours(self, digests_with: DigestsWith) -> None:
        """Fact 55. `&` of windows: the times that lie inside all hours. After Friday's 09:00 comes Monday's."""
        window = Window.daily("09:00", tz=BERLIN) & Window.hours("mon-fri 08:00-18:00", tz=BERLIN)
        digests = digests_with(**NO_DELAYS, window=window)

        digests.add("t", "a", now=clock("10:00", day=4))

        assert digests.timeline("t").due == clock("09:00", day=7)
        assert_leaves_at(digests, "t", clock("09:00", day=7))


class QuietHours(Suite):
    """Hours: an attempt begins only inside of them."""

    @either_way
    def test_nothing_leaves_between_their_begin_and_their_end(self, digests_with: DigestsWith, run: Deliverer) -> None:
        """Fact 56. Quiet 22:00–07:00, records at 21:59, 22:01 and 06:59: deliveries at 21:59 and 07:00 alone."""
        digests = digests_with(**night())
        sent = sent_by(digests, "t")
        left = []

        for time, day in (("21:59", 0), ("22:01", 0), ("06:59", 1)):
            digests.add("t", Record(time, 1, clock(time, day=day)), now=clock(time, day=day))
            left += deliveries(digests, run, sent, [clock(time, day=day)])
        moments = [clock("22:04"), clock("23:00"), clock("06:59:59.999", day=1), clock("07:00", day=1)]
        left += deliveries(digests, run, sent, [*moments, clock("08:00", day=1)])

        assert left == [(clock("21:59"), ["21:59"]), (clock("07:00", day=1), ["06:59", "22:01"])]

    def test_notifications_leave_outside_of_them_alone(self, digests_with: DigestsWith) -> None:
        """Fact 56. notify at 21:59 delivers, at 22:01 and 06:59 it does not."""
        digests = digests_with(**night())
        sent = sent_by(digests, "t")

        answers = [digests.notify("t", time, key=time, now=clock(time)) for time in ("21:59", "22:01")]
        answers.append(digests.notify("t", "06:59", key="06:59", now=clock("06:59", day=1)))

        assert answers == [True, False, False]
        assert [keys(digest) for digest in sent] == [["21:59"]]
        assert digests.timeline("t").due == clock("07:00", day=1)

    @either_way
    def test_a_worker_that_was_away_delivers_when_they_end(self, digests_with: DigestsWith, run: Deliverer) -> None:
        """Fact 56. Due at 21:30 and not delivered until 23:00: it leaves at 07:00, nothing is lost or counted."""
        digests = digests_with(**night())
        sent = sent_by(digests, "*")
        digests.add("ready", "a", now=clock("21:30"))
        digests.add("waiting", "a", first_delay=60, now=clock("21:30"))
        before = digests.ledger()

        left = deliveries(digests, run, sent, [clock("23:00"), clock("03:00", day=1)])

        assert left == []
        assert digests.ledger() == before
        for timeline in ("ready", "waiting"):
            seen = digests.timeline(timeline)
            assert (seen.state, seen.due, seen.pending) == ("waiting", clock("07:00", day=1), 1)
        run(digests, clock("07:00", day=1))
        assert (digests.ledger().delivered, digests.ledger().pending) == (2, 0)

    def test_they_begin_and_end_to_the_millisecond(self, digests_with: DigestsWith) -> None:
        """Fact 56. Quiet at 22:00 exactly, no longer at 07:00 exactly."""
        digests = digests_with(**night())

        times = ["06:59:59.999", "07:00", "21:59:59.999", "22:00"]
        answers = [digests.add(time, "a", now=clock(time)) for time in times]

        assert answers == [False, True, True, False]
        assert digests.timeline("06:59:59.999").due == clock("07:00")
        assert digests.timeline("22:00").due == clock("07:00", day=1)

    @pytest.mark.parametrize(
        ("evening", "morning"),
        [
            ("2024-03-30T23:00+01:00", "2024-03-31T07:00+02:00"),
            ("2024-10-26T23:00+02:00", "2024-10-27T07:00+01:00"),
        ],
        ids=["a night of 8 hours", "a night of 10 hours"],
    )
    def test_they_end_by_the_clock_on_the_wall(self, digests_with: DigestsWith, evening: str, morning: str) -> None:
        """Fact 56. In the nights of the clock change quiet hours end at 07:00 as ever."""
        digests = digests_with(**night())

        digests.add("t", "a", now=instant(evening))

        assert digests.timeline("t").due == instant(morning)
        assert_leaves_at(digests, "t", instant(morning))

    @either_way
    def test_retries_begin_inside_the_hours_alone(self, digests_with: DigestsWith, run: Deliverer) -> None:
        """Fact 56. A failed attempt at 21:59:55, to be retried ten seconds later: at 07:00."""
        digests = digests_with(**night(), retry=SOON)
        sent = failing(digests, "t", times=1)
        digests.add("t", "a", key="a", now=clock("21:59:55"))

        moments = [clock("21:59:55"), clock("22:00:05"), clock("23:00"), clock("06:59:59", day=1)]
        left = deliveries(digests, run, sent, [*moments, clock("07:00", day=1)])

        assert left == [(clock("21:59:55"), ["a"]), (clock("07:00", day=1), ["a"])]
        assert [digest.attempt for digest in sent] == [1, 2]

    def test_a_block_that_raised_is_entered_again_inside_the_hours_alone(self, digests_with: DigestsWith) -> None:
        """Fact 56. The block raised at 21:59:59; at 22:00 InvalidState, at 07:00 the same digest with what came."""
        digests = digests_with(**night())
        digests.add("t", Record("a", 1, 0.0), now=clock("21:59:59"))
        first = fail(digests, "t", now=clock("21:59:59"))

        with pytest.raises(InvalidState):
            deliver(digests, "t", now=clock("22:00"))

        digests.add("t", Record("b", 1, 1.0), now=clock("22:01"))
        assert scheduled(digests, clock("06:59:59.999", day=1)) == []
        assert scheduled(digests, clock("07:00", day=1)) == ["t"]
        second = deliver(digests, "t", now=clock("07:00", day=1))
        assert (second.id, second.attempt, keys(second)) == (first.id, 2, ["b", "a"])

    def test_a_digest_outside_of_the_window_is_refused_and_says_when(
        self, digests_with: DigestsWith, store: Store
    ) -> None:
        """Fact 56. digest() at night: InvalidState with the time, the block does not run, the timeline waits."""
        digests = digests_with(**night())
        digests.add("t", "a", now=clock("21:30"))
        before = digests.ledger()
        block_ran = False

        with pytest.raises(InvalidState) as refused, digests.digest("t", now=clock("23:00")):
            block_ran = True

        assert not block_ran
        assert not isinstance(refused.value, Busy)
        assert "2024-01-16T06:00" in str(refused.value)  # in UTC
        seen = digests.timeline("t")
        assert (seen.state, seen.due, seen.pending) == ("waiting", clock("07:00", day=1), 1)
        assert digests.ledger() == before

    def test_a_task_that_comes_too_late_is_refused_in_the_same_way(self, digests_with: DigestsWith) -> None:
        """Fact 56. Dispatched at 21:59, delivered by a task at 22:10: InvalidState, and the timeline waits."""
        digests = digests_with(**night())
        sent = sent_by(digests, "t")
        assert digests.notify("t", "a", dispatch=lambda _: None, now=clock("21:59")) is True

        with pytest.raises(InvalidState):
            digests.deliver("t", now=clock("22:10"))

        assert sent == []
        assert digests.timeline("t").due == clock("07:00", day=1)

    def test_what_waits_for_the_hours_can_still_be_changed(self, digests_with: DigestsWith) -> None:
        """Fact 56. Kept at 23:00: its records are pending, so that they can be retracted, replaced and dropped."""
        digests = digests_with(**night(), capacity=2)
        add_all(digests, "t", numbered(range(2)), now=clock("21:30"))
        with pytest.raises(InvalidState):
            deliver(digests, "t", now=clock("23:00"))

        assert digests.retract("t", "r0", now=clock("23:01")) is True
        add_all(digests, "t", numbered(range(1, 4)), now=clock("23:02"))

        scheduled(digests, clock("07:00", day=1))
        assert keys(deliver(digests, "t", now=clock("07:00", day=1))) == ["r3", "r2"]
        assert digests.verify()

    def test_schedule_asks_for_its_deadline(self, digests_with: DigestsWith) -> None:
        """Fact 56. Due at 21:31. schedule(23:00) gives nothing; schedule(07:00), called at 21:32, gives it."""
        digests = digests_with(**night())
        digests.add("t", "a", first_delay=60, now=clock("21:30"))

        assert [entry.key for entry in digests.schedule(clock("07:00", day=1), now=clock("21:32"))] == ["t"]
        digests.maintenance(clock("21:32"), now=clock("21:32"))
        assert scheduled(digests, clock("23:00")) == []
        assert digests.timeline("t").due == clock("07:00", day=1)
        assert scheduled(digests, clock("07:00", day=1)) == ["t"]

    def test_an_unfinished_digest_of_a_worker_that_died_waits_for_the_hours(self, digests_with: DigestsWith) -> None:
        """Fact 56. Its lease lapses at night: it is kept, and comes at 07:00 exactly as it was."""
        digests = digests_with(**night(), lease=30)
        digests.add("t", Record("a", 1, 0.0), now=clock("21:59:50"))
        with pytest.raises(BaseException, match="gone"), digests.digest("t", now=clock("21:59:50")) as first:
            digests.add("t", Record("b", 1, 1.0), now=clock("22:01"))
            with pytest.raises(InvalidState):
                deliver(digests, "t", now=clock("22:01"))
            assert digests.timeline("t").state == "waiting"
            raise _Gone

        scheduled(digests, clock("07:00", day=1))
        second = deliver(digests, "t", now=clock("07:00", day=1))
        assert (second.idempotency_key, keys(second)) == (first.idempotency_key, ["a"])
        assert digests.verify()

    def test_a_full_timeline_waits_for_their_end(self, digests_with: DigestsWith) -> None:
        """Fact 56. max_records=3 inside quiet hours: it leaves when they end."""
        digests = digests_with(**night(), max_records=3, first_delay=300)

        add_all(digests, "t", numbered(range(5)), now=clock("23:00"))

        assert digests.timeline("t").due == clock("07:00", day=1)
        assert_leaves_at(digests, "t", clock("07:00", day=1))

    def test_a_paused_timeline_waits_for_them_after_it_is_resumed(self, digests_with: DigestsWith) -> None:
        """Fact 53. Paused at 21:00, resumed at 23:00: it leaves at 07:00."""
        digests = digests_with(**night())
        digests.pause("t", now=clock("21:00"))
        digests.add("t", "a", now=clock("21:30"))
        digests.resume("t", now=clock("23:00"))

        assert scheduled(digests, clock("23:00")) == []
        assert_leaves_at(digests, "t", clock("07:00", day=1))

    @either_way
    def test_an_empty_timeline_ends_by_itself_at_any_time(
        self, digests_with: DigestsWith, store: Store, run: Deliverer
    ) -> None:
        """Fact 18. Nothing came since the last digest: at night too it becomes idle, and nothing is left of it."""
        digests = digests_with(minimum_delay=300, window=Window.hours("21:00-22:00", "22:04-22:05", tz=BERLIN))
        sent = sent_by(digests, "t")
        digests.add("t", "a", now=clock("21:59"))

        left = deliveries(digests, run, sent, [clock("21:59"), clock("22:04"), clock("23:00")])

        assert len(left) == 1
        assert_nothing_left(store)

    @pytest.mark.parametrize("time", ["21:32", "23:00"])
    def test_an_empty_digest_is_no_matter_of_hours(self, digests_with: DigestsWith, store: Store, time: str) -> None:
        """Fact 18. Its records were retracted: the digest is empty, without error, and the timeline is idle then."""
        digests = digests_with(**night())
        digests.add("t", "a", key="a", now=clock("21:30"))
        digests.retract("t", "a", now=clock("21:31"))

        digest = deliver(digests, "t", now=clock(time))

        assert keys(digest) == []
        assert_nothing_left(store)

    def test_two_engines_keep_their_own_hours(self, digests_with: DigestsWith) -> None:
        """Fact 56. The policy of the engine that would deliver decides: what one keeps, another may deliver."""
        quiet, loud = digests_with(**night()), digests_with(minimum_delay=300)
        loud.add("t", "a", key="a", now=clock("23:00"))

        with pytest.raises(InvalidState):
            deliver(quiet, "t", now=clock("23:00"))
        loud.flush("t", now=clock("23:01"))

        assert keys(deliver(loud, "t", now=clock("23:01"))) == ["a"]


class Passes(Suite):
    """What does not wait for a window: flush, replay, and urgent records where the window lets them through."""

    @either_way
    def test_what_is_flushed_leaves_at_once(self, digests_with: DigestsWith, run: Deliverer) -> None:
        """Fact 56. Flushed at 23:00: delivered at 23:00; what comes afterwards waits until 07:00."""
        digests = digests_with(**night())
        sent = sent_by(digests, "t")
        digests.add("t", "a", key="a", now=clock("22:30"))
        assert digests.flush("t", now=clock("23:00")) is True

        left = deliveries(digests, run, sent, [clock("23:00")])
        digests.add("t", "b", key="b", now=clock("23:01"))
        left += deliveries(digests, run, sent, [clock("23:10"), clock("06:59", day=1), clock("07:00", day=1)])

        assert left == [(clock("23:00"), ["a"]), (clock("07:00", day=1), ["b"])]

    def test_what_is_flushed_does_not_wait_for_a_time_either(self, digests_with: DigestsWith) -> None:
        """Fact 55. Flushed at noon: delivered at noon, and the next one is due at 09:00 as ever."""
        digests = digests_with(**nine())
        digests.add("t", "a", key="a", now=clock("10:00"))
        digests.flush("t", now=clock("12:00"))

        assert keys(deliver(digests, "t", now=clock("12:00"))) == ["a"]
        digests.add("t", "b", now=clock("12:01"))
        assert digests.timeline("t").due == clock("09:00", day=1)

    def test_a_pass_ends_with_its_digest(self, digests_with: DigestsWith) -> None:
        """Fact 56. Flushed and delivered at 23:00. What follows is found at 23:00 the next day, and waits."""
        digests = digests_with(**night())
        sent = sent_by(digests, "t")
        digests.add("t", "a", key="a", now=clock("22:30"))
        digests.flush("t", now=clock("23:00"))
        left = deliveries(digests, by_worker, sent, [clock("23:00")])

        digests.add("t", "b", key="b", now=clock("23:01"))
        left += deliveries(digests, by_worker, sent, [clock("23:00", day=1), clock("07:00", day=2)])

        assert left == [(clock("23:00"), ["a"]), (clock("07:00", day=2), ["b"])]

    def test_a_flush_lasts_over_failed_attempts(self, digests_with: DigestsWith) -> None:
        """Fact 56. Flushed at 23:00, and two attempts fail: retried by the ladder, in the middle of the night."""
        digests = digests_with(**night(), retry=SOON)
        sent = failing(digests, "t", times=2)
        digests.add("t", "a", key="a", now=clock("22:30"))
        digests.flush("t", now=clock("23:00"))

        moments = [clock("23:00") + seconds for seconds in (0, 9, 10, 20)]
        left = deliveries(digests, by_worker, sent, moments)

        assert [moment - clock("23:00") for moment, _ in left] == [0, 10, 20]
        assert digests.ledger().delivered == 1
        digests.add("t", "b", now=clock("23:01"))
        assert digests.timeline("t").due == clock("07:00", day=1)

    def test_a_flush_lasts_over_a_block_that_raises(self, digests_with: DigestsWith) -> None:
        """Fact 56. Flushed, the block raises, and is entered again: no window holds it back."""
        digests = digests_with(**night())
        digests.add("t", "a", key="a", now=clock("22:30"))
        digests.flush("t", now=clock("23:00"))
        fail(digests, "t", now=clock("23:00"))

        assert keys(deliver(digests, "t", now=clock("23:05"))) == ["a"]

    def test_a_flush_whose_dispatch_got_lost_is_found_again(self, digests_with: DigestsWith) -> None:
        """Fact 28. Flushed and never delivered: maintenance and schedule bring it, at night as well."""
        digests = digests_with(**night())
        digests.add("t", "a", key="a", now=clock("22:30"))
        digests.flush("t", now=clock("23:00"))

        digests.maintenance(clock("23:00"), now=clock("23:05"))

        assert scheduled(digests, clock("23:05")) == ["t"]
        assert keys(deliver(digests, "t", now=clock("23:05"))) == ["a"]

    def test_adds_do_not_put_off_what_passes(self, digests_with: DigestsWith) -> None:
        """Fact 56. Flushed, its dispatch lost, and more records come: it stays due at the time of the flush."""
        digests = digests_with(**night())
        digests.add("t", "a", now=clock("22:30"))
        digests.flush("t", now=clock("23:00"))
        digests.maintenance(clock("23:00"), now=clock("23:05"))

        add_all(digests, "t", numbered(range(3)), now=clock("23:06"))

        assert digests.timeline("t").due == clock("23:00")
        scheduled(digests, clock("23:07"))
        assert len(deliver(digests, "t", now=clock("23:07"))) == 4

    def test_a_replayed_dead_letter_leaves_at_once(self, digests_with: DigestsWith) -> None:
        """Fact 47. Replayed at 23:00: delivered at 23:00, also after another failure."""
        digests = digests_with(**night(), attempts=1, retry=SOON)
        failing(digests, "t", times=1)
        digests.add("t", "a", key="a", now=clock("21:00"))
        work(digests, now=clock("21:00"))
        [letter] = digests.dead_letters("t")

        digests.replay(letter.id, now=clock("23:00"))
        work(digests, now=clock("23:00"))

        assert (digests.ledger().delivered, digests.ledger().dead) == (1, 0)

    @either_way
    def test_an_urgent_record_passes_where_the_window_lets_it(self, digests_with: DigestsWith, run: Deliverer) -> None:
        """Fact 58. within=60 at 23:00 and urgent=True: it leaves at 23:01, with all that is pending."""
        digests = digests_with(**night(urgent=True))
        sent = sent_by(digests, "t")
        digests.add("t", Record("ordinary", 1, 0.0), now=clock("22:30"))
        digests.add("t", Record("urgent", 1, 1.0), within=60, now=clock("23:00"))

        left = deliveries(digests, run, sent, [clock("23:00"), clock("23:00:59.999"), clock("23:01")])

        assert left == [(clock("23:01"), ["urgent", "ordinary"])]

    def test_a_first_record_that_must_leave_now_leaves_now(self, digests_with: DigestsWith) -> None:
        """Fact 58. within=0 at 23:00 and urgent=True: add answers True, and the digest may be opened at once."""
        digests = digests_with(**night(urgent=True))

        assert digests.add("t", "urgent", key="a", within=0, now=clock("23:00")) is True

        assert keys(deliver(digests, "t", now=clock("23:00"))) == ["a"]

    @either_way
    def test_an_urgent_record_waits_where_the_window_does_not_let_it(
        self, digests_with: DigestsWith, run: Deliverer
    ) -> None:
        """Fact 58. within=60 at 23:00 and no urgent=True: it leaves when the quiet hours end."""
        digests = digests_with(**night())
        sent = sent_by(digests, "t")
        digests.add("t", "urgent", key="urgent", within=60, now=clock("23:00"))

        assert digests.timeline("t").due == clock("07:00", day=1)
        left = deliveries(digests, run, sent, [clock("23:01"), clock("06:59", day=1), clock("07:00", day=1)])
        assert left == [(clock("07:00", day=1), ["urgent"])]

    def test_an_urgent_record_passes_times_as_well(self, digests_with: DigestsWith) -> None:
        """Fact 58. Daily at 09:00 with urgent=True, within=60 at noon: due a minute later."""
        digests = digests_with(**nine(urgent=True))

        digests.add("t", "ordinary", now=clock("11:00"))
        digests.add("t", "urgent", within=60, now=clock("12:00"))
        digests.add("t", "another", now=clock("12:00:30"))

        assert digests.timeline("t").due == clock("12:01")
        assert_leaves_at(digests, "t", clock("12:01"))
        assert len(deliver(digests, "t", now=clock("12:01"))) == 3
        digests.add("t", "ordinary", now=clock("12:02"))
        assert digests.timeline("t").due == clock("09:00", day=1)

    def test_a_deadline_after_the_opening_needs_no_pass(self, digests_with: DigestsWith) -> None:
        """Fact 58. Quiet until 07:00, within=2 h at 06:00: it leaves at 07:00."""
        digests = digests_with(**night(urgent=True))

        digests.add("t", "urgent", within=7200, now=clock("06:00"))

        assert digests.timeline("t").due == clock("07:00")

    def test_the_earliest_of_urgent_deadlines_counts(self, digests_with: DigestsWith) -> None:
        """Fact 58. With a pass only an earlier deadline moves it."""
        digests = digests_with(**night(urgent=True))

        dues = []
        for within in (600.0, 900.0, 60.0, 300.0):
            digests.add("t", f"within {within}", within=within, now=clock("23:00"))
            dues.append(digests.timeline("t").due)

        assert dues == [clock("23:10"), clock("23:10"), clock("23:01"), clock("23:01")]

    def test_an_urgent_digest_is_retried_at_night(self, digests_with: DigestsWith) -> None:
        """Fact 58. The pass lasts until the digest ends: a failed attempt is retried by its ladder."""
        digests = digests_with(**night(urgent=True), retry=SOON)
        sent = failing(digests, "t", times=1)
        digests.add("t", "urgent", key="a", within=60, now=clock("23:00"))

        left = deliveries(digests, by_worker, sent, [clock("23:01"), clock("23:01:10")])

        assert [moment for moment, _ in left] == [clock("23:01"), clock("23:01:10")]

    def test_an_urgent_record_that_came_during_a_digest_passes_after_it(self, digests_with: DigestsWith) -> None:
        """Fact 58. within=60, added while a digest is open that was flushed: it still holds after the close."""
        digests = digests_with(**night(urgent=True))
        digests.add("t", "a", now=clock("22:30"))
        digests.flush("t", now=clock("23:00"))

        with digests.digest("t", now=clock("23:00")):
            digests.add("t", "urgent", within=60, now=clock("23:00"))

        assert digests.timeline("t").due == clock("23:01")
        assert_leaves_at(digests, "t", clock("23:01"))
        assert len(deliver(digests, "t", now=clock("23:01"))) == 1


class UnknownOpenings(Suite):
    """Stores know no calendar. Where the numbers that they were given have ended, the engine aligns what is due."""

    @either_way
    def test_what_no_opening_was_known_for_is_aligned_when_it_is_due(
        self, digests_with: DigestsWith, store: Store, run: Deliverer
    ) -> None:
        """Fact 55. Added by an engine without a window at 10:00: one that has it keeps it until 09:00."""
        digests = digests_with(**nine())
        sent = sent_by(digests, "t")
        digests_with().add("t", "a", key="a", now=clock("10:00"))
        before = digests.ledger()

        left = deliveries(digests, run, sent, [clock("10:10"), clock("08:59", day=1)])

        assert left == []
        assert digests.timeline("t").due == clock("09:00", day=1)
        assert digests.ledger() == before
        assert deliveries(digests, run, sent, [clock("09:00", day=1)]) == [(clock("09:00", day=1), ["a"])]

    def test_an_engine_without_a_window_makes_it_due_by_the_delays_again(self, digests_with: DigestsWith) -> None:
        """Fact 59. The policy of the call decides: aligned by one engine, put off by the delays of another."""
        window = Window.cron("0 * * * *", tz=BERLIN)
        delays: dict[str, Any] = {"minimum_delay": 600, "increment_delay": 60, "maximum_delay": 7200}
        hourly, plain = digests_with(**delays, window=window), digests_with(**delays)
        hourly.add("t", "a", now=clock("09:00"))
        deliver(hourly, "t", now=clock("09:00"))

        dues = []
        for engine in (hourly, plain, hourly):
            engine.add("t", "b", now=clock("09:01"))
            dues.append(engine.timeline("t").due)

        assert dues == [clock("10:00"), clock("09:12"), clock("10:00")]


class WrongWindows(Suite):
    """What can't be meant is refused when the policy is made."""

    def test_a_window_that_never_opens_is_refused(self) -> None:
        """Fact 57. 09:00 lies in no hour from 10:00 to 11:00: ConfigError."""
        with pytest.raises(ConfigError, match="window"):
            Policy(window=Window.daily("09:00", tz=BERLIN) & Window.hours("10:00-11:00", tz=BERLIN))

    def test_the_ttl_grows_with_the_gap(self) -> None:
        """Fact 57. Weekly without a ttl: it is at least 2.1 × the longest gap."""
        policy = Policy(window=Window.weekly("mon 09:00", tz=BERLIN))

        assert policy.ttl is not None
        assert policy.ttl >= 2.1 * 7 * DAY

    def test_a_ttl_that_is_too_short_is_refused(self) -> None:
        """Fact 57. Weekly with a ttl of a day: ConfigError that says how long it must be."""
        with pytest.raises(ConfigError, match=r"ttl.*\d"):
            Policy(window=Window.weekly("mon 09:00", tz=BERLIN), ttl=DAY)

    def test_a_wrong_zone_is_refused_before_anything_is_written(self, digests_with: DigestsWith, store: Store) -> None:
        """Fact 57. An unknown zone: ConfigError when the window is made."""
        with pytest.raises(ConfigError, match="Mars"):
            digests_with(window=Window.daily("09:00", tz="Mars/Olympus"))

        assert_nothing_left(store)


class Windows(Times, QuietHours, Passes, UnknownOpenings, WrongWindows):
    """All topics of this file."""


class _Gone(BaseException):
    """The worker is gone."""

    def __init__(self) -> None:
        super().__init__("gone")
