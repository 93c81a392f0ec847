"""Calling the command line: within this process, or as a program of its own."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from click.testing import CliRunner

from digestif.cli.program import cli

DEFAULT_FILE = "digestif.db"


class Answer(NamedTuple):
    """What a call printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its only line."""
        [line] = self.out.splitlines()
        return json.loads(line)

    @property
    def lines(self) -> list[Any]:
        """Each line as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Answer]


def run_in_process(*args: str, stdin: str | bytes | None = None) -> Answer:
    result = CliRunner().invoke(cli, list(args), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


PROGRAM = [sys.executable, "-m", "digestif"]


@contextmanager
def start(*args: str, begin: Callable[[], None] = lambda: None, **options: Any) -> "Iterator[subprocess.Popen[bytes]]":
    """The program itself, which does something first; it does not survive its test."""

    def first() -> None:
        # Whoever runs the tests in the background may let them ignore Ctrl-C, and the program would inherit that.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        begin()

    with subprocess.Popen([*PROGRAM, *args], preexec_fn=first, **options) as program:
        try:
            yield program
        finally:
            program.kill()


def is_one_line(text: str) -> bool:
    """As every error is."""
    return text.startswith("digestif: ") and text.count("\n") == 1 and text.endswith("\n")
