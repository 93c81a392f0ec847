"""Explanations are true of timelines that a window holds back when they are claimed."""

from digestif import Digests, Policy

NOON = 1_790_078_400.0  # 22 September 2026, 12:00 UTC


def test_a_ready_timeline_that_its_new_window_holds_back_says_until_when() -> None:
    with Digests("memory://") as digests:
        digests.add("t", 1, now=NOON)
        digests.set_policy("t", Policy.daily("09:00", tz="UTC"), now=NOON)

        why = digests.explain("t", now=NOON + 1)

        assert why.state == "ready"
        assert "its window holds it back until 09:00 UTC" in str(why)
        assert why.next == NOON + 21 * 3600


def test_a_timeline_that_is_due_outside_of_its_hours_says_until_when() -> None:
    with Digests("memory://", policy=Policy.quiet_hours("13:00-14:00", tz="UTC")) as digests:
        digests.add("t", 1, first_delay=3599, now=NOON)

        assert "holds it back" not in str(digests.explain("t", now=NOON + 3599))
        why = digests.explain("t", now=NOON + 3601)

        assert "due, but its window holds it back until 14:00 UTC" in str(why)
        assert why.next == NOON + 7200
