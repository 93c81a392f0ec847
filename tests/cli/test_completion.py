"""Completion of names that a shell would break into pieces, in a real bash."""

import os
import pty
import select
import shlex
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from digestif import Digests
from tests.cli.runner import PROGRAM, Run

pytestmark = pytest.mark.long

ASK = """
eval "$3"
COMP_LINE=$1 COMP_POINT=${#1}
_digestif_completion digestif
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(autouse=True)
def _stored(digests: Digests) -> None:
    digests.add_many([(name, 1) for name in ("mail:ada", "mail:ada@example.org", "mail:bob", "chat", "to all: *")])


def with_program(folder: Path) -> dict[str, str]:
    """An environment in which `digestif` is found."""
    program = folder / "bin" / "digestif"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m digestif "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "$ "}


@cache
def completion_in_bash() -> str:
    """What users evaluate when a shell starts."""
    return subprocess.run([*PROGRAM, "completion", "bash"], capture_output=True, text=True, check=True).stdout


def in_bash(folder: Path, line: str, *, breaks: str = " \t\n\"'@><=;|&(:") -> list[str]:
    """What bash would put in the place of the last piece of the line."""
    script = f"COMP_WORDBREAKS=$2\n{ASK}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", line, breaks, completion_in_bash()],
        env=with_program(folder),
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        ("digestif explain mail:a", ["ada", "ada@example.org"]),
        ("digestif explain mail:", ["ada", "ada@example.org", "bob"]),
        ("digestif explain mail:ada@ex", ["example.org"]),
        ("digestif explain ma", ["mail:ada", "mail:ada@example.org", "mail:bob"]),
        ("digestif explain ch", ["chat"]),
        ('digestif explain "mail:b', ["mail:bob"]),
        ("digestif render --timeline mail:b", ["bob"]),
        ("digestif render --timeline=mail:b", ["bob"]),
        ("digestif expl", ["explain"]),
        ("digestif explain to", [r"to\ all:\ \*"]),
    ],
)
def test_bash_completes_names_with_colons(folder: Path, line: str, pieces: list[str]) -> None:
    """It replaces only what follows the last break."""
    assert in_bash(folder, line) == pieces


@pytest.mark.parametrize("quote", ['"', "'"])
def test_names_that_would_run_something_are_not_offered(folder: Path, digests: Digests, quote: str) -> None:
    """Others choose the names of timelines: between quotes a shell would take some of them for more than a name."""
    digests.add_many([(f"evil:{name}", 1) for name in ("$(id)", "`id`", "';id;'", '";id;"', "new\nline", "fine")])

    assert in_bash(folder, f"digestif explain {quote}evil:") == ["evil:fine"]


def test_a_bash_that_does_not_break_at_colons_gets_whole_names(folder: Path) -> None:
    assert in_bash(folder, "digestif explain mail:b", breaks=" \t\n") == ["mail:bob"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_whole_names(shell: str) -> None:
    """They don't break words at colons; without a description, a colon means nothing to them."""
    words = {"COMP_WORDS": "digestif explain mail:b", "COMP_CWORD": "2" if shell == "zsh" else "mail:b"}
    environment = {**os.environ, "_DIGESTIF_COMPLETE": f"{shell}_complete", **words}

    done = subprocess.run(PROGRAM, env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.split() == (["plain", "mail:bob", "_"] if shell == "zsh" else ["plain,mail:bob"])


def test_completion_does_not_wait_for_a_store_that_refuses(run: Run) -> None:
    environment = {**os.environ, "_DIGESTIF_COMPLETE": "bash_complete", "COMP_LINE": "digestif explain m"}

    patient = "redis://127.0.0.1:1?patience=300"  # one that waits is told from one that is slow to start

    done = subprocess.run(PROGRAM, env={**environment, "DIGESTIF_STORE": patient}, capture_output=True, timeout=100)

    assert done.stdout.strip() == b""


def test_the_tab_key_completes_a_name_with_a_colon(folder: Path) -> None:
    """Typed at a prompt: bash itself breaks the word and puts the pieces together."""
    typed = b'eval "$(digestif completion bash)"\ndigestif show mail:b\t--json\nexit\n'
    there, here = pty.openpty()
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=here,
        stdout=here,
        stderr=here,
        env=with_program(folder),
        start_new_session=True,
    ) as shell:
        os.close(here)
        os.write(there, typed)
        shown = b""
        with suppress(OSError):  # the other end is closed
            while select.select([there], [], [], 30)[0] and (more := os.read(there, 65536)):
                shown += more
        shell.kill()
    os.close(there)

    assert b'{"key": "mail:bob", "state": "ready"' in shown
