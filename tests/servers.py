"""The servers that tests share: one of each per process, started at first use, empty for every test.

A test that kills, freezes or configures a server starts its own, except on the cluster, which is healed for the next.
"""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from digestif.testing.servers import ClusterServers, LoneCluster, RedisServer

Single = TypeVar("Single", bound=RedisServer)
Servers = TypeVar("Servers", RedisServer, LoneCluster, ClusterServers)


def shared_server() -> RedisServer:
    """The shared server as it is, for stores with namespaces of their own."""
    return _server().start()


def empty_server() -> RedisServer:
    """The shared server, emptied."""
    return _emptied(shared_server())


def shared_connection() -> "redis.Redis":
    """A connection to the shared server that is left open."""
    return _connection_to(shared_server())


def shared_lone_cluster() -> LoneCluster:
    """The shared cluster of one server as it is."""
    cluster = _lone_cluster()
    return cluster if cluster.is_running() else cluster.start()


def empty_lone_cluster() -> LoneCluster:
    """The shared cluster of one server, emptied."""
    return _emptied(shared_lone_cluster())


def empty_cluster() -> ClusterServers:
    """The shared cluster of three primaries and three replicas, healed and emptied."""
    cluster = _cluster()
    cluster.heal()
    for primary in cluster.primaries():
        primary.cli("FLUSHALL")
    return cluster


@contextmanager
def no_key_expires(*servers: RedisServer) -> Iterator[None]:
    """Require that no key has a TTL in the end, and that none has expired: servers may evict keys with a TTL."""
    before = [_gone_by_ttl(server) for server in servers]
    yield
    for server, gone in zip(servers, before, strict=True):
        facts = _connection_to(server).info("keyspace").items()
        with_ttl = {database: kinds for database, kinds in facts if kinds["expires"]}
        assert not with_ttl, f"keys with a TTL, which a server may evict: {with_ttl}"
        assert _gone_by_ttl(server) == gone, "a key with a TTL has expired"


def _gone_by_ttl(server: RedisServer) -> int:
    gone: int = _connection_to(server).info("stats")["expired_keys"]
    return gone


def _emptied(server: Single) -> Single:
    _connection_to(server).flushall()
    return server


@cache  # to connect takes ten times as long as to empty
def _connection_to(server: RedisServer) -> "redis.Redis":
    return server.client(retry=Retry(NoBackoff(), 1))  # some tests cut all connections


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
