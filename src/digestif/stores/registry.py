"""Stores by scheme: the built-in ones, and those that other packages offer by the entry point `digestif.stores`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from digestif.core.records import MOST_VALUE_BYTES, VALUE_BYTES
from digestif.core.texts import shortened
from digestif.dsn import Dsn, forgetful, load_opener, option, refuse_few_slashes, whole_number
from digestif.errors import ConfigError, Overloaded, StoreUnavailable
from digestif.stores.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Options that the DSN of every store takes."""

    value_bytes: int | None = option(whole_number(VALUE_BYTES, MOST_VALUE_BYTES), None)


Opener = Callable[..., Store]  # (dsn, *, namespace) -> Store

BUILT_IN = {
    "memory": "digestif.stores.memory:from_dsn",
    "postgres": "digestif.stores.postgres:from_dsn",
    "postgresql": "digestif.stores.postgres:from_dsn",
    "off": "digestif.stores.off:from_dsn",
    "sqlite": "digestif.stores.sqlite:from_dsn",
    "redis+unix": "digestif.stores.redis:from_dsn",
    "valkey+unix": "digestif.stores.redis:from_dsn",
    **dict.fromkeys(
        (
            f"{product}{kind}"
            for product in ("redis", "rediss", "valkey", "valkeys")
            for kind in ("", "+cluster", "+sentinel")
        ),
        "digestif.stores.redis:from_dsn",
    ),
}
# Modules that a built-in store needs, and the extra that installs them.
EXTRAS = {"hiredis": "redis", "redis": "redis", "psycopg": "postgres", "psycopg_pool": "postgres"}
ENTRY_POINTS = "digestif.stores"
# Schemes that do not exist, and what people mean by them.
MEANT = {
    "file": "sqlite",
    "mem": "memory",
    "pg": "postgresql",
    "pgsql": "postgresql",
    "postgresql+asyncpg": "postgresql",
    "postgresql+psycopg": "postgresql",
    "postgresql+psycopg2": "postgresql",
    "psql": "postgresql",
    "redis+ssl": "rediss",
    "redis+tls": "rediss",
    "sqlite3": "sqlite",
    "unix": "redis+unix",
}
_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


# Openers that look at a server, and what makes the same stores without doing so.
UNCONNECTED = {"digestif.stores.redis:from_dsn": "digestif.stores.redis:unconnected"}


@forgetful
def open_store(text: str, *, namespace: str = "d") -> Store:
    """Open the store that a DSN names, and give its namespace the settings of the DSN."""
    common, store = _opened(text, BUILT_IN, namespace=namespace)
    if common.value_bytes is not None:
        _raise_value_bytes(store, common.value_bytes)
    return store


@forgetful
def check_dsn(text: str) -> None:
    """Raise ConfigError if the DSN of a store is wrong. Nothing is connected to."""
    _, store = _opened(text, {scheme: UNCONNECTED.get(opener, opener) for scheme, opener in BUILT_IN.items()})
    store.close()


def _opened(text: str, openers: Mapping[str, str], *, namespace: str = "d") -> tuple[StoreOptions, Store]:
    check_namespace(namespace)
    refuse_few_slashes(text, what="store", built_in=openers, meant=MEANT)
    common, dsn = Dsn.parse(text).divided(StoreOptions)
    opener: Opener = load_opener(
        dsn.scheme, what="store", built_in=openers, extras=EXTRAS, group=ENTRY_POINTS, meant=MEANT
    )
    return common, opener(dsn, namespace=namespace)


def _raise_value_bytes(store: Store, wanted: int) -> None:
    try:
        store.raise_value_bytes(wanted)
    except (StoreUnavailable, Overloaded):
        pass  # the server may be restarting; the first value that needs it tries again
    except BaseException:
        store.close()
        raise


def check_namespace(namespace: object) -> None:
    if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):
        raise ConfigError(
            f"namespace: {shortened(namespace)} is not 1 to 64 letters, digits, dots, hyphens or underscores"
        )
