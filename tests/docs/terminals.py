"""Following a page as a reader does: its blocks are pasted into terminals, and what these show is compared.

- A `sh` block is pasted into the reader's own terminal; a `text` block right below it is all that it shows.
- `<!-- terminal: NAME -->` above a `sh` block: it is pasted into another terminal, and goes on there.
  A `text` block below is awaited.
- `<!-- shown in: NAME -->` above a `text` block: the reader waits until that terminal shows these lines,
  maybe among others.
- `<!-- Ctrl-C in: NAME -->` above a `text` block: the reader presses Ctrl-C there, and it ends with these lines.
- `<!-- install -->` above a `sh` block: where packages are installed. A test may do that otherwise.

Times, durations, ids and paths of the reader's home may differ.
"""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from digestif.clock import monotonic
from tests.docs.pages import Block, blocks

PATIENCE = 60.0  # seconds until a terminal shows what a page says
READER = "reader"
_DONE = "<<done"
_MASKS = [
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?|\b\d\d:\d\d:\d\d\b", "<time>"),
    (r"[A-Z][a-z]{2} \d+ [A-Z][a-z]{2} \d{4}, \d\d:\d\d|(?<=    )\d\d:\d\d$", "<time>"),  # in mails
    (r"\b[0-9a-f]{20,24}(-\d+)?\b", "<id>"),
    (r"\b(\d+ (ms|s|min|h|d))( \d+ (s|min|h))?\b", "<span>"),
    (r"/\S*/\.local/share", "<home>/.local/share"),
    (r"(?<!\w)(in <span>|<span> ago|just now|now)(?!\w)", "<when>"),
    (r"next try <when>|a try is due", "<next try>"),
    (r"\bworker=\w+", "worker=<name>"),
    (r"\b(retry_in=|passed in )[\d.]+", r"\1<number>"),
    (r" {2,}", "  "),
    (r"[ \t]+$", ""),
]


def settled(text: str) -> str:
    """A text without what differs from run to run."""
    for pattern, mask in _MASKS:
        text = re.sub(pattern, mask, text, flags=re.MULTILINE)
    return text.strip("\n")


class Terminal:
    """A shell that gets one block after the other, and everything that it has shown."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
            # Tests may run in the background, where Ctrl-C is ignored, and programs would inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self._shown = ""
        self._seen = 0  # characters that were compared
        self._blocks = 0
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._write("trap : INT\n")  # Ctrl-C ends what runs in it, not the shell

    def paste(self, block: str) -> None:
        """Begin to run a block. Its programs have no input: that is the rest of the page."""
        self._blocks += 1
        self._write(f"{{\n{block}}} </dev/null\necho '{_DONE}' {self._blocks}\n")

    def press_ctrl_c(self) -> None:
        os.killpg(self._shell.pid, signal.SIGINT)

    def finish(self) -> str:
        """Wait until the last block has ended; what was shown and not compared yet."""
        self._wait(lambda: f"{_DONE} {self._blocks}\n" in self._shown)
        shown = self._shown[self._seen :]
        self._seen = len(self._shown)
        return re.sub(rf"{_DONE} \d+\n", "", shown)

    def show(self, lines: list[str]) -> None:
        """Wait until these lines are there, in this order; fails if one does not come."""
        for line in lines:
            self._wait(partial(self._find, line))

    def close(self) -> None:
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        self._reader.join()
        for stream in (self._shell.stdin, self._shell.stdout):
            assert stream is not None
            stream.close()

    def _write(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(text.encode())
        self._shell.stdin.flush()

    def _read(self) -> None:
        assert self._shell.stdout is not None
        while piece := os.read(self._shell.stdout.fileno(), 1 << 16):
            with self._news:
                self._shown += piece.decode("utf-8", "replace")
                self._news.notify_all()

    def _wait(self, is_there: Callable[[], bool]) -> None:
        deadline = monotonic() + PATIENCE
        with self._news:
            while not is_there():
                left = deadline - monotonic()
                assert left > 0, f"not shown within {PATIENCE:g} s; there is\n{self._shown}"
                self._news.wait(left)

    def _find(self, line: str) -> bool:
        at = self._seen
        for shown in self._shown[self._seen :].splitlines(keepends=True):
            at += len(shown)
            if shown.endswith("\n") and settled(shown) == line:
                self._seen = at
                return True
        return False


class Walk:
    """A reader who follows a page, in a home and with terminals of their own."""

    def __init__(self, environment: Mapping[str, str], *, start: Path) -> None:
        self._environment = environment
        self._start = start
        self._terminals: dict[str, Terminal] = {}

    def follow(self, page: str, *, installs: bool) -> None:
        for block in blocks(page):
            try:
                self._take(block, installs=installs)
            except AssertionError as error:
                raise AssertionError(f"line {block.line}: {error}") from error

    def close(self) -> None:
        for terminal in self._terminals.values():
            terminal.close()

    def _take(self, block: Block, *, installs: bool) -> None:
        act, _, name = block.mark.partition(": ")
        if block.language == "sh" and act == "install":
            if installs:
                self._terminal(READER).paste(block.text)
                self._terminal(READER).finish()
        elif block.language == "sh" and act == "terminal":
            terminal = self._terminal(name)
            terminal.paste(block.text)
            terminal.show(settled(block.output or "").splitlines())
        elif block.language == "sh":
            assert not block.mark, block.mark
            self._terminal(READER).paste(block.text)
            shown = self._terminal(READER).finish()
            assert settled(shown) == settled(block.output or ""), f"it shows\n{shown}"
        elif act == "shown in":
            self._terminal(name).show(settled(block.text).splitlines())
        elif act == "Ctrl-C in":
            self._terminal(name).press_ctrl_c()
            self._terminal(name).show(settled(block.text).splitlines())
            self._terminal(name).finish()

    def _terminal(self, name: str) -> Terminal:
        if name not in self._terminals:
            self._terminals[name] = Terminal(self._start, self._environment)
        return self._terminals[name]
