"""The base of real servers for tests: a free port of loopback, a process that does not outlive its owner, and a log.
Needs no package but Python's own.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, Self

from digestif.clock import monotonic

HOST = "127.0.0.1"

# A node of a Redis cluster listens on its port and on its port + 10,000. The two ranges do not overlap, and lie below
# the ports that systems use for outgoing connections.
PORTS = range(11_000, 21_000)
BUS = 10_000
PROCESSES = 50  # so many processes may start servers at once, mostly with distinct ports; stopped servers keep theirs
PORT_TAKEN = "Address already in use"
ATTEMPTS = 10

PATIENCE = 30  # seconds for a server to answer, or a cluster to agree: far more than either needs

# A server must not outlive its owner, even if SIGKILL ends the owner. Linux has a signal for that (PR_SET_PDEATHSIG),
# but sends it when the *thread* that started the server ends, and setting it takes code between fork and exec, which is
# unsafe with threads. Instead a shell, the guard, reads from a pipe whose other end the owner holds: a line names the
# process to end, or is `none` or `over`; the end of the pipe means that the owner is dead. The server waits behind
# another pipe, the gate, until its guard knows its id, so no moment is unguarded. Guard and server are children of the
# owner, so their ids are not reused before it has waited for them. A fork of the owner holds the pipe as well: the
# server then lives as long as the last of them.
GATE = 'read go && exec "$@" </dev/null'
GUARD = 'pid=none; while read -r word; do [ "$word" != over ] || exit 0; pid=$word; done; '

_reserved: set[int] = set()
_lock = threading.Lock()


class ServerMissing(LookupError):
    """This machine has no server of the requested kind."""


class ServerFailed(RuntimeError):
    """A server did not start, or a cluster did not come together, in time."""


# A server


class ServerProcess(ABC):
    """A server with a free port of loopback and a folder. `stop` and `kill` keep both for the next `start`; `close` and
    the end of a `with` block release them.
    """

    program: Path

    def __init__(self) -> None:
        self.port = 0  # 0 while it has none
        self._folder: Folder | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {HOST}:{self.port} {'running' if self.is_running() else 'down'}>"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailed(f"{self!r} has no process")
        return self._process.pid

    @property
    def directory(self) -> Path:
        """The folder of its files."""
        if self._folder is None:
            raise ServerFailed(f"{self!r} has no files")
        return self._folder.path

    @property
    def log(self) -> str:
        """The server's output since its first start."""
        return (self.directory / "log").read_text(errors="replace")

    def is_running(self) -> bool:
        if self._process and self._is_ours() and self._process.poll() is not None:
            self._bury()
        return self._process is not None

    def start(self) -> Self:
        """Start it unless it runs, and wait until it answers."""
        if self.is_running():
            return self
        again = self.port != 0
        try:
            self._start(again=again)
        except BaseException:
            self.kill() if again else self.close()
            raise
        return self

    def wait_until_ready(self, *, timeout: float = PATIENCE) -> None:
        """Wait until it answers, after a start or while it recovers."""
        is_over = becomes_true(lambda: not self.is_running() or self._answers(), timeout=timeout)
        if not is_over or not self.is_running():
            last_words = "\n".join(self.log.splitlines()[-20:])
            raise ServerFailed(f"{self.program} did not start on port {self.port}; it said:\n{last_words}")

    @abstractmethod
    def kill(self) -> None:
        """Kill it as a crash does."""

    def close(self) -> None:
        """Kill it and remove its files. Does nothing in a fork of the owner."""
        if not self._is_ours():
            return
        self.kill()
        _reserved.discard(self.port)
        self.port = 0
        if self._folder:
            self._folder.remove()
            self._folder = None

    # Internals

    @abstractmethod
    def _launch(self) -> None:
        """Create the folder if there is none, and `_run` the program in it."""

    @abstractmethod
    def _answers(self) -> bool:
        """True if this server answers, and not another one that took the port first."""

    def _start(self, *, again: bool) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            self.port = self.port if again else free_port()
            self._launch()
            try:
                self.wait_until_ready()
                break
            except ServerFailed:
                if again or self.is_running() or PORT_TAKEN not in self.log or attempt == ATTEMPTS:
                    raise

    def _run(self, *command: object, **options: Any) -> None:
        """Start the process behind the gate, and open the gate once its guard knows it."""
        assert self._folder
        with (self.directory / "log").open("ab") as log:
            self._process = shell(GATE, *command, output=log, **options)
        self._folder.guard_too(self.pid)
        assert self._process.stdin
        with suppress(BrokenPipeError), self._process.stdin as gate:
            gate.write(b"\n")

    def _is_ours(self) -> bool:
        """False in a fork of the owner: there the process is no child, and looks as if it had ended."""
        return self._owner == os.getpid()

    def _wait(self, timeout: float | None) -> None:
        if self._process and self._is_ours():
            self._process.wait(timeout)
            self._bury()

    def _bury(self) -> None:
        """Forget a process that has ended: the system may reuse its id."""
        self._process = None
        if self._folder:
            self._folder.guard_too(None)


