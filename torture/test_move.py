"""A large store is moved in every direction by processes that are killed, until the move is complete."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from digestif.core.ledger import Ledger
from digestif.ids import chance, fresh_id
from digestif.stores.registry import open_store
from digestif.transfer import Move
from tests.transfer.population import NOW, populate, seen
from tests.transfer.stores import dsn_of

KINDS = ("sqlite", "redis", "cluster", "postgres")
EACH, RECORDS, LARGE = 1000, 20, 5000  # of eleven kinds: more than 10,000 timelines and 200,000 records
KILLS = 3


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("here", "there"), [*permutations(KINDS, 2)])
def test_a_large_store_is_moved_by_processes_that_are_killed(tmp_path: Path, here: str, there: str) -> None:
    with ExitStack() as stack:
        source, target = (stack.enter_context(dsn_of(kind, tmp_path)) for kind in (here, there))
        names = [f"d-{fresh_id()}" for _ in range(2)]
        old, new = open_store(source, namespace=names[0]), open_store(target, namespace=names[1])
        stack.callback(old.close)
        stack.callback(new.close)
        fill(old)
        before, ledger = seen(old), old.ledger()
        assert len(before) >= 10_000
        assert ledger.pending + ledger.open + ledger.dead >= 150_000

        kills = _moved_in_spite_of_kills(source, target, names)

        after = seen(new)
        assert kills == KILLS
        assert after.keys() == before.keys()
        assert [name for name, was in before.items() if after[name][1:] != was[1:]] == []
        assert new.ledger() == ledger
        assert old.ledger() == Ledger()
        assert new.verify()
        assert old.verify()
        assert {kind: count for kind, count in old.footprint().items() if count} == {}


def fill(store: Any) -> None:
    """Fill a store in memory, which is quick, and move it."""
    memory: Any = open_store("memory://")
    populate(memory, each=EACH, records=RECORDS, large=LARGE)
    Move(memory, store, now=lambda: NOW).run()


def _moved_in_spite_of_kills(source: str, target: str, names: list[str]) -> int:
    """Run the program until it is done; the first runs are killed at random moments."""
    command = [sys.executable, "-m", "digestif", "move", source, target, "--no-verify", "--json"]
    command += ["--from-namespace", names[0], "--to-namespace", names[1]]
    kills, pause = 0, threading.Event()
    while True:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as program:
            if kills < KILLS:
                pause.wait(1.0 + 2.0 * chance())
                if program.poll() is None:
                    os.kill(program.pid, signal.SIGKILL)
                    kills += 1
            if program.wait() == 0:
                return kills
