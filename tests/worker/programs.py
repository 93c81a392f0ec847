"""Workers as processes, for tests that signal them: `python -m tests.worker.programs KIND DSN [OPTION=VALUE…]`.

They say on standard output what their handlers do. A handler that waits goes on when it is given a line.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from digestif import Buried, Digest, Digests, Event, Policy, Worker, WorkerStarted

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0


def main(kind: str, dsn: str, *options: str) -> None:
    settings = {name: float(value) for name, value in (option.split("=") for option in options)}
    lease = settings.get("lease", 30.0)
    with Digests(dsn, lease=lease, policy=Policy(minimum_delay=0)) as digests:
        digests.handler("*")(HANDLERS[kind])
        digests.subscribe(announce)
        Announced(digests, poll=settings.get("poll", 1.0), grace=settings.get("grace", 25.0)).run()
    say("ended")


class Announced(Worker):
    def stop(self) -> None:
        super().stop()
        os.write(sys.stdout.fileno(), b"stopping\n")  # inside a signal handler `say` might interrupt itself


def announce(event: Event) -> None:
    if isinstance(event, WorkerStarted):
        say("started")
    elif isinstance(event, Buried):
        say("buried", event.timeline, event.reason)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def tell(digest: Digest) -> None:
    say("delivered", digest.timeline, digest.idempotency_key)


def wait(digest: Digest) -> None:
    say("begun", digest.timeline, digest.idempotency_key)
    sys.stdin.readline()
    say("done", digest.timeline)


async def block(digest: Digest) -> None:
    say("begun", digest.timeline, digest.idempotency_key)
    threading.Event().wait()  # the event loop never turns again


def die(digest: Digest) -> None:
    say("dying of", digest.timeline, digest.idempotency_key)
    os.kill(os.getpid(), signal.SIGKILL)


HANDLERS: dict[str, Callable[[Digest], Any]] = {"tell": tell, "wait": wait, "block": block, "die": die}


class Program:
    """A worker in a process of its own."""

    def __init__(self, kind: str, dsn: str, *options: str) -> None:
        command = [sys.executable, "-m", "tests.worker.programs", kind, dsn, *options]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.heard: list[str] = []

    def listen(self) -> str:
        """The next line that it says; empty if it has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().rstrip("\n")
        self.heard.append(line)
        return line

    def wait_for(self, words: str) -> str:
        """The line that begins with these words."""
        while line := self.listen():
            if line.startswith(words):
                return line
        raise AssertionError(f"it ended without a word of {words!r}: {self.heard}")

    def go_on(self) -> None:
        """Let a handler that waits go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Wait until it has ended; gives its status."""
        status = self.process.wait(PATIENCE)
        while self.listen():
            pass
        return status


@contextmanager
def running(kind: str, dsn: str, *options: str) -> Iterator[Program]:
    """A worker that has started, and is gone when the block ends."""
    program = Program(kind, dsn, *options)
    try:
        program.wait_for("started")
        yield program
    finally:
        program.process.kill()
        program.process.wait()
        for pipe in (program.process.stdin, program.process.stdout):
            assert pipe is not None
            pipe.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
