"""Opens a link: from a DSN, or over a client that the user made."""

import sys
from functools import cache
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.cluster import ClusterPipeline, RedisCluster
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from digestif.core.texts import shortened
from digestif.dsn import Dsn
from digestif.errors import ConfigError
from digestif.stores.redis.client.link import Link
from digestif.stores.redis.client.node import Node, SentinelNode, pool_of
from digestif.stores.redis.client.options import Options
from digestif.stores.redis.client.pipeline import Confirmation
from digestif.stores.redis.client.target import ServerKind, Target
from digestif.stores.redis.client.topology import Cluster, Members, SingleServer, Topology

_UNBOUNDED = 2**31  # connections: as many as there are calls at once


def open_link(dsn: Dsn, *, namespace: str) -> Link:
    """The link that a DSN describes. Nothing is sent yet."""
    target = Target.of(dsn)
    options = Options.of(dsn.options, tls=target.tls, sentinels=target.kind is ServerKind.SENTINEL)
    settings = _settings(target, options)
    match target.kind:
        case ServerKind.CLUSTER:
            topology: Topology = Cluster(_members(target, settings), namespace=namespace)
        case ServerKind.SENTINEL:
            topology = SingleServer(_sentinel_node(target, settings, options))
        case ServerKind.UNIX:
            topology = SingleServer(_unix_node(target, settings))
        case ServerKind.SINGLE:
            topology = SingleServer(_node(target, settings))
    return _link(topology, options, namespace)


def link_over(
    client: Any, *, namespace: str, patience: float = 10.0, replicas: int = 0, replica_timeout: float = 1.0
) -> Link:
    """A link over a redis.Redis or redis.RedisCluster of the user, which stays open when the link is closed."""
    if isinstance(client, RedisCluster) and not isinstance(client, ClusterPipeline):
        topology: Topology = Cluster(_members_of(client), namespace=namespace)
        settings = client.nodes_manager.connection_kwargs
    elif isinstance(client, redis.Redis) and not isinstance(client, Pipeline):
        topology = SingleServer(_node_of(client))
        settings = client.connection_pool.connection_kwargs
    else:
        given = "a string" if isinstance(client, str) else shortened(client)  # it may be a DSN with a password
        raise ConfigError(f"store: {given} is neither a redis.Redis nor a redis.RedisCluster")
    options = Options(settings.get("socket_timeout"), None, patience, replicas, replica_timeout)
    return _link(topology, options, namespace)


def _link(topology: Topology, options: Options, namespace: str) -> Link:
    options.check()
    confirmation = Confirmation(namespace, options.replicas, options.replica_timeout) if options.replicas else None
    return Link(topology, patience=options.patience, confirmation=confirmation)


# From a DSN


def _settings(target: Target, options: Options) -> dict[str, Any]:
    """Settings of every connection. We retry, so redis-py must not; RESP 2 replies alike to scripts and commands."""
    settings = {
        "socket_timeout": options.timeout,
        "socket_connect_timeout": options.connect_timeout,
        "socket_keepalive": True,
        "retry": Retry(NoBackoff(), 0),
        "max_connections": _UNBOUNDED,
        "protocol": 2,
        **introduction(),
    }
    tls = {
        "ssl": True,
        "ssl_ca_certs": options.ca,
        "ssl_cert_reqs": "required" if options.verify else "none",
        "ssl_check_hostname": options.verify,
    }
    return settings | tls if target.tls else settings


@cache
def introduction() -> dict[str, Any]:
    """How redis-py names itself to servers; without it, every new client searches the package's files for a version."""
    try:
        from redis.driver_info import DriverInfo
    except ImportError:  # an older redis-py
        return {}
    return {"driver_info": DriverInfo()}


def greet(connection: Any) -> None:
    """Exchange greetings with a node of a cluster, in the time to connect: the other nodes do not wait for a reply."""
    connection._sock.settimeout(connection.socket_connect_timeout)
    connection.on_connect()
    connection._sock.settimeout(connection.socket_timeout)


def _login(target: Target) -> dict[str, Any]:
    return {"username": target.login.user, "password": target.login.password, "client_name": "digestif"}


def _node(target: Target, settings: dict[str, Any]) -> Node:
    host, port = target.address()
    everything = {"host": host, "port": port, "db": target.db(), **_login(target), **settings}
    return Node(lambda: pool_of(redis.Redis(**everything)), f"{host}:{port}")


def _unix_node(target: Target, settings: dict[str, Any]) -> Node:
    if target.tls:
        raise ConfigError("store: a socket needs no TLS; write redis+unix:// with one s")
    path = target.socket()
    return Node(lambda: pool_of(redis.Redis(unix_socket_path=path, **_login(target), **settings)), path)


def _sentinel_node(target: Target, settings: dict[str, Any], options: Options) -> Node:
    """The primary of a service. The login is the server's; the sentinels have their own or none, and less time."""
    service, db = target.service(), target.db(after=1)
    asking = {**settings, "socket_timeout": settings["socket_connect_timeout"]}
    if options.sentinel_password is not None:
        asking |= {"username": options.sentinel_user, "password": options.sentinel_password.reveal()}

    def primary() -> Any:
        sentinel: Any = Sentinel(target.addresses, sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
        for client in sentinel.sentinels:
            pool_of(client)  # the node closes it, never the garbage collector
        return pool_of(sentinel.master_for(service, db=db, **_login(target), **settings))

    return SentinelNode(primary, service)


def _members(target: Target, settings: dict[str, Any]) -> Members:
    if target.db():
        raise ConfigError(f"store: a cluster has no database {target.db()}; leave the number away")
    everything = {**_login(target), **settings, "redis_connect_func": greet}
    return Members(target.addresses, lambda host, port: pool_of(redis.Redis(host=host, port=port, **everything)))


# From a client


def _node_of(client: redis.Redis) -> Node:
    """A node over the user's pool, of whose connections it keeps at most half."""
    pool = client.connection_pool
    spare = getattr(pool, "max_connections", sys.maxsize) // 2
    if isinstance(pool, SentinelConnectionPool):
        if not pool.is_master:
            raise ConfigError("store: the client reads from replicas; give that of the primary, master_for(…)")
        return SentinelNode(lambda: pool, pool.service_name, spare=spare)
    settings = pool.connection_kwargs
    name = settings.get("path") or f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}"
    return Node(lambda: pool, name, spare=spare)


def _members_of(client: RedisCluster) -> Members:
    """Nodes of the user's cluster client, with pools of our own: redis-py discards its own with its slot table."""
    manager: Any = client.nodes_manager
    # Its greeting may send READONLY, and then a primary that becomes a replica would go on answering.
    settings = {**manager.connection_kwargs, "redis_connect_func": client.user_on_connect_func}
    return Members(
        [(node.host, node.port) for node in manager.nodes_cache.values()],
        lambda host, port: pool_of(manager.create_redis_node(host, port, **settings)),
        manager.remap_host_port,
    )
