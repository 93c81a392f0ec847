"""The folder of a mailbox: a file for each mail, 000001.eml and so on, which mail programs can open.

The first line of a file is a header of ours with the envelope; a mail can't forge it, because it is the first.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from digestif.channels.files import replace_file
from digestif.mailbox.reading import Reading, read
from digestif.mailbox.server import Delivery

KEPT = 1000  # mails; the oldest are removed
KEPT_BYTES = 1_000_000_000
HEAD_BYTES = 1 << 16  # of a file, enough for the subject
HEADER = b"X-Digestif-Envelope: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A mail that was kept, or its beginning."""

    number: int
    received: float
    sender: str
    recipients: tuple[str, ...]
    raw: bytes  # as it came

    def read(self) -> Reading:
        return read(self.raw)

    def facts(self) -> dict[str, Any]:
        """What a list says about it."""
        return {
            "number": self.number,
            "received": self.received,
            "from": self.sender,
            "to": list(self.recipients),
            "subject": self.read().subject,
        }


class MailFolder:
    """Mails by number, in a folder that only its owner can read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def keep(self, delivery: Delivery, *, now: float) -> Mail:
        """Write a mail under the next number, then remove the oldest if there are too many."""
        number = self._reserve()
        envelope = {"received": now, "from": delivery.sender, "to": delivery.recipients}
        replace_file(self._file(number), HEADER + json.dumps(envelope).encode() + b"\r\n" + delivery.content)
        self._prune()
        return Mail(
            number=number,
            received=now,
            sender=delivery.sender,
            recipients=delivery.recipients,
            raw=delivery.content[:HEAD_BYTES],
        )

    def numbers(self) -> list[int]:
        """The numbers of the mails, the oldest first."""
        return sorted(number for number, size in self._sizes() if size)

    def mail(self, number: int, *, size: int = -1) -> Mail | None:
        """The mail of a number, or its first bytes."""
        try:
            with self._file(number).open("rb") as file:
                content = file.read(size)
        except FileNotFoundError:
            return None
        return _mail(number, content) if content else None

    def mails(self) -> Iterator[Mail]:
        """The beginnings of all mails, the oldest first."""
        for number in self.numbers():
            if mail := self.mail(number, size=HEAD_BYTES):
                yield mail

    def _reserve(self) -> int:
        """A number that no other process has: its file is there, and empty until the mail is."""
        number = max((number for number, _ in self._sizes()), default=0)
        while True:
            number += 1
            try:
                os.close(os.open(self._file(number), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                continue
            return number

    def _prune(self) -> None:
        newest_first = sorted(self._sizes(), reverse=True)
        room = KEPT_BYTES
        for place, (number, size) in enumerate(newest_first):
            room -= size
            if place >= KEPT or (place and room < 0):
                self._file(number).unlink(missing_ok=True)

    def _sizes(self) -> list[tuple[int, int]]:
        """The numbers that are taken, with the sizes of their files."""
        found = []
        for file in self.path.glob("*.eml"):
            with suppress(FileNotFoundError):  # another mailbox has removed it
                if file.stem.isdecimal():
                    found.append((int(file.stem), file.stat().st_size))
        return found

    def _file(self, number: int) -> Path:
        return self.path / f"{number:06}.eml"


def _mail(number: int, content: bytes) -> Mail:
    first, _, rest = content.partition(b"\r\n")
    try:
        envelope = json.loads(first.removeprefix(HEADER)) if first.startswith(HEADER) else {}
    except ValueError:
        envelope = {}
    return Mail(
        number=number,
        received=float(envelope.get("received", 0)),
        sender=str(envelope.get("from", "")),
        recipients=tuple(map(str, envelope.get("to", ()))),
        raw=rest if envelope else content,
    )
