"""Cluster: partitions on many nodes, by the slots of their tags, followed wherever the slots go.

The table of slots is our own. redis-py asks for its table under a lock that every call needs, opens with the whole
cluster or not at all, and is in the way of forks.
"""

from binascii import crc_hqx
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple

from redis.exceptions import ConnectionError as Unreachable
from redis.exceptions import NoPermissionError, ResponseError

from digestif.errors import ConfigError
from digestif.ids import shuffled
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.faults import FAILURES
from digestif.stores.redis.client.node import Node
from digestif.stores.redis.client.pipeline import UNANSWERED, Pipeline, Request
from digestif.stores.redis.client.topology import Topology

SLOTS = 16384
Address = tuple[str, int]


class Members(NamedTuple):
    """How the nodes of a cluster are reached."""

    seeds: Sequence[Address]
    make_pool: Callable[[str, int], Any]
    outside: Callable[[str, int], Address] = lambda host, port: (host, port)  # from the address that nodes tell


class Range(NamedTuple):
    """Slots in a row, and who serves them."""

    first: int
    last: int
    node: Node


class Cluster(Topology):
    """Who serves which slot, as one of the nodes told it last."""

    def __init__(self, members: Members, *, namespace: str) -> None:
        self._members = members
        self._namespace = namespace
        self._known: dict[Address, Node] = {}
        self._ranges: list[Range] = []
        self._serving: dict[int, Node] = {}  # by partition, as far as asked
        self._asking = Lock()
        self._closed = False

    @property
    def name(self) -> str:
        return "cluster " + ", ".join(f"{host}:{port}" for host, port in self._members.seeds)

    def node_for(self, partition: int) -> Node:
        serving = self._serving  # a newer table has a newer one
        node = serving.get(partition)
        if node is None:
            node = serving[partition] = self._find(slot_of(self._namespace, partition))
        return node

    def nodes(self) -> Iterable[Node]:
        return dict.fromkeys(each.node for each in self._table())

    def look_again(self, *, failed: Node | None) -> None:
        self._ask_unless_asked(last=failed)

    def follow(self, partition: int, host: str, port: int, *, told_by: Node) -> None:
        if self._serving.get(partition) is not self._node_told(host, port, told_by):
            self._ask_unless_asked(first=told_by)
            self._serving[partition] = self._node_told(host, port, told_by)

    def aside(self, host: str, port: int, *, told_by: Node) -> Node:
        return self._node_told(host, port, told_by)

    def close(self) -> None:
        self._closed = True
        for node in list(self._known.values()):
            node.close()

    def after_fork(self) -> None:
        self._asking = Lock()
        for node in self._known.values():
            node.after_fork()

    # The table

    def _find(self, slot: int) -> Node:
        for first, last, node in self._table():
            if first <= slot <= last:
                return node
        raise Unreachable(f"no node serves slot {slot}")

    def _table(self) -> list[Range]:
        if not self._ranges:
            with self._asking:
                if not self._ranges:  # nobody was quicker
                    self._ask()
        return self._ranges

    def _ask_unless_asked(self, *, first: Node | None = None, last: Node | None = None) -> None:
        """One asks for all: who comes meanwhile goes on, and finds the new table at the next try."""
        if self._asking.acquire(blocking=False):
            try:
                with suppress(ConfigError, *FAILURES):  # nobody answers: the old table is as good as any
                    self._ask(first=first, last=last)
            finally:
                self._asking.release()

    def _ask(self, *, first: Node | None = None, last: Node | None = None) -> None:
        problem: Exception = Unreachable("no node is known")
        for node in self._in_turn(first, last):
            try:
                self._learn(_slots(node), told_by=node)
                return
            except FAILURES as error:
                problem = error
        if isinstance(problem, ResponseError) and not isinstance(problem, NoPermissionError):
            raise ConfigError(f"store: {self.name}: {problem}; write redis:// for a single server") from problem
        raise problem

    def _in_turn(self, first: Node | None, last: Node | None) -> Iterable[Node]:
        """Everybody who may know: those in the table before those in the DSN, the doubtful one at the end."""
        known = list(self._known.values())
        mixed = [known[place] for place in shuffled(len(known))]
        seeds = [self._node(address) for address in self._members.seeds]
        turns = dict.fromkeys(node for node in (first, *mixed, *seeds) if node is not None and node is not last)
        return (*turns, last) if last is not None else turns

    def _learn(self, slots: list[Any], *, told_by: Node) -> None:
        ranges = [Range(first, last, self._told(primary, told_by)) for first, last, primary, *_ in slots]
        replicas = [self._told(node, told_by) for _, _, _, *replicas in slots for node in replicas]
        current = {*replicas, *(each.node for each in ranges)}
        known = dict(self._known)  # others may add to it meanwhile
        self._known = {at: node for at, node in known.items() if node in current}
        self._ranges = ranges
        self._serving = {}
        for node in set(known.values()) - current:
            node.close()

    # Nodes

    def _told(self, node: list[Any], told_by: Node) -> Node:
        host, port, *_ = node
        return self._node_told(host.decode() if host else "", port, told_by)

    def _node_told(self, host: str, port: int, told_by: Node) -> Node:
        """The node at an address as another told it: without a host it is on that one's."""
        if host in ("", "?"):
            return self._node((told_by.name.rpartition(":")[0], port))
        return self._node(self._members.outside(host, port))

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


def _slots(node: Node) -> list[Any]:
    """Ask a node for its table."""
    request = Request(Command(0, ("CLUSTER", "SLOTS")))
    exchange = Pipeline(node, [request])
    try:
        exchange.send()
        exchange.receive()
    except FAILURES as error:
        exchange.fail(error)
        raise
    finally:
        exchange.abandon()
    if request.answer is UNANSWERED:
        assert request.error
        raise request.error
    if not request.answer:
        raise Unreachable(f"{node.name} knows of no slots")
    slots: list[Any] = request.answer
    return slots
