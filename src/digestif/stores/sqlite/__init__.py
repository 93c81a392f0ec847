"""`sqlite:///path`: timelines in a file, with no server; `sqlite://` keeps them in memory."""

from digestif.errors import ConfigError
from digestif.stores.dsn import Dsn
from digestif.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore", "from_dsn"]


def from_dsn(dsn: Dsn, *, namespace: str) -> SQLiteStore:
    """`sqlite:///relative`, `sqlite:////absolute`, `sqlite://`; options `synchronous` (full, normal) and `timeout`."""
    dsn.refuse_options("synchronous", "timeout")
    timeout = dsn.options.get("timeout", "30")
    try:
        seconds = float(timeout)
    except ValueError:
        raise ConfigError(f"timeout: {timeout!r} is not a number of seconds") from None
    synchronous = dsn.options.get("synchronous", "full")
    return SQLiteStore(_path(dsn.location), namespace=namespace, synchronous=synchronous, timeout=seconds)


def _path(location: str) -> str | None:
    if not location:
        return None
    if not location.startswith("/"):
        raise ConfigError("store: write sqlite:///path with three slashes, or four for an absolute path")
    if location in ("/", "/:memory:"):
        raise ConfigError("store: write sqlite:///path for a file, sqlite:// for memory that is gone with the process")
    return location[1:]
