"""A worker that starts with other policies than the last one plans what waits again."""

from typing import Any

import pytest

from digestif import AsyncDigests, Digests, Policy, Replanned
from digestif.stores.memory import MemoryStore
from digestif.testing import FakeClock
from digestif.worker.clock_watch import ClockWatch
from digestif.worker.limits import Tuning
from tests.worker.workers import Ear, becomes, working


@pytest.mark.parametrize("kind", [Digests, AsyncDigests])
def test_a_worker_plans_again_what_a_changed_policy_moves(kind: Any) -> None:
    store = MemoryStore(namespace="d")
    old = Digests(store, policy=Policy.hourly())
    old.replan_changed()
    old.add("t", 1)
    with old.digest("t"):
        pass
    old.add("t", 2)
    due = old.timeline("t").due

    changed = kind(store, policy=Policy(minimum_delay=7200, maximum_delay=7200))
    changed.handler("*")(lambda _: None)
    ear = Ear(changed)
    with working(changed):
        [told] = ear.wait_for(Replanned)

    assert (told.timelines, told.moved) == (1, 1)
    assert due is not None
    assert old.timeline("t").due == due + 3600


def test_programs_with_other_patterns_leave_each_other_alone() -> None:
    store = MemoryStore(namespace="d")
    mail, chat = (Digests(store, policy=policy) for policy in (Policy.hourly(), Policy.daily("09:00", tz="UTC")))
    mail.handler("mail:*")(lambda _: None)
    chat.handler("chat:*")(lambda _: None)
    for program in (mail, chat):
        program.replan_changed(now=0)
    mail.add("mail:ada", 1, first_delay=60, now=0)
    due = mail.timeline("mail:ada").due

    moved = [program.replan_changed(now=1) for program in (chat, mail, chat)]

    assert moved == [0, 0, 0]
    assert mail.timeline("mail:ada").due == due


def test_a_pattern_that_is_gone_leaves_its_timelines_to_the_next_one() -> None:
    store = MemoryStore(namespace="d")
    old, new = Digests(store), Digests(store)
    for program in (old, new):
        program.handler("mail:*")(lambda _: None)
    old.handler("mail:vip:*", policy=Policy.daily("09:00", tz="UTC"))(lambda _: None)
    old.replan_changed(now=0)
    old.add("mail:vip:ada", 1, now=3600)
    assert old.timeline("mail:vip:ada").due == 9 * 3600

    assert new.replan_changed(now=7200) == 1

    assert new.timeline("mail:vip:ada").due == 7200
    assert new.replan_changed(now=7201) == 0


def test_a_worker_notices_that_the_clock_was_set_back_and_plans_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was delivered while the clock was a day ahead waits for its cool-down, not for a day."""
    looks: list[bool] = []
    was_set_back = ClockWatch.was_set_back

    def look(watch: ClockWatch, now: int) -> bool:
        looks.append(was_set_back(watch, now))
        return looks[-1]

    monkeypatch.setattr(ClockWatch, "was_set_back", look)
    clock = FakeClock()
    digests = Digests("memory://", clock=clock, policy=Policy(minimum_delay=300))
    digests.handler("other")(lambda _: None)
    digests.add("t", 1)
    clock.advance(86_400)
    with digests.digest("t"):
        digests.add("t", 2)

    with working(digests, tuning=Tuning(sampling=0.01)):
        assert becomes(lambda: len(looks) > 0)
        clock.advance(-86_400)
        assert becomes(lambda: digests.timeline("t").due == clock() + 300)

    assert looks.count(True) == 1


def test_a_clock_that_is_corrected_by_some_minutes_is_left_alone() -> None:
    steady = FakeClock(0)
    watch = ClockWatch(steady)

    assert not watch.was_set_back(10_000_000)
    steady.advance(10)
    assert not watch.was_set_back(10_010_000 - 600_000)
    assert watch.was_set_back(10_010_000 - 1_200_001)
