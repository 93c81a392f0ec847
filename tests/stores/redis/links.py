"""Links for the tests, commands to send over them, and slots that move under them."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from digestif.dsn import Dsn
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.factory import open_link
from digestif.stores.redis.client.link import Link
from digestif.stores.redis.client.retries import Backoff, backoff
from digestif.stores.redis.client.scripts import Script
from digestif.stores.redis.client.topology import slot_of
from digestif.testing.servers import ClusterServers

ECHO = Script.of("echo", "#!lua\nreturn ARGV[1]")
REFUSE = Script.of("refuse", "#!lua\nreturn redis.error_reply('DIGESTIF_STALE it is ' .. ARGV[1])")
WRITE = Script.of("write", "#!lua\nreturn redis.call('INCR', KEYS[1])")


def refuse_to_pause(failures: int) -> float:
    """A backoff that fails the test: the call has to be repeated at once."""
    raise AssertionError("the link made a pause")


@contextmanager
def linked(url: str, *, namespace: str = "d", backoff: Backoff = backoff, **options: object) -> Iterator[Link]:
    """The link that a DSN opens, until the end of the block."""
    link = open_link(Dsn.parse(f"{url}?{urlencode(options)}"), namespace=namespace)
    link.backoff = backoff
    try:
        yield link
    finally:
        link.close()


def key(name: str, partition: int = 0, *, namespace: str = "d") -> str:
    return f"{{{namespace}:{partition}}}:{name}"


def echo(value: str, partition: int = 0) -> Command:
    return Command(partition, (1, key("any", partition), value), ECHO)


def refuse(value: str, partition: int = 0) -> Command:
    return Command(partition, (1, key("any", partition), value), REFUSE)


def increment(name: str = "counter", partition: int = 0) -> Command:
    return Command(partition, (1, key(name, partition)), WRITE)


def get(name: str, partition: int = 0) -> Command:
    return Command(partition, ("GET", key(name, partition)))


def put(name: str, value: str, partition: int = 0) -> Command:
    return Command(partition, ("SET", key(name, partition), value))


# Slots that move


class Moving:
    """A slot on its way from its server to another, step by step; at the end it is brought back."""

    def __init__(self, cluster: ClusterServers, partition: int) -> None:
        self.cluster = cluster
        self.slot = slot_of("d", partition)
        self.source = cluster.node_for_slot(self.slot)
        self.target = next(node for node in cluster.primaries() if node is not self.source)

    def begin(self) -> None:
        self.target.cli("CLUSTER", "SETSLOT", self.slot, "IMPORTING", self.source.cli("CLUSTER", "MYID"))
        self.source.cli("CLUSTER", "SETSLOT", self.slot, "MIGRATING", self.target.cli("CLUSTER", "MYID"))

    def carry(self, *keys: str) -> None:
        self.source.cli("MIGRATE", "127.0.0.1", self.target.port, "", 0, 5000, "KEYS", *keys)

    def end(self) -> None:
        if rest := self.source.cli("CLUSTER", "GETKEYSINSLOT", self.slot, 1000):
            self.carry(*rest)
        for node in (self.target, self.source, *self.cluster.primaries()):
            node.cli("CLUSTER", "SETSLOT", self.slot, "NODE", self.target.cli("CLUSTER", "MYID"))

    def bring_back(self) -> None:
        if self.cluster.node_for_slot(self.slot) is self.source:
            self.end()
        self.source, self.target = self.target, self.source
        self.begin()
        self.end()
        self.cluster.wait_until_ok()


@contextmanager
def moving(cluster: ClusterServers, partition: int = 0) -> Iterator[Moving]:
    way = Moving(cluster, partition)
    try:
        yield way
    finally:
        way.bring_back()
