"""Addresses in settings: where the service listens, where people reach it, and files that DSNs name."""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from digestif.core.texts import shortened
from digestif.dsn import Dsn, forgetful, written_path
from digestif.errors import ConfigError
from digestif.service.settings import Settings
from digestif.stores.registry import StoreOptions, check_dsn
from digestif.stores.sqlite import SQLiteOptions, path_of

_HOST = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")


class Address(NamedTuple):
    """Where a service listens."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """True if only this computer reaches it."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> Address:
    """An address such as 127.0.0.1:8321, localhost:8321 or [::1]:8321."""
    host, colon, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if is_bracketed else host
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 1 << 16
    if not colon or not _is_host(host) or not is_port or (":" in host and not is_bracketed):
        raise ConfigError(f"listen: {shortened(text)} is not HOST:PORT, such as 127.0.0.1:8321 or [::1]:8321")
    return Address(host, int(port))


def _is_host(host: str) -> bool:
    """True for a text that a socket takes as a name or an address; whether there is one shows when it is bound."""
    try:
        encoded = host.encode("idna")
    except UnicodeError:  # a label that is empty or too long
        return False
    return bool(encoded) and "/" not in host and "\0" not in host


def check_public(public: object) -> None:
    """The address under which people reach the service has a scheme and a host, and nothing after them."""
    if public is None:
        return
    parts = _split(public) if isinstance(public, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ConfigError("public: is not an address such as https://digests.example.org")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigError("public: a path can't be part of it; give the service a host name of its own")


def check_host(host: object) -> None:
    """A further name of the service is a host, perhaps with a port."""
    if not isinstance(host, str) or not _HOST.fullmatch(host) or _split(f"//{host}") is None:
        raise ConfigError(f"hosts: {shortened(host)} is not a name, such as digests.example.org or [::1]:8321")


def _split(url: str) -> SplitResult | None:
    """The parts of an address; None if its host or its port can't be read."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # is read only now
    except ValueError:
        return None
    return parts


def check_open(settings: Settings) -> None:
    """ConfigError if people on other computers could use the service without a token."""
    exposed = next(_exposed(settings), None)
    if exposed is not None and not settings.tokens:
        raise ConfigError(
            f"{exposed} can be reached from other computers, and there are no tokens; make one with "
            "'digestif token NAME --scope admin' and put what it prints into the file, or listen on 127.0.0.1"
        )


def _exposed(settings: Settings) -> Iterator[str]:
    """Names under which other computers reach the service, perhaps through a proxy on this one."""
    if not parse(settings.listen).is_loopback:
        yield f"listen: {settings.listen}"
    if settings.public is not None and not _is_on_loopback(settings.public):
        yield f"public: {settings.public}"
    yield from (f"hosts: {host}" for host in settings.hosts if not _is_on_loopback(f"//{host}"))


def _is_on_loopback(url: str) -> bool:
    parts = _split(url)
    return parts is not None and is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """True for a name or an address that only this computer reaches."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@forgetful
def check_store(text: str) -> None:
    """ConfigError if the DSN is wrong. A SQLite file is not made, and no server is connected to."""
    _, dsn = Dsn.parse(text).divided(StoreOptions)
    if dsn.scheme != "sqlite":
        check_dsn(text)
        return
    path = path_of(dsn.location)
    dsn.read(SQLiteOptions)
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise ConfigError(f"store: there is no folder {str(Path(path).parent)!r} for the file")


def relative_to(folder: Path, dsn: str) -> str:
    """A DSN whose file is found from any working directory: a relative path begins in `folder`."""
    scheme, mark, rest = dsn.partition("://")
    location, question, options = rest.partition("?")
    begin = Path(written_path(folder))
    is_file = location.startswith("/") and location not in ("/", "/:memory:")
    if scheme == "sqlite" and mark and is_file:
        return f"sqlite:///{begin / location[1:]}{question}{options}"
    if scheme == "file" and mark and location.startswith(("./", "../")):
        return f"file://{begin / location}{question}{options}"
    return dsn
