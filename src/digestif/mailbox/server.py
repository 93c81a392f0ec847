"""SMTP on the loopback address: takes mails, hands them to a function, and sends nothing on.

As much of RFC 5321 as programs need that send mail: pipelining, 8-bit bodies, addresses in any script, any log-in.
"""

import asyncio
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

HOST = "127.0.0.1"
LARGEST = 30_000_000  # bytes of a mail
LINE = 1 << 16  # bytes of a command, and of a piece of a mail
RECIPIENTS = 100  # of a mail
CONNECTIONS = 20  # at once; each may hold a mail in memory
MISTAKES = 10  # of a connection, before it is ended: a browser that speaks HTTP makes more
IDLE_SECONDS = 300.0

_PATH = re.compile(r"(?P<verb>FROM|TO):\s*<(?P<address>[^<>]*)>(?P<options>.*)", re.IGNORECASE)
_SIZE = re.compile(r"\bSIZE=(\d{1,20})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A mail as it came, with the addresses of its envelope."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes


class MailServer:
    """Serves until `stop` is called.

    `accept` gets each mail, in a thread; if it raises OSError, the sender is asked to try again. `started` gets the
    port, `refused` each recipient out of `refuse`, which are answered as if they did not exist.
    """

    def __init__(
        self,
        port: int,
        *,
        accept: Callable[[Delivery], None],
        started: Callable[[int], None] = lambda _port: None,
        refused: Callable[[str], None] = lambda _address: None,
        refuse: Collection[str] = (),
    ) -> None:
        self._port = port
        self._accept = accept
        self._started = started
        self._refused = refused
        self._refuse = {address.lower() for address in refuse}
        self._conversations: set[asyncio.Task[None]] = set()
        self.turn = asyncio.Lock()  # held while a mail is kept and answered
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self) -> None:
        """Raises OSError if the port can't be opened."""
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connected, HOST, self._port, limit=LINE)
        try:
            self._started(server.sockets[0].getsockname()[1])
            await self._stopped.wait()
        finally:
            server.close()
            async with self.turn:  # a mail that was kept is answered: otherwise it would come again
                pass
            for conversation in self._conversations:
                conversation.cancel()
            await asyncio.gather(*self._conversations, return_exceptions=True)

    def stop(self) -> None:
        """Let `serve` end. May be called by a signal handler or in another thread."""
        if self._loop is None:
            self._stopped.set()
        else:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._stopped.set)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._talk(reader, writer))
        self._conversations.add(task)
        task.add_done_callback(self._conversations.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, EOFError, asyncio.LimitOverrunError):  # the client is gone or silent, at any point
                if len(self._conversations) > CONNECTIONS:
                    writer.write(b"421 4.7.0 too many connections\r\n")
                    return
                await Conversation(self, reader, writer).run()
        finally:
            writer.close()

    def is_refused(self, address: str) -> bool:
        if address.lower() not in self._refuse:
            return False
        self._refused(address)
        return True

    async def accept(self, delivery: Delivery) -> bool:
        """Hand a mail over; False if it could not be kept."""
        try:
            await asyncio.to_thread(self._accept, delivery)
        except OSError:
            return False
        return True


