"""Who acts in a simulated world: producers, operators, and workers with a real Shift each."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from digestif.core.times import Millis
from digestif.desk import Desk
from digestif.errors import Busy, ConfigError, InvalidState, StaleLease, StoreError
from digestif.attempts import Handlers
from digestif.worker.shift import Job, Shift
from digestif.worker.single import Single
from digestif.stores.base import Lease, Store
from tests.chaos.book import LEASES_OF, Violation
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
    """One process: a shift whose threads call the store side by side, and handlers that end when chance says so."""

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
        self.beats_at = world.times.steady + world.lease // 3
        self._busy: list[str] = []  # threads in the middle of something
        self._received: list[Lease] = []  # by answers that came through …
        self._lost: list[Lease] = []  # … and so it knows that these have lapsed

    def act(self, thread: str, what: Callable[[], None]) -> None:
        """Do something that may pause, crash, or find the store unavailable; nothing if that thread has paused."""
        if thread in self._busy or self.is_dead:
            return
        self._world.actor = Actor(f"{self.name}.{thread}", self)
        self._busy.append(thread)
        try:
            what()
        except StoreError as error:
            self._world.note("has to try again:", error)
        except Crashed:
            self.tasks.clear()
        finally:
            self._busy.remove(thread)

    def choose(self) -> bool:
        """Do one of the things that a worker could do now. False: there is nothing to do."""
        chances = self._world.chances
        options: list[tuple[str, Callable[[], None]]] = []
        if self.shift.has_to_tell(again=False):
            options += [("tell", self.settle)] * 4
        if self.shift.has_to_tell(again=True):
            options += [("again", self.settle_again)] * 4
        if any(not task.is_begun for task in self.tasks):
            options += [("hand", self.begin)] * 6
        if any(map(self._is_over, self.tasks)):
            options += [("hand", self.finish)] * 6
        if len(self.tasks) < MOST_IN_HAND and self._looks(is_idle=not options):
            options += [("claim1", self.claim), ("claim2", self.claim)]
        if chances.happens(0.1):
            options += [("claim1", self.maintain)] * 2
        if chances.happens(0.02) and not self._busy:
            options = [("hand", self.stop)]
        if options:
            self.act(*chances.choice(options))
        return bool(options)

    def _looks(self, *, is_idle: bool) -> bool:
        """True if a claim is worth its while; now and then it is not."""
        happens = self._world.chances.happens
        return happens(0.1) or ((is_idle or happens(0.4)) and self._world.is_something_due)

    def go_on_calmly(self) -> None:
        """All that a worker does, without faults."""
        while any(map(self._is_over, self.tasks)):
            self.act("hand", self.finish)
        self.act("beat", self.renew)
        while self.shift.has_to_tell(again=True):
            self.act("again", self.settle_again)
        while self.shift.has_to_tell(again=False):
            self.act("tell", self.settle)
        while any(not task.is_begun for task in self.tasks):
            self.act("hand", self.begin)

    def look_calmly(self, *, maintain: bool) -> None:
        """Look for something to do, without faults."""
        if maintain:
            self.act("claim1", self.maintain)
        if len(self.tasks) < MOST_IN_HAND:
            self.act("claim2", self.claim)

    def _is_over(self, task: Task) -> bool:
        return task.is_begun and task.ends <= self._world.times.steady

    # What its threads do

    def claim(self) -> None:
        room = MOST_IN_HAND - len(self.tasks)
        page = self.shift.claim(self._world.chances.randint(1, max(1, room)))
        self.tasks += map(Task, page.jobs)

    def settle(self) -> None:
        self.shift.settle(again=False)

    def settle_again(self) -> None:
        self.shift.settle(again=True)

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
        task.error = world.failure()

    def finish(self) -> None:
        task = next(filter(self._is_over, self.tasks))
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
            self.settle()
            self.settle_again()
        self._world.note("stops")
        self.is_dead = True

    def renew(self) -> None:
        """Renew what is held, and see that this was neither too little nor too much."""
        world = self._world
        self.beats_at = world.times.steady + world.lease // 3
        self._received = list(filter(self._is_current, self._received))
        is_alone = self._busy == ["beat"]
        held = self._received if is_alone else [task.job.attempt.lease for task in self.tasks]
        held = list(filter(self._is_current, held))
        has_nothing = is_alone and not self.tasks and not self.shift.unsettled
        begin, beat = len(world.trace), f"{self.name}.beat"
        self.shift.renew()
        asked = [lease for entry in world.trace[begin:] if entry[1] == beat for lease in _extended(entry)]
        for lease in held:
            if self._is_current(lease) and lease not in asked and lease not in self._lost:
                raise Violation(f"a lease in hand was not renewed: {lease}")
        if has_nothing and self._busy == ["beat"] and asked:
            raise Violation(f"leases were renewed that nobody has in hand: {asked}")

    def hear(self, verb: str, args: tuple[Any, ...], answer: Any) -> None:
        if verb == "claim":
            self._received += answer.leases
        elif verb in LEASES_OF:
            answers = [answer] if verb == "set_aside" else answer
            told = zip(LEASES_OF[verb](args[0]), answers, strict=True)
            self._lost += [lease for lease, alive in told if alive is None or alive is False]

    def _is_current(self, lease: Lease) -> bool:
        hold = self._world.book.holds.get(lease.timeline)
        return hold is not None and hold.token == lease.token


def _extended(entry: tuple[Any, ...]) -> Sequence[Lease]:
    """The leases that a line of the trace asks for more time for."""
    if entry[2] == "extend":
        return cast(Sequence[Lease], entry[3][0])
    if entry[2] == "unavailable:" and entry[3] == "extend":
        return cast(Sequence[Lease], entry[4][0])
    return ()


class Courier(Process):
    """Delivers one timeline, as a task of somebody's own queue does, without renewing its lease."""

    def __init__(self, world: World, timeline: str, name: str) -> None:
        super().__init__(name)
        self._world = world
        self._timeline = timeline
        self._desk = Desk(
            store=cast(Store, Wire(world)),
            policy_for=POLICIES.__getitem__,
            sealer=LEARNED,
            lease=world.lease,
            now=lambda: None,
            events=Ear(world),
        )
        self._single: Single | None = None
        self.is_done = False
        self.is_busy = False

    def act(self) -> None:
        """Begin, or end what was begun."""
        self._world.actor = Actor(self.name, self)
        self.is_busy = True
        try:
            if self._single is None:
                self._begin()
            else:
                self.is_done = True
                self._end(self._single)
        except (StoreError, InvalidState, StaleLease, ConfigError) as error:
            self._world.note("was told:", error)
            self.is_done = True
        except Crashed:
            self.is_done = True
        finally:
            self.is_busy = False

    def _begin(self) -> None:
        handler = ALL.find(self._timeline)
        assert handler is not None
        single = Single(self._desk, handler, self._timeline, renews=False)
        if single.digest is None:
            self.is_done = True
            return
        self._job = Job(single._delivery.attempt, handler, is_closed=handler.at_most_once)
        self._world.note("hands out", self._job.attempt.digest)
        self._world.book.hand(self._job)
        self._single = single

    def _end(self, single: Single) -> None:
        error = self._world.failure()
        self._world.note("handler ends:", self._job.attempt.lease, error)
        if error is not None:
            self._world.book.failed(self._job)
        single.end(error)


