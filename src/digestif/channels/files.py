"""A folder: `file:///var/spool/digests?as=eml` writes one file for each message."""

import asyncio
import errno
import hashlib
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

from digestif.channels.base import Channel, DeliveryFailed, Format, Message, Receipt, Unavailable, date_of
from digestif.channels.mail import BadAddress, Letterhead, Mailbox, build_mail, mailbox_option
from digestif.core.placeholders import unfilled_fault
from digestif.core.texts import did_you_mean
from digestif.dsn import Dsn, option
from digestif.errors import ConfigError
from digestif.ids import fresh_id

SENDER = Mailbox.parse("digestif@localhost")
NAME_LENGTH = 60  # of a timeline, in the name of a file
PRIVATE = 0o600
ABOUT_THE_FILE = frozenset({errno.EFBIG, errno.EILSEQ, errno.EISDIR, errno.ENAMETOOLONG})

Writer = Callable[[Message, Letterhead], bytes]


class FolderChannel(Channel):
    """Writes to a folder on this computer. The folder is made when needed; by default only its owner can read it."""

    scheme: ClassVar[str] = "file"
    formats: ClassVar[frozenset[Format]] = frozenset({Format.TEXT, Format.HTML, Format.DATA})

    def __init__(self, folder: Path, *, kind: str = "eml", sender: Mailbox = SENDER, mode: int = PRIVATE) -> None:
        self.folder = folder
        self.kind = kind
        self._mode = mode
        self._letterhead = Letterhead(sender=sender)

    @property
    def name(self) -> str:
        return f"file://{self.folder.absolute()}"

    async def deliver(self, message: Message) -> Receipt:
        path = self.folder / f"{file_name(message)}.{self.kind}"
        try:
            await asyncio.to_thread(self._write, path, message)
        except OSError as error:
            raise self._failure_of(error) from error
        return Receipt(channel=self.scheme, id=path.name)

    def _failure_of(self, error: OSError) -> DeliveryFailed:
        """A full disk or a missing folder stops all messages; the name or the size of a file only its own."""
        reason = f"{self.folder} can't be written: {error.strerror}"
        is_in_folder = error.filename is None or Path(error.filename).parent == self.folder
        return DeliveryFailed(reason) if error.errno in ABOUT_THE_FILE and is_in_folder else Unavailable(reason)

    def _write(self, path: Path, message: Message) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=_folder_mode(self._mode))
        earlier = self._earlier(path)  # also at attempt 1: an interrupted one is not counted
        replace_file(path, WRITERS[self.kind](message, self._letterhead), mode=self._mode)
        for other in earlier:
            other.unlink(missing_ok=True)

    def _earlier(self, path: Path) -> list[Path]:
        """Files of the same message that attempts at another time wrote."""
        identity = path.name.rpartition("-")[2]
        return [other for other in self.folder.iterdir() if other.name.endswith(f"-{identity}") and other != path]


def _kind(text: str) -> str:
    if text not in WRITERS:
        raise ValueError(f"{text!r} is no kind of file{did_you_mean(text, list(WRITERS))}")
    return text


def _mode(text: str) -> int:
    if not re.fullmatch("0?[0246]{3}", text):
        raise ValueError(f"{text!r} is not a mode of files such as 600 or 640")
    return int(text, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Options of the DSN."""

    as_: str = option(_kind, "eml")
    from_: Mailbox = option(mailbox_option, SENDER)
    mode: int = option(_mode, PRIVATE)


def from_dsn(dsn: Dsn) -> FolderChannel:
    """`file:///folder`, or `file://./folder` for one in the working directory."""
    options = dsn.read(FileOptions)
    if not dsn.location.startswith(("/", "./", "../")) or "\0" in dsn.location:
        raise ConfigError("file: write file:///folder, or file://./folder for one in the working directory")
    if fault := unfilled_fault(dsn.rest.partition("?")[0]):
        raise ConfigError(f"file: {fault}; write %7B and %7D for braces")
    return FolderChannel(Path(dsn.location), kind=options.as_, sender=options.from_, mode=options.mode)


def file_name(message: Message) -> str:
    """Time, timeline and a hash of the message's identity: files sort by time, and no two messages share one."""
    timeline = re.sub(r"[^A-Za-z0-9@_-]+", "_", message.timeline)[:NAME_LENGTH]
    identity = f"{len(message.timeline)} {message.timeline}{message.key}".encode("utf-8", "surrogatepass")
    return f"{date_of(message):%Y%m%dT%H%M%SZ}-{timeline}-{hashlib.sha256(identity).hexdigest()[:32]}"


def _folder_mode(mode: int) -> int:
    """The mode of a folder for files of this mode: those who may read the files may enter it."""
    return mode | (mode & 0o444) >> 2


def replace_file(path: Path, content: bytes, *, mode: int = PRIVATE) -> None:
    """Write a file whole or not at all, also if the power fails."""
    draft = path.with_name(f".{fresh_id()}.tmp")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
            draft.chmod(mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Contents


def _mail(message: Message, letterhead: Letterhead) -> bytes:
    try:
        to = Mailbox.parse(message.recipient)
    except BadAddress:  # here a recipient may have any name
        to = None
    return build_mail(message, letterhead, to=to).as_bytes()


def _html(message: Message, letterhead: Letterhead) -> bytes:  # noqa: ARG001
    return message.html.encode("utf-8", "replace")


def _text(message: Message, letterhead: Letterhead) -> bytes:  # noqa: ARG001
    return f"{message.subject}\n\n{message.text}".encode("utf-8", "replace")


def _json(message: Message, letterhead: Letterhead) -> bytes:  # noqa: ARG001
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    return json.dumps(values, ensure_ascii=True, indent=2, default=_plain).encode()


def _plain(value: object) -> object:
    try:
        return dict(value)  # type: ignore[call-overload]  # a mapping that is no dict
    except (TypeError, ValueError):
        return str(value)


WRITERS: dict[str, Writer] = {"eml": _mail, "html": _html, "txt": _text, "json": _json}