@dataclass(slots=True)
class Conversation:
    """One connection: commands and replies in turn."""

    server: MailServer
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    sender: str | None = None
    recipients: list[str] = field(default_factory=list)
    mistakes: int = 0
    is_over: bool = False

    COMMANDS: ClassVar[dict[str, str]] = {
        "HELO": "_helo",
        "EHLO": "_ehlo",
        "AUTH": "_auth",
        "MAIL": "_mail",
        "RCPT": "_rcpt",
        "DATA": "_data",
        "RSET": "_rset",
        "NOOP": "_noop",
        "VRFY": "_vrfy",
        "QUIT": "_quit",
    }

    async def run(self) -> None:
        await self._say("220 localhost digestif mailbox")
        while not self.is_over:
            try:
                verb, _, rest = (await self._line()).partition(" ")
            except (TimeoutError, asyncio.LimitOverrunError) as error:
                silent = isinstance(error, TimeoutError)
                await self._say("421 4.4.2 silent for too long" if silent else "500 5.5.2 the line is too long")
                return
            command = self.COMMANDS.get(verb.upper())
            reply = await getattr(self, command)(rest.strip()) if command else "500 5.5.1 unknown command"
            if reply is not None:
                await self._say(reply)
                self.mistakes += reply.startswith("50")
            if self.mistakes > MISTAKES:
                await self._say("421 4.7.0 too many mistakes")
                return

    async def _line(self) -> str:
        async with asyncio.timeout(IDLE_SECONDS):
            line = await self.reader.readuntil(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r\n")

    async def _say(self, reply: str) -> None:
        self.writer.write(f"{reply}\r\n".encode())
        await self.writer.drain()

    # Commands: each takes what follows its verb, and returns the reply, or None if that was said

    async def _helo(self, _: str) -> str:
        self._forget()
        return "250 localhost"

    async def _ehlo(self, _: str) -> str:
        self._forget()
        extensions = (f"SIZE {LARGEST}", "8BITMIME", "SMTPUTF8", "PIPELINING", "ENHANCEDSTATUSCODES")
        return "\r\n".join(f"250-{name}" for name in ("localhost", *extensions)) + "\r\n250 AUTH PLAIN LOGIN"

    async def _auth(self, rest: str) -> str:
        """Any user and any password will do; neither is kept."""
        method, _, initial = rest.partition(" ")
        questions = {"PLAIN": 1, "LOGIN": 2}.get(method.upper())
        if questions is None:
            return "504 5.5.4 PLAIN or LOGIN"
        for question in ("VXNlcm5hbWU6", "UGFzc3dvcmQ6")[: questions - bool(initial)]:
            await self._say(f"334 {question if questions == 2 else ''}")
            if await self._line() == "*":
                return "501 5.7.0 given up"
        return "235 2.7.0 welcome"

    async def _mail(self, rest: str) -> str:
        path = _path(rest, "FROM")
        if path is None:
            return "501 5.5.4 MAIL FROM:<address>"
        if self.sender is not None:
            return "503 5.5.1 there is a sender already"
        size = _SIZE.search(path["options"])
        if size and int(size[1]) > LARGEST:
            return _TOO_LARGE
        self.sender = path["address"]
        return "250 2.1.0 fine"

    async def _rcpt(self, rest: str) -> str:
        path = _path(rest, "TO")
        if path is None or not path["address"]:
            return "501 5.5.4 RCPT TO:<address>"
        if self.sender is None:
            return "503 5.5.1 MAIL first"
        if len(self.recipients) >= RECIPIENTS:
            return f"452 4.5.3 at most {RECIPIENTS} recipients"
        if self.server.is_refused(path["address"]):
            return f"550 5.1.1 <{path['address']}> is refused, as --refuse says"
        self.recipients.append(path["address"])
        return "250 2.1.5 fine"

    async def _data(self, _: str) -> str | None:
        if self.sender is None or not self.recipients:
            return "503 5.5.1 MAIL and RCPT first"
        await self._say("354 end with a dot on a line of its own")
        content = await self._content()
        delivery = Delivery(sender=self.sender, recipients=tuple(self.recipients), content=content or b"")
        self._forget()
        if content is None:
            return _TOO_LARGE
        async with self.server.turn:
            is_kept = await self.server.accept(delivery)
            await self._say("250 2.0.0 kept" if is_kept else "452 4.3.1 the mail could not be written")
        return None

    async def _rset(self, _: str) -> str:
        self._forget()
        return "250 2.0.0 fine"

    async def _noop(self, _: str) -> str:
        return "250 2.0.0 fine"

    async def _vrfy(self, _: str) -> str:
        return "252 2.5.0 send it and see"

    async def _quit(self, _: str) -> str:
        self.is_over = True
        return "221 2.0.0 bye"

    def _forget(self) -> None:
        self.sender = None
        self.recipients.clear()

    async def _content(self) -> bytes | None:
        """What follows DATA, up to the lone dot; None if it is too large, though it is read to its end."""
        kept = bytearray()
        size = 0
        begins_line = True
        while True:
            piece = await self._piece()
            if begins_line and piece in (b".\r\n", b".\n"):
                return bytes(kept) if size <= LARGEST else None
            if begins_line and piece.startswith(b"."):
                piece = piece[1:]
            begins_line = piece.endswith(b"\n")
            size += len(piece)
            if size <= LARGEST:
                kept += piece

    async def _piece(self) -> bytes:
        """A line, or the beginning of a very long one."""
        async with asyncio.timeout(IDLE_SECONDS):
            try:
                return await self.reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                return await self.reader.readexactly(error.consumed)


_TOO_LARGE = f"552 5.3.4 at most {LARGEST} bytes"


def _path(text: str, verb: str) -> "re.Match[str] | None":
    found = _PATH.fullmatch(text)
    if found is None or found["verb"].upper() != verb or not found["address"].isprintable():
        return None
    return found
