"""The terminal: `terminal://` prints subject and text to standard output."""

import asyncio
import re
import sys
import threading
from typing import ClassVar, TextIO

from digestif.channels.base import Channel, Format, Message, Receipt, Unavailable
from digestif.dsn import Dsn

BOLD = "\x1b[1m"
PLAIN = "\x1b[0m"
# Characters that move the cursor, change colours or turn the direction of text, and lone surrogates.
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class TerminalChannel(Channel):
    """Prints to standard output, or to another stream of text."""

    scheme: ClassVar[str] = "terminal"
    formats: ClassVar[frozenset[Format]] = frozenset({Format.TEXT})

    def __init__(self, stream: TextIO | None = None) -> None:
        self._given = stream  # None: what standard output is at each delivery
        self._turn = threading.Lock()

    @property
    def name(self) -> str:
        return self.scheme

    async def deliver(self, message: Message) -> Receipt:
        await asyncio.to_thread(self._show, message)  # a full pipe would block the event loop
        return Receipt(channel=self.scheme)

    def _show(self, message: Message) -> None:
        stream: TextIO | None = self._given or sys.stdout
        if stream is None:
            raise Unavailable("there is no standard output")
        try:
            with self._turn:
                stream.write(_fitting(page(message, colour=stream.isatty()), stream))
                stream.flush()
        except (OSError, ValueError) as error:  # ValueError: it was closed
            raise Unavailable(f"standard output can't be written: {error}") from None


def from_dsn(dsn: Dsn) -> TerminalChannel:
    """`terminal://`, without options."""
    dsn.refuse_location()
    dsn.refuse_options()
    return TerminalChannel()


def page(message: Message, *, colour: bool) -> str:
    """The text that is printed for a message."""
    to = f" → {harmless(message.recipient)}" if message.recipient else ""
    subject = " ".join(harmless(message.subject).split()) + " ".join(to.splitlines())
    text = harmless(message.text.replace("\r\n", "\n")).rstrip("\n")
    return f"{BOLD}{subject}{PLAIN}\n{text}\n\n" if colour else f"{subject}\n{text}\n\n"


def harmless(text: str) -> str:
    """Text without characters that would steer a terminal."""
    return _HARMFUL.sub("\N{REPLACEMENT CHARACTER}", text)


def _fitting(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
