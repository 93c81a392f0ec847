"""Topology: which node serves a partition. Here for a single server; for many see cluster.py."""

from collections.abc import Iterable
from typing import Protocol

from digestif.errors import ConfigError
from digestif.stores.redis.client.node import Node


class Topology(Protocol):
    """The way to the data of each partition. A method raises ConfigError if it finds that the DSN can't be right."""

    @property
    def name(self) -> str:
        """Of the whole, for messages."""

    def node_for(self, partition: int) -> Node:
        """The node in charge. Raises an error of redis-py while there is none."""

    def nodes(self) -> Iterable[Node]:
        """Every node in charge of something; raises likewise."""

    def look_again(self, *, failed: Node | None) -> None:
        """Find out who is in charge now."""

    def follow(self, partition: int, host: str, port: int, *, told_by: Node) -> None:
        """A node says that this one serves the partition now."""

    def aside(self, host: str, port: int, *, told_by: Node) -> Node:
        """The node to which a slot is just being moved."""

    def close(self) -> None: ...

    def after_fork(self) -> None:
        """In the child."""


class SingleServer(Topology):
    """All partitions on one node: a server by itself, or the one that the sentinels name."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def name(self) -> str:
        return self._node.name

    def node_for(self, partition: int) -> Node:
        return self._node

    def nodes(self) -> Iterable[Node]:
        return [self._node]

    def look_again(self, *, failed: Node | None) -> None:
        self._node.drop_idle()

    def follow(self, partition: int, host: str, port: int, *, told_by: Node) -> None:
        raise self._one_of_many()

    def aside(self, host: str, port: int, *, told_by: Node) -> Node:
        raise self._one_of_many()

    def close(self) -> None:
        self._node.close()

    def after_fork(self) -> None:
        self._node.after_fork()

    def _one_of_many(self) -> ConfigError:
        return ConfigError(
            f"store: {self.name} is a node of a cluster and keeps only some of the keys; write redis+cluster:// instead"
        )
