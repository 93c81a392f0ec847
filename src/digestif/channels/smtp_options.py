"""The DSN of a mail server: where the server is, how to talk to it, and what all mails have in common."""

import ipaddress
import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote

from digestif.channels.mail import Letterhead, ListId, Mailbox, mailbox_option
from digestif.channels.names import fingerprint
from digestif.core.placeholders import placeholder_fault
from digestif.core.secret import Secret
from digestif.core.texts import shortened
from digestif.dsn import Dsn, existing_file, number, option, whole_number, yes_or_no
from digestif.errors import ConfigError

PORTS = {"smtp": 587, "smtps": 465}

_HOST = re.compile(r"\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+)")


class Tls(Enum):
    """How the connection is encrypted."""

    NONE = "none"
    STARTTLS = "starttls"  # a server without it gets nothing
    FROM_START = "smtps"


def _tls(text: str) -> Tls:
    if text not in ("starttls", "none"):
        raise ValueError(f"{shortened(text)} is neither starttls nor none; for TLS from the start write smtps://")
    return Tls(text)


def _unsubscribe(text: str) -> str:
    if not re.match(r"(https?://|mailto:).", text):
        raise ValueError(f"{text!r} begins neither with https:// nor with mailto:")
    if fault := placeholder_fault(text, "recipient", "timeline"):
        raise ValueError(fault)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpOptions:
    """Options of the DSN."""

    from_: Mailbox = option(mailbox_option, required="an address to send from, such as ?from=digests@example.org")
    reply_to: Mailbox | None = option(mailbox_option, None)
    list_id: ListId | None = option(ListId.parse, None)  # None: that of the sender
    unsubscribe: str = option(_unsubscribe, "")
    tls: Tls | None = option(_tls, None)  # None: starttls, but none on this computer
    verify: bool = option(yes_or_no, True)  # the server's certificate and name
    ca: str | None = option(existing_file, None)  # certificates to trust
    timeout: float = option(number("seconds", above=0), 30.0)  # for each answer
    connections: int = option(whole_number(1, 100), 2)

    def letterhead(self) -> Letterhead:
        return Letterhead(sender=self.from_, reply_to=self.reply_to, list_id=self.list_id, unsubscribe=self.unsubscribe)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A mail server: where it is, how to log in, and how to talk to it."""

    host: str
    port: int
    tls: Tls
    user: str
    password: Secret
    options: SmtpOptions

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def name(self) -> str:
        """The server and the user, without the password."""
        scheme = "smtps" if self.tls is Tls.FROM_START else "smtp"
        host = f"[{self.host}]" if ":" in self.host else self.host.lower()
        return f"{scheme}://{self._shown_user}{host}:{self.port}"

    @property
    def _shown_user(self) -> str:
        if not self.user:
            return ""
        # Some providers take one token as user and as password.
        is_secret = bool(self.password) and self.password.reveal() in self.user
        return f"{fingerprint(self.user) if is_secret else quote(self.user, safe='')}@"


def server_of(dsn: Dsn) -> Server:
    """The server that a DSN names."""
    options = dsn.read(SmtpOptions)
    credentials, _, address = dsn.location.rpartition("@")
    user, _, password = credentials.partition(":")
    host, port = _host_and_port(address.removesuffix("/"), PORTS[dsn.scheme])
    tls = _tls_of(dsn.scheme, options.tls, host)
    if user and tls is Tls.NONE and not is_loopback(host):
        raise ConfigError("tls: a password is not sent to another computer without TLS")
    if tls is Tls.NONE and dsn.options.keys() & {"ca", "verify"}:
        raise ConfigError("ca, verify: only for TLS; add tls=starttls or write smtps://")
    return Server(host=host, port=port, tls=tls, user=user, password=Secret(password), options=options)


def is_loopback(host: str) -> bool:
    """True if a connection to the host does not leave this computer."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _host_and_port(address: str, default: int) -> tuple[str, int]:
    # The errors show nothing: after a stray @ or ? the address may be a part of the password.
    host, _, port = address.rpartition(":") if re.search(r":\d*\Z", address) else (address, "", "")
    found = _HOST.fullmatch(host)
    if found is None:
        raise ConfigError("smtp: that is not user:password@host:port; write / ? # @ in user and password as %2F %3F …")
    if port and not 0 < int(port[:6]) < 65536:
        raise ConfigError("smtp: a port is a number from 1 to 65535")
    return found["six"] or found["name"], int(port or default)


def _tls_of(scheme: str, given: Tls | None, host: str) -> Tls:
    if scheme == "smtps":
        if given is not None:
            raise ConfigError("tls: smtps:// has TLS from the start; the option is for smtp://")
        return Tls.FROM_START
    if given is None:
        return Tls.NONE if is_loopback(host) else Tls.STARTTLS
    return given
