"""Servers for the tests of this folder; see tests/servers.py for what they are."""

from itertools import count

import pytest

from digestif.testing.servers import ClusterServers, LoneCluster, RedisServer
from tests.servers import empty_cluster, empty_lone_cluster, empty_server

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
