"""The DSN of a mail server, checked: where it is, how it is spoken to, and what the mails have in common."""

import ipaddress
import math
import re
import ssl
from dataclasses import dataclass
from enum import Enum

from digestif.channels.mail import Address, BadAddress, Letterhead
from digestif.channels.tls import ca_option, tls_context
from digestif.core.secret import Secret
from digestif.errors import ConfigError
from digestif.stores.dsn import Dsn

NAMES = ("ca", "connections", "from", "reply_to", "timeout", "tls", "unsubscribe", "verify")
TIMEOUT = 30.0  # seconds for an answer
CONNECTIONS = 2
NO_PASSWORD = Secret("")
PORTS = {"smtp": 587, "smtps": 465}

_TRUTHS = {"yes": True, "no": False}
_HOST = re.compile(r"\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+)")


class Tls(Enum):
    """How the line is protected."""

    NONE = "none"
    STARTTLS = "starttls"  # or nothing is sent
    FROM_START = "smtps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A mail server, and how to speak to it."""

    host: str
    port: int
    tls: Tls
    user: str = ""
    password: Secret = NO_PASSWORD
    timeout: float = TIMEOUT
    verify: bool = True  # the server's certificate and name
    ca: str | None = None  # a file of certificates to trust

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def tls_context(self) -> ssl.SSLContext | None:
        if self.tls is Tls.NONE:
            return None
        context = tls_context(self.ca)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def server_of(dsn: Dsn) -> Server:
    """The server that a DSN names."""
    dsn.refuse_options(*NAMES)
    credentials, _, address = dsn.location.rpartition("@")
    user, _, password = credentials.partition(":")
    host, port = _host_and_port(address.removesuffix("/"), PORTS[dsn.scheme])
    tls = _tls(dsn, host)
    if user and tls is Tls.NONE and not is_loopback(host):
        raise ConfigError("tls: a password is not sent to another computer without TLS")
    if tls is Tls.NONE and dsn.options.keys() & {"ca", "verify"}:
        raise ConfigError("ca, verify: only for TLS; add tls=starttls or write smtps://")
    return Server(
        host=host,
        port=port,
        tls=tls,
        user=user,
        password=Secret(password),
        timeout=_seconds(dsn),
        verify=_truth(dsn),
        ca=ca_option(dsn),
    )


def letterhead_of(dsn: Dsn) -> Letterhead:
    """What a DSN says about all mails."""
    sender = _address(dsn, "from")
    if sender is None:
        raise ConfigError(f"from: {dsn.scheme}:// needs an address to send from, such as ?from=digests@example.org")
    return Letterhead(sender=sender, reply_to=_address(dsn, "reply_to"), unsubscribe=_unsubscribe(dsn))


def connections_of(dsn: Dsn) -> int:
    text = dsn.options.get("connections", str(CONNECTIONS))
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:4]) <= 100):
        raise ConfigError(f"connections: {text!r} is not a number from 1 to 100")
    return int(text)


def is_loopback(host: str) -> bool:
    """True if the line to a host does not leave this computer."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _host_and_port(address: str, default: int) -> tuple[str, int]:
    # What is wrong is not shown: with a stray @ or ? it may be a part of the password.
    host, _, port = address.rpartition(":") if re.search(r":\d*\Z", address) else (address, "", "")
    found = _HOST.fullmatch(host)
    if found is None:
        raise ConfigError("smtp: that is not user:password@host:port; write / ? # @ in user and password as %2F %3F …")
    if port and not 0 < int(port[:6]) < 65536:
        raise ConfigError("smtp: a port is a number from 1 to 65535")
    return found["six"] or found["name"], int(port or default)


def _tls(dsn: Dsn, host: str) -> Tls:
    given = dsn.options.get("tls")
    if dsn.scheme == "smtps":
        if given is not None:
            raise ConfigError("tls: smtps:// has TLS from the start; the option is for smtp://")
        return Tls.FROM_START
    if given not in (None, "starttls", "none"):
        raise ConfigError(f"tls: {given!r} is neither starttls nor none; for TLS from the start write smtps://")
    if given is None:
        return Tls.NONE if is_loopback(host) else Tls.STARTTLS
    return Tls(given)


def _address(dsn: Dsn, name: str) -> Address | None:
    text = dsn.options.get(name)
    if text is None:
        return None
    try:
        # A + in a query reads as a space, and no address has one.
        return Address.parse(re.sub(r"(?<=[^\s<>]) (?=[^\s<>]+@)", "+", text))
    except BadAddress as error:
        raise ConfigError(f"{name}: {error}") from None


def _unsubscribe(dsn: Dsn) -> str:
    text = dsn.options.get("unsubscribe", "")
    if text and not re.match(r"(https?://|mailto:).", text):
        raise ConfigError(f"unsubscribe: {text!r} begins neither with https:// nor with mailto:")
    unknown = set(re.findall(r"{(.*?)}", text)) - {"recipient", "timeline"}
    if unknown:
        raise ConfigError(f"unsubscribe: {{{min(unknown)}}} is not known; there are {{recipient}} and {{timeline}}")
    return text


def _seconds(dsn: Dsn) -> float:
    text = dsn.options.get("timeout", str(TIMEOUT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ConfigError(f"timeout: {text!r} is not a number of seconds above 0")
    return seconds


def _truth(dsn: Dsn) -> bool:
    text = dsn.options.get("verify", "yes")
    if text not in _TRUTHS:
        raise ConfigError(f"verify: {text!r} is neither yes nor no")
    return _TRUTHS[text]
