"""The actors of a simulated world: producers, operators, tasks of a queue, and workers, with a real `Pipeline` each."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast

from digestif.attempts.delivery import Delivery
from digestif.attempts.handlers import Handlers, Kind
from digestif.attempts.judgement import judge
from digestif.attempts.lease_watch import LeaseWatch
from digestif.attempts.leases import HeldLease
from digestif.attempts.maintenance import maintain
from digestif.attempts.outages import Outages
from digestif.attempts.pipeline import Pipeline
from digestif.attempts.room import Room
from digestif.attempts.stages import Judged, Page
from digestif.attempts.steps import Deliver, Finished, Steps, advance, run
from digestif.attempts.submission import Unanswerable
from digestif.core.policy import Policy
from digestif.core.times import Millis
from digestif.core.verdicts import give_back
from digestif.errors import ConfigError, InvalidState, StaleLease, StoreError, StoreUnavailable
from digestif.intake.policies import Policies
from digestif.stores import base
from digestif.stores.base import Lease, Requeue, Store
from digestif.worker.suspects import Suspects
from tests.chaos.book import LEASES_OF, Violation, require
from tests.chaos.stage import Crashed
from tests.chaos.world import LEARNED, PLAIN, POLICIES, Actor, Ear, Process, Wire, World

MOST_IN_HAND = 4
PATIENCE_SECONDS = 3.0  # instead of a minute that suspects let the others go first


def _handlers(*timelines: str) -> Handlers:
    handlers = Handlers()
    for timeline in timelines:
        handlers.register(timeline, print, at_most_once=timeline == "once")
    return handlers


def _policies() -> Policies:
    policies = Policies(Policy())
    for timeline, policy in POLICIES.items():
        policies.add(timeline, policy)
    return policies


KNOWN = _policies()
ALL = _handlers(*POLICIES)
SOME = _handlers(*(timeline for timeline in POLICIES if timeline not in ("merge", "young")))


def watch(world: World) -> LeaseWatch:
    return LeaseWatch(cast(Store, Wire(world)), lease=world.lease, clock=lambda: world.times.steady / 1000)


def no_outages(world: World, ear: Ear) -> Outages:
    """Channels that are never asked for: without handlers nothing is read."""
    return Outages(cast(Store, Wire(world)), handlers=Handlers(), events=ear)


class Task:
    """A delivery that a worker has in hand."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.is_begun = False
        self.ends: Millis = 0
        self.error: Exception | None = None


