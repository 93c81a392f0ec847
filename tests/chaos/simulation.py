"""One seed, one life: chaos for a while, then calm, and in the end every record has one fate that is counted."""

from collections.abc import Callable
from typing import Any, NamedTuple

from digestif.stores.base import Store
from digestif.stores.memory import MemoryStore
from digestif.stores.sqlite import SQLiteStore
from tests.chaos.actors import Outside, Worker
from tests.chaos.book import Violation
from tests.chaos.stage import Stage
from tests.chaos.world import Actor, Process, World, told

Make = Callable[[Callable[[], float]], Store]

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
    calls: int

    @property
    def told(self) -> str:
        return told(self.trace)


_stage = Stage()


def live(seed: int, make: Make) -> Life:
    """Live through what a seed has in store."""
    world = World(seed, make, _stage)
    simulation = Simulation(world)
    violation: BaseException | None = None
    with world.begin():
        try:
            world.open()
            world.stage.play(simulation.step)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is what the seed found
            violation = error
        world.store.disconnect()
    return Life(seed, violation, world.trace, len(world.trace))


class Simulation:
    """Decides who does something next."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._outside = Outside(world)
        self._fate = Actor("fate", Process("fate"))
        self._workers = [Worker(world, f"w{number}", limited=True) for number in range(world.chances.randint(1, 3))]
        self._born = len(self._workers)
        self._left = world.chances.randint(40, 120)

    def step(self) -> bool:
        """One thing happens. False: that was all."""
        if self._left > 0:
            self._left -= 1
            self._something()
            return True
        world = self._world
        world.is_calm = True
        if world.stage.parked:
            self._go_on(0)
            return True
        self._drain()
        world.book.check_the_end()
        return False

    def _something(self) -> None:
        world, chances = self._world, self._world.chances
        chance = chances.random()
        if chance < 0.2:
            self._pass_time()
        elif chance < 0.38:
            self._outside.produce()
        elif chance < 0.44:
            self._outside.operate()
        elif chance < 0.44 + world.weather.steps:
            world.times.step(chances.choice([-30_000, -2_000, 2_000, 30_000]))
            self._note("the clock steps")
        elif world.stage.parked and chance < 0.8:
            self._go_on(chances.randrange(len(world.stage.parked)))
        else:
            self._work(chances.randrange(len(self._workers)))

    def _note(self, what: str) -> None:
        self._world.actor = self._fate
        self._world.note(what)

    def _go_on(self, place: int) -> None:
        stage = self._world.stage
        stage.resume(stage.parked[place])

    def _pass_time(self) -> None:
        world = self._world
        lease, chances = world.lease, world.chances
        durations = [1, 100, 500, 1000, lease // 4, lease // 4, lease // 3, lease // 2, lease + 1000]
        world.times.pass_by(chances.choice(durations))
        for worker in list(self._workers):
            is_due = world.times.steady >= worker.beats_at and worker.beat not in worker.busy
            if is_due and not worker.is_dead and not chances.happens(world.weather.late):
                worker.act(worker.beat, worker.renew)

    def _work(self, place: int) -> None:
        worker = self._workers[place]
        if worker.is_dead:
            self._replace(place)
        elif worker.main not in worker.busy:
            worker.choose()

    def _replace(self, place: int) -> None:
        self._workers[place] = Worker(self._world, f"w{self._born}", limited=not self._world.is_calm)
        self._born += 1

    # The end

    def _drain(self) -> None:
        """Faults have stopped: all that is left has to be delivered in some time."""
        world = self._world
        self._note("calm")
        for place, worker in enumerate(self._workers):
            if worker.is_limited and not worker.is_dead:
                worker.act(worker.main, worker.stop)
            if worker.is_dead:
                self._replace(place)
        self._outside.resume_all()
        for _ in range(ROUNDS):
            ledger = world.store.ledger()
            if ledger.pending == ledger.open == 0 and not any(worker.tasks for worker in self._workers):
                return
            world.times.pass_by(world.lease // 4)
            for worker in self._workers:
                self._work_calmly(worker)
        raise Violation(f"not delivered after {ROUNDS} rounds of calm: {world.store.ledger()}")

    def _work_calmly(self, worker: Worker) -> None:
        worker.act(worker.beat, worker.renew)
        steady = self._world.times.steady
        while any(task.is_begun and task.ends <= steady for task in worker.tasks):
            worker.act(worker.main, worker.finish)
        for _ in range(worker.shift.unsettled):
            worker.act(worker.main, worker.settle)
        worker.act(worker.main, worker.maintain)
        if len(worker.tasks) < 4:
            worker.act(worker.main, worker.claim)
        while any(not task.is_begun for task in worker.tasks):
            worker.act(worker.main, worker.begin)
