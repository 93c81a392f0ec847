"""A system at work: its server, its worker and its producer, each a process that can be killed and started again."""

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, Self

from bench._peers.catalog import Peer
from bench._peers.install import ROOT, Runtime
from bench._peers.servers import backend

START = 90.0  # seconds until a program is ready
ANSWER = 300.0
END = 10.0


class Timing(NamedTuple):
    """What programs are set to, in seconds."""

    delay: float  # what each system calls its delay, window or cool-down
    poll: float  # between two looks at a store, where a system looks, or the least that it allows


class SystemFailed(Exception):
    """A program ended early or does not answer."""


class Program:
    """One side of a system as a process, which says `ready` and then answers commands, if it takes any."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={**os.environ, **environment},
                cwd=ROOT,
                start_new_session=True,  # so that its children can be killed with it
            )
        self._lines: SimpleQueue[str] = SimpleQueue()
        Thread(target=self._read, daemon=True).start()
        try:
            while self._next(START) != "ready":
                pass
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, **command: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write((json.dumps(command) + "\n").encode())
        self._process.stdin.flush()

    def ask(self, **command: Any) -> dict[str, Any]:
        self.send(**command)
        answer: dict[str, Any] = json.loads(self._next(ANSWER))
        return answer

    def end(self) -> None:
        """Ask it to end, and kill what is left of it."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END)
        self.kill()

    def kill(self) -> None:
        """Kill it and its children."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        with suppress(BrokenPipeError):
            assert self._process.stdin
            self._process.stdin.close()

    def _next(self, seconds: float) -> str:
        try:
            line = self._lines.get(timeout=seconds)
        except Empty:
            raise SystemFailed(f"no answer within {seconds:.0f} s: {self._last_words()}") from None
        if not line:
            raise SystemFailed(f"it ended early: {self._last_words()}")
        return line.strip()

    def _last_words(self) -> str:
        text = self._log.read_text(errors="replace").strip()
        return text if len(text) < 900 else f"{text[:600]} … {text[-300:]}"

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as output:
            for line in iter(output.readline, b""):
                self._lines.put(line.decode(errors="replace"))
        self._lines.put("")


class System:
    """A system with an empty store. Ends with the block."""

    def __init__(self, peer: Peer, runtime: Runtime, folder: Path, *, events: Path, timing: Timing) -> None:
        self.peer = peer
        self._runtime = runtime
        self._folder = folder
        self._server = backend(peer.server, timing.delay)
        self._settings = {"events": str(events), "sink": str(folder / "sink"), **timing._asdict()}
        self._programs: dict[str, Program] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs.values():
            program.end()
        self._server.close()

    @property
    def sink(self) -> Path:
        return self._folder / "sink"

    @property
    def producer(self) -> Program:
        return self._programs["producer"]

    def start(self) -> None:
        """Start the server, then the worker, then the producer."""
        self._server.start()
        for role in ("worker", "producer"):
            self._programs[role] = Program(self._command(role), self._runtime.environment, self._folder / f"{role}.log")

    def kill(self) -> None:
        """Kill all of it at once, with SIGKILL."""
        for program in self._programs.values():
            program.kill()
        self._server.kill()
        self._programs = {}

    def pids(self) -> list[int]:
        return [*self._server.pids(), *(program.pid for program in self._programs.values())]

    def version(self) -> str:
        return self._server.version()

    def _command(self, role: str) -> list[str]:
        program = self.peer.program
        if program.endswith(".mjs"):
            program = str(self._runtime.folder / program)
        return [*self._runtime.command, program, role, json.dumps(self._settings | self._server.facts())]