class Worker(Process):
    """One process whose threads call the store side by side, and handlers that end when chance says so.

    What it claims and when, and which endings it tells again, is decided as in `digestif.worker`.
    """

    def __init__(self, world: World, name: str, *, limited: bool = False) -> None:
        super().__init__(name)
        chances = world.chances
        self._world = world
        self.is_limited = limited and chances.happens(0.2)
        skew = chances.choice([None, None, None, 0, -400, 700])
        self.ear = Ear(world, self)
        self._pipeline = Pipeline(
            cast(Store, Wire(world)),
            policies=KNOWN,
            sealer=LEARNED if chances.happens(0.6) else PLAIN,
            lease=world.lease,
            now=(lambda: None) if skew is None else (lambda: world.times.wall + skew),
            events=self.ear,
            handlers=SOME if self.is_limited else ALL,
            outages=no_outages(world, self.ear),
            lease_watch=watch(world),
        )
        self._suspects = Suspects(lease_seconds=world.lease / 1000, patience_seconds=PATIENCE_SECONDS)
        self._claims = 0  # under way
        self._claims_suspects = False
        self._tried: dict[Lease, Millis] = {}  # suspects, and since when each is tried
        self._judged: dict[bool, deque[Judged]] = {False: deque(), True: deque()}  # again?
        self.tasks: list[Task] = []
        self.beats_at = world.times.steady + world.lease // 3
        self._is_stopping = False
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
        if self._is_stopping:
            return False
        chances = self._world.chances
        options: list[tuple[str, Callable[[], None]]] = []
        if self._judged[False]:
            options += [("tell", self.tell)] * 4
        if self._judged[True]:
            options += [("again", self.tell_again)] * 4
        if any(not task.is_begun for task in self.tasks):
            options += [("hand", self.begin)] * 6
        if any(map(self._is_over, self.tasks)):
            options += [("hand", self.finish)] * 6
        if len(self.tasks) < MOST_IN_HAND and self._looks(is_idle=not options):
            options += [("claim1", self.look), ("claim2", self.look)]
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
        while self._judged[True]:
            self.act("again", self.tell_again)
        while self._judged[False]:
            self.act("tell", self.tell)
        while any(not task.is_begun for task in self.tasks):
            self.act("hand", self.begin)

    def look_calmly(self, *, maintain: bool) -> None:
        """Look for something to do, without faults."""
        if maintain:
            self.act("claim1", self.maintain)
        if len(self.tasks) < MOST_IN_HAND:
            self.act("claim2", self.look)

    def _is_over(self, task: Task) -> bool:
        return task.is_begun and task.ends <= self._world.times.steady

    # What its threads do

    def look(self) -> None:
        """What `Loop.run_once` does."""
        suspects = self._suspects
        if suspects.are_tried:
            return
        if not suspects.hold_others():
            self._claim()
        elif self._holds_nothing or suspects.wait_no_longer:
            self._try_suspects(alone=self._holds_nothing)

    def _claim(self) -> None:
        long_ago = self._world.times.steady - self._world.lease
        trying = [lease for lease, since in self._tried.items() if since > long_ago and self._has_in_hand(lease)]
        require(not trying and not self._claims_suspects, "others are claimed, but suspects are tried: {}", trying)
        chances = self._world.chances
        limit = chances.randint(1, max(1, MOST_IN_HAND - len(self.tasks)))
        places = None if chances.happens(0.9) else dict.fromkeys(Kind, limit - 1)
        room = Room(places, records=self._world.pages.records_in_hand)
        page = self._take_on(self._pipeline.claim(limit, room=room))
        self._suspects.saw(page.suspect_since, looked_everywhere=page.claimed < limit)
        if page.claimed == 0 and self._suspects.exist and self._holds_nothing:
            self._try_suspects(alone=True)

    def _try_suspects(self, *, alone: bool) -> None:
        tried: list[HeldLease] = []
        room = Room(records=self._world.pages.records_in_hand)
        size = self._suspects.begin_claim(self._world.pages.suspects)
        self._claims_suspects = True
        try:
            page = self._take_on(self._pipeline.claim_suspects(size, alone=alone, room=room))
            tried = [*(each.claimed.held for each in page.loaded), *(each.held for each in page.judged)]
        finally:
            self._claims_suspects = False
            self._tried |= dict.fromkeys((held.lease for held in tried), self._world.times.steady)
            self._suspects.end_claim(tried)

    def _has_in_hand(self, lease: Lease) -> bool:
        return any(task.delivery.held.lease is lease for task in self.tasks)

    @property
    def _holds_nothing(self) -> bool:
        return not self._claims and not self.tasks

    def _take_on(self, claim: Steps[Page]) -> Page:
        self._claims += 1
        try:
            page = run(claim)
        finally:
            self._claims -= 1
        self.tasks += [Task(Delivery(each)) for each in page.loaded]
        self._judged[False] += page.judged
        if page.error is not None:
            raise page.error
        return page

    def tell(self) -> None:
        self._tell(again=False)

    def tell_again(self) -> None:
        self._tell(again=True)

    def _tell(self, *, again: bool) -> None:
        waiting = self._judged[again]
        page = [waiting.popleft() for _ in range(min(len(waiting), base.PAGE_TIMELINES))]
        answers = run(self._pipeline.end(page))
        for one, answer in zip(page, answers, strict=True):
            if isinstance(answer, StoreError) and not isinstance(answer, Unanswerable):
                self._judged[True].append(one)

    def maintain(self) -> None:
        maintain(self._pipeline)

    def begin(self) -> None:
        """Call a handler: from here on the digest may have gone out."""
        world = self._world
        task = next(task for task in self.tasks if not task.is_begun)
        world.note("hands out", task.delivery.digest)
        world.book.hand(task.delivery)
        self._see_who_is_alone(task)
        task.is_begun = True
        world.meet(task.delivery.digest)
        if not world.is_calm:
            task.ends = world.times.steady + world.chances.choice([0, 0, 10, 1000, 2 * world.lease])
            task.error = world.failure()

    def _see_who_is_alone(self, task: Task) -> None:
        deliveries = [task.delivery, *(each.delivery for each in self.tasks if each.is_begun)]
        if len(deliveries) > 1:
            leases = [delivery.held.lease for delivery in deliveries]
            sizes = [self._world.book.group_of(lease) for lease in leases]
            require(not any(0 < size < len(leases) for size in sizes), "{} run beside each other: {}", sizes, leases)

    def finish(self) -> None:
        task = next(filter(self._is_over, self.tasks))
        self.tasks.remove(task)
        self._world.note("handler ends:", task.delivery.held.lease, task.error)
        if task.error is not None:
            self._world.book.failed(task.delivery, task.error)
        self._judged[False].append(judge(task.delivery, task.error))

    def stop(self) -> None:
        """As after SIGTERM: give back what is not finished, say so, and vanish."""
        self._is_stopping = True
        for task in self.tasks:
            self._world.note("gives back", task.delivery.held.lease, task.is_begun)
            self._judged[False].append(task.delivery.judged(give_back(begun=task.is_begun)))
        self.tasks.clear()
        for _ in range(self._world.chances.choice([0, 1, 3])):
            self.tell()
            self.tell_again()
        for judged in self._unended:
            self._pipeline.reports.abandoned(judged, StoreUnavailable("it did not answer in time"))
        self._world.note("stops")
        self.ear.expect_silence()
        self.is_dead = True

    @property
    def _unended(self) -> Iterable[Judged]:
        return [*self._judged[False], *self._judged[True]]

    def renew(self) -> None:
        """Renew what is held, and see that this was neither too little nor too much."""
        world = self._world
        self.beats_at = world.times.steady + world.lease // 3
        self._received = list(filter(self._is_current, self._received))
        is_alone = self._busy == ["beat"]
        held = self._received if is_alone else [task.delivery.held.lease for task in self.tasks]
        held = list(filter(self._is_current, held))
        has_nothing = is_alone and not self.tasks and not self._unended
        disturbed = [lease for lease in held if world.book.keeps_group(lease)]
        begin, beat = len(world.trace), f"{self.name}.beat"
        self._pipeline.renew()
        told = [entry for entry in world.trace[begin:] if entry[1] == beat]
        asked = [lease for entry in told for lease in _extended(entry)]
        as_group = [lease for entry in told if _is_of_groups(entry) for lease in _extended(entry)]
        for lease in disturbed:
            require(lease not in as_group, "others run beside it, and it was renewed as a group: {}", lease)
        for lease in held:
            if self._is_current(lease) and lease not in asked and lease not in self._lost:
                raise Violation(f"a lease that is held was not renewed: {lease}")
        if has_nothing and self._busy == ["beat"] and asked:
            raise Violation(f"leases were renewed of attempts that have ended: {asked}")

    def hear(self, verb: str, args: tuple[Any, ...], answer: Any) -> None:
        if verb in ("claim", "claim_suspects"):
            self._received += answer.leases
        elif verb in LEASES_OF:
            answers = [answer] if verb == "quarantine" else answer
            answered = zip(LEASES_OF[verb](args[0]), answers, strict=True)
            self._lost += [lease for lease, alive in answered if alive is None or alive is False]

    def _is_current(self, lease: Lease) -> bool:
        hold = self._world.book.holds.get(lease.timeline)
        return hold is not None and hold.token == lease.token and not hold.is_given_back


