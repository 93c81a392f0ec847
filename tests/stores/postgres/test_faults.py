"""Backends and servers that are killed while processes add and deliver: nothing that was acknowledged is lost."""

import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from digestif import Digests
from digestif.stores.rows import Rows
from digestif.testing.postgres import PostgresServer
from tests.stores.postgres.servers import empty_database
from tests.stores.redis.load import PATIENCE, Account, Load

OTHERS = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:  # with fsync
        yield server


def cut(server: PostgresServer) -> None:
    """End every connection, as an administrator does."""
    server.sql("SELECT pg_terminate_backend(pid) " + OTHERS)


def crash(server: PostgresServer) -> None:
    """Kill the process of one connection: the server ends all others, and recovers."""
    (pid,) = random.choice(server.sql("SELECT pid " + OTHERS))
    os.kill(pid, signal.SIGKILL)


def restart(server: PostgresServer) -> None:
    """Stop the server without a checkpoint, and start it."""
    server.restart(immediate=True)


def die(server: PostgresServer) -> None:
    """Kill all processes of the server, and start it."""
    server.kill()
    server.start()


FAULTS: list[Callable[[PostgresServer], None]] = [cut, crash, restart, die]
QUICK = [crash]  # all of them in turn: torture/test_postgres.py


@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: fault.__name__)
def test_nothing_acknowledged_is_lost_and_everybody_goes_on(
    server: PostgresServer, fault: Callable[[PostgresServer], None], tmp_path: Path
) -> None:
    account = tormented(server, [fault], directory=tmp_path, processes=1)

    account.check()
    assert account.acknowledged


def test_who_is_frozen_in_a_transaction_does_not_keep_others_waiting_for_ever() -> None:
    begun, thawed = threading.Event(), threading.Event()

    def freeze(rows: Rows) -> None:
        rows.concern(["t"])
        begun.set()
        thawed.wait(PATIENCE)

    with empty_database() as url, Digests(f"{url}?timeout=1") as frozen, Digests(url) as others:
        others.add("t", 1)
        with ThreadPoolExecutor(1) as threads:
            done = threads.submit(frozen.store._write, freeze)  # type: ignore[attr-defined]
            assert begun.wait(PATIENCE)
            others.add("t", 2)
            assert not done.done()
            thawed.set()
            done.result()  # it is done again

        assert others.timeline("t").pending == 2


def tormented(
    server: PostgresServer,
    faults: list[Callable[[PostgresServer], None]],
    *,
    directory: Path,
    processes: int,
    steps: int = 3,
) -> Account:
    """Let these faults happen to a server that is in use; after each of them everybody goes on by himself."""
    with Load(server.url, directory=directory, processes=processes) as load:
        load.go_on(steps)
        for fault in faults:
            fault(server)
            load.go_on(steps)
    account = load.account()
    sys.stdout.write(f"{len(faults)} faults: {account}\n{account.failures}\n")  # pytest -rP shows it
    return account