class Outside(Process):
    """Producers and operators: they come from elsewhere, and each of their calls stands alone."""

    def __init__(self, world: World) -> None:
        super().__init__("outside")
        self._world = world
        self._wire = Wire(world)
        self._callers = 0

    def _act(self, name: str, what: Callable[[], Any]) -> None:
        self._callers += 1
        self._world.actor = Actor(f"{name}{self._callers}", self)
        try:
            what()
        except (StoreError, Busy) as error:
            self._world.note("was told:", error)
        except Crashed:
            self.is_dead = False  # there are many like that

    def produce(self) -> None:
        self._act("p", self._add)

    def _add(self) -> None:
        world = self._world
        count = world.chances.randint(1, min(4, world.pages.records))
        some = world.chances.sample(list(world.policies), world.chances.randint(1, len(world.policies)))
        for _ in range(world.chances.choice([1, 1, 5])):
            self._wire.add([world.arrival(world.chances.choice(some)) for _ in range(count)], now=None)

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
            lambda: wire.retract(timeline, world.key(), now=None),
            lambda: wire.schedule(0, world.times.wall, after=None, limit=world.pages.timelines, now=None),
            lambda: wire.maintain(0, world.times.wall - 5000, limit=world.pages.timelines, now=None),
        ]
        if chances.happens(0.2):
            options = [lambda: wire.delete(timeline, now=None)]
        elif letters and chances.happens(0.7):
            letter = chances.choice(letters)
            options = [*[lambda: wire.replay(letter, now=None)] * 3, lambda: wire.discard(letter, now=None)]
        self._act("op", chances.choice(options))

    def resume_all(self) -> None:
        for timeline in self._world.book.paused:
            self._act("op", partial(self._wire.pause, timeline, False, now=None))
