"""The servers that tests share: one of each per process, started at first use, empty for every test.

A test that kills, freezes or configures a server starts its own, except on the cluster, which is healed for the next.
"""

import atexit
from functools import cache
from typing import TypeVar

from digestif.testing.servers import ClusterServers, LoneCluster, RedisServer

Servers = TypeVar("Servers", RedisServer, LoneCluster, ClusterServers)


def shared_server() -> RedisServer:
    """The shared server as it is, for stores with namespaces of their own."""
    return _server().start()


def empty_server() -> RedisServer:
    """The shared server, emptied."""
    server = shared_server()
    server.cli("FLUSHALL")
    return server


def shared_lone_cluster() -> LoneCluster:
    """The shared cluster of one server as it is."""
    return _lone_cluster().start()


def empty_lone_cluster() -> LoneCluster:
    """The shared cluster of one server, emptied."""
    server = shared_lone_cluster()
    server.cli("FLUSHALL")
    return server


def empty_cluster() -> ClusterServers:
    """The shared cluster of three primaries and three replicas, healed and emptied."""
    cluster = _cluster()
    cluster.heal()
    for primary in cluster.primaries():
        primary.cli("FLUSHALL")
    return cluster


@cache
def _server() -> RedisServer:
    return _closed_at_exit(RedisServer())


@cache
def _lone_cluster() -> LoneCluster:
    return _closed_at_exit(LoneCluster())


@cache
def _cluster() -> ClusterServers:
    return _closed_at_exit(ClusterServers()).start()


# Not by fixtures of the session: each conftest that imports one would have a server of its own.
def _closed_at_exit(servers: Servers) -> Servers:
    atexit.register(servers.close)
    return servers
