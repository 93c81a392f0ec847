"""Topology: which node serves a partition. One server has them all; in a cluster the slots of their tags decide."""

from binascii import crc_hqx
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple, Protocol

from redis.exceptions import ConnectionError as Unreachable
from redis.exceptions import NoPermissionError, ResponseError

from digestif.errors import ConfigError
from digestif.ids import shuffled
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.faults import FAILURES, Remedy, remedy
from digestif.stores.redis.client.node import Node, SentinelNode
from digestif.stores.redis.client.pipeline import UNANSWERED, NodePipeline, Request

SLOTS = 16384
FAILED_SECONDS = 30.0  # for which a node that gave no answer is asked after the others
Address = tuple[str, int]


class Topology(Protocol):
    """The nodes, and which of them serves a partition. Methods raise ConfigError if the DSN turns out to be wrong."""

    @property
    def name(self) -> str:
        """For messages."""

    is_divided: bool = False  # several nodes serve partitions
    elects: bool = False  # another server may take the place of one that the DSN or a node names

    def node_for(self, partition: int) -> Node:
        """The node that serves a partition. Raises an error of redis-py while there is none."""

    def nodes(self) -> Iterable[Node]:
        """Every node that serves a partition; raises likewise."""

    def refresh(self, *, failed: Node | None) -> None:
        """Find out again which node serves what, after this one failed."""

    def follow(self, partition: int, host: str, port: int, *, reported_by: Node) -> None:
        """A node replied MOVED: the partition is served at this address now."""

    def node_at(self, host: str, port: int, *, reported_by: Node) -> Node:
        """The node at an address that another node reported."""

    def close(self) -> None: ...

    def after_fork(self) -> None:
        """In the child."""


