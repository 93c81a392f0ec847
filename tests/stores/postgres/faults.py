"""Faults of a server that is in use, and the account of what its users did meanwhile."""

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from digestif.testing.postgres import PostgresServer
from tests.stores.redis.load import Account, Load

OTHERS = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"


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


def tormented(
    server: PostgresServer,
    faults: list[Callable[[PostgresServer], None]],
    *,
    directory: Path,
    processes: int,
    steps: int = 3,
) -> Account:
    """Cause these faults in a server that is in use; after each, all users must go on by themselves."""
    with Load(server.url, directory=directory, processes=processes) as load:
        load.go_on(steps)
        for fault in faults:
            fault(server)
            load.go_on(steps)
    account = load.account()
    sys.stdout.write(f"{len(faults)} faults: {account}\n{account.failures}\n")  # pytest -rP shows it
    return account
