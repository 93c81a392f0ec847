"""Through PgBouncer in transaction mode: each transaction may come to another connection of the server."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from digestif import Digests, Policy, WorkerStarted
from digestif.testing.servers import becomes_true, free_port
from tests.stores.postgres.servers import empty_database
from tests.stores.redis.load import Load
from tests.worker.workers import Ear, Times, working

CONNECTIONS = 3  # of the server, for many more clients
SETTINGS = """
[databases]
* = host=127.0.0.1 port={server} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
"""


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a PgBouncer before an empty database. PyPI has none, so CI may be without it."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed: apt-get install pgbouncer")
    with empty_database() as direct, bouncing(program, direct) as url:
        yield url


@contextmanager
def bouncing(program: str, direct: str) -> Iterator[str]:
    parts, port = urlsplit(direct), free_port()
    settings = SETTINGS.format(server=parts.port, user=parts.username, port=port, connections=CONNECTIONS)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # it refuses to run as root, and becomes another user
        file = Path(folder) / "pgbouncer.ini"
        file.write_text(settings)
        somebody = {"user": "nobody"} if os.geteuid() == 0 else {}
        process = subprocess.Popen([program, "--quiet", str(file)], stderr=subprocess.PIPE, text=True, **somebody)  # type: ignore[call-overload]
        try:
            if not becomes_true(lambda: process.poll() is not None or accepts(port)) or process.poll() is not None:
                pytest.fail(f"pgbouncer did not start: {process.communicate()[1]}")
            yield f"{parts._replace(netloc=f'{parts.username}@127.0.0.1:{port}').geturl()}?pgbouncer=yes"
        finally:
            process.kill()
            process.communicate()


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_processes_share_a_few_connections(url: str, tmp_path: Path) -> None:
    with Load(url, directory=tmp_path) as load:
        load.go_on(8)
    account = load.account()

    account.check()
    assert not account.failures
    assert not account.unknown


def test_a_worker_finds_by_polling_what_a_caller_commits(url: str) -> None:
    with Digests(url, policy=Policy(minimum_delay=0)) as digests:
        times, ear = Times(digests), Ear(digests)
        bare = url.partition("?")[0]
        with working(digests, poll=0.05), psycopg.connect(bare, prepare_threshold=None) as connection:
            ear.wait_for(WorkerStarted)
            digests.add("t", "never", connection=connection)
            connection.rollback()
            digests.add("t", 1, connection=connection)
            connection.commit()
            times.after(0)
            assert becomes_true(lambda: digests.ledger().delivered == 1)
        assert digests.verify()
