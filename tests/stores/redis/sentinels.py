"""Servers that a sentinel watches, for the tests."""

from pathlib import Path
from typing import NamedTuple

from digestif.stores.redis.client.link import Link
from digestif.stores.redis.client.node import SentinelNode
from digestif.testing.servers import RedisServer


class Watched(NamedTuple):
    """A primary, its replica, and the sentinel that puts one in the place of the other."""

    primary: RedisServer
    replica: RedisServer
    sentinel: RedisServer

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/main"

    def named(self) -> int:
        """The port of the primary, as the sentinel names it."""
        with self.sentinel.client() as client:
            return int(client.sentinel_masters()["main"]["port"])

    def is_complete(self) -> bool:
        """The sentinel has found the replica and thinks well of it."""
        with self.sentinel.client() as client:
            replicas = client.sentinel_slaves("main")
        return [replica["master-link-status"] for replica in replicas] == ["ok"]


def watching(primary: RedisServer, directory: Path, **options: str) -> RedisServer:
    """A sentinel: the same program by another name."""
    sentinel = RedisServer()
    program = directory / "redis-sentinel"
    program.symlink_to(primary.program)
    sentinel.program = program
    sentinel.options = {
        "bind": "127.0.0.1",
        "sentinel monitor main 127.0.0.1": f"{primary.port} 1",
        "sentinel down-after-milliseconds main": 300,
        "sentinel failover-timeout main": 2000,
        **options,
    }
    return sentinel


def ask_before_each_call(link: Link) -> None:
    """Let the link ask the sentinels for the primary every time, not once a second."""
    [node] = link.topology.nodes()
    assert isinstance(node, SentinelNode)
    node.ask_seconds = node._ask_at = 0.0
