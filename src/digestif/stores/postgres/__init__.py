"""`postgresql://`: timelines in PostgreSQL, next to the data of the application."""

from digestif.core.secret import Secret
from digestif.core.texts import shortened
from digestif.errors import ConfigError
from digestif.stores.dsn import Dsn
from digestif.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore", "from_dsn"]

OPTIONS = ("schema", "pool", "timeout", "pgbouncer", "notify")
LIBPQ = ("sslmode", "sslrootcert", "sslcert", "sslkey", "application_name", "connect_timeout", "target_session_attrs")


def from_dsn(dsn: Dsn, *, namespace: str) -> PostgresStore:
    """The store behind `postgresql://user:password@host:port/database?schema=digestif`."""
    dsn.refuse_options(*OPTIONS, *LIBPQ)
    options = dsn.options
    connection = {**_address(dsn.location), **{name: options[name] for name in LIBPQ if name in options}}
    return PostgresStore(
        connection,
        namespace=namespace,
        schema=options.get("schema", "digestif"),
        pool=_count("pool", options.get("pool", "10")),
        timeout=_count("timeout", options.get("timeout", "10")),
        pgbouncer=_flag("pgbouncer", options.get("pgbouncer", "no")),
        notify=_flag("notify", options.get("notify", "yes")),
    )


def _address(location: str) -> dict[str, str | Secret]:
    """What libpq is told, of `user:password@host:port/database`; parts that are missing are left to it."""
    login, _, place = location.rpartition("@")
    user, _, password = login.partition(":")
    hosts, _, database = place.partition("/")
    names = [host.rpartition(":") if _has_port(host) else (host, "", "") for host in hosts.split(",")]
    parts: dict[str, str | Secret] = {
        "user": user,
        "password": Secret(password),
        "host": ",".join(host for host, _, _ in names),
        "port": ",".join(port for _, _, port in names).strip(","),
        "dbname": database,
    }
    return {name: value for name, value in parts.items() if value}


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and not host.endswith("]")


def _count(name: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"{name}: {shortened(text)} is not a whole number ≥ 1")
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text not in ("yes", "no"):
        raise ConfigError(f'{name}: {shortened(text)} is neither "yes" nor "no"')
    return text == "yes"
