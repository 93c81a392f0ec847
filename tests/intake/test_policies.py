"""Which policy a timeline has in the code: fixed ones, and functions with their answers and failures."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from digestif import ConfigError, Digests, Event, Policy, PolicyFailed, Window
from digestif.core.terms import Override, Terms
from digestif.events.base import Events
from digestif.intake.policies import ANSWERS, Policies
from digestif.intake.zone_data import zone_data_version
from digestif.testing import FakeClock

CALM = Policy(minimum_delay=600, maximum_delay=3600)
NOON = 1_772_445_600_000  # 2026-03-02, 10:00 UTC


@dataclass
class Asked:
    """A function from timeline to Policy, how often it was asked, and what it does then."""

    answer: Callable[[str], Any]
    times: int = 0

    def __call__(self, timeline: str) -> Any:
        self.times += 1
        return self.answer(timeline)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def heard() -> list[Event]:
    return []


@pytest.fixture
def events(heard: list[Event]) -> Events:
    events = Events()
    events.subscribe(heard.append)
    return events


def fails(_: str) -> Policy:
    raise OSError("the database is away")


# Where it comes from


def test_the_first_of_handler_or_route_and_engine_counts() -> None:
    policies = Policies(CALM)
    policies.add("mail:*", Policy.hourly(), kind="route")
    policies.add("mail:ada", None)
    policies.add("chat:*", lambda timeline: Policy.immediate(), kind="handler")

    found = {name: (policies.of(name), policies.source_of(name)) for name in ("mail:bob", "mail:ada", "chat:x", "x")}

    assert found == {
        "mail:bob": (Policy.hourly(), "route mail:*"),
        "mail:ada": (CALM, "engine"),
        "chat:x": (Policy.immediate(), "handler chat:*"),
        "x": (CALM, "engine"),
    }


@pytest.mark.parametrize("wrong", [7, "hourly", Policy, [Policy()]])
def test_what_is_no_policy_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"policy: .* is neither a Policy nor a function"):
        Policies(wrong)
    with pytest.raises(ConfigError, match="policy: "):
        Policies().add("t", wrong)


@pytest.mark.parametrize("text", ["hourly", "minimum=5m,maximum=30m"])
def test_the_text_of_a_policy_is_refused_with_the_call_that_reads_it(text: str) -> None:
    digests = Digests("memory://")
    advice = re.escape(f'; write Policy.parse("{text}")') + "$"

    with pytest.raises(ConfigError, match=advice):
        Digests("memory://", policy=text)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigError, match=advice):
        digests.route("h:*", channel="terminal://", policy=text)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigError, match=r"from timeline to Policy$"):
        digests.handler("h:*", policy="daily")  # type: ignore[arg-type]  # on purpose


def test_a_coroutine_is_refused() -> None:
    async def policy_of(timeline: str) -> Policy:
        return Policy()

    with pytest.raises(ConfigError, match="coroutine"):
        Policies(policy_of)  # type: ignore[arg-type]  # on purpose


def test_claims_are_asked_about_only_if_a_policy_may_hold_timelines_back() -> None:
    policies = Policies(CALM)
    assert not policies.asks

    policies.add("mail:*", Policy.hourly())
    assert not policies.asks

    policies.add("chat:*", Policy.daily("09:00", tz="UTC"))
    assert policies.asks
    assert Policies(lambda timeline: CALM).asks


def test_the_redelivery_of_a_route_holds_for_every_policy_of_its_timelines() -> None:
    """Fixed, given by a function, the engine's or stored."""
    by_function = Policies(lambda timeline: CALM)
    by_function.add("own:*", lambda timeline: Policy.hourly(), kind="route", redelivery="same")
    by_function.add("engine:*", None, kind="route", redelivery="same")
    stored = Override(text="hourly", since=0, terms=Terms())

    assert by_function.of("own:a") == Policy.hourly(redelivery="same")
    assert by_function.of("engine:a").redelivery == "same"
    assert by_function.source_of("engine:a") == "engine"
    assert by_function.of("other").redelivery == "merge"
    assert by_function.in_force("own:a", stored).policy == Policy.hourly(redelivery="same")


# Terms


def test_all_records_share_the_terms_of_a_policy_without_a_window() -> None:
    policies = Policies(CALM)
    policies.add("mail:*", lambda timeline: Policy.hourly())

    assert policies.terms("a") is policies.terms("b")
    assert policies.terms("mail:a") is policies.terms("mail:b")  # equal answers
    assert policies.terms("a") == CALM.terms()


def test_the_terms_of_a_window_carry_its_openings_and_are_shared() -> None:
    policies = Policies(Policy.daily("09:00", tz="UTC"))

    terms = policies.terms("a", NOON)

    assert terms.openings is not None
    assert NOON + 23 * 3_600_000 in terms.openings.numbers
    assert policies.terms("b", NOON + 1) is terms


def test_while_the_zone_of_a_window_is_unknown_its_timelines_are_held_back(
    events: Events, heard: list[Event], clock: FakeClock
) -> None:
    window = Window.daily("09:00", tz=lambda timeline: str(1 / 0))
    policies = Policies(Policy(window=window), events=events, clock=clock)

    terms = policies.terms("a", NOON)

    assert terms.openings is not None
    assert terms.openings.numbers == ()
    assert [(event.timeline, event.source) for event in heard if isinstance(event, PolicyFailed)] == [("a", "engine")]


# Functions


def test_an_answer_is_kept_for_a_minute(clock: FakeClock) -> None:
    asked = Asked(lambda timeline: CALM)
    policies = Policies(asked, clock=clock)

    assert not policies.is_known("a")
    assert {policies.of("a") for _ in range(3)} == {CALM}
    assert policies.is_known("a")
    clock.advance(59.9)
    policies.terms("a")
    assert asked.times == 1

    clock.advance(0.1)
    policies.of("a")
    assert asked.times == 2