class Folder:
    """A temporary folder. If its owner is killed, the script `end` ends the server inside and removes the folder.

    `user` has the options of subprocess for the user who owns the folder; by default, ours.
    """

    def __init__(self, prefix: str, *, end: str, place: str | None = None, **user: Any) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        self._owner = os.getpid()
        self._guard = shell(GUARD + end, self.path, output=subprocess.DEVNULL, cwd="/", **user)
        if user:
            os.chown(self.path, user["user"], user["group"])

    def guard_too(self, pid: int | None) -> None:
        """Let the guard end this process as well; None if there is none any more."""
        self._tell(str(pid or "none"))

    def remove(self) -> None:
        if self._owner != os.getpid():
            return
        shutil.rmtree(self.path, ignore_errors=True)  # a child that writes may still be ending
        self._tell("over")
        assert self._guard.stdin
        with suppress(BrokenPipeError):
            self._guard.stdin.close()
        self._guard.wait()

    def _tell(self, word: str) -> None:
        assert self._guard.stdin
        with suppress(BrokenPipeError):
            self._guard.stdin.write(f"{word}\n".encode())
            self._guard.stdin.flush()


# Programs


def said_by(program: Path, **identity: Any) -> str:
    """Return the output of `program --version`; "" if it can't be run."""
    command = [str(program), "--version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True, **identity)
    except (OSError, subprocess.SubprocessError):
        return ""
    return str(done.stdout)


@cache  # the list may be long: 30 ms
def in_wheel(wheel: str, name: str) -> list[Path]:
    """Return the paths of a wheel's program, from its list of files: importing the wheel may have side effects."""
    try:
        files = metadata.files(wheel) or []
    except metadata.PackageNotFoundError:
        return []
    return [Path(str(file.locate())).resolve() for file in files if file.name == name]


def shell(script: str, *arguments: object, output: Any, **options: Any) -> subprocess.Popen[bytes]:
    # In a session of its own, so that Ctrl-C is for the owner only.
    return subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        start_new_session=True,
        **options,
    )


# Processes


class Process(NamedTuple):
    pid: int
    parent: int
    command: str


def processes() -> Iterator[Process]:
    """Yield all processes of this machine. Their working folders would be better marks, but containers hide them."""
    if not Path("/proc/self/stat").exists():
        yield from _processes_by_ps()
        return
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
            if state not in "ZX":
                yield Process(int(folder.name), int(parent), command)


def _processes_by_ps() -> Iterator[Process]:
    command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,state=,command="]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        pid, parent, state, *rest = line.split(maxsplit=3)
        if not state.startswith("Z"):
            yield Process(int(pid), int(parent), "".join(rest))


def kill_groups(pids: list[int]) -> int:
    """Kill processes and their groups; return how many there were."""
    for pid in pids:
        for kill in (os.killpg, os.kill):  # a process that was just forked has no group yet
            with suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)
    return len(pids)


# Ports and time


def free_port() -> int:
    """Return a port that is free, and that no other server of this process has reserved."""
    mine = PORTS[os.getpid() % PROCESSES :: PROCESSES]
    # Not the shared generator: test runners seed it, and all of them would choose the same ports.
    choice = random.SystemRandom()
    with _lock:
        while True:
            port = choice.choice(mine)
            if port not in _reserved and _is_free(port) and _is_free(port + BUS):
                _reserved.add(port)
                return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def becomes_true(condition: Callable[[], bool], *, timeout: float = PATIENCE, every: float = 0.005) -> bool:
    """Wait until the condition is true, at most `timeout` seconds; False if it never is. Polls ever less often."""
    deadline = monotonic() + timeout
    while not condition():
        if monotonic() > deadline:
            return False
        time.sleep(every)  # there is no signal to wait for
        every = min(every * 1.2, 0.05)
    return True
