"""The roles of a storm by name, and the start of a process that plays one: `python -m torture._storm.roles PART`."""

import json
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from torture._storm.actor import Actor, Notes, play
from torture._storm.deliverers import Dispatcher, WorkerRole
from torture._storm.mover import Mover
from torture._storm.operators import Auditor, Operator
from torture._storm.producers import Producer, TaskProducer
from torture._storm.scene import Scene
from torture._storm.upgrader import Upgrader
from torture._storm.weather import Weather

ROLES: dict[str, Callable[..., Actor]] = {
    "produce": Producer,
    "tasks": TaskProducer,
    "work": WorkerRole,
    "dispatch": Dispatcher,
    "operate": Operator,
    "audit": Auditor,
    "move": Mover,
    "upgrade": Upgrader,
}


class Part(NamedTuple):
    """What one process plays; it can be written as JSON."""

    role: str
    name: str
    seed: str
    scene: dict[str, Any]
    weather: tuple[int, float]  # its seed, and when it began
    notes: str  # a path

    def play(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        scene = Scene.read(self.scene)
        seed, began = self.weather
        weather = Weather(seed, scene.parts, began=began)
        play(ROLES[self.role](scene, weather, Notes(Path(self.notes)), name=self.name, seed=self.seed))


if __name__ == "__main__":
    logging.getLogger("digestif").addHandler(logging.NullHandler())
    Part(*json.loads(sys.argv[1])).play()
