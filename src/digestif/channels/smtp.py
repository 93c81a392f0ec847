"""Mail over SMTP: `smtp://user:password@host:587?from=digests@example.org`, or `smtps://` for TLS from the start.

A few connections are kept and used again. `smtp_failures` says what a server's answers mean.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import ClassVar

from digestif.channels.base import Channel, DeliveryFailed, Format, Message, Receipt, Unavailable
from digestif.channels.mail import BadAddress, Letterhead, Mailbox, build_mail, normal_forms
from digestif.channels.smtp_failures import Disconnected, MailRefused, Unanswered, failure_of, reply_line
from digestif.channels.smtp_options import Server, Tls, server_of
from digestif.channels.tls import tls_context
from digestif.core.texts import shortened
from digestif.dsn import Dsn
from digestif.exports import needs

with needs("mail", module=__name__):
    from aiosmtplib import (
        SMTP,
        SMTPDataError,
        SMTPException,
        SMTPResponse,
        SMTPResponseException,
        SMTPServerDisconnected,
        SMTPTimeoutError,
    )

LARGEST = 10_000_000  # characters of text and HTML
QUIT_SECONDS = 2.0  # for the answer to QUIT
CLOSING = 421  # the server ends the connection
GO_AHEAD = 354  # it waits for the mail

_QUEUED = re.compile(r"queued as[ :]+<?([\w.@+/=-]+)", re.IGNORECASE)


class Client(SMTP):
    """A connection that sends DATA and the mail in two steps, so that a failure is before the mail or after it."""

    async def begin_data(self) -> None:
        """Announce the mail."""
        reply = await self.execute_command(b"DATA")
        if reply.code != GO_AHEAD:
            raise SMTPDataError(reply.code, reply.message)

    async def send_mail(self, mail: bytes) -> SMTPResponse:
        """Send the mail that was announced. Raises Unanswered if a part was sent and no valid reply came."""
        if self.protocol is None:
            raise SMTPServerDisconnected("Connection lost")
        self.protocol.write(as_data(mail))
        try:
            reply = await self.protocol.read_response(timeout=self.timeout)
        except (SMTPException, OSError) as error:
            raise Unanswered from error
        if 200 <= reply.code < 300:
            return reply
        if 400 <= reply.code < 600:
            raise MailRefused(reply.code, reply.message)
        raise Unanswered from SMTPDataError(reply.code, reply.message)

    def close(self) -> None:
        """Close at once. Over TLS it would wait for the server, maybe longer than the loop lasts."""
        transport = self.transport
        super().close()
        if isinstance(transport, asyncio.Transport):
            transport.abort()


def as_data(mail: bytes) -> bytes:
    """The mail as it follows DATA (RFC 5321): every line ends alike, dots at the beginning of lines are doubled."""
    lines = re.sub(rb"\r\n|\r|\n", b"\r\n", mail).removesuffix(b"\r\n") + b"\r\n"
    return re.sub(rb"(?m)^\.", b"..", lines) + b".\r\n"


class SmtpChannel(Channel):
    """Sends mails through one server."""

    scheme: ClassVar[str] = "smtp"
    formats: ClassVar[frozenset[Format]] = frozenset({Format.TEXT, Format.HTML})

    def __init__(self, server: Server) -> None:
        options = server.options
        self.server = server
        self.letterhead = options.letterhead()
        self._turns = asyncio.Semaphore(options.connections)
        self._kept: list[Client] = []
        self._tls = None if server.tls is Tls.NONE else tls_context(options.ca, verify=options.verify)
        self._own_name: str | None = None  # looking it up may take seconds

    @property
    def name(self) -> str:
        return self.server.name

    def normal_forms(self, recipient: str) -> Sequence[str]:
        return normal_forms(recipient)

    def refusal(self, recipient: str) -> str | None:
        try:
            address_of(recipient)
        except BadAddress as error:
            return str(error)
        return None

    async def deliver(self, message: Message) -> Receipt:
        to = recipient_of(message)
        mail = mail_bytes(message, self.letterhead, to=to)
        try:
            async with self._turns:
                reply = await self._hand_over(to, mail)
        except (Disconnected, Unanswered, SMTPException, OSError) as error:
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
        detail = reply_line(reply.code, reply.message, self.server)
        queued = _QUEUED.search(detail)
        return Receipt(channel=self.scheme, id=queued[1] if queued else "", detail=detail)

    async def _hand_over(self, to: Mailbox, mail: bytes) -> SMTPResponse:
        if self._kept:
            with suppress(Disconnected):  # it ended while it was idle
                return await self._send(self._kept.pop(), to, mail)
        return await self._send(await self._connect(), to, mail)

    async def _send(self, client: Client, to: Mailbox, mail: bytes) -> SMTPResponse:
        async with self._borrowed(client):
            with _before_the_mail():
                await _send_envelope(client, self.letterhead, to)
                await client.begin_data()
            return await client.send_mail(mail)

    @asynccontextmanager
    async def _borrowed(self, client: Client) -> AsyncIterator[None]:
        """Keep the connection if it is usable afterwards, else close it."""
        is_usable = False
        try:
            yield
            is_usable = True
        except SMTPResponseException as error:
            with suppress(SMTPException, OSError):
                if error.code != CLOSING:
                    await client.rset()
                    is_usable = client.is_connected
            raise
        finally:
            if is_usable:
                self._kept.append(client)
            else:
                client.close()

    async def _connect(self) -> Client:
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
        return address_of(message.recipient)
    except BadAddress as error:
        raise DeliveryFailed(f"recipient: {error}", retry=False) from None


def address_of(recipient: str) -> Mailbox:
    """Read an address without a name, or raise BadAddress."""
    address = Mailbox.parse(recipient)
    if "<" in recipient:
        raise BadAddress(f"{shortened(recipient)} is more than an address")
    return address


@contextmanager
def _before_the_mail() -> Iterator[None]:
    """Raise Disconnected if the connection ends: nothing of the mail was sent, so another connection may be tried."""
    try:
        yield
    except (SMTPServerDisconnected, SMTPTimeoutError, OSError) as error:
        raise Disconnected from error
    except SMTPResponseException as error:
        if error.code == CLOSING:
            raise Disconnected from error
        raise


async def _send_envelope(client: SMTP, letterhead: Letterhead, to: Mailbox) -> None:
    options = await _mail_options(client, letterhead, to)
    await client.mail(str(letterhead.sender), options=options, encoding="utf-8")
    await client.rcpt(str(to), encoding="utf-8")


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
        raise Unavailable(f"configuration: {server}, and {own[0]} is not")
    raise DeliveryFailed(f"recipient: {server}, and {to} is not", retry=False)
