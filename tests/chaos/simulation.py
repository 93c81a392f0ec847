"""One seed, one life: chaos for a while, then calm, and in the end every record has one fate that is counted."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from digestif.stores.memory import MemoryStore
from digestif.stores.sqlite import SQLiteStore
from tests.chaos.actors import Courier, Outside, Worker
from tests.chaos.book import Violation
from tests.chaos.stage import Stage
from tests.chaos.world import POLICIES, Actor, Make, Process, World, told

STORES: dict[str, Make] = {
    "memory": lambda clock: MemoryStore(clock=clock),
    "sqlite": lambda clock: SQLiteStore(None, clock=clock),
}
ROUNDS = 400  # of calm in which everything has to drain


class Life(NamedTuple):
    """What came of a seed."""

    seed: int
    violation: BaseException | None
    trace: list[tuple[Any, ...]]

    @property
    def told(self) -> str:
        return told(self.trace)


_stage = Stage()


def live(seed: int, make: Make, *, kinds: Sequence[str] = tuple(POLICIES)) -> Life:
    """Live through what a seed has in store, with timelines of these kinds."""
    world = World(seed, make, _stage, kinds)
    simulation = Simulation(world)
    violations: list[BaseException] = []
    with world.begin():
        world.open()
        for part in (partial(world.stage.play, simulation.step), simulation.leave):
            try:
                part()
            except (Exception, Violation) as error:  # noqa: BLE001  # whatever it is, it is what the seed found
                violations.append(error)
        world.store.close()
    return Life(seed, violations[0] if violations else None, world.trace)


class Simulation:
    """Decides who does something next."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._outside = Outside(world)
        self._fate = Actor("fate", Process("fate"))
        self._workers = [Worker(world, f"w{number}", limited=True) for number in range(world.chances.randint(1, 3))]
        self._born = len(self._workers)
        self._couriers: list[Courier] = []
        self._deliveries: list[Courier] = []  # of all couriers, also of those that crashed
        self._tasks = Process("tasks")  # of another queue
        self._left = world.chances.randint(30, 90)

    def leave(self) -> None:
        """Close what is left of deliveries, as long as this world is there: garbage would be closed in another one."""
        for courier in self._deliveries:
            courier.leave()

    def step(self) -> bool:
        """One thing happens. False: that was all."""
        if self._left > 0:
            self._left -= 1
            self._something()
            return True
        world = self._world
        world.is_calm = True
        if world.stage.parked:
            world.stage.resume(world.stage.parked[0])
            return True
        self._drain()
        world.book.check_the_end()
        return False

    def _something(self) -> None:
        world, chances = self._world, self._world.chances
        chance = chances.random()
        if chance < 0.2:
            self._pass_time()
        elif chance < 0.3:
            self._outside.produce()
        elif chance < 0.35:
            self._outside.operate()
        elif chance < 0.38:
            self._deliver_alone()
        elif chance < 0.38 + world.weather.steps:
            world.times.step(chances.choice([-30_000, -2_000, 2_000, 30_000]))
            self._note("the clock steps")
        elif chance < 0.65 and (resumable := world.resumable):
            world.stage.resume(chances.choice(resumable))
        else:
            self._work(chances.randrange(len(self._workers)))

    def _note(self, what: str) -> None:
        self._world.actor = self._fate
        self._world.note(what)

    def _pass_time(self) -> None:
        world = self._world
        lease, chances = world.lease, world.chances
        durations = [1, 100, 500, 1000, lease // 4, lease // 4, lease // 3, lease // 2, lease + 1000]
        world.times.pass_by(chances.choice(durations))
        if chances.happens(0.1):
            world.book.verify()
        for worker in list(self._workers):
            if world.times.steady >= worker.beats_at and not chances.happens(world.weather.late):
                worker.act("beat", worker.renew)

    def _work(self, place: int) -> None:
        worker = self._workers[place]
        if worker.is_dead:
            self._replace(place)
            return
        for _ in range(self._world.chances.choice([1, 2, 4])):
            if not worker.choose():
                return

    def _deliver_alone(self) -> None:
        """Somebody's own queue delivers a timeline beside the workers."""
        world, chances = self._world, self._world.chances
        self._couriers = [courier for courier in self._couriers if not courier.is_done]
        if not self._couriers or chances.happens(0.3):
            self._born += 1
            timeline, process = chances.choice(list(world.policies)), self._process_for_tasks()
            self._couriers.append(Courier(world, timeline, f"c{self._born}", process))
            self._deliveries.append(self._couriers[-1])
        courier = chances.choice(self._couriers)
        if not courier.is_busy:
            courier.act()

    def _process_for_tasks(self) -> Process:
        """One that runs only tasks; now and then one that has a worker as well, or nothing else at all."""
        if self._tasks.is_dead:
            self._tasks = Process("tasks")
        living = [worker for worker in self._workers if not worker.is_dead]
        return self._world.chances.choice([self._tasks, *living[:1], Process("task")])

    def _replace(self, place: int) -> None:
        self._workers[place] = Worker(self._world, f"w{self._born}", limited=not self._world.is_calm)
        self._born += 1

    # The end

    def _drain(self) -> None:
        """Faults have stopped: all that is left has to be delivered in some time."""
        world = self._world
        self._note("calm")
        for courier in self._couriers:
            if not courier.is_done:
                courier.act()  # poison ends its process, and with that a worker
        for place, worker in enumerate(self._workers):
            if worker.is_limited:
                worker.act("hand", worker.stop)
            if worker.is_dead:
                self._replace(place)
        self._outside.resume_all()
        for round_ in range(ROUNDS):
            self._workers[round_ % len(self._workers)].look_calmly(maintain=round_ % 4 == 0)
            for place, worker in enumerate(self._workers):
                worker.go_on_calmly()
                if worker.is_dead:
                    self._replace(place)
            ledger = world.store.ledger()
            if ledger.pending == ledger.open == 0 and not any(worker.tasks for worker in self._workers):
                for worker in self._workers:
                    worker.ear.expect_silence()
                return
            world.times.pass_by(self._until_something())
        raise Violation(f"not delivered after {ROUNDS} rounds of calm: {world.store.ledger()}")

    def _until_something(self) -> int:
        """Milliseconds until something is due; while a lease may be held, until it has to be renewed."""
        world = self._world
        if world.book.holds or any(worker.tasks for worker in self._workers):
            return world.lease // 2
        now = world.times.wall
        earliest = world.store.standing(now=now).earliest
        return 1000 if earliest is None else max(1000, earliest - now)
