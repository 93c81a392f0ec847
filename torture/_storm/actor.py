"""A process of a storm: its engines, its notes and its chances.

Each process notes what it is about to do, and each answer before it goes on, so that it may be killed at any time.
A record's id is its value too: `timeline/key`, with `#` and a number if several versions share the key.
"""

import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import Any

from digestif import ConfigError, Digests, Policy, Record, StoreError
from digestif.clock import monotonic, wall_clock
from tests.logbook import Logbook
from torture._storm.scene import LEASE, POLICY, Scene, split_place
from torture._storm.weather import Weather, shifted_clock

LATER = "+"  # ends the names of processes of a later build
PACE = 0.08  # seconds between two calls of one thread, at most


class Notes:
    """The file of one process."""

    def __init__(self, path: Path) -> None:
        self._logbook = Logbook(path)

    def note(self, what: str, *facts: Any) -> None:
        self._logbook.note([what, monotonic(), *facts])


def key_of(id: str) -> str:
    return id.partition("/")[2].partition("#")[0]


def ids_of(records: Sequence[Record]) -> list[str]:
    return [record.value["id"] for record in records]


class Actor:
    """One process of the storm. Subclasses are its roles."""

    def __init__(self, scene: Scene, weather: Weather, notes: Notes, *, name: str, seed: str) -> None:
        self.scene = scene
        self.weather = weather
        self.notes = notes
        self.name = name
        self.random = Random(seed)
        self._pause = threading.Event()
        self._clock = wall_clock if weather.has_jumps and self.chance(0.5) else None

    def play(self) -> None:
        """Go on until the process is ended."""
        raise NotImplementedError

    def options(self, place: str, policy: Policy = POLICY) -> dict[str, Any]:
        """Return the arguments of an engine. Where clocks jump, every second process does not go by the store's."""
        dsn, namespace = split_place(place)
        return {"store": dsn, "namespace": namespace, "policy": policy, "lease": LEASE, "clock": self._clock}

    def open(self, place: str, policy: Policy = POLICY) -> Digests:
        return Digests(**self.options(place, policy))

    @contextmanager
    def served(self) -> Iterator[list[Digests]]:
        """Open all stores that are served."""
        with ExitStack() as stack:
            yield [stack.enter_context(self.open(place)) for place in self.scene.serve]

    def pause(self, longest: float) -> None:
        self._pause.wait(self.random.uniform(0, longest))

    def wait(self, seconds: float) -> None:
        self._pause.wait(seconds)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def in_threads(self, *loops: Callable[[], Iterator[None]]) -> None:
        """Run loops in threads, each step by step; expected errors do not end them."""
        threads = [threading.Thread(target=self._run, args=(loop,)) for loop in loops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run(self, loop: Callable[[], Iterator[None]]) -> None:
        while True:
            try:
                for _ in loop():
                    self.pause(PACE)
            except StoreError as error:
                self.note_failure(error)
                self.pause(PACE)
            except BaseException as error:  # noqa: BLE001  # whatever it is, it is noted
                os._exit(self.note_end(error))

    def note_failure(self, error: Exception) -> None:
        self.notes.note("failed", f"{type(error).__name__}: {error}"[:200])

    def note_end(self, error: BaseException) -> int:
        """Note why the process ends. Return its exit code: 0 if it opens a store that shuts its build out."""
        if isinstance(error, ConfigError) and "Upgrade this process" in str(error):
            self.note_failure(error)
            return 0
        self.notes.note("crash", traceback.format_exc())
        return 1


def play(actor: Actor) -> None:
    """Run one process of the storm."""
    _end_with_parent()
    actor.notes.note("began")
    shift = shifted_clock(lambda: actor.weather.shift(actor.name)) if actor.weather.has_jumps else nullcontext()
    try:
        with shift:
            actor.play()
    except BaseException as error:
        if actor.note_end(error):
            raise


def _end_with_parent() -> None:
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            threading.Event().wait(1)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
