"""`digestif serve` and `digestif worker` as programs, and what they log."""

import json
import resource
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.cli.runner import PROGRAM
from tests.service.harness import Client

PATIENCE = 60.0  # seconds: far more than anything here needs


class Program:
    """A running program. What it logs is read at once, so that it never waits for its reader."""

    def __init__(self, *args: str, folder: Path, env: dict[str, str] | None = None, files: int | None = None) -> None:
        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        self.process = subprocess.Popen(
            [*PROGRAM, *args],
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=prepare,
        )
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._is_over = False
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()

    @property
    def log(self) -> str:
        return "".join(self._lines)

    def said(self, text: str, *, times: int = 1) -> None:
        """Wait until the log has a text."""
        with self._news:
            found = self._news.wait_for(lambda: self.log.count(text) >= times or self._is_over, PATIENCE)
        assert found, f"it has not said {text!r}: {self.log}"
        assert self.log.count(text) >= times, self.log

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code."""
        code = self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()


@contextmanager
def started(folder: Path, *args: str, token: str | None = None, **options: Any) -> Iterator[tuple[Program, Client]]:
    """A service on a free port, once it answers."""
    with Program("serve", "--listen", "127.0.0.1:0", *args, folder=folder, **options) as program:
        yield program, Client(port_of(program), token)


def port_of(program: Program) -> int:
    """The port in the one line that a service prints."""
    assert program.process.stdout is not None
    line = program.process.stdout.readline()
    if not line:
        program.wait()
        raise AssertionError(f"it ended: {program.log}")
    address = json.loads(line)["address"] if line.startswith("{") else line.split()[-1]
    return int(address.rstrip("/").rpartition(":")[2])
