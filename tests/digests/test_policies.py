"""Policies at run time on the face: stored for a timeline, chosen by a person, given by a function."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from digestif import (
    AsyncDigests,
    Cadences,
    ConfigError,
    Digests,
    Event,
    InvalidRecord,
    Policy,
    PolicyFailed,
    PolicyInForce,
    Preference,
    State,
)

MONDAY = 1_772_442_000  # 2026-03-02, 10:00 in Berlin
NINE = MONDAY + 23 * 3600  # the next 09:00 there
BERLIN = Policy.daily("09:00", tz="Europe/Berlin")


@pytest.fixture(params=["memory://", "sqlite:///{path}"])
def digests(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Digests]:
    with Digests(str(request.param).format(path=tmp_path / "d.db")) as digests:
        yield digests


def deliver(digests: Digests, timeline: str, now: float) -> list[str]:
    with digests.digest(timeline, now=now) as digest:
        return [record.key for record in digest]


# Stored for a timeline


@pytest.mark.parametrize("policy", [BERLIN, "daily@09:00 Europe/Berlin"])
def test_a_stored_policy_holds_for_its_timeline_alone(digests: Digests, policy: Policy | str) -> None:
    digests.set_policy("t", policy, now=MONDAY)

    assert not digests.add("t", 1, now=MONDAY)
    assert digests.add("other", 1, now=MONDAY)
    assert digests.timeline("t").due == NINE
    assert digests.policy_of("t") == PolicyInForce(policy=BERLIN, source="override")
    assert digests.policy_of("other") == PolicyInForce(policy=Policy(), source="engine")


def test_another_process_follows_at_once(tmp_path: Path) -> None:
    dsn = f"sqlite:///{tmp_path / 'd.db'}"
    with Digests(dsn) as here, Digests(dsn, policy=Policy.hourly()) as there:
        here.set_policy("t", Policy(minimum_delay=7, maximum_delay=7), now=MONDAY)

        there.add("t", 1, now=MONDAY)
        deliver(there, "t", MONDAY)

        assert there.timeline("t").due == MONDAY + 7
        assert there.policy_of("t").source == "override"


def test_from_daily_to_instant_what_waits_is_due_now_and_back_at_the_next_nine(digests: Digests) -> None:
    """Acceptance 60."""
    digests.set_policy("t", BERLIN, now=MONDAY)
    digests.add("t", 1, now=MONDAY)

    digests.set_policy("t", Policy.immediate(), now=MONDAY + 60)
    assert digests.timeline("t").due == MONDAY + 60

    digests.set_policy("t", BERLIN, now=MONDAY + 120)
    assert digests.timeline("t").due == NINE


def test_clearing_it_plans_by_the_code_again(digests: Digests) -> None:
    digests.add("t", 1, now=MONDAY)
    deliver(digests, "t", MONDAY)
    digests.set_policy("t", BERLIN, now=MONDAY)
    digests.add("t", 2, now=MONDAY + 10)
    assert digests.timeline("t").due == NINE

    assert digests.clear_policy("t", now=MONDAY + 20)

    assert digests.timeline("t").due == MONDAY + 300
    assert digests.policy_of("t").source == "engine"
    assert not digests.clear_policy("t", now=MONDAY + 20)


def test_clearing_it_knows_the_cool_down_of_the_iteration(tmp_path: Path) -> None:
    policy = Policy(backoff=lambda iteration: 100.0 * iteration)
    with Digests(f"sqlite:///{tmp_path / 'd.db'}", policy=policy) as digests:
        digests.add("t", 1, now=MONDAY)
        deliver(digests, "t", MONDAY)
        digests.add("t", 2, now=MONDAY + 50)
        assert [entry.key for entry in digests.schedule(now=MONDAY + 100)] == ["t"]
        deliver(digests, "t", MONDAY + 100)
        digests.set_policy("t", Policy.hourly(), now=MONDAY + 100)

        digests.clear_policy("t", now=MONDAY + 100)

        assert digests.timeline("t").due == MONDAY + 300


def test_delays_given_to_the_call_come_first(digests: Digests) -> None:
    """Acceptance 59."""
    digests.set_policy("t", Policy(minimum_delay=60, increment_delay=5, maximum_delay=600), now=MONDAY)
    digests.add("t", 1, now=MONDAY)
    deliver(digests, "t", MONDAY)

    digests.add("t", 2, now=MONDAY + 1)
    assert digests.timeline("t").due == MONDAY + 65
    digests.add("t", 3, increment_delay=100, now=MONDAY + 2)
    assert digests.timeline("t").due == MONDAY + 165


@pytest.mark.parametrize("wrong", [7, None, "every other tuesday", Policy(backoff=lambda iteration: 1.0)])
def test_what_cannot_be_stored_is_refused_and_nothing_changes(digests: Digests, wrong: Any) -> None:
    with pytest.raises(ConfigError):
        digests.set_policy("t", wrong)

    assert digests.policy_of("t").source == "engine"


def test_names_of_timelines_are_checked(digests: Digests) -> None:
    calls: list[Callable[[], object]] = [
        lambda: digests.set_policy("", "hourly"),
        lambda: digests.clear_policy(""),
        lambda: digests.policy_of(""),
        lambda: digests.prefer("", "daily"),
        lambda: digests.preference(""),
        lambda: digests.forget_policies(""),
    ]
    for call in calls:
        with pytest.raises(InvalidRecord):
            call()


# Chosen by a person


def test_a_person_chooses_a_cadence_in_a_time_zone(digests: Digests) -> None:
    assert digests.preference("t") is None

    digests.prefer("t", "daily", zone="Europe/Berlin", now=MONDAY)
    digests.add("t", 1, now=MONDAY)

    assert digests.timeline("t").due == NINE
    assert digests.preference("t") == Preference(cadence="daily", zone="Europe/Berlin", policy=BERLIN)
    assert digests.policy_of("t") == PolicyInForce(policy=BERLIN, source="cadence daily")


def test_a_stored_policy_is_no_preference(digests: Digests) -> None:
    digests.set_policy("t", "hourly")

    assert digests.preference("t") is None


def test_off_declines_records_and_deletes_what_waits(digests: Digests) -> None:
    """Acceptance 61."""
    digests.add("t", 1, now=MONDAY)

    digests.prefer("t", "off", now=MONDAY)
    assert not digests.add("t", 2, now=MONDAY)

    counts = digests.ledger()
    assert (counts.accepted, counts.deleted, counts.declined, counts.pending) == (1, 1, 1, 0)
    assert counts.balanced
    assert digests.policy_of("t").off
    assert digests.preference("t") == Preference(cadence="off", zone=None, policy=None)

    digests.prefer("t", "instant", now=MONDAY + 1)
    assert digests.peek("t") == []
    digests.add("t", 3, key="c", now=MONDAY + 2)
    assert deliver(digests, "t", MONDAY + 2) == ["c"]


def test_cadences_of_the_program_can_be_chosen(tmp_path: Path) -> None:
    own = {"never": Cadences.OFF, "lunch": "daily@12:00 UTC"}
    with Digests(f"sqlite:///{tmp_path / 'd.db'}", cadences=own) as digests:
        digests.prefer("t", "lunch")

        assert "lunch" in digests.cadences
        assert digests.policy_of("t").policy == Policy.daily("12:00", tz="UTC")
        with pytest.raises(ConfigError, match=r"did you mean lunch\?"):
            digests.prefer("t", "lunsh")
        with pytest.raises(ConfigError, match="cadences: "):
            Digests("memory://", cadences=["daily"])  # type: ignore[arg-type]  # on purpose


# Given by a function


def test_a_function_gives_the_policies_of_an_engine() -> None:
    def by_name(timeline: str) -> Policy:
        return Policy.hourly() if timeline == "calm" else Policy.immediate()

    with Digests("memory://", policy=by_name) as digests:
        for name in ("calm", "hectic"):
            digests.add(name, 1, now=MONDAY)
            deliver(digests, name, MONDAY)

        assert digests.timeline("calm").due == MONDAY + 3600
        assert digests.timeline("hectic").due == MONDAY
        assert digests.policy == Policy()


def test_a_handler_has_a_policy_of_its_own(digests: Digests) -> None:
    digests.handler("mail:*", policy=BERLIN)(lambda digest: None)
    digests.handler("chat:*", policy=lambda timeline: Policy.hourly())(lambda digest: None)
    with pytest.raises(ConfigError, match="policy: "):
        digests.handler("x", policy=7)  # type: ignore[arg-type]  # on purpose

    assert not digests.add("mail:a", 1, now=MONDAY)

    assert digests.timeline("mail:a").due == NINE
    assert digests.policy_of("mail:a") == PolicyInForce(policy=BERLIN, source="handler mail:*")
    assert digests.policy_of("chat:a") == PolicyInForce(policy=Policy.hourly(), source="handler chat:*")


def test_delays_given_to_the_call_do_not_pass_the_window(digests: Digests) -> None:
    digests.handler("mail:*", policy=BERLIN)(lambda digest: None)

    assert not digests.add("mail:a", 1, first_delay=24 * 3600, now=MONDAY)

    assert digests.timeline("mail:a").due == NINE + 24 * 3600


def test_a_function_that_fails_stops_neither_adds_nor_deliveries() -> None:
    heard: list[Event] = []

    def fails(timeline: str) -> Policy:
        raise OSError("away")

    with Digests("memory://", policy=fails) as digests:
        digests.subscribe(heard.append)

        assert digests.add("t", 1, key="a", now=MONDAY)
        assert deliver(digests, "t", MONDAY) == ["a"]

        assert digests.timeline("t").due == MONDAY + 300
    assert [event.source for event in heard if isinstance(event, PolicyFailed)] == ["engine"]


def test_a_changed_answer_counts_once_the_old_one_is_forgotten() -> None:
    policies = {"t": Policy.hourly()}
    with Digests("memory://", policy=lambda timeline: policies[timeline]) as digests:
        assert digests.policy_of("t").policy == Policy.hourly()
        policies["t"] = Policy.immediate()
        assert digests.policy_of("t").policy == Policy.hourly()

        digests.forget_policies("t")

        assert digests.policy_of("t").policy == Policy.immediate()


# Delays of single calls


def test_notify_takes_the_delays_of_add_and_deliver(digests: Digests) -> None:
    got: list[int] = []
    digests.handler("*")(lambda digest: got.append(len(digest)))

    assert not digests.notify("late", 1, first_delay=30, now=MONDAY)
    assert digests.timeline("late").due == MONDAY + 30
    assert digests.notify("t", 1, minimum_delay=7, now=MONDAY)
    assert digests.timeline("t").due == MONDAY + 7
    digests.notify("t", 2, increment_delay=100, now=MONDAY + 1)
    assert digests.timeline("t").due == MONDAY + 107
    digests.notify("t", 3, increment_delay=100, maximum_delay=150, now=MONDAY + 1)
    assert digests.timeline("t").due == MONDAY + 150
    assert got == [1]


def test_deliver_takes_a_cool_down(digests: Digests) -> None:
    digests.handler("*")(lambda digest: None)
    digests.set_policy("t", Policy.hourly(), now=MONDAY)
    digests.add("t", 1, now=MONDAY)

    assert digests.deliver("t", 7, now=MONDAY)

    assert digests.timeline("t").due == MONDAY + 7


@pytest.mark.parametrize("delay", [-1, float("nan"), "soon", True])
def test_a_wrong_delay_is_refused_before_anything_is_added(digests: Digests, delay: Any) -> None:
    digests.handler("*")(lambda digest: None)

    for name in ("first_delay", "increment_delay", "maximum_delay", "minimum_delay"):
        with pytest.raises(ConfigError, match=name):
            digests.notify("t", 1, **{name: delay})

    assert digests.ledger().accepted == 0


def test_a_cool_down_cannot_be_given_to_a_task(digests: Digests) -> None:
    with pytest.raises(ConfigError, match="let the task give it to deliver"):
        digests.notify("t", 1, minimum_delay=7, dispatch=lambda timeline: None)

    assert digests.ledger().accepted == 0


# For asyncio


def test_the_asynchronous_face_has_the_same_methods() -> None:
    async def main() -> None:
        async with AsyncDigests("memory://", cadences={"lunch": "daily@12:00 UTC"}) as digests:
            digests.handler("*")(lambda digest: None)
            await digests.prefer("t", "daily", zone="Europe/Berlin", now=MONDAY)
            assert not await digests.add("t", 1, now=MONDAY)
            assert (await digests.timeline("t")).due == NINE
            assert (await digests.preference("t")) == Preference(cadence="daily", zone="Europe/Berlin", policy=BERLIN)
            assert (await digests.policy_of("t")).source == "cadence daily"
            assert await digests.clear_policy("t", now=MONDAY)
            await digests.set_policy("t", "hourly", now=MONDAY)
            assert await digests.replan(now=MONDAY) == 0
            assert await digests.replan_changed(now=MONDAY) == 0
            digests.forget_policies()
            assert "lunch" in digests.cadences
            assert await digests.notify("u", 1, minimum_delay=7, now=MONDAY)
            assert (await digests.timeline("u")).due == MONDAY + 7
            assert not await digests.notify("v", 1, first_delay=9, now=MONDAY)
            with pytest.raises(ConfigError, match="minimum_delay"):
                await digests.notify("v", 1, minimum_delay=-1)

    asyncio.run(main())


def test_a_function_that_gives_policies_does_not_hold_up_the_event_loop() -> None:
    """It is called in another thread, once."""
    threads: list[int] = []

    def by_name(timeline: str) -> Policy:
        threads.append(threading.get_ident())
        return Policy.hourly()

    async def main() -> None:
        async with AsyncDigests("memory://", policy=by_name) as digests:
            assert await digests.add("t", 1, now=MONDAY)
            await digests.add("t", 2, now=MONDAY)

    asyncio.run(main())

    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


def test_switching_off_leaves_an_open_digest_to_its_delivery(digests: Digests) -> None:
    digests.add("t", 1, now=MONDAY)

    with digests.digest("t", now=MONDAY):
        digests.prefer("t", "off", now=MONDAY)
        assert digests.timeline("t").state is State.OPEN

    assert digests.ledger().delivered == 1
