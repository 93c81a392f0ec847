"""Runs a function of a test in a process of its own, with one thread and no test runner: it may fork or die.

The process is a fork of one that has imported Digestif and nothing of the tests: to start and import takes longer than
most of these functions.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
NAME = "tests.alone"
IMPORTED = ("digestif.aio", "digestif.stores.sqlite.store", "digestif.worker.worker")


def alone(program: Callable[..., Any], *arguments: Any, under: Sequence[str] = (), timeout: float = 90) -> Any:
    """Call a function of a module in a process of its own; arguments and answer pass as JSON.

    `under` is a command that starts an interpreter for it, such as one that limits its memory.
    """
    call = [program.__module__, program.__name__, json.dumps(arguments)]
    done = _started([*under, sys.executable, "-m", NAME, *call], timeout) if under else _forked(call, timeout)
    sys.stderr.write(done.stderr)
    assert done.returncode == 0, f"{program.__name__} ended with {done.returncode}:\n{done.stderr}"
    return json.loads(done.stdout)


Done = subprocess.CompletedProcess[str]


def _started(command: Sequence[str], timeout: float) -> Done:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout)


def _forked(call: list[str], timeout: float) -> Done:
    with TemporaryDirectory() as folder:
        output, errors = Path(folder) / "output", Path(folder) / "errors"
        code = _parent().fork([call, dict(os.environ), str(output), str(errors)], timeout)
        return Done(call, code, output.read_text("utf-8"), errors.read_text("utf-8"))


class _Parent:
    """The process that forks, one child at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", NAME],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        atexit.register(self.end)

    def fork(self, order: list[Any], timeout: float) -> int:
        """Let a child run the order; return its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], timeout)[0]:
            _parent.cache_clear()
            self.end()
            raise subprocess.TimeoutExpired(order[0], timeout)
        return int(self._process.stdout.readline())

    def end(self) -> None:
        """End it, and the child that it may have."""
        atexit.unregister(self.end)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@cache
def _parent() -> _Parent:
    return _Parent()


def _serve() -> None:
    """Fork a child for each order. A child leaves the loop, and ends as a program does."""
    for name in IMPORTED:
        import_module(name)
    for line in sys.stdin:
        call, environment, output, errors = json.loads(line)
        if child := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201
            continue
        os.environ.clear()
        os.environ.update(environment)
        for number, path in enumerate((os.devnull, output, errors)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
        _answer(*call)
        break


def _answer(module: str, name: str, arguments: str) -> None:
    sys.stdout.write(json.dumps(getattr(import_module(module), name)(*json.loads(arguments))))


if __name__ == "__main__":
    _answer(*sys.argv[1:]) if sys.argv[1:] else _serve()
