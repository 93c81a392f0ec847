"""`sqlite:///path`: timelines in a file, with no server; `sqlite://` keeps them in memory."""

from digestif.errors import ConfigError
from digestif.stores.dsn import Dsn
from digestif.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore", "from_dsn"]


def from_dsn(dsn: Dsn, *, namespace: str) -> SQLiteStore:
    """`sqlite:///relative`, `sqlite:////absolute`, `sqlite://`.

    Options are `synchronous` (full, normal), `timeout` in seconds, and `reserve` in mebibytes.
    """
    dsn.refuse_options("synchronous", "timeout", "reserve")
    return SQLiteStore(
        _path(dsn.location),
        namespace=namespace,
        synchronous=dsn.options.get("synchronous", "full"),
        timeout=_number(dsn, "timeout", "30", unit="seconds"),
        reserve=_number(dsn, "reserve", "16", unit="mebibytes"),
    )


def _number(dsn: Dsn, option: str, default: str, *, unit: str) -> float:
    text = dsn.options.get(option, default)
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{option}: {text!r} is not a number of {unit}") from None


def _path(location: str) -> str | None:
    if not location:
        return None
    if not location.startswith("/"):
        raise ConfigError("store: write sqlite:///path with three slashes, or four for an absolute path")
    if location in ("/", "/:memory:"):
        raise ConfigError("store: write sqlite:///path for a file, sqlite:// for memory that is gone with the process")
    return location[1:]
