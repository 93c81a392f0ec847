"""From the bytes of a mail to what a reader sees. Any bytes can be read; what is broken in them is shown as it is."""

from dataclasses import dataclass
from email import policy
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesParser

HEADER_LENGTH = 2000  # characters that are read of a header


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A mail as text. `text` and `html` are None if the mail has no such part."""

    sender: str = ""
    to: str = ""
    subject: str = ""
    text: str | None = None
    html: str | None = None


def read(raw: bytes) -> Reading:
    try:
        # compat32: the newer policies raise various errors at malformed headers
        message = BytesParser(policy=policy.compat32).parsebytes(raw)
        return Reading(
            sender=_header(message, "from"),
            to=_header(message, "to"),
            subject=_header(message, "subject"),
            text=_part(message, "text/plain"),
            html=_part(message, "text/html"),
        )
    except Exception:  # noqa: BLE001  # the parser raises various errors at hostile headers, and at parts in parts
        return Reading(text=raw.decode("utf-8", "replace"))


def _header(message: Message, name: str) -> str:
    raw = next((str(value) for key, value in message.raw_items() if key.lower() == name), "")
    line = " ".join(raw[:HEADER_LENGTH].encode("utf-8", "surrogateescape").decode("utf-8", "replace").split())
    try:
        return str(make_header(decode_header(line)))
    except (HeaderParseError, LookupError, ValueError):  # ValueError: also bytes that their charset does not have
        return line


def _part(message: Message, kind: str) -> str | None:
    """The first part of a kind that is no attachment."""
    for part in message.walk():
        if part.get_content_type() == kind and part.get_content_disposition() != "attachment":
            payload = part.get_payload(decode=True)
            return _decoded(payload if isinstance(payload, bytes) else b"", part.get_content_charset())
    return None


def _decoded(content: bytes, charset: str | None) -> str:
    try:
        return content.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):  # no such charset, or one that is no text
        return content.decode("utf-8", "replace")
