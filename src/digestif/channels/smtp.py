"""Mail over SMTP: `smtp://user:password@host:587?from=digests@example.org`, or `smtps://` for TLS from the start.

A few connections are kept and used again. `failure_of` turns a server's answers into failures, whose texts show neither
the password nor the mail.
"""

import asyncio
import base64
import os
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import ClassVar

from aiosmtplib import (
    SMTP,
    SMTPAuthenticationError,
    SMTPDataError,
    SMTPException,
    SMTPRecipientRefused,
    SMTPResponse,
    SMTPResponseException,
    SMTPSenderRefused,
    SMTPServerDisconnected,
    SMTPTimeoutError,
)

from digestif.channels.base import Channel, DeliveryFailed, Format, Message, Receipt
from digestif.channels.mail import BadAddress, Letterhead, Mailbox, build_mail, one_line
from digestif.channels.smtp_options import Server, Tls, server_of
from digestif.channels.tls import tls_context
from digestif.core.texts import shortened
from digestif.dsn import Dsn

REPLY_LENGTH = 300
LARGEST = 10_000_000  # characters of text and HTML
QUIT_SECONDS = 2.0  # for the answer to QUIT
CLOSING = 421  # the server ends the connection
TOO_LARGE = 552
UNAUTHENTICATED = {530, 534, 535, 538}  # about our log-in, at whichever command they come

_THROTTLING = {421, 450, 451, 452}
_RATE = re.compile(r"\brate|too many|throttl|\b4\.7\.\d|\b4\.5\.3\b|\b4\.2\.1\b|\b4\.4\.5\b", re.IGNORECASE)
_QUEUED = re.compile(r"queued as[ :]+<?([\w.@+/=-]+)", re.IGNORECASE)


class Disconnected(Exception):
    """The connection ended before the mail was sent. Its cause says why."""


class Client(SMTP):
    """A connection that closes at once. Over TLS it would wait for the server, maybe longer than the loop lasts."""

    def close(self) -> None:
        transport = self.transport
        super().close()
        if isinstance(transport, asyncio.Transport):
            transport.abort()


class SmtpChannel(Channel):
    """Sends mails through one server."""

    scheme: ClassVar[str] = "smtp"
    formats: ClassVar[frozenset[Format]] = frozenset({Format.TEXT, Format.HTML})

    def __init__(self, server: Server) -> None:
        options = server.options
        self.server = server
        self.letterhead = options.letterhead()
        self._turns = asyncio.Semaphore(options.connections)
        self._kept: list[SMTP] = []
        self._tls = None if server.tls is Tls.NONE else tls_context(options.ca, verify=options.verify)
        self._own_name: str | None = None  # looking it up may take seconds

    async def deliver(self, message: Message) -> Receipt:
        to = recipient_of(message)
        mail = mail_bytes(message, self.letterhead, to=to)
        try:
            async with self._turns:
                reply = await self._hand_over(to, mail)
        except (Disconnected, SMTPException, OSError) as error:
            failed = failure_of(error, self.server)
            await asyncio.sleep(0)  # lets a closed connection free its socket, even if the loop ends now
        else:
            return self._receipt(reply)
        raise failed  # outside of the handler, whose error may quote what was sent

    async def close(self) -> None:
        kept, self._kept = self._kept, []
        self._turns = asyncio.Semaphore(self.server.options.connections)  # the old one belongs to this event loop
        for client in kept:
            try:
                with suppress(SMTPException, OSError):
                    await client.quit(timeout=QUIT_SECONDS)
            finally:
                client.close()
        await asyncio.sleep(0)  # lets the sockets close, even if the loop ends now

    def _receipt(self, reply: SMTPResponse) -> Receipt:
        detail = _said(reply.code, reply.message, self.server)
        queued = _QUEUED.search(detail)
        return Receipt(channel=self.scheme, id=queued[1] if queued else "", detail=detail)

    async def _hand_over(self, to: Mailbox, mail: bytes) -> SMTPResponse:
        if self._kept:
            with suppress(Disconnected):  # it ended while it was idle
                return await self._send(self._kept.pop(), to, mail)
        return await self._send(await self._connect(), to, mail)

    async def _send(self, client: SMTP, to: Mailbox, mail: bytes) -> SMTPResponse:
        async with self._borrowed(client):
            await _send_envelope(client, self.letterhead, to)
            return await client.data(mail)

    @asynccontextmanager
    async def _borrowed(self, client: SMTP) -> AsyncIterator[None]:
        """Keep the connection if it is usable afterwards, else close it."""
        is_usable = False
        try:
            yield
            is_usable = True
        except SMTPResponseException:
            with suppress(SMTPException, OSError):
                await client.rset()
                is_usable = client.is_connected
            raise
        finally:
            if is_usable:
                self._kept.append(client)
            else:
                client.close()

    async def _connect(self) -> SMTP:
        server = self.server
        client = Client(
            hostname=server.host,
            port=server.port,
            username=server.user or None,
            password=server.password.reveal() if server.user else None,
            local_hostname=self._own_name,
            timeout=server.options.timeout,
            use_tls=server.tls is Tls.FROM_START,
            start_tls=server.tls is Tls.STARTTLS,
            tls_context=self._tls,
        )
        await client.connect()
        self._own_name = client.local_hostname
        return client


def from_dsn(dsn: Dsn) -> SmtpChannel:
    """`smtp://user:password@host:587?from=…`, or `smtps://` for TLS from the start."""
    return SmtpChannel(server_of(dsn))


