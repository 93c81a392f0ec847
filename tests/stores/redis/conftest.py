"""Servers for the tests of this folder; see tests/servers.py for what they are."""

import ssl
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import trustme

from digestif.testing.servers import HOST, ClusterServers, LoneCluster, RedisServer, becomes_true
from tests.servers import empty_cluster, empty_lone_cluster, empty_server
from tests.stores.redis.sentinels import Watched, watching
from tests.stores.redis.tls import Encrypted, terminated

_numbers = count(1)


@pytest.fixture
def redis_server() -> RedisServer:
    return empty_server()


@pytest.fixture
def lone_cluster() -> LoneCluster:
    return empty_lone_cluster()


@pytest.fixture
def cluster() -> ClusterServers:
    return empty_cluster()


@pytest.fixture
def namespace() -> str:
    """One that no other test of this process has."""
    return f"n{next(_numbers)}"


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    authority, ca = trustme.CA(), tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    with RedisServer() as server, terminated(context, server.port) as port:
        yield Encrypted(f"rediss://{HOST}:{port}", ca)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with RedisServer() as primary, RedisServer(replicaof=f"127.0.0.1 {primary.port}") as replica:
        assert becomes_true(lambda: replica.cli("INFO", "replication")["master_link_status"] == "up")
        with watching(primary, tmp_path) as sentinel:
            servers = Watched(primary, replica, sentinel)
            assert becomes_true(servers.is_complete)
            yield servers
