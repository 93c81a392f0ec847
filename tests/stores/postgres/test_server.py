"""The PostgreSQL for tests: it starts, is killed, comes back, and ends with its owner."""

import os
import pwd
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from digestif.testing import postgres, processes
from digestif.testing.postgres import PostgresServer, find_postgres
from digestif.testing.processes import ServerFailed, ServerMissing, becomes_true
from tests.stores.postgres.server_ends import check_end, is_alive, needs_root, segment_of, segments
from tests.stores.postgres.servers import empty_database, shared_server

pytestmark = pytest.mark.long


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=False) as server:
        yield server


# Finding


def test_what_is_installed_makes_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(postgres.VARIABLE, raising=False)
    before = find_postgres()
    for name in ("initdb", "postgres"):
        (tmp_path / name).symlink_to(before / name)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    assert find_postgres() == before
    assert "site-packages" in before.parts


def test_another_one_has_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "another").symlink_to(find_postgres())
    monkeypatch.setenv(postgres.VARIABLE, str(tmp_path / "another"))

    assert find_postgres() == (tmp_path / "another").resolve()


def test_a_folder_without_postgresql_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(postgres.VARIABLE, str(tmp_path))

    with pytest.raises(ServerMissing, match=r"DIGESTIF_POSTGRES_BIN=.* is not a folder with initdb"):
        find_postgres()


def test_a_machine_without_the_wheel_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(postgres.VARIABLE, raising=False)

    with pytest.raises(ServerMissing, match="pip install no-such-wheel, or set DIGESTIF_POSTGRES_BIN="):
        find_postgres(wheel="no-such-wheel")


def test_redis_need_not_be_installed() -> None:
    program = "import sys; sys.modules['redis'] = None; import digestif.testing.postgres"

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (said.returncode, said.stderr) == (0, "")


# Where and who


def test_it_can_be_reached_on_loopback_only(server: PostgresServer) -> None:
    assert server.url == f"postgresql://digestif@127.0.0.1:{server.port}/digestif"
    assert server.sql("SELECT current_user, current_database()") == [("digestif", "digestif")]
    assert server.sql("SHOW listen_addresses") == [("127.0.0.1",)]
    assert server.sql("SHOW unix_socket_directories") == [("",)]
    for other in ("127.0.0.2", "::1"):  # as good as an address of the network, and there is always one
        with pytest.raises(OSError, match=r"refused|assign|unreachable|not supported"):
            socket.create_connection((other, server.port), timeout=5)


@needs_root
def test_it_runs_as_somebody_harmless_when_we_are_root(server: PostgresServer) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid

    assert {owner_of(pid) for pid in (server.pid, *server.children())} == {nobody}
    assert (server.directory / "data").stat().st_uid == nobody


# Life and death


def test_data_survive_stops_of_every_kind(server: PostgresServer) -> None:
    port = server.port
    server.sql("CREATE TABLE survived AS SELECT 'nothing' AS what")

    server.restart(immediate=False)
    server.sql("INSERT INTO survived VALUES ('fast')")
    server.restart(immediate=True)
    server.sql("INSERT INTO survived VALUES ('immediate')")
    server.kill()
    server.start()

    assert server.sql("SELECT what FROM survived") == [("nothing",), ("fast",), ("immediate",)]
    assert server.port == port
    assert "automatic recovery in progress" in server.log


def test_a_kill_takes_all_of_its_processes_also_those_that_are_busy(server: PostgresServer) -> None:
    with closing(busy_connection(server)) as busy:
        pids = [server.pid, *server.children()]
        assert busy.info.backend_pid in pids

        server.kill()

        assert not server.is_running()
        assert [pid for pid in pids if is_alive(pid)] == []


def test_a_server_that_died_by_itself_is_noticed_and_starts_again(server: PostgresServer) -> None:
    with closing(busy_connection(server)) as busy:
        os.kill(server.pid, signal.SIGKILL)

        assert becomes_true(lambda: not server.is_running())
        assert server.start().sql("SELECT 1") == [(1,)]
        assert not is_alive(busy.info.backend_pid)


