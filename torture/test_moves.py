"""A store is moved under load, by a process that is killed ten times, while producers and workers go over.

Fact 68. Every record also goes into a control store, which is not moved: both send as many messages.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise, permutations
from pathlib import Path
from typing import NamedTuple

import pytest

from digestif import Ledger, Record
from digestif.clock import monotonic
from digestif.ids import chance, fresh_id
from tests.alone import ROOT
from tests.transfer.stores import dsn_of
from torture._moves import COOL_DOWN, TIMELINES, digests_of

KINDS = ("sqlite", "redis", "postgres")
KILLS = 10
PRODUCERS = 2
BULK = 1500  # timelines that wait for something far away
TOLERANCE = 0.1  # seconds, between the clocks of stores


class Sent(NamedTuple):
    """A message."""

    at: float
    timeline: str
    key: str
    records: list[str]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("here", "there"), [*permutations(KINDS, 2)])
def test_a_move_under_load_sends_as_many_messages_as_no_move(tmp_path: Path, here: str, there: str) -> None:
    with ExitStack() as stack:
        dsns = [stack.enter_context(dsn_of(kind, tmp_path)) for kind in (here, there)]
        source, target = (f"{dsn}#d-{fresh_id()}" for dsn in dsns)
        control = f"sqlite:///{tmp_path}/control.db#d"
        fill(source)

        kills = move_under_load(tmp_path, source, target, control)

        sent = read(tmp_path / "source.log") + read(tmp_path / "target.log")
        alone = read(tmp_path / "control.log")
        produced = sum(int((tmp_path / f"produced-{name}").read_text()) for name in range(PRODUCERS))
        print(json.dumps(figures(here, there, kills, sent, alone)))  # noqa: T201 -- for the report
        keys = [key for message in sent for key in message.records]
        assert kills == KILLS
        assert Counter(keys).most_common(1)[0][1] == 1  # under one idempotency key
        assert len(keys) == produced
        assert abs(len(sent) - len(alone)) <= TIMELINES
        assert sum(max(0, early - 1) for early in early_ones(sent).values()) == 0
        with digests_of(source) as old, digests_of(target) as new:
            assert old.ledger() == Ledger()
            assert old.store.moving_since() is None
            assert (new.ledger().accepted, new.ledger().pending, new.ledger().open) == (produced + BULK, BULK, 0)
            assert old.verify()
            assert new.verify()


def fill(place: str) -> None:
    with digests_of(place) as digests:
        rows = [(f"calm:{number}", Record("r", number, 0.0)) for number in range(BULK)]
        for start in range(0, BULK, 500):
            digests.add_many(rows[start : start + 500], first_delay=300_000)


def move_under_load(folder: Path, source: str, target: str, control: str) -> int:
    """As the how-to says, but the process that moves is killed again and again; the answer is how often."""
    pause = threading.Event()
    workers = [("deliver", place, f"{log}.log") for place, log in zip((source, target, control), LOGS, strict=True)]
    producers = [("produce", str(name), source, target, control) for name in range(PRODUCERS)]
    with running(folder, workers), running(folder, producers):
        pause.wait(COOL_DOWN + 1)
        kills = sum(killed(folder, source, target) for _ in range(KILLS))
        with subprocess.Popen(command(source, target, "--follow"), stderr=subprocess.PIPE, text=True) as program:
            assert program.stderr is not None
            assert program.stderr.readline().startswith("following")
            (folder / "switch").touch()
            wait_for(lambda: all((folder / f"switched-{name}").exists() for name in range(PRODUCERS)))
            pause.wait(COOL_DOWN)
            program.send_signal(signal.SIGTERM)
            assert program.wait() == 0
        (folder / "stop").touch()
        wait_for(lambda: all((folder / f"produced-{name}").exists() for name in range(PRODUCERS)))
        assert subprocess.run(command(source, target), check=False).returncode == 0
        wait_for(lambda: is_delivered(target, BULK) and is_delivered(control, 0))
    return kills


LOGS = ("source", "target", "control")


def killed(folder: Path, source: str, target: str) -> bool:
    """Let a process move for a while, and kill it."""
    with start(folder, ("move", source, target)) as program:
        threading.Event().wait(0.4 + 1.2 * chance())
        is_running = program.poll() is None
        os.kill(program.pid, signal.SIGKILL)
    return is_running


def command(source: str, target: str, *options: str) -> list[str]:
    (here, _, old), (there, _, new) = source.rpartition("#"), target.rpartition("#")
    names = ["--from-namespace", old, "--to-namespace", new]
    return [sys.executable, "-m", "digestif", "move", here, there, *names, *options]


def start(folder: Path, role: Sequence[str]) -> "subprocess.Popen[bytes]":
    name, *arguments = role
    return subprocess.Popen([sys.executable, "-m", "torture._moves", name, str(folder), *arguments], cwd=ROOT)


@contextmanager
def running(folder: Path, roles: Sequence[Sequence[str]]) -> Iterator[None]:
    programs = [start(folder, role) for role in roles]
    try:
        yield
        assert all(program.poll() in (None, 0) for program in programs)
    finally:
        for program in programs:
            program.send_signal(signal.SIGTERM)
        for program in programs:
            program.wait()


def is_delivered(place: str, rest: int) -> bool:
    with digests_of(place) as digests:
        ledger = digests.ledger()
    return (ledger.pending, ledger.open) == (rest, 0)


def wait_for(condition: object, *, seconds: float = 60) -> None:
    assert callable(condition)
    end, pause = monotonic() + seconds, threading.Event()
    while not condition():
        assert monotonic() < end, "it takes too long"
        pause.wait(0.1)


def read(log: Path) -> list[Sent]:
    return [Sent(*json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def early_ones(sent: Sequence[Sent]) -> dict[str, int]:
    """How many messages of each timeline came before its cool-down was over."""
    times = defaultdict(list)
    for message in sent:
        times[message.timeline].append(message.at)
    return {
        timeline: sum(later - earlier < COOL_DOWN - TOLERANCE for earlier, later in pairwise(sorted(found)))
        for timeline, found in times.items()
    }


def figures(here: str, there: str, kills: int, sent: Sequence[Sent], alone: Sequence[Sent]) -> dict[str, object]:
    moved, control = (Counter(message.timeline for message in each) for each in (sent, alone))
    return {
        "from": here,
        "to": there,
        "kills": kills,
        "messages": len(sent),
        "without a move": len(alone),
        "largest difference of a timeline": max(abs(moved[name] - control[name]) for name in moved | control),
        "before the cool-down was over": sum(early_ones(sent).values()),
        "records": sum(len(message.records) for message in sent),
    }
