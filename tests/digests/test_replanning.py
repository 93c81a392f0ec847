"""When policies change: what waits is planned again, on request or once after a release."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from digestif import Cadences, Digests, Event, Policy, Replanned
from digestif.stores.base import PAGE_TIMELINES

MONDAY = 1_772_442_000  # 2026-03-02, 10:00 in Berlin
NINE_UTC = MONDAY + 24 * 3600  # the next 09:00 in UTC

Start = Callable[..., Digests]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """A program on the same store, with policies of its own."""

    def made(**options: Any) -> Digests:
        return Digests(f"sqlite:///{tmp_path / 'd.db'}", **options)

    return made


def let_wait(digests: Digests, *timelines: str) -> None:
    """Each with one record, delivered MONDAY, and another one ten seconds later."""
    for name in timelines:
        digests.add(name, 1, now=MONDAY)
        with digests.digest(name, now=MONDAY):
            pass
        digests.add(name, 2, now=MONDAY + 10)


def dues(digests: Digests) -> dict[str, float]:
    """Seconds after MONDAY."""
    return {each.key: each.due - MONDAY for each in digests.timelines(limit=1000) if each.due is not None}


# On request


def test_the_timelines_of_a_pattern_are_planned_by_the_policies_in_force(start: Start) -> None:
    heard: list[Event] = []
    with start() as old:
        let_wait(old, "mail:a", "mail:b", "chat:a")
    with start(policy=Policy.hourly()) as digests:
        digests.subscribe(heard.append)

        assert digests.replan("mail:*", now=MONDAY + 20) == 2

        assert dues(digests) == {"mail:a": 3600, "mail:b": 3600, "chat:a": 330}
        assert [e for e in heard if isinstance(e, Replanned)] == [Replanned(pattern="mail:*", timelines=2, moved=2)]
        assert digests.replan("mail:*", now=MONDAY + 20) == 0


def test_where_nothing_waits_no_plan_is_reported(start: Start) -> None:
    heard: list[Event] = []
    with start() as digests:
        digests.subscribe(heard.append)
        digests.replan()

    assert [each for each in heard if isinstance(each, Replanned)] == []


def test_the_cool_down_is_that_of_the_iteration(start: Start) -> None:
    with start() as old:
        let_wait(old, "t")
    with start(policy=Policy(backoff=lambda iteration: 1000.0 * iteration)) as digests:
        digests.replan(now=MONDAY + 20)

        assert dues(digests) == {"t": 1000}  # after the first digest


def test_more_timelines_than_a_page_are_planned(start: Start) -> None:
    with start(policy=Policy(first_delay=60)) as old:
        old.add_many([(f"t{number:04}", 1) for number in range(PAGE_TIMELINES + 5)], now=MONDAY)
    with start(policy=Policy(first_delay=90)) as digests:
        assert digests.replan(now=MONDAY) == PAGE_TIMELINES + 5

        assert set(dues(digests).values()) == {90}


def test_what_is_ready_open_or_waits_for_a_retry_is_left_alone(start: Start) -> None:
    with start(policy=Policy.hourly()) as digests:
        digests.add("ready", 1, now=MONDAY)
        digests.add("open", 1, now=MONDAY)
        let_wait(digests, "flushed")
        digests.flush("flushed", now=MONDAY + 20)
        with digests.digest("open", now=MONDAY):
            before = digests.timelines()
            assert digests.replan(now=MONDAY + 30) == 0
            assert digests.timelines() == before


def test_a_stored_policy_stays_in_force(start: Start) -> None:
    with start() as old:
        let_wait(old, "own", "other")
        old.set_policy("own", Policy(minimum_delay=100), now=MONDAY + 15)
    with start(policy=Policy.hourly()) as digests:
        digests.replan(now=MONDAY + 20)

        assert dues(digests) == {"own": 100, "other": 3600}


def test_the_cadence_that_a_person_chose_follows_the_code(start: Start) -> None:
    """Also of an idle timeline, for its next record."""
    with start(cadences={"calm": "hourly"}) as old:
        let_wait(old, "t")
        old.prefer("t", "calm", now=MONDAY + 15)
        old.prefer("idle", "calm", now=MONDAY + 15)
        assert dues(old) == {"t": 3600}
    with start(cadences={"calm": Policy.daily("09:00", tz="UTC")}) as digests:
        assert digests.replan(now=MONDAY + 20) == 1

        assert dues(digests) == {"t": NINE_UTC - MONDAY}
        assert digests.policy_of("idle").policy == Policy.daily("09:00", tz="UTC")
        assert not digests.add("idle", 1, now=MONDAY + 30)


def test_a_cadence_that_becomes_off_or_ends_being_off(start: Start) -> None:
    with start(cadences={"a": "hourly", "b": Cadences.OFF}) as old:
        let_wait(old, "a", "b")
        old.prefer("a", "a", now=MONDAY + 15)
        old.prefer("b", "b", now=MONDAY + 15)
    with start(cadences={"a": Cadences.OFF, "b": "hourly"}) as digests:
        digests.replan(now=MONDAY + 20)

        assert digests.policy_of("a").off
        assert digests.timeline("a").pending == 0
        assert not digests.policy_of("b").off
        assert digests.ledger().balanced


def test_a_cadence_that_this_program_does_not_know_keeps_its_policy(start: Start) -> None:
    with start(cadences={"calm": "hourly"}) as old:
        let_wait(old, "t")
        old.prefer("t", "calm", now=MONDAY + 15)
    with start() as digests:
        digests.replan(now=MONDAY + 20)

        assert dues(digests) == {"t": 3600}
        assert digests.preference("t").cadence == "calm"  # type: ignore[union-attr]  # it has one


def test_a_policy_that_fails_keeps_no_other_timeline_from_being_planned(start: Start) -> None:
    def backoff(iteration: int) -> float:
        raise OSError("away")

    with start() as old:
        let_wait(old, "bad", "good")
    with start(policy=Policy.hourly()) as digests:
        digests.handler("bad", policy=Policy(backoff=backoff))(lambda digest: None)

        assert digests.replan(now=MONDAY + 20) == 1
        assert dues(digests) == {"bad": 330, "good": 3600}


# Once after a release


def test_the_first_program_moves_nothing(start: Start) -> None:
    with start() as old:
        let_wait(old, "t")
    with start(policy=Policy.hourly()) as digests:
        assert digests.replan_changed(now=MONDAY + 20) == 0
        assert dues(digests) == {"t": 330}


def test_another_policy_moves_what_waits_once(start: Start) -> None:
    with start() as old:
        old.replan_changed()
        let_wait(old, "t")
    with start(policy=Policy.hourly()) as digests:
        assert digests.replan_changed(now=MONDAY + 20) == 1
        assert dues(digests) == {"t": 3600}

        digests.add("t", 3, increment_delay=9, maximum_delay=9999, now=MONDAY + 30)
        assert digests.replan_changed(now=MONDAY + 40) == 0
        assert dues(digests) == {"t": 3609}


def test_only_timelines_with_another_policy_are_moved(start: Start) -> None:
    def program(mail: Policy, chat: Policy | None) -> Digests:
        digests = start()
        digests.handler("mail:*", policy=mail)(lambda digest: None)
        if chat is not None:
            digests.handler("chat:*", policy=chat)(lambda digest: None)
        return digests

    calm = Policy(minimum_delay=1000, increment_delay=1)
    with program(Policy(), calm) as old:
        old.replan_changed()
        let_wait(old, "mail:a", "chat:a", "other")
    with program(Policy.hourly(), calm) as changed:
        assert changed.replan_changed(now=MONDAY + 20) == 1
        assert dues(changed) == {"mail:a": 3600, "chat:a": 1001, "other": 330}
    with program(Policy.hourly(), None) as removed:
        assert removed.replan_changed(now=MONDAY + 20) == 0, "another program may deliver chat:* now"
        assert dues(removed) == {"mail:a": 3600, "chat:a": 1001, "other": 330}


def test_a_handler_without_a_policy_of_its_own_changes_nothing(start: Start) -> None:
    with start() as old:
        old.replan_changed()
        let_wait(old, "mail:a")
    with start() as digests:
        digests.handler("mail:*")(lambda digest: None)

        assert digests.replan_changed(now=MONDAY + 20) == 0
        assert dues(digests) == {"mail:a": 330}


def test_another_cadence_moves_those_who_chose_it(start: Start) -> None:
    with start(cadences={"calm": "hourly"}) as old:
        old.replan_changed()
        let_wait(old, "chose", "else")
        old.prefer("chose", "calm", now=MONDAY + 15)
    with start(cadences={"calm": Policy(minimum_delay=700)}) as digests:
        assert digests.replan_changed(now=MONDAY + 20) == 1

        assert dues(digests) == {"chose": 700, "else": 330}


def test_a_cadence_and_the_policy_of_a_pattern_change_at_once(start: Start) -> None:
    """Those who chose the cadence need not match the pattern."""

    def program(calm: Policy, mail: Policy) -> Digests:
        digests = start(cadences={"calm": calm})
        digests.handler("mail:*", policy=mail)(lambda digest: None)
        return digests

    with program(Policy.hourly(), Policy()) as old:
        old.replan_changed()
        let_wait(old, "chose", "mail:a")
        old.prefer("chose", "calm", now=MONDAY + 15)
    with program(Policy(minimum_delay=700), Policy(minimum_delay=800)) as digests:
        assert digests.replan_changed(now=MONDAY + 20) == 2

        assert dues(digests) == {"chose": 700, "mail:a": 800}


def test_a_swap_that_is_lost_is_tried_again(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program wrote its policies meanwhile: ours still count in the end."""
    with start() as old:
        old.replan_changed()
        let_wait(old, "t")
    with start(policy=Policy.immediate()) as other, start(policy=Policy.hourly()) as digests:
        swap = digests.store.swap_note

        def late(partition: int, name: str, before: bytes | None, after: bytes | None) -> bool:
            monkeypatch.undo()
            other.replan_changed(now=MONDAY + 20)
            return swap(partition, name, before, after)

        monkeypatch.setattr(digests.store, "swap_note", late)
        digests.replan_changed(now=MONDAY + 30)

        assert dues(digests) == {"t": 3600}
        note = digests.store.note(0, "policies")
        assert note is not None
        assert msgspec.json.decode(note)["policies"]["*"] == "hourly"


def test_a_note_that_cannot_be_read_is_written_anew(start: Start) -> None:
    with start() as digests:
        assert digests.store.swap_note(0, "policies", None, b"\xff")
        let_wait(digests, "t")

        assert digests.replan_changed(now=MONDAY + 20) == 0
        assert digests.store.note(0, "policies") != b"\xff"


def test_a_store_that_is_switched_off_is_left_alone() -> None:
    with Digests("off://") as digests:
        assert digests.replan_changed() == 0
        assert digests.replan() == 0
