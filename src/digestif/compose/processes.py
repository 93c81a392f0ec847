"""Child processes that render users' templates: started when needed, reused, and killed when they exceed a limit."""

import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from digestif.clock import monotonic
from digestif.compose import frames

MOST_CHILDREN = 2  # at a time; further renderings wait
START_SECONDS = 20.0  # for a child to start on a busy machine


class TemplateFailed(Exception):
    """A template is wrong, takes too long, needs too much memory, or makes too long a text."""

    @property
    def reason(self) -> str:
        """What is wrong with the template."""
        return str(self)


class Children:
    """Renders templates in child processes. Safe to use from several threads, and after a fork."""

    def __init__(self, folder: Path, *, timeout: float, memory: int, preview: bool) -> None:
        self._settings = {"folder": str(folder), "memory": memory, "timeout": timeout, "preview": preview}
        self._reset()

    def render(self, templates: dict[str, str], context: dict[str, Any]) -> dict[str, str]:
        """Render each part by its template. Raises TemplateFailed."""
        if self._pid != os.getpid():
            self._reset()  # after a fork, the children belong to the parent
        with self._turns:
            answer = self._ask({"templates": templates, "context": context})
        if "error" in answer:
            raise TemplateFailed(answer["error"])
        return dict(answer["rendered"])

    def close(self) -> None:
        """End the idle children."""
        _end_all(self._idle, self._pid)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        child = self._take()
        try:
            answer = child.ask(request)
        except BaseException:
            child.end()
            raise
        if "spent" in answer:
            child.end()
        else:
            self._idle.append(child)
        return answer

    def _take(self) -> "_Child":
        with suppress(IndexError):  # no idle child is left
            while True:
                child = self._idle.pop()
                if child.alive:
                    return child
                child.end()
        return _Child(self._settings)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._turns = threading.BoundedSemaphore(MOST_CHILDREN)
        self._idle: list[_Child] = []
        weakref.finalize(self, _end_all, self._idle, self._pid)


class _Child:
    """A child process and the socket to it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._timeout: float = settings["timeout"]
        self._socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "digestif.compose.child"],
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Without our environment: a template that breaks out of the sandbox should find no passwords.
                env={"PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,  # Ctrl-C ends the worker, which first finishes its renderings
            )
        try:
            self._exchange(settings, START_SECONDS, late="the process that renders templates does not start")
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Render once. After an exception the child must not be used again."""
        return self._exchange(request, self._timeout, late=f"it takes longer than {self._timeout:g} s")

    def end(self) -> None:
        """Kill the process and close its socket."""
        self._process.kill()
        self._process.wait()
        self._socket.close()

    def _exchange(self, message: dict[str, Any], timeout: float, *, late: str) -> dict[str, Any]:
        self._socket.settimeout(timeout)
        try:
            frames.send(self._socket, message)
            answer = frames.receive(self._socket, deadline=monotonic() + timeout)
        except TimeoutError:
            raise TemplateFailed(late) from None
        except OSError:
            answer = None
        if answer is None:
            code = self._exit_code()
            ended = f"the process that renders templates ended with code {code}"
            raise TemplateFailed(late if code == -signal.SIGALRM else ended)
        return answer

    def _exit_code(self) -> int:
        self._process.kill()  # it closed its socket, so it is ending anyway
        return self._process.wait()


def _end_all(children: list[_Child], pid: int) -> None:
    with suppress(IndexError):
        while pid == os.getpid():
            children.pop().end()
