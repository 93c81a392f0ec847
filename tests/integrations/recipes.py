"""Programs as the pages of the docs show them, written into a folder and run as processes of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from digestif.testing.servers import becomes_true
from tests.docs.pages import DOCS, NO_PLUGINS, write_files

STRICT = ("-q", "-p", "no:cacheprovider", *NO_PLUGINS, "-W", "error")  # options of pytest: warnings are errors


class Recipe:
    """The program of a page in a folder."""

    def __init__(self, page: str, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
        self.page = (DOCS / "how-to" / f"{page}.md").read_text("utf-8")

    def write(self) -> None:
        """Write the files of the page."""
        write_files(self.page, self.folder)

    def run(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """Run `python` with these arguments; return what it prints."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def start(self, *arguments: str) -> "Program":
        return Program(self, arguments)


class Program:
    """A process, ended with the block at the latest. Its words are in a file."""

    def __init__(self, recipe: Recipe, arguments: tuple[str, ...]) -> None:
        self._words = recipe.folder / f"{'-'.join(arguments).replace('/', '_')[-40:]}.log"
        with self._words.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=recipe.folder,
                env=recipe.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    @property
    def words(self) -> str:
        return self._words.read_text("utf-8")

    def wait_for(self, text: str) -> str:
        """Wait until it has said something; return all that it said."""

        def is_said() -> bool:
            assert self._process.poll() is None or text in self.words, self.words
            return text in self.words

        assert becomes_true(is_said), self.words
        return self.words

    def stop(self) -> int:
        """Ask it to end, and return its code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(30)
