"""The servers that tests share: started when the first test asks, one of each per process, empty for every test.

A test that kills, freezes or configures a server starts its own, except on the cluster, which is healed for the next.
"""

import atexit
import os
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

from digestif.testing.servers import ClusterServers, Kind, LoneCluster, RedisServer, ServerMissing, find_server

Servers = TypeVar("Servers", RedisServer, LoneCluster, ClusterServers)


def needed_server(kind: Kind | None = None) -> Path:
    """The server to use. Where there is none, the test is skipped on a laptop and fails in CI."""
    try:
        return find_server(kind)
    except ServerMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def shared_server(kind: Kind | None = None) -> RedisServer:
    """The shared server as it is, for stores with namespaces of their own."""
    needed_server(kind)
    return _server(kind).start()


def empty_server(kind: Kind | None = None) -> RedisServer:
    """The shared server, emptied."""
    server = shared_server(kind)
    server.cli("FLUSHALL")
    return server


def shared_lone_cluster(kind: Kind | None = None) -> LoneCluster:
    """The shared cluster of one server as it is."""
    needed_server(kind)
    return _lone_cluster(kind).start()


def empty_lone_cluster(kind: Kind | None = None) -> LoneCluster:
    """The shared cluster of one server, emptied."""
    server = shared_lone_cluster(kind)
    server.cli("FLUSHALL")
    return server


def empty_cluster(kind: Kind | None = None) -> ClusterServers:
    """The shared cluster of three primaries and three replicas, healed and emptied."""
    needed_server(kind)
    cluster = _cluster(kind)
    cluster.heal()
    for primary in cluster.primaries():
        primary.cli("FLUSHALL")
    return cluster


@cache
def _server(kind: Kind | None) -> RedisServer:
    return _closed_at_exit(RedisServer(kind=kind))


@cache
def _lone_cluster(kind: Kind | None) -> LoneCluster:
    return _closed_at_exit(LoneCluster(kind=kind))


@cache
def _cluster(kind: Kind | None) -> ClusterServers:
    return _closed_at_exit(ClusterServers(kind=kind)).start()


# Not by fixtures of the session: each conftest that imports one would have a server of its own.
def _closed_at_exit(servers: Servers) -> Servers:
    atexit.register(servers.close)
    return servers
