"""Who acts in a simulated world: producers, operators, and workers with a real Shift each."""

from collections.abc import Callable
from typing import Any, cast

from digestif.core.times import Millis
from digestif.core.verdicts import Discard, RetryLater
from digestif.desk import Desk
from digestif.errors import Busy, StoreError
from digestif.handlers import Handlers
from digestif.runtime.shift import Job, Shift
from digestif.stores.base import Lease, Store
from tests.chaos.book import Violation
from tests.chaos.stage import Crashed
from tests.chaos.world import LEARNED, PLAIN, POLICIES, Actor, Ear, Process, Wire, World

MOST_IN_HAND = 4


def _handlers(*timelines: str) -> Handlers:
    handlers = Handlers()
    for timeline in timelines:
        handlers.register(timeline, print, at_most_once=timeline == "once")
    return handlers


ALL = _handlers(*POLICIES)
SOME = _handlers(*(timeline for timeline in POLICIES if timeline not in ("merge", "young")))


class Task:
    """A digest in the hands of a worker."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.is_begun = False
        self.ends: Millis = 0
        self.error: Exception | None = None


class Worker(Process):
    """One process: a shift with a main thread and a heartbeat, and handlers that end when chance says so."""

    def __init__(self, world: World, name: str, *, limited: bool = False) -> None:
        super().__init__(name)
        chances = world.chances
        self._world = world
        self.is_limited = limited and chances.happens(0.2)
        skew = chances.choice([None, None, None, 0, -400, 700])
        desk = Desk(
            store=cast(Store, Wire(world)),
            policy_for=POLICIES.__getitem__,
            sealer=LEARNED if chances.happens(0.6) else PLAIN,
            lease=world.lease,
            now=(lambda: None) if skew is None else (lambda: world.times.wall + skew),
            events=Ear(world),
        )
        self.shift = Shift(desk, SOME if self.is_limited else ALL)
        self.tasks: list[Task] = []
        self.main = Actor(name, self)
        self.beat = Actor(f"{name}.beat", self)
        self.beats_at = world.times.steady + world.lease // 3
        self.busy: list[Actor] = []  # in the middle of something
        self._lost: list[Lease] = []

    def act(self, actor: Actor, what: Callable[[], None]) -> None:
        """Do something that may pause, crash, or find the store unavailable."""
        self._world.actor = actor
        self.busy.append(actor)
        try:
            what()
        except StoreError as error:
            self._world.note("has to try again:", error)
        except Crashed:
            self.tasks.clear()
        finally:
            self.busy.remove(actor)

    def choose(self) -> None:
        """Do one of the things that a worker could do now."""
        chances, steady = self._world.chances, self._world.times.steady
        options: list[Callable[[], None]] = [self.maintain] if chances.happens(0.3) else []
        if len(self.tasks) < MOST_IN_HAND:
            options += [self.claim, self.claim]
        if self.shift.unsettled:
            options += [self.settle] * 3
        if any(not task.is_begun for task in self.tasks):
            options += [self.begin] * 4
        if any(task.is_begun and task.ends <= steady for task in self.tasks):
            options += [self.finish] * 4
        if chances.happens(0.02):
            options = [self.stop]
        if options:
            self.act(self.main, chances.choice(options))

    # The main thread

    def claim(self) -> None:
        room = MOST_IN_HAND - len(self.tasks)
        page = self.shift.claim(self._world.chances.randint(1, max(1, room)))
        self.tasks += map(Task, page.jobs)

    def settle(self) -> None:
        error = self.shift.settle()
        if error is not None:
            self._world.note("has to settle again:", error)

    def maintain(self) -> None:
        self.shift.maintain()

    def begin(self) -> None:
        """Call a handler: from here on the digest may have gone out."""
        world = self._world
        task = next(task for task in self.tasks if not task.is_begun)
        world.note("hands out", task.job.attempt.digest)
        world.book.hand(task.job)
        task.is_begun = True
        if not world.is_calm:
            self._decide(task)

    def _decide(self, task: Task) -> None:
        world, chances = self._world, self._world.chances
        if any(record.value in world.poison for record in task.job.attempt.digest):
            world.note("is poisoned")
            self.is_dead = True
            raise Crashed
        task.ends = world.times.steady + chances.choice([0, 0, 10, 1000, 2 * world.lease])
        later = RetryLater(after=chances.choice([None, 0, 2]))
        task.error = chances.choice([None, None, None, None, ValueError("no"), ValueError("no"), later, Discard()])

    def finish(self) -> None:
        steady = self._world.times.steady
        task = next(task for task in self.tasks if task.is_begun and task.ends <= steady)
        self.tasks.remove(task)
        self._world.note("handler ends:", task.job.attempt.lease, task.error)
        if task.error is not None:
            self._world.book.failed(task.job)
        self.shift.finish(task.job, task.error)

    def stop(self) -> None:
        """As after SIGTERM: give back what is not finished, say so, and vanish."""
        for task in self.tasks:
            self._world.note("gives back", task.job.attempt.lease, task.is_begun)
            self.shift.give_back(task.job, begun=task.is_begun)
        self.tasks.clear()
        for _ in range(3):
            if self.shift.unsettled:
                self.settle()
        self._world.note("stops")
        self.is_dead = True

    # The heartbeat

    def renew(self) -> None:
        """Renew what is held, and see that nothing in hand was forgotten."""
        world = self._world
        self.beats_at = world.times.steady + world.lease // 3
        held = [task.job.attempt.lease for task in self.tasks if not task.job.is_closed]
        begin = len(world.trace)
        self.shift.renew()
        asked: list[Lease] = []
        for _, who, verb, *rest in world.trace[begin:]:
            if who == self.beat.name and verb == "unavailable:":
                asked += rest[1][0]
            elif who == self.beat.name and verb == "extend":
                (leases,), _, _, answers = rest
                asked += leases
                self._lost += [lease for lease, alive in zip(leases, answers, strict=True) if not alive]
        for lease in held:
            if self._is_current(lease) and lease not in asked and lease not in self._lost:
                raise Violation(f"a lease in hand was not renewed: {lease}")

    def _is_current(self, lease: Lease) -> bool:
        hold = self._world.book.holds.get(lease.timeline)
        in_hand = any(task.job.attempt.lease is lease for task in self.tasks)
        return in_hand and hold is not None and hold.token == lease.token


class Outside(Process):
    """Producers and operators: they come from elsewhere, and each of their calls stands alone."""

    def __init__(self, world: World) -> None:
        super().__init__("outside")
        self._world = world
        self._wire = Wire(world)

    def _act(self, name: str, what: Callable[[], Any]) -> None:
        self._world.actor = Actor(name, self)
        try:
            what()
        except (StoreError, Busy) as error:
            self._world.note("was told:", error)
        except Crashed:
            self.is_dead = False  # there are many like that

    def produce(self) -> None:
        self._act("producer", self._add)

    def _add(self) -> None:
        world = self._world
        count = world.chances.randint(1, 3)
        first = len(world.book.versions)
        timelines = world.chances.choices(list(world.policies), k=count)
        batch = [world.arrival(timeline, first + place) for place, timeline in enumerate(timelines)]
        self._wire.add(batch, now=None)

    def operate(self) -> None:
        world, chances, wire = self._world, self._world.chances, self._wire
        timeline = chances.choice(list(world.policies))
        letters = world.book.letters
        options: list[Callable[[], Any]] = [
            lambda: wire.flush(timeline, now=None),
            lambda: wire.flush(timeline, now=None),
            lambda: wire.pause(timeline, True, now=None),
            lambda: wire.pause(timeline, False, now=None),
            lambda: wire.pause(timeline, False, now=None),
            lambda: wire.retract(timeline, f"k{chances.randrange(12)}", now=None),
            lambda: wire.schedule(0, world.times.wall, after=None, limit=world.pages.timelines, now=None),
            lambda: wire.maintain(0, world.times.wall - 5000, limit=world.pages.timelines, now=None),
        ]
        if chances.happens(0.2):
            options = [lambda: wire.delete(timeline, now=None)]
        elif letters and chances.happens(0.7):
            letter = chances.choice(letters)
            options = [*[lambda: wire.replay(letter, now=None)] * 3, lambda: wire.discard(letter, now=None)]
        self._act("operator", chances.choice(options))

    def resume_all(self) -> None:
        for timeline in self._world.book.paused:
            self._act("operator", lambda timeline=timeline: self._wire.pause(timeline, False, now=None))
