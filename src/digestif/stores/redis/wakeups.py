"""Wake-ups: scripts that make a timeline ready publish it on the channel of its partition; workers subscribe to all.

Channels are sharded: each is on the node that serves its partition. The thread that waits reads the sockets itself;
messages between two waits stay in them until the next. Finding a node and connecting may take long, so another thread
does it, and a server that hangs delays neither the wake-ups of the others nor a close.
"""

import selectors
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf
from threading import Lock, Thread
from typing import NamedTuple

from redis.exceptions import RedisError

from digestif.clock import monotonic
from digestif.errors import ConfigError, DigestifError
from digestif.stores.base import Wakeups
from digestif.stores.fork import watch
from digestif.stores.redis.client.faults import Remedy, remedy
from digestif.stores.redis.client.node import Node
from digestif.stores.redis.client.retries import backoff
from digestif.stores.redis.client.subscription import Keepalive, Subscription, subscribe
from digestif.stores.redis.client.topology import Topology
from digestif.stores.redis.keys import Keys

FIRST_SECONDS = 1.0  # that `listen` waits for the servers
CALM_SECONDS = 10.0  # without a try, after which pauses are short again
REFUSED_SECONDS = 30.0  # the pause if the user lacks the permission, which only people can give
# Polling needs no file of its own, which a fork would share.
_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.DefaultSelector)
_TROUBLE = (DigestifError, RedisError, OSError)


class Source(NamedTuple):
    """A node, and the partitions whose channels it publishes."""

    node: Node
    name: str  # of the node: it changes when sentinels name another server
    partitions: tuple[int, ...]


def listen(topology: Topology, find_keys: Callable[[], Keys], keepalive: Keepalive | None = None) -> "RedisWakeups":
    """Wake-ups that are heard from now on, or as soon as the servers can be reached."""
    wakeups = RedisWakeups(topology, find_keys, keepalive or Keepalive())
    deadline = monotonic() + FIRST_SECONDS
    while not wakeups.is_complete() and (left := deadline - monotonic()) > 0:
        wakeups.wait(left)
    return wakeups


