"""Checks that a server and its files go when the process ends that owns them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from digestif.testing import processes
from digestif.testing.processes import becomes_true

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become another user")
OWNER = """
import sys, time
from pathlib import Path
from digestif.testing.postgres import PostgresServer
from digestif.testing.postgres_files import template
server = PostgresServer(fsync=False).start()
print(server.directory, template(server.binaries).parent, server.pid, *server.children(), sep="|", flush=True)
if sys.argv[1] == "down":
    server.kill()
    print(flush=True)
time.sleep(60)
"""


def check_end(end: signal.Signals, state: str) -> None:
    command = [sys.executable, "-c", OWNER, state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as owner:
        assert owner.stdout
        directory, template, *pids = owner.stdout.readline().strip().split("|")
        segment = segment_of(Path(directory))
        if state == "down":
            owner.stdout.readline()
        owner.send_signal(end)

    assert becomes_true(lambda: not Path(directory).exists() and not Path(template).exists())
    assert becomes_true(lambda: not any(is_alive(int(pid)) for pid in pids))
    assert segment not in segments()


def segment_of(directory: Path) -> str:
    """The segment of shared memory of a server that runs."""
    return (directory / "data/postmaster.pid").read_text().splitlines()[6].split()[1]


def segments() -> list[str]:
    table = Path("/proc/sysvipc/shm")
    return [line.split()[1] for line in table.read_text().splitlines()[1:]] if table.exists() else []


def is_alive(pid: int) -> bool:
    return any(process.pid == pid for process in processes.processes())
