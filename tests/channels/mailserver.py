"""A mail server for tests, on the test's event loop. It takes mails, or answers as the test says."""

import asyncio
import logging
import queue
import ssl
from collections import ChainMap
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from digestif.channels.base import Channel, DeliveryFailed, Message
from digestif.channels.registry import open_channel
from tests.channels.deliveries import message

USER, PASSWORD = "ada", "hunter2-hunter2"
HOST = "127.0.0.1"


@dataclass
class MailServer:
    """The mails and commands that it got, and its answers by command where they are not the usual ones."""

    port: int = 0
    mails: list[bytes] = field(default_factory=list)
    envelopes: list[tuple[str, list[str]]] = field(default_factory=list)
    utf8: list[bool] = field(default_factory=list)  # for each mail: was it announced as SMTPUTF8?
    answers: dict[str, str] = field(default_factory=dict)
    answers_once: dict[str, str] = field(default_factory=dict)  # the next time only
    commands: list[str] = field(default_factory=list)
    connections: list["_Protocol"] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    password: str = PASSWORD
    before_data: Callable[["_Protocol"], Awaitable[None]] | None = None  # when the body has come
    refused: dict[str, str] = field(default_factory=dict)  # recipients, and what they are answered
    is_forgetful: bool = False  # it takes mails and does not answer

    def dsn(
        self, options: str = "", *, scheme: str = "smtp", login: str = "", host: str = HOST, port: int | None = None
    ) -> str:
        return f"{scheme}://{login}{host}:{port or self.port}?from=digests@example.org{options}"

    @contextmanager
    def forgetting_to_answer(self) -> Iterator[None]:
        """Inside the block mails arrive, and their senders get no answer."""
        self.is_forgetful = True
        try:
            yield
        finally:
            self.is_forgetful = False

    def hang_up(self) -> None:
        """End all connections, as a server does with idle ones."""
        for connection in self.connections:
            if isinstance(connection.transport, asyncio.WriteTransport):
                connection.transport.abort()

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: LoginPassword) -> AuthResult:
        self.logins.append(mechanism)
        if "AUTH" not in self.answers and (data.login, data.password) == (USER.encode(), self.password.encode()):
            return AuthResult(success=True)
        reply = self.answers.get("AUTH")
        return AuthResult(success=False, handled=False, message=reply)

    async def handle_MAIL(self, server: Any, session: Session, envelope: Envelope, address: str, options: Any) -> str:  # noqa: N802
        self.commands.append("MAIL")
        if "MAIL" in self.answers_once:
            return self.answers_once.pop("MAIL")
        if "MAIL" not in self.answers:
            envelope.mail_from = address
        return self.answers.get("MAIL", "250 OK")

    async def handle_RCPT(self, server: Any, session: Session, envelope: Envelope, address: str, options: Any) -> str:  # noqa: N802
        self.commands.append("RCPT")
        reply = self.refused.get(address) or self.answers.get("RCPT")
        if reply is None:
            envelope.rcpt_tos.append(address)
        return reply or "250 OK"

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:  # noqa: N802
        self.commands.append("DATA")
        if self.before_data:
            await self.before_data(server)
        if "DATA" in self.answers:
            return self.answers["DATA"]
        assert isinstance(envelope.content, bytes)
        self.mails.append(envelope.content)
        self.envelopes.append((envelope.mail_from or "", list(envelope.rcpt_tos)))
        self.utf8.append(bool(envelope.smtp_utf8))
        if self.is_forgetful:
            await asyncio.Event().wait()
        return f"250 2.0.0 Ok: queued as Q{len(self.mails)}"

    async def handle_QUIT(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.commands.append("QUIT")
        return "221 Bye"


class _Protocol(SMTP):
    """One connection to the server."""

    def __init__(self, owner: MailServer, **options: Any) -> None:
        super().__init__(owner, hostname="mail.example.org", ident="test", **options)
        self._owner = owner

    def connection_made(self, transport: Any) -> None:
        if self not in self._owner.connections:  # STARTTLS makes it a second time
            self._owner.connections.append(self)
        super().connection_made(transport)


@asynccontextmanager
async def mail_server(
    *,
    tls: ssl.SSLContext | None = None,
    from_start: bool = False,
    login: bool = False,
    plain_login: bool = False,
    utf8: bool = False,
) -> AsyncIterator[MailServer]:
    """A server that runs during the block."""
    owner = MailServer()
    options: dict[str, Any] = {"tls_context": None if from_start else tls, "enable_SMTPUTF8": utf8}
    if login:
        # With TLS from the start it does not know that there is TLS, and would ask for it.
        options |= {
            "authenticator": owner.authenticate,
            "auth_required": not from_start,
            "auth_require_tls": not from_start,
        }
    if plain_login:
        options |= {"authenticator": owner.authenticate, "auth_require_tls": False}
    listening = await asyncio.get_running_loop().create_server(
        lambda: _Protocol(owner, **options), HOST, 0, ssl=tls if from_start else None
    )
    owner.port = listening.sockets[0].getsockname()[1]
    try:
        yield owner
    finally:
        listening.close()
        for _ in range(5):  # turns of the loop until one that was just accepted is among the connections
            await asyncio.sleep(0)
        owner.hang_up()
        await listening.wait_closed()
        await asyncio.sleep(0)  # the connections end in the next turn of the loop


@contextmanager
def running_mail_server(**options: Any) -> Iterator[MailServer]:
    """A server in its own thread, for tests that run event loops themselves."""
    logging.getLogger("mail.log").setLevel(logging.CRITICAL)  # it logs every command
    started: queue.Queue[MailServer] = queue.Queue()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with mail_server(**options) as server:
            started.put(server)
            await ended.wait()

    with ThreadPoolExecutor(1) as thread, closing(loop):
        serving = thread.submit(loop.run_until_complete, serve())
        try:
            yield started.get(timeout=10)
        finally:
            loop.call_soon_threadsafe(ended.set)
            serving.result(timeout=10)


@asynccontextmanager
async def scripted_server(*lines: bytes) -> AsyncIterator[MailServer]:
    """A server that sends the first line at once, another for each line that it gets, and then hangs up."""
    owner = MailServer()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number, line in enumerate(lines):
            if number:
                owner.commands.append((await reader.readline()).decode().strip())
            writer.write(line + b"\r\n")
            await writer.drain()
        writer.close()

    listening = await asyncio.start_server(talk, HOST, 0)
    owner.port = listening.sockets[0].getsockname()[1]
    try:
        yield owner
    finally:
        listening.close()
        await listening.wait_closed()


SILENCE, RESET = "silence", "reset"
USUAL_REPLIES = {
    "greeting": "220 hello",
    "EHLO": "250-hello\r\n250 AUTH PLAIN",
    "HELO": "250 hello",
    "AUTH": "235 welcome",
    "MAIL": "250 ok",
    "RCPT": "250 ok",
    "DATA": "354 go ahead",
    "body": "250 2.0.0 Ok: queued as Q1",
    "RSET": "250 ok",
    "QUIT": "221 bye",
}


@asynccontextmanager
async def staged_server(
    changes: MutableMapping[str, str] | None = None, /, **replies: str
) -> AsyncIterator[MailServer]:
    """A server with a reply to each command, to the connection (greeting) and to the mail (body).

    SILENCE and RESET stand for no reply; after RESET and 421 it ends the connection. `changes` may change meanwhile.
    """
    owner = MailServer()
    script = ChainMap(changes if changes is not None else {}, replies, USUAL_REPLIES)
    writers: list[asyncio.StreamWriter] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        stage = "greeting"
        while _answer(writer, script[stage]):
            if stage == "DATA" and script[stage].startswith("354"):
                await reader.readuntil(b"\r\n.\r\n")
                stage = "body"
            else:
                stage = (await reader.readline()).decode().strip().partition(" ")[0].upper()
            if not stage:
                break
            owner.commands.append(stage)

    listening = await asyncio.start_server(talk, HOST, 0)
    owner.port = listening.sockets[0].getsockname()[1]
    try:
        yield owner
    finally:
        listening.close()
        for writer in writers:
            writer.transport.abort()
        await listening.wait_closed()
        await asyncio.sleep(0)


def _answer(writer: asyncio.StreamWriter, reply: str) -> bool:
    """Reply; False if the connection is over."""
    if reply == RESET:
        writer.transport.abort()
        return False
    if reply != SILENCE:
        writer.write(f"{reply}\r\n".encode())
    if reply.startswith("421"):
        writer.close()
        return False
    return True


def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), 20))


async def failure(channel: Channel, mail: Message | None = None) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as caught:
        await channel.deliver(mail or message())
    return caught.value


async def deliver_once(dsn: str, mail: Message | None = None) -> str:
    channel = open_channel(dsn)
    try:
        return (await channel.deliver(mail or message())).id
    finally:
        await channel.close()


async def fail_once(dsn: str, mail: Message | None = None) -> DeliveryFailed:
    channel = open_channel(dsn)
    try:
        return await failure(channel, mail)
    finally:
        await channel.close()
