"""Redis and Valkey: `redis://`, `rediss://`, `redis+cluster://`, `redis+sentinel://`, and the same with valkey."""

from typing import Any

from digestif.errors import ConfigError, StoreUnavailable
from digestif.stores.dsn import Dsn, check_namespace
from digestif.stores.redis.client.factory import link_over, open_link
from digestif.stores.redis.client.options import NAMES
from digestif.stores.redis.layout import MOST_PARTITIONS
from digestif.stores.redis.store import RedisStore

__all__ = ["RedisStore", "from_client", "from_dsn"]


def from_dsn(dsn: Dsn, *, namespace: str) -> RedisStore:
    """Open the store. A server that is not fit is refused here; one that can't be reached, at the first call."""
    dsn.refuse_options("partitions", *NAMES)
    partitions = _partitions(dsn.options.get("partitions"))
    link = open_link(dsn, namespace=namespace)
    return _examined(
        RedisStore(link, namespace=namespace, partitions=partitions, clustered=dsn.scheme.endswith("+cluster"))
    )


def from_client(client: Any, *, namespace: str = "d", partitions: int | None = None, **options: Any) -> RedisStore:
    """A store over a `redis.Redis` or `redis.RedisCluster` of your own, which you close yourself."""
    check_namespace(namespace)
    _check_partitions(partitions)
    link = link_over(client, namespace=namespace, **options)
    clustered = not hasattr(client, "connection_pool")
    return _examined(RedisStore(link, namespace=namespace, partitions=partitions, clustered=clustered))


def _examined(store: RedisStore) -> RedisStore:
    try:
        store.examine(patience=0)
    except StoreUnavailable:
        pass  # the server may be restarting; the first call tries again
    except BaseException:
        store.close()
        raise
    return store


def _partitions(text: str | None) -> int | None:
    if text is None:
        return None
    _check_partitions(int(text) if text.isdecimal() else text)
    return int(text)


def _check_partitions(partitions: object) -> None:
    if partitions is not None and (type(partitions) is not int or not 1 <= partitions <= MOST_PARTITIONS):
        raise ConfigError(f"partitions: {partitions!r} is not a whole number from 1 to {MOST_PARTITIONS}")
