"""What is said about a value, made harmless: no control characters, no marks that turn text around, never too long."""

import json
import math
import re
from itertools import takewhile
from typing import Any
from urllib.parse import quote, urlsplit

from markupsafe import escape

from digestif.core.texts import shortened

TITLE_FIELDS = ("title", "subject", "message", "summary", "name", "text")  # of a value, the first one that has text
BODY_FIELDS = ("message", "summary", "text", "body", "description")
LABEL_LENGTH = 160
BODY_LENGTH = 4000
HEADER_LENGTH = 150
VALUE_SIZE = 20_000  # of which a template of 100 subjects is given as many
LINK_LENGTH = 2000  # as it stands in a page
LINK_SCHEMES = ("http", "https", "mailto")
# Nearly all links look like this: nothing in them can be wrong, or has to be quoted. An escaped character has at most
# five, so a short one is short enough in a page.
SHORT_LINK = LINK_LENGTH // 5
_PLAIN_LINK = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?([/?#][A-Za-z0-9!#$%&'()*+,./:;=?@\[\]_~-]*)?")

# Formatting characters that reorder, hide or break text. Joiners stay: emoji and Persian are written with them.
_HARMFUL = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ODD_BLANKS = re.compile("[\x0b\x0c\x1c-\x1f]")  # that Python takes for ends of lines
_BLANK_LINES = re.compile("\n(?:[ \t]*\n)+")


def one_line(text: str, length: int = LABEL_LENGTH) -> str:
    """A text as one harmless line."""
    if len(text) <= length and text.isprintable() and "  " not in text:
        return text.strip()
    return cut(" ".join(_harmless(text.lstrip()[: 4 * length]).split()), length)


def paragraphs(text: str, length: int = BODY_LENGTH) -> str:
    """A text of several harmless lines, of which at most one at a time is empty."""
    blanked = _ODD_BLANKS.sub(" ", _harmless(text[: 2 * length]))
    lines = (line.rstrip() for line in blanked.splitlines())
    return cut(_BLANK_LINES.sub("\n\n", "\n".join(lines)).strip(), length)


def header_line(text: str) -> str:
    """A text for a mail's header. What looks like an encoded word is broken up: mail libraries would decode it."""
    return cut(one_line(text, 2 * HEADER_LENGTH).replace("=?", "= ?"), HEADER_LENGTH)


def cut(text: str, length: int) -> str:
    """At most this many characters, and a visible end where something is missing."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def plural(count: int, one: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def title_of(value: Any) -> str:
    """The line that stands for a value."""
    return one_line(spoken(value) or _short_json(value)) or "(no text)"


def spoken(value: Any, names: tuple[str, ...] = TITLE_FIELDS) -> str:
    """The first of these fields that has text, as it came; a text is its own."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for name in names:
            text = value.get(name)
            if isinstance(text, str) and text and not text[:LABEL_LENGTH].isspace():
                return text
    return ""


def body_of(value: Any) -> str:
    """What a value says besides its title, or nothing."""
    title = title_of(value)
    texts = [value] if isinstance(value, str) else [spoken(value, (name,)) for name in BODY_FIELDS]
    bodies = map(paragraphs, texts)
    return next((body for body in bodies if body and not _is_said(body, title)), "")


def _is_said(body: str, title: str) -> bool:
    """True for a line that a title has told already, apart from blanks and what was made harmless."""
    return "\n" not in body and one_line(body, BODY_LENGTH) == title


def link_of(value: Any) -> str:
    """The `url` of a value, if it is one that may be followed."""
    return safe_link(value.get("url")) if isinstance(value, dict) else ""


def safe_link(link: object) -> str:
    """A link to the web or to a mailbox; anything else is dropped."""
    if not isinstance(link, str):
        return ""
    is_plain = len(link) <= SHORT_LINK and _PLAIN_LINK.fullmatch(link)
    return link if is_plain else _quoted_link(link)


def _quoted_link(link: str) -> str:
    if not 1 <= len(link) <= LINK_LENGTH or not link.isprintable() or " " in link:
        return ""
    try:
        parts = urlsplit(link)
    except ValueError:
        return ""
    whole = parts.path if parts.scheme == "mailto" else parts.netloc
    if parts.scheme not in LINK_SCHEMES or not whole:
        return ""
    link = quote(link, safe="!#$%&'()*+,/:;=?@[]~")
    return link if len(escape(link)) <= LINK_LENGTH else ""


def encodable(text: str) -> str:
    """A text that has a form in UTF-8."""
    return _SURROGATE.sub("\ufffd", text)


def trimmed(value: Any, *, size: int = VALUE_SIZE) -> Any:
    """A value as plain data, of about this many characters at most."""
    return _Trimmer(size).trim(value, depth=6)


class _Trimmer:
    def __init__(self, size: int) -> None:
        self._left = size

    def trim(self, value: Any, *, depth: int) -> Any:
        self._left -= 8  # also what has no length takes room
        if isinstance(value, dict | list | tuple):
            return self._trim_all(value, depth) if depth and self._left > 0 else "…"
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if value is None or (isinstance(value, int) and value.bit_length() <= 64):
            return value
        return self._text(f"a number of {value.bit_length()} bits" if isinstance(value, int) else shortened(value))

    def _trim_all(self, values: Any, depth: int) -> Any:
        if isinstance(values, dict):
            return {
                self._text(str(name)): self.trim(each, depth=depth - 1)
                for name, each in takewhile(self._has_room, values.items())
            }
        return [self.trim(each, depth=depth - 1) for each in takewhile(self._has_room, values)]

    def _text(self, text: str) -> str:
        kept = cut(encodable(text[: BODY_LENGTH + 1]), max(min(BODY_LENGTH, self._left), 1))
        self._left -= len(kept)
        return kept

    def _has_room(self, _: object) -> bool:
        return self._left > 0


def _short_json(value: Any) -> str:
    return (
        ""
        if value == ""
        else json.dumps(trimmed(value, size=4 * LABEL_LENGTH), ensure_ascii=False, separators=(",", ":"))
    )


def _harmless(text: str) -> str:
    return encodable(_HARMFUL.sub("", text))
