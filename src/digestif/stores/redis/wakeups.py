"""Wake-ups: scripts that make a timeline ready publish it on the channel of its partition, and who waits hears of it.

Channels are sharded, so each is on the node that serves its partition. The thread that waits reads the sockets itself:
what comes between two waits stays in them until the next. Only what may take long, to find a node and to connect, is
done by a thread aside, which ends with it, so that a server that hangs keeps neither the hints of the others waiting
nor a close.
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
from digestif.stores.redis.client.backoff import backoff
from digestif.stores.redis.client.faults import Remedy, remedy
from digestif.stores.redis.client.node import Node
from digestif.stores.redis.client.subscription import Subscription, subscribe
from digestif.stores.redis.client.topology import Topology
from digestif.stores.redis.keys import Keys

FIRST_SECONDS = 1.0  # that somebody who begins to listen waits for the servers
CALM_SECONDS = 10.0  # without a try, after which pauses are short again
REFUSED_SECONDS = 30.0  # the pause if a user may not listen: only people can change that
# Polling needs no file of its own, which a fork would share.
_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.DefaultSelector)
_TROUBLE = (DigestifError, RedisError, OSError)


class Post(NamedTuple):
    """Where to listen, and for what."""

    node: Node
    name: str  # of the node: it changes where sentinels name another server
    partitions: tuple[int, ...]


def listening(routes: Topology, find_keys: Callable[[], Keys]) -> "RedisWakeups":
    """Wake-ups that are heard from now on, or as soon as the servers can be reached."""
    wakeups = RedisWakeups(routes, find_keys)
    deadline = monotonic() + FIRST_SECONDS
    while not wakeups.is_whole() and (left := deadline - monotonic()) > 0:
        wakeups.wait(left)
    return wakeups


class RedisWakeups(Wakeups):
    """Hints from every node that serves a partition.

    Whoever waits has the turn, and with it all subscriptions. The thread aside hands new ones over and rings the bell.
    """

    def __init__(self, routes: Topology, find_keys: Callable[[], Keys]) -> None:
        super().__init__()
        self._routes = routes
        self._find_keys = find_keys
        self._keys: Keys | None = None
        self._begin()
        watch(self)

    def _begin(self) -> None:
        self._turn = Lock()
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)
        self._subscriptions: dict[Post, Subscription] = {}
        self._arrived: deque[tuple[Post, Subscription]] = deque()
        self._doubted: deque[Node] = deque()  # whose subscriptions ended
        self._mending = False
        self._mend_at: float | None = 0.0
        self._tried_at = 0.0
        self._tries = 0
        self._refused = False

    def wait(self, timeout: float) -> bool:
        deadline = monotonic() + timeout
        if not self._turn.acquire(timeout=max(0.0, timeout)):
            return False
        try:
            return self._wait(deadline)
        finally:
            self._turn.release()
            self._tidy_up()

    def close(self) -> None:
        super().close()
        self._ring()
        self._tidy_up()

    def is_whole(self) -> bool:
        """Whether every partition is listened to where the link would go for it."""
        return self._keys is not None and self._subscriptions.keys() == self._wanted(self._keys)

    # Waiting

    def _wait(self, deadline: float) -> bool:
        while not self._closed.is_set():
            renewed = self._take_over()
            look_at = self._see_to_mending()
            if not renewed:
                self._sleep(until=min(deadline, look_at))
            if self._hear() or renewed:
                return True
            if monotonic() >= deadline:
                return False
        return False

    def _sleep(self, *, until: float) -> None:
        """Until then, or until something is heard."""
        with _Selector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            for subscription in self._subscriptions.values():
                selector.register(subscription, selectors.EVENT_READ)
                until = min(until, subscription.ask_at())
            selector.select(max(0.0, until - monotonic()))

    def _hear(self) -> bool:
        heard = False
        for post, subscription in list(self._subscriptions.items()):
            try:
                heard |= subscription.hear()
            except _TROUBLE:
                self._doubted.append(post.node)
                self._leave(post)
        return heard

    def _take_over(self) -> bool:
        """Take the subscriptions that are new. True if there are any: what was published before them is lost."""
        with suppress(BlockingIOError):
            while self._bell.recv(64):
                pass
        renewed = bool(self._arrived)
        while self._arrived:
            post, subscription = self._arrived.popleft()
            if post in self._subscriptions:
                self._leave(post)
            self._subscriptions[post] = subscription
        return renewed

    def _leave(self, post: Post) -> None:
        self._subscriptions.pop(post).close()

    # Mending

    def _see_to_mending(self) -> float:
        """Let what is not whole be mended, after a pause. Gives the time at which to look again."""
        now = monotonic()
        if self._mending or self._arrived:
            return inf
        if self.is_whole():
            self._mend_at = None
            return inf
        if self._mend_at is None:
            self._mend_at = now + self._pause(now)
        if now < self._mend_at:
            return self._mend_at
        self._mend_at, self._tried_at = None, now
        self._have_it_mended()
        return inf

    def _have_it_mended(self) -> None:
        if self._keys is not None:
            for post in self._subscriptions.keys() - self._wanted(self._keys):
                self._leave(post)
        self._mending = True
        try:
            Thread(target=self._mend, name="digestif-wakeups", daemon=True).start()
        except RuntimeError:  # there are too many threads just now
            self._mending = False

    def _pause(self, now: float) -> float:
        if self._refused:
            return REFUSED_SECONDS
        if now > self._tried_at + CALM_SECONDS:
            self._tries = 0
        self._tries += 1
        return backoff(self._tries)

    def _mend(self) -> None:
        """In a thread of its own: subscribe wherever nobody listens."""
        self._refused = False
        try:
            while self._doubted:
                self._routes.look_again(failed=self._doubted.popleft())
            self._keys = self._keys or self._find_keys()
            for post in self._wanted(self._keys):
                if post not in self._subscriptions:
                    self._subscribe(post, self._keys)
        except _TROUBLE as error:
            self._refused = isinstance(error, ConfigError)
        finally:
            self._mending = False
            self._ring()
            if self._closed.is_set():
                with self._turn:  # whoever has it is leaving
                    self._let_go()

    def _wanted(self, keys: Keys) -> set[Post]:
        """Who serves what, as far as the link knows. It looks where calls fail, so nobody here needs to ask around."""
        shares: dict[Node, list[int]] = {}
        for partition in range(keys.partitions):
            try:
                shares.setdefault(self._routes.node_for(partition), []).append(partition)
            except _TROUBLE:  # nobody serves it just now
                continue
        return {Post(node, node.name, tuple(partitions)) for node, partitions in shares.items()}

    def _subscribe(self, post: Post, keys: Keys) -> None:
        try:
            subscription = subscribe(post.node, [keys.key(partition, "wake") for partition in post.partitions])
        except _TROUBLE as error:
            self._doubted.append(post.node)
            self._refused = self._refused or remedy(error) is Remedy.NONE
            return
        self._arrived.append((post._replace(name=post.node.name), subscription))
        self._ring()  # the next node may let us wait

    # Ending

    def _ring(self) -> None:
        with suppress(OSError):  # it rings already, or is closed
            self._button.send(b".")

    def _tidy_up(self) -> None:
        """Once closed, let go of everything; who has the turn does it when leaving."""
        if not self._closed.is_set() or not self._turn.acquire(blocking=False):
            return
        try:
            self._let_go()
        finally:
            self._turn.release()

    def _let_go(self) -> None:
        self._bell.close()
        self._button.close()
        while self._arrived:
            self._arrived.popleft()[1].close()
        for post in list(self._subscriptions):
            self._leave(post)

    # Forks

    def before_fork(self) -> None:
        """Nothing has to rest: what is under way stays the parent's."""

    def after_fork(self, *, in_child: bool) -> None:
        """The child listens for itself."""
        if in_child and not self._closed.is_set():
            self._let_go()  # its own ends; the connections stay open to the parent
            super().__init__()
            self._begin()
