"""Celery drives the timelines: beat makes a tick that finds due timelines, and the delivery of each is a task.

    tasks = install(app, digests)
    tasks.notify("mail:ada", {"title": "Build 7 failed"})

Nothing depends on a single task: a later tick finds the timelines of tasks that a worker or a broker lost.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from digestif.core.texts import shortened
from digestif.core.times import Duration, Instant, in_seconds, is_duration, to_millis, to_seconds
from digestif.deliveries import Deliveries
from digestif.digests import Digests
from digestif.errors import ConfigError, InvalidState, StaleLease
from digestif.events.engine import Dispatched, DispatchFailed, Skipped
from digestif.exports import needs

with needs("celery", module=__name__):
    from celery import Celery

Task = Any  # Celery has no types

# A tick that ends in the middle (killed, or the broker is gone) leaves ready timelines without a task, a page at most.
# They wait until they count as lost.
PAGE = 100

# A tick that no worker took up in time is skipped: a later one does its work. The clocks of two machines decide that,
# so the time is long enough for clocks that differ.
TICK_EXPIRES = 60.0

_installed: WeakKeyDictionary[Celery, set[str]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks that `install` registered."""

    digests: Digests
    schedule_digests: Task
    deliver_digest: Task

    def notify(
        self,
        timeline: str,
        value: Any,
        *,
        key: str | None = None,
        timestamp: Instant | None = None,
        within: Duration | None = None,
        first_delay: Duration | None = None,
        increment_delay: Duration | None = None,
        maximum_delay: Duration | None = None,
        minimum_delay: Duration | None = None,
    ) -> bool:
        """Add a record. If its timeline is due then, let a task deliver it now, and answer True.

        Once the record is accepted nothing is raised: if the broker does not take the task, an event says so, and a
        tick finds the timeline. `minimum_delay` is the cool-down after that task; a tick's task has the policy's.
        """
        self.digests.engine.check_cool_down(timeline, minimum_delay)
        return self.digests.notify(
            timeline,
            value,
            key=key,
            timestamp=timestamp,
            within=within,
            first_delay=first_delay,
            increment_delay=increment_delay,
            maximum_delay=maximum_delay,
            dispatch=partial(self._dispatch, minimum_delay=minimum_delay),
        )

    def dispatch(self, timeline: str, *, minimum_delay: Duration | None = None) -> bool:
        """Let a task deliver a ready timeline. False if the broker does not take it."""
        self.digests.engine.check_cool_down(timeline, minimum_delay)
        return self._dispatch(timeline, minimum_delay)

    def _dispatch(self, timeline: str, minimum_delay: Duration | None) -> bool:
        options = {} if minimum_delay is None else {"minimum_delay": in_seconds(minimum_delay)}
        try:
            self.deliver_digest.delay(timeline, **options)
        except Exception as error:  # noqa: BLE001  # the record is safe, so its producer must not add it again
            self.digests.events.emit(DispatchFailed(timeline=timeline, error=error))
            return False
        return True


def install(
    app: Celery,
    digests: Digests,
    *,
    every: Duration | None = 5.0,
    lost_after: Duration = 300.0,
    name_prefix: str = "digestif",
) -> Tasks:
    """Register the tasks `digestif.schedule_digests` and `digestif.deliver_digest`, the first with beat.

    `every` is the seconds between two ticks; None leaves them to the caller. `lost_after` is how long a timeline may
    stay ready before its task counts as lost and another one is made: longer than your queue usually is. Several
    Digests in one app need prefixes of their own. Handlers may be coroutines: those of a process share an event loop.
    """
    period: float | None = in_seconds(every)
    patience: float = in_seconds(lost_after)
    _check(period, patience, name_prefix)
    names = _installed.setdefault(app, set())
    if name_prefix in names:
        raise ConfigError(f"name_prefix: {name_prefix!r} has been installed in this app; give another one")

    digests.engine.run_coroutines()

    # Acknowledged late: if a worker dies and the broker notices, another worker gets the task. If the digest was open
    # by then, that one finds it busy. Celery never retries: the policy does.
    deliver = app.task(
        _deliver_digest(digests),
        name=f"{name_prefix}.deliver_digest",
        shared=False,
        ignore_result=True,
        acks_late=True,
        max_retries=0,
    )
    tick = app.task(
        _schedule_digests(digests, deliver, patience),
        name=f"{name_prefix}.schedule_digests",
        shared=False,
        ignore_result=True,
        max_retries=0,
        expires=max(TICK_EXPIRES, 2 * (period or 0)),
    )
    if period is not None:
        # By name: to look at the task now would fix its options before the app has its configuration.
        name = f"{name_prefix}.schedule_digests"
        app.add_periodic_task(period, app.signature(name), name=name)
    names.add(name_prefix)
    return Tasks(digests, tick, deliver)


def _check(every: float | None, lost_after: float, name_prefix: object) -> None:
    for name, seconds in (("every", every), ("lost_after", lost_after)):
        if name == "every" and seconds is None:
            continue
        if seconds is None or not is_duration(seconds) or to_millis(seconds) == 0:
            raise ConfigError(f"{name}: {shortened(seconds)} is not a number of seconds > 0")
    if not isinstance(name_prefix, str) or not name_prefix:
        raise ConfigError(f"name_prefix: {shortened(name_prefix)} is not the beginning of a task's name")


def _schedule_digests(digests: Digests, deliver: Task, lost_after: float) -> Callable[[], int]:
    planned: list[bool] = []  # once per process: the policies in its code may have changed

    def schedule_digests() -> int:
        """Make a task of every timeline that is due; the answer is how many. Ticks may overlap."""
        if not planned:
            digests.replan_changed()
            planned.append(True)
        digests.maintenance(_now(digests) - lost_after)
        count = 0
        for entry in digests.schedule(page=PAGE):
            deliver.apply_async((entry.key,), {"schedule_timestamp": entry.timestamp})
            count += 1
        return count

    return schedule_digests


def _deliver_digest(digests: Digests) -> Callable[..., bool]:
    def deliver_digest(key: str, schedule_timestamp: float | None = None, minimum_delay: float | None = None) -> bool:
        """Deliver a ready timeline. False if nothing went out: it was empty, taken by another task, or failed."""
        if schedule_timestamp is not None and digests.events.wanted(Dispatched):
            late = max(0.0, _now(digests) - schedule_timestamp)
            digests.events.emit(Dispatched(timeline=key, late=late))
        try:
            # The cool-down was checked when the task was dispatched; a later policy wins.
            deliveries = Deliveries(digests.engine, None, blocking=True)
            return deliveries.run(deliveries.deliver_checked(key, minimum_delay))
        except InvalidState as error:  # another task has delivered it, or is doing so
            digests.events.emit(Skipped(timeline=key, reason=str(error)))
            return False
        except StaleLease:  # LeaseLost was emitted
            return False

    return deliver_digest


def _now(digests: Digests) -> float:
    """Seconds by the clock that the schedule goes by."""
    engine = digests.engine
    return to_seconds(engine.time(0, engine.intake.millis(None)))