def mail_bytes(message: Message, letterhead: Letterhead, *, to: Mailbox) -> bytes:
    """The bytes of the mail. Raises DeliveryFailed if hardly any server would take such a size."""
    size = len(message.text) + len(message.html)
    if size > LARGEST:
        raise DeliveryFailed(f"the mail has {size / 1e6:.0f} MB; at most {LARGEST / 1e6:.0f} are sent", retry=False)
    return build_mail(message, letterhead, to=to).as_bytes()


def recipient_of(message: Message) -> Mailbox:
    """The recipient of a message: one address, without a name."""
    try:
        address = Mailbox.parse(message.recipient)
    except BadAddress as error:
        raise DeliveryFailed(f"recipient: {error}", retry=False) from None
    if "<" in message.recipient:
        raise DeliveryFailed(f"recipient: {shortened(message.recipient)} is more than an address", retry=False)
    return address


async def _send_envelope(client: SMTP, letterhead: Letterhead, to: Mailbox) -> None:
    try:
        options = await _mail_options(client, letterhead, to)
        await client.mail(str(letterhead.sender), options=options, encoding="utf-8")
        await client.rcpt(str(to), encoding="utf-8")
    except (SMTPServerDisconnected, SMTPTimeoutError, OSError) as error:
        raise Disconnected from error
    except SMTPResponseException as error:
        if error.code == CLOSING:
            raise Disconnected from error
        raise


async def _mail_options(client: SMTP, letterhead: Letterhead, to: Mailbox) -> list[str]:
    """The options of MAIL for addresses beyond ASCII. Raises DeliveryFailed if the server can't take them."""
    own = [address for address in (letterhead.sender, letterhead.reply_to) if address and not address.is_ascii]
    if to.is_ascii and not own:
        return []
    if client.is_ehlo_or_helo_needed:
        await client.ehlo()
    if client.supports_extension("smtputf8"):
        return ["SMTPUTF8", "BODY=8BITMIME"]
    server = f"{client.hostname}:{client.port} takes addresses in ASCII only (no SMTPUTF8)"
    if own:
        raise DeliveryFailed(f"configuration: {server}, and {own[0]} is not")
    raise DeliveryFailed(f"recipient: {server}, and {to} is not", retry=False)


# Failures


def failure_of(error: BaseException | None, server: Server) -> DeliveryFailed:
    """The failure that an error means: whether to try again, and whether a person has to mend the configuration."""
    match error:
        case Disconnected():
            return failure_of(error.__cause__, server)
        case SMTPResponseException():
            return _refusal(error, server)
        case TimeoutError():
            return DeliveryFailed(f"{server} did not answer within {server.options.timeout:g} s")
        case SMTPServerDisconnected() | ConnectionResetError():
            return DeliveryFailed(f"{server} ended the connection before it answered")
        case SMTPException() | OSError():
            return DeliveryFailed(_trouble(error, server))
        case _:
            return DeliveryFailed(f"{server}: {type(error).__name__}")


def _refusal(error: SMTPResponseException, server: Server) -> DeliveryFailed:
    said = _said(error.code, str(error.message), server)
    if 400 <= error.code < 500:
        throttled = error.code in _THROTTLING and _RATE.search(said) is not None
        return DeliveryFailed(f"{server} can't take it now: {said}", throttled=throttled)
    match error:
        case SMTPSenderRefused() | SMTPDataError() if error.code == TOO_LARGE:
            return DeliveryFailed(f"{server} finds the mail too large: {said}", retry=False)
        case SMTPAuthenticationError():
            return DeliveryFailed(f"configuration: {server} refuses the user or the password: {said}")
        case SMTPResponseException() if error.code in UNAUTHENTICATED:
            return DeliveryFailed(f"configuration: {server} wants a user and a password: {said}")
        case SMTPSenderRefused():
            return DeliveryFailed(f"configuration: {server} refuses the sender: {said}")
        case SMTPRecipientRefused():
            return DeliveryFailed(f"{server} refuses the recipient: {said}", retry=False)
        case SMTPDataError():
            return DeliveryFailed(f"{server} refuses the mail: {said}", retry=False)
        case _:
            return DeliveryFailed(f"{server} refuses to serve us: {said}")


def _trouble(error: SMTPException | OSError, server: Server) -> str:
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"configuration: the certificate of {server} is not trusted: {_said(None, cause.verify_message, server)}"
    if isinstance(cause, ssl.SSLError):
        return f"{server}: TLS failed: {_said(None, cause.reason or 'no reason', server)}"
    if isinstance(error, OSError):
        return f"{server} can't be reached: {_said(None, _why(cause), server)}"
    return f"configuration: {server}: {_said(None, str(error), server)}"


def _why(cause: BaseException) -> str:
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return os.strerror(cause.errno)  # the text of the error only says that the call failed
    return str(cause) or type(cause).__name__


def _said(code: int | None, text: str, server: Server) -> str:
    """A server's answer in one short line. The password is hidden, because a server may repeat what it was sent."""
    line = one_line(text)
    for secret in _spellings(server):
        line = line.replace(secret, "…")
    said = one_line(line, REPLY_LENGTH)
    return said if code is None else f"{code} {said}"


def _spellings(server: Server) -> list[str]:
    """The password, plain and as it is sent."""
    password = server.password.reveal()
    if not password:
        return []
    sent = (password, f"\0{server.user}\0{password}")
    return [password, *(base64.b64encode(text.encode()).decode() for text in sent)]
