"""What real servers for tests have in common: a free port of loopback, a process that does not outlive its owner, and a
log. Needs no package but Python's own.
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

# A node of a Redis cluster listens on its port and on its port + 10,000. Both ranges are below those of which systems
# take the ports of outgoing connections, and they do not overlap.
PORTS = range(11_000, 21_000)
BUS = 10_000
PROCESSES = 50  # that start servers at the same time, mostly with ports of their own: the dead keep theirs, too
PORT_TAKEN = "Address already in use"
ATTEMPTS = 10

PATIENCE = 30  # seconds for a server to answer, or for a cluster to agree: far more than either needs

# A server must not outlive its owner, even one that dies of SIGKILL. Linux has a signal for that (PR_SET_PDEATHSIG),
# but it comes when the *thread* that started the server ends, and setting it takes code between fork and exec, which is
# unsafe with threads. Instead a shell, the guard, reads from a pipe of which the owner holds the other end: a line is
# the process to end, `none`, or `over`; the end of the pipe says that the owner is dead. The server waits behind
# another pipe, the gate, until its guard knows of it, so no moment is unguarded. Both are children of the owner, so
# their ids stay theirs until it has waited for them. A fork of the owner holds the pipe as well: the server then lives
# as long as the last of them.
GATE = 'read go && exec "$@" </dev/null'
GUARD = 'pid=none; while read -r word; do [ "$word" != over ] || exit 0; pid=$word; done; '

_reserved: set[int] = set()
_lock = threading.Lock()


class ServerMissing(LookupError):
    """This machine has no server of the kind that is asked for."""


class ServerFailed(RuntimeError):
    """A server did not start, or a cluster did not come together, in time."""


# A server


class ServerProcess(ABC):
    """A server of one's own, with a free port of loopback and a folder. `stop` and `kill` leave both for the next
    `start`; `close`, and the end of a `with` block, remove them.
    """

    program: Path

    def __init__(self) -> None:
        self.port = 0  # while it has none
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
        """Where its files are."""
        if self._folder is None:
            raise ServerFailed(f"{self!r} has no files")
        return self._folder.path

    @property
    def log(self) -> str:
        """What the server said since it was first started."""
        return (self.directory / "log").read_text(errors="replace")

    def is_running(self) -> bool:
        if self._process and self._is_ours() and self._process.poll() is not None:
            self._bury()
        return self._process is not None

    def start(self) -> Self:
        """Start it and wait until it answers; nothing happens if it runs."""
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
        """End it as a crash does."""

    def close(self) -> None:
        """End it and remove its files. In a fork of the owner: nothing."""
        if not self._is_ours():
            return
        self.kill()
        _reserved.discard(self.port)
        self.port = 0
        if self._folder:
            self._folder.remove()
            self._folder = None

    # How

    @abstractmethod
    def _launch(self) -> None:
        """Make the folder if there is none, and `_run` the program in it."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it is this server that answers, and not another that was quicker to take the port."""

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
        """Start the process, guarded."""
        assert self._folder
        with (self.directory / "log").open("ab") as log:
            self._process = shell(GATE, *command, output=log, **options)
        self._folder.guard_too(self.pid)
        assert self._process.stdin
        with suppress(BrokenPipeError), self._process.stdin as gate:
            gate.write(b"\n")

    def _is_ours(self) -> bool:
        """False in a fork of the owner: there the process looks as if it had ended, because it is no child."""
        return self._owner == os.getpid()

    def _wait(self, timeout: float | None) -> None:
        if self._process and self._is_ours():
            self._process.wait(timeout)
            self._bury()

    def _bury(self) -> None:
        """Forget a process that has ended: its id may soon be another's."""
        self._process = None
        if self._folder:
            self._folder.guard_too(None)


class Folder:
    """A folder that goes with its owner, even one that is killed: then by the script `end`, after the server inside.

    `user` is whose it is, in the words of subprocess; by default, ours.
    """

    def __init__(self, prefix: str, *, end: str, place: str | None = None, **user: Any) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        self._owner = os.getpid()
        self._guard = shell(GUARD + end, self.path, output=subprocess.DEVNULL, cwd="/", **user)
        if user:
            os.chown(self.path, user["user"], user["group"])

    def guard_too(self, pid: int | None) -> None:
        """End this process as well; None: there is none any more."""
        self._tell(str(pid or "none"))

    def remove(self) -> None:
        if self._owner != os.getpid():
            return
        shutil.rmtree(self.path, ignore_errors=True)  # a child that wrote may still be dying
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
    """What a program says of its version; "" if it can't be run."""
    command = [str(program), "--version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True, **identity)
    except (OSError, subprocess.SubprocessError):
        return ""
    return str(done.stdout)


@cache  # the list may be long: 30 ms
def in_wheel(wheel: str, name: str) -> list[Path]:
    """Where a wheel has a program, by the list of its files: who imports it gets what else it does as well."""
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
    """All that live on this machine. The folder they work in would tell more, but not to root in a container."""
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
    """Kill processes and what they started; how many there were."""
    for pid in pids:
        for kill in (os.killpg, os.kill):  # one that has just been born has no group yet
            with suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)
    return len(pids)


# Ports and time


def free_port() -> int:
    """A port that is nobody's now, and that no other server here has had and may come back to."""
    mine = PORTS[os.getpid() % PROCESSES :: PROCESSES]
    # Not the shared generator: test runners seed it, and then all of them would choose the same.
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
    """Wait for something, at most `timeout` seconds; False if it did not happen. Looks less often as time goes by."""
    deadline = monotonic() + timeout
    while not condition():
        if monotonic() > deadline:
            return False
        time.sleep(every)  # there is no signal to wait for
        every = min(every * 1.2, 0.05)
    return True