class RedisWakeups(Wakeups):
    """Wake-ups from every node that serves a partition.

    The thread that waits holds `_reading`, and with it all subscriptions. The connecting thread puts new ones into
    `_connected` and rings: a byte through a pair of sockets interrupts the wait.
    """

    def __init__(self, topology: Topology, find_keys: Callable[[], Keys], keepalive: Keepalive) -> None:
        super().__init__()
        self._topology = topology
        self._find_keys = find_keys
        self._keepalive = keepalive
        self._keys: Keys | None = None
        self._partitions: dict[bytes, int] = {}  # by channel
        self._begin()
        watch(self)

    def _begin(self) -> None:
        self._reading = Lock()
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)
        self._subscriptions: dict[Source, Subscription] = {}
        self._connected: deque[tuple[Source, Subscription]] = deque()
        self._failed: deque[Node] = deque()  # their subscriptions ended
        self._connecting = False
        self._connect_at: float | None = 0.0
        self._tried_at = 0.0
        self._tries = 0
        self._refused = False

    def wait(self, timeout: float) -> bool:
        return self._wait_for_hints(timeout) is not None

    def wait_where(self, timeout: float) -> frozenset[int] | None:
        return self._wait_for_hints(timeout) or None

    def _wait_for_hints(self, timeout: float) -> frozenset[int] | None:
        """The partitions that are named, none of them if hints were missed; None if there was no hint."""
        deadline = monotonic() + timeout
        if not self._reading.acquire(timeout=max(0.0, timeout)):
            return None
        try:
            return self._wait(deadline)
        finally:
            self._reading.release()
            self._close_if_closed()

    def close(self) -> None:
        super().close()
        self._ring()
        self._close_if_closed()

    def is_complete(self) -> bool:
        """Whether there is a subscription for every partition, at the node to which the link sends its calls."""
        return self._keys is not None and self._subscriptions.keys() == self._wanted(self._keys)

    # Waiting

    def _wait(self, deadline: float) -> frozenset[int] | None:
        while not self._closed.is_set():
            renewed = self._take_over()
            connect_at = self._connect_if_due()
            if not renewed:
                self._sleep(until=min(deadline, connect_at))
            named = self._read()
            if named or renewed:
                return frozenset() if renewed else frozenset(named)
            if monotonic() >= deadline:
                return None
        return None

    def _sleep(self, *, until: float) -> None:
        """Until then, or until something arrives."""
        with _Selector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            for subscription in self._subscriptions.values():
                selector.register(subscription, selectors.EVENT_READ)
                until = min(until, subscription.read_at())
            selector.select(max(0.0, until - monotonic()))

    def _read(self) -> set[int]:
        """The partitions of the messages that have arrived."""
        named: set[int] = set()
        for source, subscription in list(self._subscriptions.items()):
            try:
                named.update(self._partitions[channel] for channel in subscription.read())
            except _TROUBLE:
                self._failed.append(source.node)
                self._unsubscribe(source)
        return named

    def _take_over(self) -> bool:
        """Take the subscriptions that are new. True if there are any: earlier messages were missed."""
        with suppress(BlockingIOError):
            while self._bell.recv(64):
                pass
        renewed = bool(self._connected)
        while self._connected:
            source, subscription = self._connected.popleft()
            if source in self._subscriptions:
                self._unsubscribe(source)
            self._subscriptions[source] = subscription
        return renewed

    def _unsubscribe(self, source: Source) -> None:
        self._subscriptions.pop(source).close()

    # Connecting

    def _connect_if_due(self) -> float:
        """If subscriptions are missing, connect after a pause. Returns the time at which to look again."""
        now = monotonic()
        if self._connecting or self._connected:
            return inf
        if self.is_complete():
            self._connect_at = None
            return inf
        if self._connect_at is None:
            self._connect_at = now + self._pause(now)
        if now < self._connect_at:
            return self._connect_at
        self._connect_at, self._tried_at = None, now
        self._start_connecting()
        return inf

    def _start_connecting(self) -> None:
        if self._keys is not None:
            for source in self._subscriptions.keys() - self._wanted(self._keys):
                self._unsubscribe(source)
        self._connecting = True
        try:
            Thread(target=self._connect, name="digestif-wakeups", daemon=True).start()
        except RuntimeError:  # there are too many threads just now
            self._connecting = False

    def _pause(self, now: float) -> float:
        if self._refused:
            return REFUSED_SECONDS
        if now > self._tried_at + CALM_SECONDS:
            self._tries = 0
        self._tries += 1
        return backoff(self._tries)

    def _connect(self) -> None:
        """In a thread of its own: subscribe to every source that is missing."""
        self._refused = False
        try:
            while self._failed:
                self._topology.refresh(failed=self._failed.popleft())
            self._keys = self._keys or self._find_keys()
            for source in sorted(self._wanted(self._keys), key=lambda source: source.node.silence is not None):
                if source not in self._subscriptions:
                    self._subscribe(source, self._keys)
        except _TROUBLE as error:
            self._refused = isinstance(error, ConfigError)
        finally:
            self._connecting = False
            self._ring()
            if self._closed.is_set():
                with self._reading:  # a thread that still waits is about to return
                    self._close_all()

    def _wanted(self, keys: Keys) -> set[Source]:
        """The sources by the topology as it is. Calls of the link refresh it when they fail, so this need not ask."""
        shares: dict[Node, list[int]] = {}
        for partition in range(keys.partitions):
            try:
                shares.setdefault(self._topology.node_for(partition), []).append(partition)
            except _TROUBLE:  # no node serves it just now
                continue
        return {Source(node, node.name, tuple(partitions)) for node, partitions in shares.items()}

    def _subscribe(self, source: Source, keys: Keys) -> None:
        channels = {keys.key(partition, "wake"): partition for partition in source.partitions}
        self._partitions.update(channels)
        try:
            subscription = subscribe(source.node, list(channels), self._keepalive)
        except _TROUBLE as error:
            self._failed.append(source.node)
            self._refused = self._refused or remedy(error) is Remedy.NONE
            return
        self._connected.append((source._replace(name=source.node.name), subscription))
        self._ring()  # at once: the next node may hang

    # Ending

    def _ring(self) -> None:
        with suppress(OSError):  # it rings already, or is closed
            self._button.send(b".")

    def _close_if_closed(self) -> None:
        """Once closed, close the connections; if another thread waits, it does so when it returns."""
        if not self._closed.is_set() or not self._reading.acquire(blocking=False):
            return
        try:
            self._close_all()
        finally:
            self._reading.release()

    def _close_all(self) -> None:
        self._bell.close()
        self._button.close()
        while self._connected:
            self._connected.popleft()[1].close()
        for source in list(self._subscriptions):
            self._unsubscribe(source)

    # Forks

    def before_fork(self) -> None:
        """Waits under way stay the parent's."""

    def after_fork(self, *, in_child: bool) -> None:
        """The child subscribes for itself."""
        if in_child and not self._closed.is_set():
            self._close_all()  # the child's copies; the parent's connections stay open
            super().__init__()
            self._begin()
