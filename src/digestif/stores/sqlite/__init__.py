"""`sqlite:///path`: timelines in a file, with no server; `sqlite://` keeps them in memory."""

from dataclasses import asdict, dataclass

from digestif.dsn import Dsn, choice, number, option
from digestif.errors import ConfigError
from digestif.stores.sqlite.read_only import ReadOnlySQLiteStore
from digestif.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteOptions", "SQLiteStore", "from_dsn", "path_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLiteOptions:
    """Options of the DSN."""

    synchronous: str = option(choice("full", "normal"), "full")
    timeout: float = option(number("seconds"), 30.0)
    reserve: float = option(number("mebibytes"), 16.0)
    mode: str = option(choice("rw", "ro"), "rw")


def from_dsn(dsn: Dsn, *, namespace: str) -> SQLiteStore:
    """`sqlite:///relative`, `sqlite:////absolute`, `sqlite://`."""
    path, options = path_of(dsn.location), asdict(dsn.read(SQLiteOptions))
    if options.pop("mode") == "rw":
        return SQLiteStore(path, namespace=namespace, **options)
    if path is None:
        raise ConfigError("mode: a database in memory can't be opened for reading only; name a file")
    return ReadOnlySQLiteStore(path, namespace=namespace, **options)


def path_of(location: str) -> str | None:
    """The file that a DSN names; None for memory."""
    if not location:
        return None
    if not location.startswith("/"):
        raise ConfigError("store: write sqlite:///path with three slashes, or four for an absolute path")
    if location in ("/", "/:memory:"):
        raise ConfigError("store: write sqlite:///path for a file, sqlite:// for memory that is gone with the process")
    return location[1:]