def test_it_recovers_from_the_crash_of_a_child(server: PostgresServer) -> None:
    with psycopg.connect(server.url) as victim:
        os.kill(victim.info.backend_pid, signal.SIGKILL)

        assert becomes_true(lambda: "all server processes terminated; reinitializing" in server.log)
        server.wait_until_ready()
        assert becomes_true(lambda: answers(server))


def test_nothing_is_left_of_it_once_it_is_closed_even_after_a_kill(server: PostgresServer) -> None:
    segment = segment_of(server.directory)
    directory, pids = server.directory, [server.pid, *server.children()]

    server.kill()
    server.close()

    assert not directory.exists()
    assert [pid for pid in pids if is_alive(pid)] == []
    assert segment not in segments()
    assert server.port == 0


def test_a_port_that_was_taken_meanwhile_is_left_to_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((processes.HOST, 0)) as holder:
        taken = holder.getsockname()[1]
        ports = iter([taken, processes.free_port()])
        monkeypatch.setattr(processes, "free_port", lambda: next(ports))

        with PostgresServer() as server:
            assert server.port != taken


def test_a_server_that_can_not_start_shows_its_log_and_leaves_nothing() -> None:
    server = PostgresServer(no_such_setting=True)

    with pytest.raises(ServerFailed, match=r"(?s)did not start.*no_such_setting"):
        server.start()
    assert server._folder is None


def test_settings_are_those_of_postgresql() -> None:
    with PostgresServer(fsync=False, max_connections=7, application_name="it's me") as server:
        assert server.sql("SHOW fsync") == [("off",)]
        assert server.sql("SHOW max_connections") == [("7",)]
        assert server.sql("SELECT reset_val FROM pg_settings WHERE name = 'application_name'") == [("it's me",)]


# The owner


def test_a_server_goes_with_its_owner_who_was_killed() -> None:
    """torture/test_servers.py: also one that was down, with an owner who was interrupted."""
    check_end(signal.SIGKILL, "running")


# The shared one


def test_every_test_has_an_empty_database_of_its_own() -> None:
    with empty_database() as one, empty_database() as other:
        assert one != other
        with psycopg.connect(one) as left_open, psycopg.connect(other) as connection:
            left_open.execute("CREATE SCHEMA mine CREATE TABLE a ()")
            left_open.execute("CREATE TABLE b ()")
            assert own_tables(connection) == []
            left_open.commit()

    for _ in range(2):
        with empty_database() as again, psycopg.connect(again) as connection:
            assert again in (one, other)
            assert own_tables(connection) == []
            assert connection.execute("SELECT to_regnamespace('mine')").fetchone() == (None,)


def test_a_connection_that_a_test_forgot_does_not_hold_up_the_next() -> None:
    with empty_database() as url:
        forgotten = psycopg.connect(url)
        forgotten.execute("CREATE TABLE locked ()")

    with forgotten, pytest.raises(psycopg.OperationalError):
        forgotten.execute("SELECT 1")


def test_a_database_can_have_any_name() -> None:
    server = shared_server()

    with psycopg.connect(server.new_database("a/b c'\"ü")) as connection:
        assert connection.info.dbname == "a/b c'\"ü"

    server.drop_database("a/b c'\"ü")


def busy_connection(server: PostgresServer) -> psycopg.Connection:
    """One whose process counts and counts, so that it does not notice the end of the server."""
    connection = psycopg.connect(server.url, autocommit=True)
    connection.execute("CREATE FUNCTION forever() RETURNS void LANGUAGE plpgsql AS 'BEGIN LOOP END LOOP; END'")
    connection.pgconn.send_query(b"SELECT forever()")
    connection.pgconn.flush()
    assert becomes_true(
        lambda: ("active", "SELECT forever()") in server.sql("SELECT state, query FROM pg_stat_activity")
    )
    return connection


def own_tables(connection: psycopg.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT 1 FROM pg_tables WHERE schemaname IN ('public', 'mine')").fetchall()


def answers(server: PostgresServer) -> bool:
    try:
        return server.sql("SELECT 1") == [(1,)]
    except psycopg.OperationalError:
        return False


def owner_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid
