"""Mails: from a message to an `email.message.EmailMessage`. The same message gives the same bytes, on every Python.

Headers are written here in their final form: folded, and in ASCII except for addresses in other scripts. The library
would decode what looks like an encoded word in a subject, and releases before 3.11.15 then write the line breaks in it
unchanged, by which an attacker could add headers.
"""

import base64
import binascii
import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.message import EmailMessage
from email.policy import SMTP, EmailPolicy
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

from digestif.channels.base import Message, date_of
from digestif.core.placeholders import filled, placeholder_fault, unfilled_fault
from digestif.core.texts import shortened

SUBJECT_LENGTH = 200
SENDER_LENGTH = 60
KEY_LENGTH = 600
LINE_LENGTH = 76  # without the end of line
WORD_BYTES = 36  # UTF-8 in an encoded word: 48 bytes of base64, 12 around them, and the header's name before them
URL_LENGTH = 900  # a URL is not folded, and a line has 998 bytes at most
ADDRESS_LENGTH = 254  # bytes
LOCAL_LENGTH = 64
LIST_LENGTH = 255  # of a List-ID, by its RFC
LABEL_LENGTH = 40  # of a timeline in it
LIST_NAME_LENGTH = 100

_NAMED = re.compile(r"(?P<name>[^<>]*)<(?P<address>[^<>]*)>")
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x80-\U0010ffff-]+"
_LOCAL = re.compile(rf"{_ATOM}(\.{_ATOM})*")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_LIST = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_URL = re.compile(r"(https?://|mailto:)[!-~]+", re.IGNORECASE)
_URL_SAFE = ":/?#[]@!$&'()*+,;=%~"
# Marks that turn the direction of the text around them; the two that do not (U+200E, U+200F) stay.
_TURNING = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_BEYOND_ASCII = bytes(range(128, 256))
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_BLANKS = {"Cc", "Zl", "Zp"}


class BadAddress(ValueError):
    """The text is not exactly one address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """A checked address, `local@domain`, with or without a name."""

    local: str  # in any script; beyond ASCII, servers need SMTPUTF8 (RFC 6531)
    domain: str
    name: str = ""  # for people, in any script

    @classmethod
    def parse(cls, text: str) -> "Mailbox":
        """Read `ada@example.org` or `Ada <ada@example.org>`, or raise BadAddress."""
        named = _NAMED.fullmatch(text)
        address = named["address"] if named else text
        local, at, domain = address.rpartition("@")
        if not at or not _is_local(local) or len(address.encode("utf-8", "replace")) > ADDRESS_LENGTH:
            raise BadAddress(f"{shortened(text)} is not an address such as ada@example.org")
        return cls(local=local, domain=_ascii_domain(domain, text), name=one_line(named["name"]) if named else "")

    def __str__(self) -> str:
        return f"{self.local}@{self.domain}"

    @property
    def is_ascii(self) -> bool:
        return self.local.isascii()

    @property
    def header(self) -> str:
        """The mailbox as a header writes it."""
        return f"{_name(self.name)}\n <{self}>" if self.name else str(self)


def normal_forms(text: str) -> tuple[str, ...]:
    """Return the normal forms of an address: its domain in lower case, as people write it, then in ASCII (xn--).

    Servers compare domains without regard to case and to compatible letters (IDNA); the case of what is before the @
    is the affair of the receiver. A text that is no address is its own normal form.
    """
    try:
        address = Mailbox.parse(text)
    except BadAddress:
        return (text,)
    if "<" in text:
        return (text,)
    local, domain = unicodedata.normalize("NFC", address.local), address.domain.lower()
    return tuple(dict.fromkeys([f"{local}@{_domain_in_letters(domain)}", f"{local}@{domain}"]))


def _domain_in_letters(domain: str) -> str:
    try:
        return domain.encode("ascii").decode("idna")
    except UnicodeError:  # of later rules than the standard library's
        return domain


def mailbox_option(text: str) -> Mailbox:
    """A mailbox in a DSN, where a + reads as a space; no address has a space inside."""
    if fault := unfilled_fault(text):
        raise BadAddress(fault)
    return Mailbox.parse(re.sub(r"(?<=[^\s<>]) (?=[^\s<>]+@)", "+", text))


def _name(text: str) -> str:
    quoted = re.sub(r'(["\\])', r"\\\1", text)
    return f'"{quoted}"' if _is_plain(text, room=LINE_LENGTH - 20) else encoded_words(text)


def _is_local(text: str) -> bool:
    # A server on the way may normalize letters: the address must be valid in that form, too.
    forms = (text, unicodedata.normalize("NFKC", text))
    return (
        text.isprintable()
        and len(text.encode()) <= LOCAL_LENGTH
        and all(_LOCAL.fullmatch(form) and "=?" not in form for form in forms)
    )


# The standard library follows the older rules (IDNA 2003), which turn these into other letters: another owner's domain.
_AMBIGUOUS = re.compile("[ßς\u200c\u200d]")


def _ascii_domain(domain: str, text: str) -> str:
    try:
        labels = domain.encode("idna").decode("ascii").split(".")
    except UnicodeError:
        labels = [""]
    if _AMBIGUOUS.search(domain):
        labels = [""]
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise BadAddress(f"{shortened(text)} is not an address such as ada@example.org")
    return ".".join(labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListId:
    """What mail programs sort mails by (RFC 2919), with or without a name for people. {timeline} is filled in."""

    id: str  # like a domain: alerts.example.org
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> "ListId":
        """Read `alerts.example.org` or `Alerts <alerts.example.org>`, or raise ValueError."""
        if fault := placeholder_fault(text, "timeline"):
            raise ValueError(fault)
        named = _NAMED.fullmatch(text)
        found = cls(id=named["address"], name=named["name"]) if named else cls(id=text)
        longest = found._id_for(_list_label("x" * LIST_LENGTH))
        if "." not in longest or not _LIST.fullmatch(longest) or len(longest) > LIST_LENGTH:
            raise ValueError(f"{shortened(text)} is not the id of a list, such as alerts.example.org")
        return found

    @classmethod
    def of(cls, sender: Mailbox) -> "ListId":
        """The sender's address, with a dot in place of the @."""
        local = sender.local if _LIST.fullmatch(sender.local) else _list_label(sender.local)
        return cls(id=f"{local}.{sender.domain}")

    def header(self, timeline: str) -> str:
        found = f"<{self._id_for(_list_label(timeline))}>"
        name = one_line(filled(self.name, timeline=timeline), LIST_NAME_LENGTH)
        return f"{_name(name)}\n {found}" if name else found

    def _id_for(self, label: str) -> str:
        return filled(self.id, timeline=label)


def _list_label(text: str) -> str:
    """A text as one part of a List-ID: as it is if it can stand there, else its letters and a hash of the whole."""
    letters = re.sub("[^A-Za-z0-9_-]+", "-", text)[:LABEL_LENGTH]
    return letters if letters == text else f"{letters}-{_hashed('list', text)[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letterhead:
    """The sender, the list and the links that all mails of a channel share."""

    sender: Mailbox
    reply_to: Mailbox | None = None
    list_id: ListId | None = None  # None: that of the sender
    unsubscribe: str = ""  # a URL with {recipient} and {timeline}, for messages without a link of their own


def build_mail(message: Message, letterhead: Letterhead, *, to: Mailbox | None) -> EmailMessage:
    """The mail of a message: its text, followed by its HTML if there is any."""
    mail = EmailMessage(policy=_POLICY)
    for name, value in _headers(message, letterhead, to=to):
        mail[name] = value
    mail["MIME-Version"] = "1.0"
    if message.html:
        _fill_alternatives(mail, message)
    else:
        _fill(mail, "plain", message.text)
    return mail


def message_id(message: Message, letterhead: Letterhead) -> str:
    """The same id for every attempt, by which receivers can tell that they have the mail already."""
    return f"<{_hashed('message', message.key)}@{letterhead.sender.domain}>"


def thread_id(message: Message, letterhead: Letterhead) -> str:
    """The id of a mail that was never sent. All mails of a timeline answer it, so mail programs show them together."""
    return f"<{_hashed('timeline', message.timeline)}@{letterhead.sender.domain}>"


def _headers(message: Message, letterhead: Letterhead, *, to: Mailbox | None) -> Iterator[tuple[str, str]]:
    yield "From", _from(message, letterhead)
    if to:
        yield "To", to.header
    if letterhead.reply_to:
        yield "Reply-To", letterhead.reply_to.header
    yield "Subject", _unstructured(one_line(message.subject, SUBJECT_LENGTH) or "(no subject)", after="Subject: ")
    yield "Date", format_datetime(date_of(message))
    yield "Message-ID", message_id(message, letterhead)
    yield "In-Reply-To", thread_id(message, letterhead)
    yield "References", thread_id(message, letterhead)
    yield "Auto-Submitted", "auto-generated"  # answering machines stay silent
    yield "List-ID", (letterhead.list_id or ListId.of(letterhead.sender)).header(message.timeline)
    if url := unsubscribe_url(message, letterhead):
        yield "List-Unsubscribe", f"<{url}>"
        if url.lower().startswith("https:"):
            yield "List-Unsubscribe-Post", "List-Unsubscribe=One-Click"
    yield "X-Digestif-Key", _unstructured(one_line(message.key, KEY_LENGTH) or "?", after="X-Digestif-Key: ")


def _from(message: Message, letterhead: Letterhead) -> str:
    """The channel's address with the message's own name, else with that of the channel."""
    name = one_line(message.sender, SENDER_LENGTH)
    return (replace(letterhead.sender, name=name) if name else letterhead.sender).header


def unsubscribe_url(message: Message, letterhead: Letterhead) -> str:
    """The message's own link, else the channel's; empty if it does not fit into a header."""
    who = {"recipient": _quoted(message.recipient), "timeline": _quoted(message.timeline)}
    link = message.links.get("unsubscribe", "") or filled(letterhead.unsubscribe, **who)
    url = _quoted(link, safe=_URL_SAFE).replace("=?", "=%3F")
    return url if _URL.fullmatch(url) and len(url) <= URL_LENGTH else ""


def _quoted(text: str, safe: str = "") -> str:
    return quote(text, safe=safe, errors="replace")


def _hashed(kind: str, text: str) -> str:
    return hashlib.sha256(f"{kind}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


# Text in headers


def one_line(text: str, length: int | None = None) -> str:
    """Text on one line, without control characters, the start of an encoded word, and marks that turn the direction."""
    if length is not None and len(text) > length:
        text = text[: length - 1] + "…"
    blanked = "".join(" " if unicodedata.category(letter) in _BLANKS else letter for letter in text)
    return " ".join(_valid(blanked).translate(_TURNING).replace("=?", "= ?").split())


def _unstructured(text: str, *, after: str) -> str:
    """A line for a header: unchanged, or as encoded words if it is long or not ASCII."""
    return text if _is_plain(text, room=LINE_LENGTH - len(after)) else encoded_words(text)


def _is_plain(text: str, *, room: int) -> bool:
    return text.isascii() and text.isprintable() and len(text) <= room


def encoded_words(text: str) -> str:
    """Any text in ASCII, one encoded word per line."""
    return "\n ".join(f"=?utf-8?b?{base64.b64encode(part).decode()}?=" for part in _portions(text))


def _portions(text: str) -> Iterator[bytes]:
    portion = b""
    for letter in text:  # a letter must not be split between words
        encoded = letter.encode()
        if len(portion) + len(encoded) > WORD_BYTES:
            yield portion
            portion = b""
        portion += encoded
    yield portion


def _valid(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# Bodies


class _Verbatim(EmailPolicy):
    """Keeps headers as they are written here, after a last check that each is one well-formed header."""

    _FOLDED = re.compile(r"[!-~][ -~]*(\n [ -~]+)*")
    _ADDRESSES = ("From", "To", "Reply-To")

    def header_store_parse(self, name: str, value: Any) -> tuple[str, Any]:
        text = _plain_letters(value) if name in self._ADDRESSES else value
        if not self._FOLDED.fullmatch(text):
            raise ValueError(f"{name}: {shortened(value)} can't stand in a header")
        return name, value


def _plain_letters(text: str) -> str:
    """The text with an x for each printable letter beyond ASCII; other characters, such as line ends, stay."""
    return "".join("x" if letter.isprintable() and not letter.isascii() else letter for letter in text)


_POLICY = _Verbatim(
    utf8=True,
    linesep=SMTP.linesep,
    refold_source="none",
    max_line_length=None,
    cte_type="7bit",
)


def _fill_alternatives(mail: EmailMessage, message: Message) -> None:
    # Neither quoted-printable nor base64 can contain "=_", so no content can end its part.
    mail["Content-Type"] = f'multipart/alternative;\n boundary="=_{_hashed("boundary", message.key)}"'
    for subtype, text in ("plain", message.text), ("html", message.html):
        part = EmailMessage(policy=_POLICY)
        _fill(part, subtype, text)
        mail.attach(part)


def _fill(part: EmailMessage, subtype: str, text: str) -> None:
    body = _valid(_lines(text)).encode()
    is_readable = len(body.translate(None, _BEYOND_ASCII)) > len(body) * 5 // 6  # else base64 is shorter
    part["Content-Type"] = f'text/{subtype}; charset="utf-8"'
    part["Content-Transfer-Encoding"] = "quoted-printable" if is_readable else "base64"
    encoded = binascii.b2a_qp(body, istext=True) if is_readable else base64.encodebytes(body.replace(b"\n", b"\r\n"))
    part.set_payload(encoded.decode())


def _lines(text: str) -> str:
    lines = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))
    return lines if lines.endswith("\n") else lines + "\n"
