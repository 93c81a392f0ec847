"""Functions of the user's that fail, numbers that no store can keep, people who are off: nothing is lost or sent."""

import asyncio
import sys
from typing import Any

import pytest

from digestif import ConfigError, Digests, Event, InvalidState, Policy, PolicyFailed, Worker
from tests.routes.recorder import Recording

NOON = 1_790_078_400.0  # 22 September 2026, 12:00 UTC
HOUR = 3600.0


class Zones:
    """A function for time zones, which can be made to fail."""

    fails = False

    def __call__(self, timeline: str) -> str:
        if self.fails:
            raise KeyError(timeline)
        return "UTC"


def work(digests: Digests, *, now: float) -> int:
    return asyncio.run(Worker(digests).run_once(now))


def test_a_zone_that_can_not_be_found_does_not_count_against_a_digest_with_a_policy_of_its_own() -> None:
    zones, sent, told = Zones(), list[Any](), list[Event]()
    with Digests("memory://", policy=Policy.daily("09:00", tz=zones)) as digests:
        digests.handler("*")(sent.append)
        digests.subscribe(told.append)
        digests.prefer("t", "instant", now=NOON)
        digests.add("t", 1, now=NOON)

        zones.fails = True
        work(digests, now=NOON)

        assert len(sent) == 1
        assert [event.timeline for event in told if isinstance(event, PolicyFailed)] == ["t"]


def test_a_flushed_digest_leaves_although_its_zone_can_not_be_found_any_more() -> None:
    zones, sent = Zones(), list[Any]()
    with Digests("memory://", policy=Policy.daily("09:00", tz=zones)) as digests:
        digests.handler("*")(sent.append)
        digests.add("t", 1, now=NOON)
        digests.flush("t", now=NOON)

        zones.fails = True
        work(digests, now=NOON)

        assert len(sent) == 1
        assert digests.dead_letters() == []


@pytest.mark.parametrize("field", ["capacity", "max_records", "max_bytes", "attempts", "lapses"])
def test_a_number_that_no_store_can_keep_is_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field}: .* is more than"):
        Policy(**dict[str, Any]({field: sys.maxsize}))


def test_replan_asks_a_function_again_that_answered_just_now() -> None:
    answers = [Policy(minimum_delay=60)]
    with Digests("memory://", policy=lambda timeline: answers[0]) as digests:
        digests.add("t", 1, now=NOON)
        with digests.digest("t", now=NOON):
            pass
        digests.add("t", 2, now=NOON)

        answers[0] = Policy.daily("10:00", tz="UTC")
        assert digests.replan(now=NOON + 1) == 1

        assert digests.timeline("t").due == NOON + 22 * HOUR


def test_a_policy_by_which_it_was_due_before_makes_it_due_now_and_says_so() -> None:
    with Digests("memory://", policy=Policy.hourly()) as digests:
        digests.add("t", 1, now=NOON)
        with digests.digest("t", now=NOON):
            pass
        digests.add("t", 2, now=NOON)

        digests.set_policy("t", Policy.immediate(), now=NOON + 1000)
        why = digests.explain("t", now=NOON + 1000)

        assert digests.timeline("t").due == NOON + 1000
        assert why.rule == "planned"
        assert "another policy holds since" in why.arithmetic


def test_who_is_off_gets_no_single_messages_either() -> None:
    channel = Recording()
    with Digests("memory://") as digests:
        digests.route("alert:*", channel=channel, digest=False)
        digests.prefer("alert:ada", "off", now=NOON)

        assert digests.notify("alert:ada", {"title": "a"}, now=NOON) is False
        assert digests.notify("alert:bob", {"title": "b"}, now=NOON) is True

        assert [message.recipient for message in channel.messages] == ["bob"]
        assert digests.ledger().declined == 1


def test_a_dead_letter_of_who_is_off_is_kept() -> None:
    with Digests("memory://", policy=Policy(attempts=1)) as digests:
        digests.add("t", 1, now=NOON)
        with pytest.raises(RuntimeError), digests.digest("t", now=NOON):
            raise RuntimeError("refused")
        [letter] = digests.dead_letters()
        digests.prefer("t", "off", now=NOON)

        with pytest.raises(InvalidState, match="'t' is switched off"):
            digests.replay(letter.id, now=NOON)

        assert digests.dead_letters() == [letter]
        digests.clear_policy("t", now=NOON)
        assert digests.replay(letter.id, now=NOON) is True


def test_a_digest_that_can_not_be_opened_for_its_zone_says_so() -> None:
    zones = Zones()
    with Digests("memory://", policy=Policy.daily("09:00", tz=zones)) as digests:
        digests.add("t", 1, now=NOON)
        assert len(list(digests.schedule(now=NOON + 21 * HOUR))) == 1
        zones.fails = True

        with pytest.raises(InvalidState) as raised, digests.digest("t", now=NOON + 21 * HOUR):
            pass

        assert "its time zone can't be told: " in str(raised.value)
        assert "by its window" not in str(raised.value)
