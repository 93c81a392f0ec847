"""Probes: a separate thread asks a cluster node that does not answer until it does.

Calls that fail fast are not sent to it before that, so a node that hangs does not delay what the others answer.
"""

from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any
from weakref import ref

from digestif.stores.redis.client.faults import FAILURES, UNREACHABLE, Remedy, again, remedy, unavailable
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
        self.nodes: set[Node] = set()

    def suspect(self, node: Node, error: Exception) -> Exception | None:
        """Probe one of several nodes if this error says that it can't be reached.

        Until a probe is answered, or the node is gone, calls that fail fast are answered with the error that this
        returns. None: the node is not probed.
        """
        if not self._topology.is_divided or not isinstance(error, UNREACHABLE):
            return None
        silence = unavailable(error, node.name, patience=0)
        self._begin(node, silence)
        return silence

    def _begin(self, node: Node, silence: Exception) -> None:
        with self._beginning:
            if node.silence is not None or self._closed.is_set():
                return
            node.silence = again(silence)  # without its traceback, which leads to the link
            self.nodes.add(node)
        try:
            Thread(target=_probe, args=(ref(self), node, self._closed), name="digestif-probe", daemon=True).start()
        except RuntimeError:  # there are too many threads just now
            self.end(node)

    def end(self, node: Node) -> None:
        node.silence = None
        self.nodes.discard(node)

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
        self.nodes = set()


def _probe(owner: ref[Probes], node: Node, closed: Event) -> None:
    """Probe until it is over. A link that is dropped without being closed ends the thread, too."""
    while (probes := owner()) is not None:
        try:
            is_over = closed.is_set() or probes.is_over(node)
        except BaseException:
            probes.end(node)
            raise
        if is_over:
            probes.end(node)
            return
        del probes  # while it waits
        closed.wait(PAUSE_SECONDS)
