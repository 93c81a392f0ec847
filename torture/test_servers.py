"""Slow tests of the PostgreSQL for tests: programs that only root may run, forks of the owner."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from digestif.testing import postgres, processes
from digestif.testing.postgres import PostgresServer
from tests.alone import alone
from tests.stores.postgres.server_ends import check_end, needs_root


@needs_root
def test_programs_and_folders_that_only_root_may_enter_are_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wheel,) = {initdb.parent for initdb in processes.in_wheel(postgres.WHEEL, "initdb")}
    tmp_path.chmod(0o700)
    site, package, install = wheel.parents[2], wheel.parents[1].name, wheel.parents[0].name
    for part in (f"{package}/{install}", f"{package}.libs"):
        shutil.copytree(site / part, tmp_path / part, ignore=shutil.ignore_patterns("include"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    command = [sys.executable, "-c", BRIEF, str(tmp_path / package / install / "bin")]
    said = subprocess.run(command, capture_output=True, text=True)

    assert said.stdout.split() == ["1"], said.stderr
    assert not Path(said.stderr.strip()).exists()


BRIEF = """
import sys
from pathlib import Path
from digestif.testing.postgres import PostgresServer
with PostgresServer(binaries=Path(sys.argv[1])) as server:
    print(*server.sql("SELECT 1")[0])
    print(server.directory, file=sys.stderr)
"""


def test_a_server_that_is_down_goes_with_its_owner_who_was_interrupted() -> None:
    check_end(signal.SIGINT, "down")


def test_a_fork_of_the_owner_closes_nothing() -> None:
    assert alone(close_in_a_fork) == [True, True]


def close_in_a_fork() -> list[bool]:
    with PostgresServer() as server:
        child = os.fork()
        if not child:
            server.is_running()
            server.close()
            os._exit(0)
        os.waitpid(child, 0)
        return [server.sql("SELECT 1") == [(1,)], server.directory.exists()]
