"""Celery drives the timelines. Here its tasks run where they are called; test_celery_processes.py has real workers."""

import asyncio
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from digestif import ConfigError, Digest, Digests, Discard, Event, Policy, RetryLater, StoreUnavailable
from digestif.events import Dispatched, DispatchFailed, DispatchLost, LeaseLost, Skipped
from digestif.integrations.celery import Tasks, install
from digestif.testing import FakeClock

DEAD_BROKER = "redis://127.0.0.1:1/0"
POLICY = Policy(minimum_delay=60, increment_delay=0)


class Office:
    """An app whose tasks run at once, and what its handler sent."""

    def __init__(self, **options: Any) -> None:
        self.clock = FakeClock()
        self.app = Celery("office", broker=DEAD_BROKER)
        self.app.conf.task_always_eager = True
        self.digests = Digests("memory://", policy=POLICY, clock=self.clock)
        self.tasks: Tasks = install(self.app, self.digests, **options)
        self.sent: list[tuple[str, list[str]]] = []
        self.before_sending: Callable[[Digest], object] = lambda digest: None
        self.events: list[Event] = []
        self.digests.subscribe(self.events.append)
        self.digests.handler("*")(self.send)

    def send(self, digest: Digest) -> None:
        self.before_sending(digest)
        self.sent.append((digest.timeline, sorted(record.key for record in digest)))

    def tick(self) -> int:
        return int(self.tasks.schedule_digests.delay().get())

    def account(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def office() -> Office:
    return Office()


# Delivering


def test_the_first_record_of_a_quiet_timeline_is_delivered_by_a_task_at_once(office: Office) -> None:
    assert office.tasks.notify("t", 1, key="first")

    assert office.sent == [("t", ["first"])]


def test_what_follows_is_delivered_together_by_the_tick_after_the_cool_down(office: Office) -> None:
    office.tasks.notify("t", 1, key="first")
    assert not office.tasks.notify("t", 2, key="second")
    assert not office.tasks.notify("t", 3, key="third")

    office.clock.advance(59)
    assert office.tick() == 0
    office.clock.advance(1)
    assert office.tick() == 1

    assert office.sent[1:] == [("t", ["second", "third"])]


def test_the_task_itself_can_be_the_dispatch(office: Office) -> None:
    office.digests.notify("t", 1, key="first", dispatch=office.tasks.deliver_digest.delay)

    assert office.sent == [("t", ["first"])]


def test_the_options_of_an_add_are_those_of_notify(office: Office) -> None:
    office.tasks.notify("t", 1)
    office.tasks.notify("t", 2, key="urgent", timestamp=7.5, within=10)

    office.clock.advance(10)
    [record] = office.digests.peek("t")
    office.tick()

    assert record == ("urgent", 2, 7.5)
    assert office.sent[1:] == [("t", ["urgent"])]


def test_the_delays_of_a_call_are_those_of_notify(office: Office) -> None:
    """The cool-down is that after the task that it sends."""
    assert not office.tasks.notify("late", 1, first_delay=30)
    assert office.digests.timeline("late").due == office.clock() + 30

    assert office.tasks.notify("t", 1, minimum_delay=7)
    assert office.digests.timeline("t").due == office.clock() + 7
    office.tasks.notify("t", 2, increment_delay=100, maximum_delay=50)
    assert office.digests.timeline("t").due == office.clock() + 50

    with pytest.raises(ConfigError, match="minimum_delay"):
        office.tasks.notify("u", 1, minimum_delay=-1)
    assert office.digests.ledger().accepted == 3


def test_a_cool_down_that_would_outlive_the_ttl_is_refused(office: Office) -> None:
    """Fact 76. By the call that adds and by a dispatch of the caller's own. A task that was sent by hand delivers, and
    the cool-down is cut to what the ttl allows: nobody would see its error.
    """
    too_long = 4 * 86_400
    tasks = office.tasks

    with pytest.raises(ConfigError, match=r"minimum_delay: 345600 .* ttl 604800"):
        tasks.notify("t", 1, minimum_delay=too_long)
    assert office.digests.ledger().accepted == 0

    office.digests.add("t", 1)
    with pytest.raises(ConfigError, match="minimum_delay"):
        tasks.dispatch("t", minimum_delay=too_long)
    tasks.deliver_digest.run("t", minimum_delay=too_long)

    assert office.digests.timeline("t").due == office.clock() + 604_800 / 2


def test_what_waits_for_its_window_is_delivered_by_the_tick_that_finds_it_open(office: Office) -> None:
    """Facts 55, 56 and 61: a daily digest, quiet hours and a timeline that is off, by tasks."""
    office.clock.set(1_790_000_000.0)  # 21 September 2026, 14:13:20 UTC
    office.digests.prefer("daily", "daily", zone="UTC")
    office.digests.set_policy("night", Policy.quiet_hours("14:00-15:00", tz="UTC"))
    office.digests.prefer("off", "off")
    ready = [office.tasks.notify(timeline, 1, key="a") for timeline in ("daily", "night", "off")]
    assert (ready, office.tick(), office.sent) == ([False] * 3, 0, [])

    office.clock.advance(2_800)  # 15:00
    office.tick()
    assert office.sent == [("night", ["a"])]

    office.clock.advance(18 * 3600)  # 09:00
    office.tick()
    assert office.sent == [("night", ["a"]), ("daily", ["a"])]


def test_the_first_tick_plans_again_what_a_changed_policy_moves(office: Office) -> None:
    """Fact 60: a restart with other code, while records wait."""
    office.tick()
    office.tasks.notify("t", 1, key="first")
    office.tasks.notify("t", 2, key="second")
    changed = Digests(office.digests.store, policy=Policy(minimum_delay=10, increment_delay=0), clock=office.clock)
    changed.handler("*")(office.send)
    restarted = install(Celery("restarted", broker=DEAD_BROKER), changed)

    restarted.schedule_digests()

    due = changed.timeline("t").due
    assert due == office.clock() + 10


def test_an_empty_digest_sends_nothing_and_ends_the_round(office: Office) -> None:
    office.tasks.notify("t", 1, key="first")

    office.clock.advance(60)
    assert office.tick() == 1

    assert len(office.sent) == 1
    assert office.digests.timelines() == []


@pytest.mark.parametrize("state", ["idle", "waiting", "paused", "open"])
def test_a_task_that_finds_another_state_ends_quietly(office: Office, state: str) -> None:
    """So does a task that a broker delivers twice. Its result says what it found."""
    deliver = office.tasks.deliver_digest
    if state != "idle":
        office.digests.add("t", 1)
    if state == "waiting":
        deliver("t")
    elif state == "paused":
        office.digests.pause("t")
    sent = list(office.sent)

    if state == "open":
        with office.digests.digest("t"):
            assert deliver("t") is False
    else:
        assert deliver("t") is False

    assert office.sent == sent
    [skipped] = office.account(Skipped)
    assert skipped.timeline == "t"
    assert state in skipped.reason


def test_a_handler_that_fails_is_called_again_by_the_rules_of_the_policy(office: Office) -> None:
    """For Celery its task went well: there is nothing that it should retry."""

    def refuse(digest: Digest) -> None:
        if digest.attempt == 1:
            raise RetryLater("come back in ten seconds", after=10)

    office.before_sending = refuse
    result = office.tasks.deliver_digest.delay("t") if office.digests.add("t", 1, key="first") else None

    assert result is not None
    assert result.successful()
    assert office.sent == []
    office.clock.advance(9)
    assert office.tick() == 0
    office.clock.advance(1)
    assert office.tick() == 1
    assert office.sent == [("t", ["first"])]


def test_a_task_that_lost_its_lease_ends_quietly_and_the_digest_comes_again(office: Office) -> None:
    office.before_sending = lambda digest: office.clock.advance(31) if digest.attempt == 1 else None

    office.digests.add("t", 1, key="first")
    assert office.tasks.deliver_digest("t") is False
    assert [event.timeline for event in office.account(LeaseLost)] == ["t"]
    assert office.account(Skipped) == []
    assert office.tick() == 1

    assert office.sent == [("t", ["first"])] * 2
    assert office.digests.verify()
    assert office.digests.ledger().delivered == 1


async def deliver_later(office: Office, digest: Digest) -> None:
    await asyncio.sleep(0)
    office.send(digest)


@pytest.mark.parametrize("kind", ["coroutine", "function that gives a coroutine", "batch"])
def test_a_coroutine_is_run_by_the_task(office: Office, kind: str) -> None:
    """Also one that is registered after the installation."""

    async def coroutine(digest: Digest) -> None:
        await deliver_later(office, digest)

    async def batch(digests: list[Digest]) -> None:
        [digest] = digests
        await deliver_later(office, digest)

    handlers = {"coroutine": coroutine, "function that gives a coroutine": lambda it: coroutine(it), "batch": batch}
    office.digests.handler("later:*", batch=3 if kind == "batch" else None)(handlers[kind])

    office.tasks.notify("later:t", 1, key="first")
    office.tasks.notify("later:t", 1, key="second")
    office.clock.advance(60)
    office.tick()

    assert office.sent == [("later:t", ["first"]), ("later:t", ["second"])]
    assert office.digests.ledger().delivered == 2


def test_a_policy_that_is_set_before_the_task_runs_wins_over_the_cool_down_of_the_call(office: Office) -> None:
    """The record was accepted: the task must deliver it, though its delay is too long for the ttl by now."""
    office.digests.handler("later:*")(office.send)
    office.digests.add("later:t", 1, key="first")
    office.digests.set_policy("later:t", Policy(minimum_delay=60, maximum_delay=60, ttl=200))

    office.tasks.deliver_digest.run("later:t", minimum_delay=150)

    assert office.sent == [("later:t", ["first"])]
    assert office.digests.timeline("later:t").due == office.clock() + 60


def test_coroutines_of_one_process_share_an_event_loop(office: Office) -> None:
    """So that a client that one of them opened serves the next."""
    loops: list[asyncio.AbstractEventLoop] = []

    @office.digests.handler("later:*")
    async def note_loop(digest: Digest) -> None:
        loops.append(asyncio.get_running_loop())

    for timeline in ("later:t", "later:u"):
        office.tasks.notify(timeline, 1)

    assert len(loops) == 2
    assert len(set(loops)) == 1
    office.digests.close()
    assert not loops[0].is_running()


def test_a_coroutine_that_fails_is_called_again_by_the_rules_of_the_policy(office: Office) -> None:
    @office.digests.handler("later:*")
    async def fail_once(digest: Digest) -> None:
        if digest.attempt == 1:
            raise RetryLater(after=10)
        office.send(digest)

    office.tasks.notify("later:t", 1, key="first")
    assert office.sent == []
    office.clock.advance(10)
    office.tick()

    assert office.sent == [("later:t", ["first"])]


def test_a_coroutine_is_refused_without_the_installation() -> None:
    digests = Digests("memory://")

    @digests.handler("t")
    async def send(digest: Digest) -> None: ...

    digests.add("t", 1)

    with pytest.raises(ConfigError, match="is a coroutine"):
        digests.deliver("t")


def test_coroutines_are_run_where_digests_are_switched_off() -> None:
    tasks = install(Celery("office", broker=DEAD_BROKER), Digests("off://"))
    sent: list[str] = []

    @tasks.digests.handler("*")
    async def send(digest: Digest) -> None:
        sent.append(digest.timeline)

    assert tasks.notify("t", 1)
    assert sent == ["t"]


def test_a_reader_who_is_gone_ends_the_task_quietly(office: Office) -> None:
    """With all that waits. So does a handler that deletes its timeline itself."""

    def leave(digest: Digest) -> None:
        office.digests.add(digest.timeline, "meanwhile")
        if digest.timeline == "deleted":
            office.digests.delete(digest.timeline)
        else:
            raise Discard("has left", delete=True)

    office.before_sending = leave
    results = [office.tasks.deliver_digest.delay(name) for name in ("t", "deleted") if office.digests.add(name, 1)]

    assert [result.get() for result in results] == [False, False]
    assert office.digests.timelines() == []
    assert office.digests.ledger().deleted == 4


def test_a_timeline_without_a_handler_fails_its_task(office: Office) -> None:
    """So that operators see it; the records wait."""
    tasks = install(office.app, Digests("memory://"), name_prefix="other")
    tasks.notify("t", 1)

    with pytest.raises(ConfigError, match="no handler"):
        tasks.deliver_digest("t")
    assert tasks.digests.ledger().pending == 1


def test_a_store_that_does_not_answer_fails_the_task(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise StoreUnavailable("away")

    office.digests.add("t", 1)
    monkeypatch.setattr(office.digests.store, "open", refuse)

    assert office.tasks.deliver_digest.delay("t").failed()


def test_digests_that_are_switched_off_are_delivered_where_they_are_notified() -> None:
    app = Celery("office", broker=DEAD_BROKER)
    tasks = install(app, Digests("off://"))
    sent: list[Any] = []
    tasks.digests.handler("*")(lambda digest: sent.append([record.value for record in digest]))

    assert tasks.notify("t", 1)
    assert tasks.notify("t", 2)

    assert sent == [[1], [2]]
    assert tasks.schedule_digests() == 0


# Ticks


def test_a_tick_finds_a_dispatch_that_was_lost_and_makes_another_one(office: Office) -> None:
    """Maintenance comes first: it does not take a second tick."""
    office.digests.add("t", 1, key="first")

    office.clock.advance(299)
    assert office.tick() == 0
    office.clock.advance(1)
    assert office.tick() == 1

    assert office.sent == [("t", ["first"])]
    assert office.account(DispatchLost) == [DispatchLost(timeline="t", late=300)]


def test_how_long_a_dispatch_may_take_can_be_chosen() -> None:
    office = Office(lost_after=2)
    office.digests.add("t", 1, key="first")

    office.clock.advance(2)

    assert office.tick() == 1


def test_each_entry_of_a_tick_becomes_one_task(office: Office) -> None:
    """Also of more than a page."""
    for number in range(250):
        office.tasks.notify(f"t{number}", 1)
        office.tasks.notify(f"t{number}", 2)
    office.sent.clear()
    office.clock.advance(60)

    assert office.tick() == 250
    assert office.tick() == 0
    assert len({timeline for timeline, _ in office.sent}) == len(office.sent) == 250


def test_how_late_a_task_begins_is_told(office: Office) -> None:
    office.tasks.notify("t", 1)
    office.tasks.notify("t", 2)
    assert office.account(Dispatched) == []  # it was not given out by a tick

    office.clock.advance(67)
    office.tick()

    assert office.account(Dispatched) == [Dispatched(timeline="t", late=7.0)]


# Brokers


def test_a_record_is_accepted_although_the_broker_does_not_answer(office: Office) -> None:
    """Its producer must not add it again; the event says what happened, and a tick finds it."""
    office.app.conf.task_always_eager = False

    assert office.tasks.notify("t", 1, key="first")
    office.app.conf.task_always_eager = True
    office.clock.advance(300)
    office.tick()

    [failure] = office.account(DispatchFailed)
    assert failure.timeline == "t"
    assert isinstance(failure.error, OperationalError)
    assert office.sent == [("t", ["first"])]


def test_what_a_tick_could_not_dispatch_is_found_by_a_later_one(office: Office) -> None:
    for number in range(150):
        office.tasks.notify(f"t{number}", 1)
        office.tasks.notify(f"t{number}", 2)
    office.sent.clear()
    office.clock.advance(60)
    office.app.conf.task_always_eager = False
    with pytest.raises(OperationalError):
        office.tasks.schedule_digests()
    office.app.conf.task_always_eager = True

    assert office.tick() == 50  # beyond the page in which it stopped
    office.clock.advance(300)
    assert office.tick() >= 100

    assert {timeline for timeline, _ in office.sent} == {f"t{number}" for number in range(150)}


# Installing


def test_what_is_sent_can_be_read_by_any_worker_and_old_ticks_are_worthless() -> None:
    """A tick expires after a minute. A delivery does not: it is worth doing however late, whatever the clocks say."""
    app = Celery("office", broker="memory://")
    app.conf.task_routes = {"digestif.*": {"queue": "digests"}}
    tasks = install(app, Digests("memory://"))

    tasks.deliver_digest.delay("t", schedule_timestamp=1.5)
    tasks.schedule_digests.delay()

    with app.connection_for_read() as connection:
        queue = connection.SimpleQueue("digests")
        delivery, tick = queue.get_nowait(), queue.get_nowait()
        queue.close()
    assert json.loads(delivery.body)[:2] == [["t"], {"schedule_timestamp": 1.5}]
    assert (delivery.headers["task"], delivery.headers["expires"]) == ("digestif.deliver_digest", None)
    assert tick.headers["task"] == "digestif.schedule_digests"
    assert tick.headers["expires"] is not None
    assert delivery.headers["ignore_result"]
    assert tick.headers["ignore_result"]


def test_beat_calls_the_tick_whenever_the_app_was_configured() -> None:
    """Also if that happens after the installation."""
    app = Celery("office")
    install(app, Digests("memory://"), every=2.5)
    install(app, Digests("memory://"), every=None, name_prefix="other")
    app.config_from_object({"broker_url": DEAD_BROKER, "beat_schedule": {"mine": {"task": "t", "schedule": 1}}})

    schedule = app.conf.beat_schedule

    assert schedule.keys() == {"mine", "digestif.schedule_digests"}
    assert schedule["digestif.schedule_digests"]["schedule"] == 2.5
    assert app.conf.broker_url == DEAD_BROKER


def test_several_digests_in_one_app_do_not_meet(office: Office) -> None:
    other = Digests("memory://", clock=office.clock)
    sent: list[str] = []
    other.handler("*")(lambda digest: sent.append(digest.timeline))
    tasks = install(office.app, other, name_prefix="other")

    tasks.notify("t", 1)

    assert sent == ["t"]
    assert office.sent == []
    assert "digestif.deliver_digest" in office.app.tasks
    assert "digestif.deliver_digest" not in Celery("another").tasks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "name_prefix: 'digestif' has been installed"),
        ({"name_prefix": ""}, "name_prefix: ''"),
        ({"name_prefix": "n", "every": 0}, "every: 0 is not"),
        ({"name_prefix": "n", "every": "5"}, "every: '5' is not"),
        ({"name_prefix": "n", "lost_after": None}, "lost_after: None is not"),
        ({"name_prefix": "n", "lost_after": -1}, "lost_after: -1 is not"),
    ],
)
def test_wrong_options_are_refused(office: Office, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        install(office.app, Digests("memory://"), **options)


@pytest.mark.parametrize("module", ["celery", "django", "prometheus"])
def test_a_missing_extra_is_named(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = {"prometheus": "prometheus_client"}.get(module, module)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"digestif.integrations.{module}", raising=False)

    with pytest.raises(ImportError, match=rf"needs the module {library} of the extra {module}; pip install '"):
        importlib.import_module(f"digestif.integrations.{module}")
