"""The servers that a DSN names: their kind, their addresses, and the log-in."""

import re
from enum import Enum
from typing import NamedTuple

from digestif.dsn import Dsn
from digestif.errors import ConfigError

SCHEME = re.compile(r"(?:redis|valkey)(?P<tls>s?)(?:\+(?P<kind>cluster|sentinel|unix))?")
PORT = 6379
SENTINEL_PORT = 26379


class ServerKind(Enum):
    """What runs at the addresses."""

    SINGLE = None
    CLUSTER = "cluster"
    SENTINEL = "sentinel"
    UNIX = "unix"


class Login(NamedTuple):
    user: str | None
    password: str | None

    def __repr__(self) -> str:
        return f"Login({self.user!r}, …)"


class Target(NamedTuple):
    """A DSN of Redis or Valkey, without its options."""

    kind: ServerKind
    tls: bool
    login: Login
    addresses: list[tuple[str, int]]  # of the server, of nodes, or of sentinels
    path: list[str]  # the parts after the addresses

    @classmethod
    def of(cls, dsn: Dsn) -> "Target":
        """Parse `redis://user:password@host:port/db` and similar DSNs."""
        scheme = SCHEME.fullmatch(dsn.scheme)
        if scheme is None:
            raise ConfigError(f"store: {dsn.scheme}:// is not a scheme of Redis or Valkey")
        kind = ServerKind(scheme["kind"])
        login, _, rest = dsn.location.rpartition("@")  # the last @: a password may contain others
        user, _, password = login.partition(":")
        hosts, *path = rest.split("/")
        port = SENTINEL_PORT if kind is ServerKind.SENTINEL else PORT
        addresses = [_address(text, port=port) for text in hosts.split(",")]
        return cls(kind, bool(scheme["tls"]), Login(user or None, password or None), addresses, path)

    def address(self) -> tuple[str, int]:
        """The address of a single server."""
        if len(self.addresses) > 1:
            raise ConfigError("store: several hosts make a cluster; write redis+cluster:// instead of redis://")
        return self.addresses[0]

    def db(self, *, after: int = 0) -> int:
        """The number of the database, after so many parts of the path."""
        text = "/".join(self.path[after:])
        if not re.fullmatch("[0-9]{0,9}", text):
            raise ConfigError("store: what follows the / is not the number of a database; write / in a password as %2F")
        return int(text or 0)

    def service(self) -> str:
        """The name by which the sentinels know the server."""
        if not self.path or not self.path[0]:
            raise ConfigError("store: write redis+sentinel://host/service, by the name that the sentinels know")
        return self.path[0]

    def socket(self) -> str:
        """The path of a Unix socket."""
        return "/" + "/".join(self.path)


def _address(text: str, *, port: int) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?", text)
    if match is None or not 0 < int(match[2] or port) < 65536:
        raise ConfigError("store: that is not a host with or without a port; an @ ends the password before it")
    return match[1].strip("[]") or "localhost", int(match[2] or port)
