"""The second step of 2015, which stayed: the first event at once, then a cool-down that each further event prolongs."""

from typing import Any

from digestif import Digests, Policy
from digestif.testing.conformance.actions import T, deliver, keys, let_wait, numbered, scheduled
from tests.origin.steps import deliver_when_due, due, walk
from tests.origin.stores import OnEveryStore

# Seconds after the last delivery: when it was due, what the add says, when it is due then.
PUSHED: dict[str, tuple[float, dict[str, Any], float]] = {
    "by one second": (0, {"increment_delay": 1, "maximum_delay": 10}, 1),
    "earlier, by a cap of zero": (1, {"increment_delay": 1, "maximum_delay": 0}, 0),
    "by thirty seconds": (300, {}, 330),
    "up to the cap": (1790, {}, 1800),
    "not past the cap": (1800, {}, 1800),
    "back to the cap": (4000, {}, 1800),
    "by its own increment": (300, {"increment_delay": 5}, 305),
    "up to its own cap": (300, {"maximum_delay": 310}, 310),
    "by nothing": (300, {"increment_delay": 0}, 300),
}


class TestTheDelaysOfNovember2015(OnEveryStore):
    def test_they_are_what_a_policy_begins_with(self) -> None:
        """Facts 3, 7, 17. Minimum 300, increment 30, maximum 1800, and the first at once."""
        policy = Policy()

        assert (policy.minimum_delay, policy.increment_delay, policy.maximum_delay) == (300, 30, 1800)
        assert policy.first_delay == 0

    def test_a_burst_is_walked_through_from_the_first_event_until_the_timeline_is_idle(self, digests: Digests) -> None:
        """Facts 1, 3, 17, 18. The first at once, cool-down, increments, cap, the digest, cool-down, nothing: idle."""
        assert digests.add("t", "the first", now=T) is True
        assert len(deliver(digests, "t", now=T)) == 1
        assert due(digests) == T + 300

        dues = []
        for event in numbered(range(60), since=T + 1):
            assert digests.add("t", event, now=event.timestamp) is False
            dues.append(due(digests) - T)
        assert dues[:3] == [330, 360, 390]
        assert dues[48:] == [1770] + [1800] * 11

        second = deliver_when_due(digests)
        assert keys(second) == [f"r{n}" for n in range(59, -1, -1)]
        assert (digests.timeline("t").last, due(digests)) == (T + 1800, T + 2100)

        assert list(deliver_when_due(digests)) == []
        assert digests.timeline("t").state == "idle"
        assert scheduled(digests, T + 1e6) == []
        assert digests.add("t", "the next burst", now=T + 2101) is True

    def test_fifty_one_events_in_one_second_wait_half_an_hour(self, digests: Digests) -> None:
        """Facts 1, 3. The first goes at once; the 50 others wait for 300 s and 50 × 30 s."""
        sent = walk(digests, [n / 100 for n in range(51)], tick=10, until=2400)

        assert sent == [(0, 1), (1800, 50)]

    def test_the_arithmetic_of_the_wait_can_be_read(self, digests: Digests) -> None:
        """Fact 3. After 50 further events the increment has led to the cap; one more, and the cap decides."""
        let_wait(digests, "t", due=T + 300, last=T)
        for n in range(50):
            digests.add("t", n, now=T + n / 100)
        assert (str(digests.explain("t", now=T + 1).rule), due(digests)) == ("increment", T + 1800)

        digests.add("t", "one more", now=T + 1)

        explained = digests.explain("t", now=T + 1)
        assert (str(explained.rule), explained.next) == ("cap", T + 1800)
        assert "30 min of maximum_delay" in explained.arithmetic

    def test_an_event_each_twenty_seconds_is_delivered_each_half_hour(self, digests: Digests) -> None:
        """Facts 1, 3. The cap holds: events that never cease put nothing off for ever."""
        sent = walk(digests, range(0, 7200, 20), tick=60, until=7200)

        assert sent == [(0, 1), (1800, 89), (3600, 90), (5400, 90), (7200, 90)]

    def test_an_event_each_fifty_seconds_is_put_off_until_its_increments_are_used_up(self, digests: Digests) -> None:
        """Facts 1, 3, 17. 300 s and 13 increments: the next event comes too late to put the digest off."""
        sent = walk(digests, range(0, 2200, 50), tick=10, until=2200)

        assert sent == [(0, 1), (690, 13), (1440, 15), (2190, 15)]

    def test_an_event_after_each_silence_is_delivered_at_once(self, digests: Digests) -> None:
        """Facts 1, 18. More than 300 s apart: the empty digest in between makes each of them the first."""
        sent = walk(digests, [0, 301, 612, 923], tick=10, until=1000)

        assert sent == [(0, 1), (301, 1), (612, 1), (923, 1)]

    def test_events_before_the_first_delivery_ride_along(self, digests: Digests) -> None:
        """Fact 2. Ready: 50 further events answer False, leave the time as it is, and are in the first digest."""
        digests.add("t", "the first", now=T)

        answers = [digests.add("t", n, timestamp=T - n * 3600, now=T + n) for n in range(50)]

        assert answers == [False] * 50
        assert digests.timeline("t").state == "ready"
        assert digests.explain("t", now=T + 50).facts["due"] == T
        assert len(deliver(digests, "t", now=T + 50)) == 51

    def test_an_event_pushes_a_waiting_timeline(self, digests: Digests) -> None:
        """Facts 3, 4, 7. min(due + increment, last delivery + maximum); what the call does not say the policy does."""
        pushed = {}
        for how, (was, options, _) in PUSHED.items():
            let_wait(digests, how, due=T + was, last=T)
            assert digests.add(how, "another", now=T, **options) is False
            pushed[how] = due(digests, how) - T

        assert pushed == {how: becomes for how, (_, _, becomes) in PUSHED.items()}

    def test_nothing_moves_a_timeline_that_was_never_delivered(self, digests: Digests) -> None:
        """Fact 4. Its only dispatch got lost: due T, and events at T+100, whatever their date, leave it there."""
        digests.add("t", "the first", now=T)
        digests.maintenance(T, now=T + 99)

        for date in (T - 3600, T + 100, T + 3600):
            assert digests.add("t", "another", timestamp=date, now=T + 100) is False

        assert due(digests) == T
