"""`postgresql://`: timelines in PostgreSQL, next to the data of the application."""

from dataclasses import asdict, dataclass

from digestif.core.secret import Secret
from digestif.dsn import Dsn, number, option, whole_number, yes_or_no
from digestif.errors import ConfigError
from digestif.stores.postgres.store import PostgresStore

__all__ = ["LibpqOptions", "PostgresOptions", "PostgresStore", "from_dsn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresOptions:
    """Options of the DSN that are ours."""

    schema: str = option(str, "digestif")
    pool: int = option(whole_number(1), 10)
    timeout: float = option(number("seconds", above=0), 10.0)
    pgbouncer: bool = option(yes_or_no, False)
    notify: bool = option(yes_or_no, True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LibpqOptions:
    """Options of the DSN that are handed on to libpq."""

    sslmode: str | None = option(str, None)
    sslrootcert: str | None = option(str, None)
    sslcert: str | None = option(str, None)
    sslkey: str | None = option(str, None)
    application_name: str | None = option(str, None)
    connect_timeout: str | None = option(str, None)
    target_session_attrs: str | None = option(str, None)


def from_dsn(dsn: Dsn, *, namespace: str) -> PostgresStore:
    """The store behind `postgresql://user:password@host:port/database?schema=digestif`."""
    options = dsn.read(PostgresOptions, LibpqOptions)
    libpq = asdict(dsn.read(LibpqOptions, PostgresOptions))
    connection = _address(dsn.location) | {name: value for name, value in libpq.items() if value is not None}
    return PostgresStore(connection, namespace=namespace, **asdict(options))


def _address(location: str) -> dict[str, str | Secret]:
    """The connection parameters in `user:password@host:port/database`; libpq chooses those that are missing."""
    login, _, place = location.rpartition("@")
    user, _, password = login.partition(":")
    hosts, _, database = place.partition("/")
    names = [_host_and_port(host) for host in hosts.split(",")]
    ports = [port for _, port in names]
    parts: dict[str, str | Secret] = {
        "user": user,
        "password": Secret(password),
        "host": ",".join(host for host, _ in names),
        "port": ",".join(ports) if any(ports) else "",  # libpq gives its own to those that have none
        "dbname": database,
    }
    return {name: value for name, value in parts.items() if value}


def _host_and_port(text: str) -> tuple[str, str]:
    """A host and its port, which is empty if it is not given. Errors show neither: a password may be taken for them."""
    host, colon, port = text.rpartition(":")
    is_number = port.isascii() and port.isdecimal()
    is_ipv6 = ":" in host and not host.endswith("]")  # without brackets: what comes last may be a part of it
    if not colon or text.endswith("]") or (is_ipv6 and not is_number):
        return _without_brackets(text), ""
    if not is_number or len(port) > 5 or not 1 <= int(port) < 1 << 16:
        raise ConfigError("store: the port of a host is not a number from 1 to 65535")
    return _without_brackets(host), port


def _without_brackets(host: str) -> str:
    """An IPv6 address as libpq takes it: brackets belong to the DSN."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host