class SingleServer(Topology):
    """All partitions on one node: a server by itself, or the one that the sentinels name."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.elects = isinstance(node, SentinelNode)

    @property
    def name(self) -> str:
        return self._node.name

    def node_for(self, partition: int) -> Node:
        return self._node

    def nodes(self) -> Iterable[Node]:
        return [self._node]

    def refresh(self, *, failed: Node | None) -> None:
        self._node.drop_idle()

    def follow(self, partition: int, host: str, port: int, *, reported_by: Node) -> None:
        self.node_at(host, port, reported_by=reported_by)

    def node_at(self, host: str, port: int, *, reported_by: Node) -> Node:
        raise ConfigError(
            f"store: {self.name} is a node of a cluster and keeps only some of the keys; write redis+cluster:// instead"
        )

    def close(self) -> None:
        self._node.close()

    def after_fork(self) -> None:
        self._node.after_fork()


class Members(NamedTuple):
    """How the nodes of a cluster are reached."""

    seeds: Sequence[Address]
    make_pool: Callable[[str, int], Any]
    remap: Callable[[str, int], Address] = lambda host, port: (host, port)  # of the addresses that nodes report


class SlotRange(NamedTuple):
    """Slots in a row, and the node that serves them."""

    first: int
    last: int
    node: Node


class Cluster(Topology):
    """The table of slots, as one of the nodes reported it last."""

    elects = True

    def __init__(self, members: Members, *, namespace: str) -> None:
        self._members = members
        self._namespace = namespace
        self._known: dict[Address, Node] = {}
        self._ranges: list[SlotRange] = []
        self._serving: dict[int, Node] = {}  # by partition, as far as looked up
        self._asking = Lock()
        self._closed = False

    @property
    def name(self) -> str:
        return "cluster " + ", ".join(f"{host}:{port}" for host, port in self._members.seeds)

    def node_for(self, partition: int) -> Node:
        serving = self._serving  # another thread may replace it, together with the table
        node = serving.get(partition)
        if node is None:
            node = serving[partition] = self._find(slot_of(self._namespace, partition))
        return node

    def nodes(self) -> Iterable[Node]:
        return dict.fromkeys(each.node for each in self._table())

    def refresh(self, *, failed: Node | None) -> None:
        self._ask_unless_asking(last=failed)

    def follow(self, partition: int, host: str, port: int, *, reported_by: Node) -> None:
        if self._serving.get(partition) is not self.node_at(host, port, reported_by=reported_by):
            self._ask_unless_asking(first=reported_by)
            self._serving[partition] = self.node_at(host, port, reported_by=reported_by)

    def node_at(self, host: str, port: int, *, reported_by: Node) -> Node:
        if host in ("", "?"):  # that of the reporting node
            return self._node((reported_by.name.rpartition(":")[0], port))
        return self._node(self._members.remap(host, port))

    def close(self) -> None:
        self._closed = True
        for node in list(self._known.values()):
            node.close()

    def after_fork(self) -> None:
        self._asking = Lock()
        for node in self._known.values():
            node.after_fork()

    def _find(self, slot: int) -> Node:
        for first, last, node in self._table():
            if first <= slot <= last:
                return node
        raise Unreachable(f"no node serves slot {slot}")

    def _table(self) -> list[SlotRange]:
        if not self._ranges:
            with self._asking:
                if not self._ranges:  # no other thread has asked meanwhile
                    self._ask()
        return self._ranges

    def _ask_unless_asking(self, *, first: Node | None = None, last: Node | None = None) -> None:
        """Ask the nodes for the table of slots, `first` before and `last` after the others.

        One thread asks; the others go on with the old table and find the new one at their next try.
        """
        if self._asking.acquire(blocking=False):
            try:
                with suppress(ConfigError, *FAILURES):  # without an answer the old table stays
                    self._ask(first=first, last=last)
            finally:
                self._asking.release()

    def _ask(self, *, first: Node | None = None, last: Node | None = None) -> None:
        problem: Exception = Unreachable("no node is known")
        for node in self._candidates(first, last):
            try:
                self._learn(_slots(node), reported_by=node)
                return
            except FAILURES as error:
                problem = error
        if isinstance(problem, ResponseError) and _is_no_cluster(problem):
            raise ConfigError(f"store: {self.name}: {problem}; write redis:// for a single server") from problem
        raise problem

    def _candidates(self, first: Node | None, last: Node | None) -> Iterable[Node]:
        """Nodes to ask for the table: those that are known in random order, then those of the DSN.

        Nodes that did not answer lately come after the others.
        """
        mixed = shuffled(self._known.values())
        seeds = [self._node(address) for address in self._members.seeds]
        given = [node for node in (first, *mixed, *seeds) if node is not None and node is not last]
        nodes = dict.fromkeys(sorted(given, key=lambda node: node.recent_failure(seconds=FAILED_SECONDS) is not None))
        return (*nodes, last) if last is not None else nodes

    def _learn(self, slots: list[Any], *, reported_by: Node) -> None:
        def node(reported: list[Any]) -> Node:
            host, port, *_ = reported
            return self.node_at(host.decode() if host else "", port, reported_by=reported_by)

        ranges = [SlotRange(first, last, node(primary)) for first, last, primary, *_ in slots]
        replicas = [node(replica) for _, _, _, *replicas in slots for replica in replicas]
        current = {*replicas, *(each.node for each in ranges)}
        known = dict(self._known)  # other threads may add to it meanwhile
        self._known = {at: node for at, node in known.items() if node in current}
        self._ranges = ranges
        self.is_divided = len({each.node for each in ranges}) > 1
        self._serving = {}
        for gone in set(known.values()) - current:
            gone.close()

    def _node(self, address: Address) -> Node:
        node = self._known.get(address)
        if node is None:
            host, port = address
            node = Node(lambda: self._members.make_pool(host, port), f"{host}:{port}")
            node = self._known.setdefault(address, node)
            if self._closed:
                node.close()
        return node


def slot_of(namespace: str, partition: int) -> int:
    """The slot of all keys with the tag `{namespace:partition}`."""
    return crc_hqx(f"{namespace}:{partition}".encode(), 0) % SLOTS


def _is_no_cluster(error: Exception) -> bool:
    """True if a server refuses the question for its table, and will not answer it later."""
    return remedy(error) is Remedy.NONE and not isinstance(error, NoPermissionError)


def _slots(node: Node) -> list[Any]:
    """Ask a node for its table."""
    request = Request(Command(0, ("CLUSTER", "SLOTS")))
    pipeline = NodePipeline(node, [request])
    try:
        pipeline.send()
        pipeline.receive()
    except FAILURES as error:
        pipeline.fail(error)
        raise
    finally:
        pipeline.abandon()
    if request.answer is UNANSWERED:
        assert request.error
        raise request.error
    if not request.answer:
        raise Unreachable(f"{node.name} knows of no slots")
    slots: list[Any] = request.answer
    return slots