def _extended(entry: tuple[Any, ...]) -> Sequence[Lease]:
    """The leases that a line of the trace asks for more time for."""
    if entry[2] == "extend":
        return cast(Sequence[Lease], entry[3][0])
    if entry[2] == "unavailable:" and entry[3] == "extend":
        return cast(Sequence[Lease], entry[4][0])
    return ()


def _is_of_groups(entry: tuple[Any, ...]) -> bool:
    """True if a line of the trace says that leases were renewed together with the sizes of their groups."""
    return entry[2] == "extend" and bool(entry[4].get("alone", True))


class Courier:
    """Delivers one timeline by its handler, as a task of another queue does, or in a block of `digest()`.

    It does not renew its lease.
    """

    def __init__(self, world: World, timeline: str, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self._world = world
        self._timeline = timeline
        self._ear = Ear(world, process)
        self._pipeline = Pipeline(
            cast(Store, Wire(world)),
            policies=KNOWN,
            sealer=LEARNED,
            lease=world.lease,
            now=lambda: None,
            events=self._ear,
            handlers=ALL,
            outages=no_outages(world, self._ear),
            lease_watch=watch(world),
        )
        self._is_block = timeline != "once" and world.chances.happens(0.3)
        self._steps: Steps[Any] = (
            self._pipeline.block(timeline)
            if self._is_block
            else self._pipeline.deliver(timeline, ALL.required(timeline))
        )
        self._delivery: Delivery | None = None
        self._has_ended = False
        self.is_busy = False

    @property
    def is_done(self) -> bool:
        return self._has_ended or self.process.is_dead

    def act(self) -> None:
        """Begin, or end what was begun."""
        self._world.actor = Actor(self.name, self.process)
        self.is_busy = True
        try:
            if self._delivery is None:
                self._begin()
            else:
                self._has_ended = True
                self._end(self._delivery)
        except (StoreError, InvalidState, StaleLease, ConfigError) as error:
            self._world.note("is refused:", error)
            self._has_ended = True
        except Crashed:
            self._has_ended = True
            return
        finally:
            self.is_busy = False
        if self._has_ended:
            self._ear.expect_silence()

    def leave(self) -> None:
        """Drive the steps no further."""
        self._world.actor = Actor(self.name, self.process)
        self._steps.close()

    def _begin(self) -> None:
        """Drive the steps to the delivery."""
        found = advance(self._steps)
        if isinstance(found, Finished):
            self._has_ended = True
            return
        assert isinstance(found, Deliver)
        self._delivery = found.delivery
        self._world.note("hands out", found.delivery.digest)
        self._world.book.hand(found.delivery)
        self._world.meet(found.delivery.digest)

    def _end(self, delivery: Delivery) -> None:
        """Drive the steps to their end, with what the handler or the block raised."""
        world = self._world
        error: BaseException | None = world.failure()
        world.note("handler ends:", delivery.held.lease, error)
        if error is not None and world.chances.happens(0.2):
            error = KeyboardInterrupt()
        elif error is not None:
            error = ValueError("no") if self._is_block else error  # in a block every error means the same
            world.book.failed(delivery, error)
        try:
            advance(self._steps, error=error)
        except (ValueError, KeyboardInterrupt) as raised:
            require(raised is error, "another error was raised than that of the block: {}", raised)


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
        except (StoreError, InvalidState) as error:
            self._world.note("is refused:", error)
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
            request = Requeue(letter, world.policies[world.book.timeline_of(letter)].terms(), 1000)
            options = [
                *[lambda: wire.replay(letter, now=None)] * 3,
                *[lambda: wire.requeue(request, limit=world.pages.records, now=None)] * 3,
                lambda: wire.discard(letter, now=None),
            ]
        self._act("op", chances.choice(options))

    def resume_all(self) -> None:
        for timeline in self._world.book.paused:
            self._act("op", partial(self._wire.pause, timeline, False, now=None))
