"""Forked processes that report through pipes, and can be killed. For programs that run alone: fork needs one thread."""

import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from digestif.clock import monotonic

Report = Callable[[str], None]


class Child:
    """A process that runs `work(*arguments, report)`. Its reports, line by line, outlive it."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self.pipe, end = os.pipe()
        self._heard = b""
        self.ended = False
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            _run(work, arguments, end)
        os.close(end)

    @property
    def lines(self) -> list[str]:
        """The complete lines of its reports."""
        return self._heard.decode().split("\n")[:-1]

    def hear(self) -> bool:
        """Read its next report; False if there will be no more."""
        heard = os.read(self.pipe, 1 << 16)
        self._heard += heard
        return bool(heard)

    def wait_for(self, line: str) -> None:
        """Wait until it has reported this line."""
        while line not in self.lines:
            if not self.hear():
                raise AssertionError(f"it ended without reporting {line!r}")

    def kill(self) -> None:
        """End it with SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)
        self._end()

    def finish(self) -> list[str]:
        """Wait until it has done its work; return its reports."""
        status = self._end()
        assert status == 0, f"a child ended with {status}: {self.lines[-1:]}"
        return self.lines

    def _end(self) -> int:
        while self.hear():
            pass
        os.close(self.pipe)
        self.ended = True
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def listen(children: Iterable[Child], *, seconds: float) -> None:
    """Read their reports for so many seconds."""
    deadline = monotonic() + seconds
    speaking = {child.pipe: child for child in children}
    while speaking and (left := deadline - monotonic()) > 0:
        for pipe in select.select(list(speaking), [], [], left)[0]:
            if not speaking[pipe].hear():
                del speaking[pipe]


class Gate:
    """Lets children begin at the same time. To be made before the children."""

    def __init__(self) -> None:
        self._wait, self._hold = os.pipe()

    def wait(self) -> None:
        """In a child: return when the parent opens the gate."""
        os.close(self._hold)
        os.read(self._wait, 1)

    def open(self) -> None:
        """In the parent, once: let the children begin."""
        os.close(self._hold)
        os.close(self._wait)


@contextmanager
def killed_at_the_end(children: Sequence[Child]) -> Iterator[None]:
    """Kill the children that are left when the block ends."""
    try:
        yield
    finally:
        for child in children:
            if not child.ended:
                child.kill()


def _run(work: Callable[..., None], arguments: Sequence[Any], end: int) -> NoReturn:
    status = 1
    try:
        work(*arguments, lambda line: _write(end, f"{line}\n".encode()))
        status = 0
    except BaseException:  # noqa: BLE001 -- the child must not go on as if it were the parent
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _write(end: int, text: bytes) -> None:
    while text:
        text = text[os.write(end, text) :]