def test_what_is_forgotten_is_asked_again(clock: FakeClock) -> None:
    asked = Asked(lambda timeline: CALM)
    policies = Policies(asked, clock=clock)
    policies.of("a")
    policies.of("b")

    policies.forget("a")
    policies.of("a")
    policies.of("b")
    assert asked.times == 3

    policies.forget()
    policies.of("a")
    policies.of("b")
    assert asked.times == 5


def test_the_answers_that_are_kept_are_bounded() -> None:
    asked = Asked(lambda timeline: CALM)
    policies = Policies(asked)
    for number in range(ANSWERS + 1):
        policies.of(f"t{number}")

    policies.of("t1")
    assert asked.times == ANSWERS + 1
    policies.of("t0")  # the oldest one gave way
    assert asked.times == ANSWERS + 2


def test_a_function_that_fails_leaves_its_last_answer_in_force(
    events: Events, heard: list[Event], clock: FakeClock
) -> None:
    asked = Asked(lambda timeline: CALM)
    policies = Policies(Policy(), events=events, clock=clock)
    policies.add("mail:*", asked, kind="route")
    policies.of("mail:a")

    asked.answer = fails
    clock.advance(60)

    assert policies.of("mail:a") == CALM
    assert [(e.timeline, e.source, str(e.error)) for e in heard if isinstance(e, PolicyFailed)] == [
        ("mail:a", "route mail:*", "the database is away")
    ]


def test_forgetting_an_answer_does_not_lose_it_for_a_function_that_fails(clock: FakeClock) -> None:
    asked = Asked(lambda timeline: CALM)
    policies = Policies(asked, clock=clock)
    policies.of("a")

    asked.answer = fails
    policies.forget("a")

    assert policies.of("a") == CALM


@pytest.mark.parametrize("engine", [CALM, None, fails])
def test_without_a_last_answer_the_default_holds(engine: Any) -> None:
    policies = Policies(engine)
    policies.add("mail:*", fails)

    assert policies.of("mail:a") == (CALM if engine is CALM else Policy())


def test_a_function_that_failed_is_asked_again_soon_but_not_for_every_record(clock: FakeClock) -> None:
    asked = Asked(fails)
    policies = Policies(asked, clock=clock)

    policies.of("a")
    policies.of("a")
    assert asked.times == 1

    asked.answer = lambda timeline: CALM
    clock.advance(5)
    assert policies.of("a") == CALM


async def _later() -> Policy:
    return CALM


@pytest.mark.parametrize("answer", [None, "hourly", 7, _later])
def test_an_answer_that_is_no_policy_counts_as_a_failure(
    answer: Any, events: Events, heard: list[Event], clock: FakeClock
) -> None:
    policies = Policies(lambda timeline: answer() if callable(answer) else answer, events=events, clock=clock)

    assert policies.of("a") == Policy()
    [event] = heard
    assert isinstance(event, PolicyFailed)
    assert "not a Policy" in str(event.error)


def test_failures_are_told_once_a_minute_for_each_source(events: Events, heard: list[Event], clock: FakeClock) -> None:
    policies = Policies(fails, events=events, clock=clock)
    policies.add("mail:*", fails, kind="route")

    for name in ("a", "b", "mail:a", "mail:b"):
        policies.of(name)
    assert len(heard) == 2

    clock.advance(59)
    policies.of("c")
    assert len(heard) == 2
    clock.advance(1)
    policies.of("d")
    assert len(heard) == 3


# Overrides


def test_a_stored_text_that_cannot_be_read_gives_way_to_the_code(events: Events, heard: list[Event]) -> None:
    policies = Policies(CALM, events=events)

    found = policies.in_force("t", Override(text="lunar@full Moon/Tycho", since=0, terms=Terms()))

    assert (found.policy, found.source, found.off) == (CALM, "engine", False)
    [event] = heard
    assert isinstance(event, PolicyFailed)
    assert (event.timeline, event.source) == ("t", "override")


def test_a_stored_policy_names_its_source() -> None:
    policies = Policies(CALM)
    given = Override(text="hourly", since=0, terms=Terms())
    chosen = Override(text="hourly", since=0, terms=Terms(), cadence="now and then")
    off = Override(text="off", since=0, terms=Terms(), cadence="never", off=True)

    assert policies.in_force("t", given).source == "override"
    assert policies.in_force("t", given).policy == Policy.hourly()
    assert policies.in_force("t", chosen).source == "cadence now and then"
    assert (policies.in_force("t", off).source, policies.in_force("t", off).off) == ("cadence never", True)


# Fingerprints


def policy_by_name(timeline: str) -> Policy:
    return Policy()


def test_a_fingerprint_is_the_same_in_every_process_and_changes_with_the_policy() -> None:
    functions: list[Callable[[int], float]] = []  # all alive, so that each has an address of its own

    def made(**options: Any) -> dict[str, str]:
        functions.append(lambda iteration: 60.0)
        policies = Policies(Policy(minimum_delay=60))
        policies.add("a:*", policy_by_name)
        policies.add("b:*", Policy(backoff=functions[-1]))
        policies.add("c:*", Policy(**options))
        return policies.fingerprints()

    assert made() == made()  # with functions at other addresses
    assert made()["a:*"] == f"{__name__}.policy_by_name by zone data {zone_data_version()}"
    assert set(made()) == {"a:*", "b:*", "c:*"}
    assert [name for name, text in made().items() if made(maximum_delay=600)[name] != text] == ["c:*"]
