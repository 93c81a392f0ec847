"""Links for the tests, and commands to send over them."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from digestif.dsn import Dsn
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.factory import open_link
from digestif.stores.redis.client.link import Link
from digestif.stores.redis.client.scripts import Script

ECHO = Script.of("echo", "#!lua\nreturn ARGV[1]")
REFUSE = Script.of("refuse", "#!lua\nreturn redis.error_reply('DIGESTIF_STALE it is ' .. ARGV[1])")
WRITE = Script.of("write", "#!lua\nreturn redis.call('INCR', KEYS[1])")


def refuse_to_pause(failures: int) -> float:
    """Instead of the link's backoff: shows that a call was repeated at once."""
    raise AssertionError("the link made a pause")


@contextmanager
def linked(url: str, *, namespace: str = "d", **options: object) -> Iterator[Link]:
    """The link that a DSN opens, until the end of the block."""
    link = open_link(Dsn.parse(f"{url}?{urlencode(options)}"), namespace=namespace)
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
