"""Redis and Valkey: `redis://`, `rediss://`, `redis+cluster://`, `redis+sentinel://`, and the same with valkey."""

from dataclasses import dataclass
from typing import Any

from digestif.dsn import Dsn, option, whole_number
from digestif.errors import ConfigError, StoreUnavailable
from digestif.stores.redis.client.factory import link_over, open_link
from digestif.stores.redis.client.options import Options
from digestif.stores.redis.layout import MOST_PARTITIONS
from digestif.stores.redis.store import RedisStore
from digestif.stores.registry import check_namespace

__all__ = ["RedisOptions", "RedisStore", "from_client", "from_dsn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisOptions:
    """Options of the DSN, beside those of the link."""

    partitions: int | None = option(whole_number(1, MOST_PARTITIONS), None)


def from_dsn(dsn: Dsn, *, namespace: str) -> RedisStore:
    """Open the store. Raises ConfigError for an unfit server; a server out of reach fails the first call."""
    return _examined(unconnected(dsn, namespace=namespace))


def unconnected(dsn: Dsn, *, namespace: str) -> RedisStore:
    """The store of a DSN, whose server is not looked at yet."""
    partitions = dsn.read(RedisOptions, Options).partitions
    link = open_link(dsn, namespace=namespace)
    return RedisStore(link, namespace=namespace, partitions=partitions, clustered=dsn.scheme.endswith("+cluster"))


def from_client(client: Any, *, namespace: str = "d", partitions: int | None = None, **options: Any) -> RedisStore:
    """A store over a `redis.Redis` or `redis.RedisCluster` of your own, which you close yourself."""
    check_namespace(namespace)
    if partitions is not None and (type(partitions) is not int or not 1 <= partitions <= MOST_PARTITIONS):
        raise ConfigError(f"partitions: {partitions!r} is not a whole number from 1 to {MOST_PARTITIONS}")
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
