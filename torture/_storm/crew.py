"""The processes of a storm: they are started, struck, replaced and dismissed."""

import heapq
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random

from digestif.clock import monotonic
from digestif.testing.servers import becomes_true
from torture._storm.actor import LATER
from torture._storm.roles import Part
from torture._storm.scene import LEASE, Scene
from torture._storm.weather import Weather

STRIKES = {"kill": 4, "terminate": 2, "stop": 3}
BUILDS = (2, 1)  # processes of the earlier build for one of the later
SPARED = ("audit", "upgrade")
STOPPED = (0.2, 2 * LEASE)  # seconds, so that some leases lapse
TO_END = 60.0  # seconds for a worker to end after SIGTERM


@dataclass
class Process:
    """A process, and the scene that it knows."""

    role: str
    pid: int
    scene: Scene
    notes: Path
    ending_since: float | None = None  # when it was killed, or asked to end
    is_stopped: bool = False

    @property
    def is_standing(self) -> bool:
        """True if it has begun to play, and can be struck."""
        return not (self.ending_since or self.is_stopped) and self.notes.exists()


class Crew:
    """The processes of the storm: `wanted` says how many of each role."""

    def __init__(
        self,
        scene: Scene,
        weather: Weather,
        folder: Path,
        random: Random,
        *,
        wanted: Mapping[str, int],
    ) -> None:
        self.scene = scene  # for processes that are started from now on
        self.wanted = dict(wanted)
        self.upgrading_build = ""
        self.struck: Counter[str] = Counter()
        self.problems: list[str] = []
        self._weather = weather
        self._folder = folder
        self._random = random
        self._processes: list[Process] = []
        self._stopped: list[tuple[float, int]] = []  # when to let it go on, and which
        self._numbers = count()

    def fill(self) -> None:
        for role, wanted in self.wanted.items():
            for _ in range(wanted - sum(process.role == role for process in self._processes)):
                self._processes.append(self._started(role))

    def _started(self, role: str) -> Process:
        build = self._build_for(role)
        name = f"{role}{next(self._numbers)}{LATER if build else ''}"
        scene = replace(self.scene, builds=(build,))
        weather = (self._weather.seed, self._weather.began)
        notes = self._folder / name
        part = Part(role, name, str(self._random.random()), scene.written(), weather, str(notes))
        pid = os.fork()
        if pid:
            return Process(role, pid, self.scene, notes)
        status = 1
        try:
            if build:
                start(part, build)
            part.play()
            status = 0
        finally:
            os._exit(status)

    def _build_for(self, role: str) -> str:
        if role == "upgrade":
            return self.upgrading_build
        return self._random.choices(self.scene.builds, weights=BUILDS[: len(self.scene.builds)])[0]

    def strike(self) -> None:
        """Kill, terminate or stop one of the processes."""
        [blow] = self._random.choices([*STRIKES], weights=[*STRIKES.values()])
        standing = [each for each in self._processes if each.role not in SPARED and each.is_standing]
        if not standing:
            return
        process = self._random.choice(standing)
        self.struck[blow] += 1
        if blow == "stop":
            os.kill(process.pid, signal.SIGSTOP)
            process.is_stopped = True
            heapq.heappush(self._stopped, (monotonic() + self._random.uniform(*STOPPED), process.pid))
        elif blow == "kill":
            os.kill(process.pid, signal.SIGKILL)
            process.ending_since = monotonic()
        else:
            self._terminate(process)

    def _terminate(self, process: Process) -> None:
        os.kill(process.pid, signal.SIGTERM)
        process.ending_since = monotonic()

    def recast(self, *roles: str) -> bool:
        """Terminate the processes of these roles that know an older scene, to be replaced. True if none is left."""
        old = [each for each in self._processes if each.role in roles and each.scene != self.scene]
        for process in old:
            if not process.ending_since:
                self._terminate(process)
        return not old

    def tend(self) -> None:
        """Continue processes that were stopped for long enough, and replace those that ended."""
        while self._stopped and self._stopped[0][0] <= monotonic():
            self._continue(heapq.heappop(self._stopped)[1])
        self._reap()
        self.fill()

    def _continue(self, pid: int) -> None:
        for process in self._processes:
            if process.pid == pid:
                os.kill(pid, signal.SIGCONT)
                process.is_stopped = False

    def _reap(self) -> None:
        for process in list(self._processes):
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                self._processes.remove(process)
                self._judge(process, os.waitstatus_to_exitcode(status))
            elif process.ending_since and monotonic() > process.ending_since + TO_END:
                self.problems.append(f"a process of {process.role} did not end within {TO_END:g} s")
                os.kill(process.pid, signal.SIGKILL)

    def _judge(self, process: Process, code: int) -> None:
        if process.ending_since is None and code == 0:
            self.struck["ended by a handler"] += 1
        elif code not in (0, -signal.SIGKILL, -signal.SIGTERM) or (process.ending_since is None):
            self.problems.append(f"a process of {process.role} ended with {code}")
        elif process.role == "work" and code == -signal.SIGTERM:
            self.struck["terminated before it was ready"] += 1

    def dismiss(self) -> None:
        """Terminate all processes, and wait for them: workers finish what they have begun."""
        while self._stopped:
            self._continue(heapq.heappop(self._stopped)[1])
        for process in self._processes:
            if not process.ending_since:
                self._terminate(process)
        becomes_true(self._has_ended, timeout=2 * TO_END, every=0.1)

    def _has_ended(self) -> bool:
        self._reap()
        return not self._processes

    def kill(self) -> None:
        for process in self._processes:
            os.kill(process.pid, signal.SIGKILL)
            os.waitpid(process.pid, 0)
        self._processes.clear()


def start(part: Part, build: str) -> None:
    """Replace this process by one that plays its part with another build of the package."""
    command = [sys.executable, "-m", "torture._storm.roles", json.dumps(part)]
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": build})


@contextmanager
def on_duty(crew: Crew) -> Iterator[None]:
    """Run the processes; kill those that are left when the block ends."""
    try:
        crew.fill()
        yield
    finally:
        crew.kill()
