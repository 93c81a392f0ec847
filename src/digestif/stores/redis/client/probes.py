"""Probes: a node of a cluster that does not answer is asked by a thread of its own until it does.

Calls that fail fast are not sent to it before that, so a node that hangs does not delay what the others answer.
"""

from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any
from weakref import ref

from digestif.stores.redis.client.faults import FAILURES, Remedy, remedy
from digestif.stores.redis.client.node import Node
from digestif.stores.redis.client.topology import Topology

PAUSE_SECONDS = 0.5  # between two probes


class Probes:
    """The nodes of one link that are probed, each by one thread. Safe to use from many threads."""

    def __init__(self, topology: Topology, *, closed: Event) -> None:
        self._topology = topology
        self._closed = closed
        self._connections: dict[Node, Any] = {}
        self._beginning = Lock()

    def begin(self, node: Node, error: Exception) -> None:
        """Answer calls to the node that fail fast with this error until a probe is answered, or the node is gone."""
        with self._beginning:
            if node.silence is not None or self._closed.is_set():
                return
            node.silence = error
        try:
            Thread(target=_probe, args=(ref(self), node, self._closed), name="digestif-probe", daemon=True).start()
        except RuntimeError:  # there are too many threads just now
            node.silence = None

    def is_over(self, node: Node) -> bool:
        """Probe the node once. True if it answered, or serves nothing any more."""
        connection = self._connections[node] = node.new_connection()
        try:
            connection.connect()
            connection.send_command("PING")
            connection.read_response()
        except FAILURES as error:
            if remedy(error) is not Remedy.RETRY:
                return True  # calls say what is wrong
            self._topology.refresh(failed=node)
            return self._is_gone(node)
        finally:
            connection.disconnect()
            self._connections.pop(node, None)
        return True

    def _is_gone(self, node: Node) -> bool:
        with suppress(*FAILURES):
            return node not in self._topology.nodes()
        return False

    def close(self) -> None:
        """End the probes under way. The link is closed already, so none begins."""
        for connection in list(self._connections.values()):
            connection.disconnect()

    def after_fork(self) -> None:
        """In the child: its nodes are not probed, because the threads stay with the parent."""
        self._beginning = Lock()
        self._connections = {}


def _probe(owner: ref[Probes], node: Node, closed: Event) -> None:
    """Probe until it is over. A link that is dropped without being closed ends the thread, too."""
    try:
        while not closed.is_set() and (probes := owner()) is not None and not probes.is_over(node):
            del probes
            closed.wait(PAUSE_SECONDS)
    finally:
        node.silence = None
