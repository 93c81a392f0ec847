"""Stores by scheme: the built-in ones, and those that other packages offer by the entry point `digestif.stores`."""

import re
from collections.abc import Callable

from digestif.core.texts import shortened
from digestif.dsn import Dsn, load_opener, refuse_few_slashes
from digestif.errors import ConfigError
from digestif.stores.base import Store

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


def open_store(text: str, *, namespace: str = "d") -> Store:
    """Open the store that a DSN names."""
    check_namespace(namespace)
    refuse_few_slashes(text, what="store", built_in=BUILT_IN, meant=MEANT)
    dsn = Dsn.parse(text)
    opener: Opener = load_opener(
        dsn.scheme, what="store", built_in=BUILT_IN, extras=EXTRAS, group=ENTRY_POINTS, meant=MEANT
    )
    return opener(dsn, namespace=namespace)


def check_namespace(namespace: object) -> None:
    if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):
        raise ConfigError(
            f"namespace: {shortened(namespace)} is not 1 to 64 letters, digits, dots, hyphens or underscores"
        )
