"""Texts of records' values, made safe to show: no control characters, no marks that turn text around, not too long."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import Any
from urllib.parse import quote, urlsplit

from markupsafe import escape

from digestif.core.secret import holds_credentials, is_private_name
from digestif.core.texts import shortened

# The first of these with text is what a value says. Headings can stand above a text; the others are texts themselves.
TEXT_FIELDS = ("title", "subject", "message", "summary", "name", "text", "comment", "content", "body", "description")
HEADING_FIELDS = ("title", "subject", "summary", "name")
BODY_FIELDS = ("message", "summary", "text", "comment", "content", "body", "description")
AUTHOR_FIELDS = ("author", "actor", "sender", "from", "by", "user")  # a text, or an object with a `name`
LABEL_LENGTH = 160
ITEM_LENGTH = 500
AUTHOR_LENGTH = 60
BODY_LENGTH = 8000
LINE_BREAK = " / "  # where lines are joined to one
HEADER_LENGTH = 150
MOST_TEXTS = 2  # fields that are joined to tell values apart
MOST_PAIRS = 100  # fields of a value without a text that are looked at
VALUE_SIZE = 20_000  # characters; a context may hold 100 such values
LINK_LENGTH = 2000  # once escaped for HTML
LINK_SCHEMES = ("http", "https", "mailto")
LINK_NAMES = ("url", "uri", "link", "href")  # a field is taken for a link if its name ends so
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_SCRIPT = re.compile(r"(javascript|vbscript|data:[a-z]+/)", re.IGNORECASE)
# Nearly all links match this and need neither checks nor quoting. An escaped character takes at most five, so a short
# link is short enough once escaped.
SHORT_LINK = LINK_LENGTH // 5
_PLAIN_LINK = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?([/?#][A-Za-z0-9!#$%&'()*+,./:;=?@\[\]_~-]*)?")

# Formatting characters that reorder, hide or break text. Joiners stay: emoji and Persian are written with them.
_HARMFUL = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ODD_BLANKS = re.compile("[\x0b\x0c\x1c-\x1f]")  # Python takes them for ends of lines
_BLANK_LINES = re.compile("\n(?:[ \t]*\n)+")


def one_line(text: str, length: int = LABEL_LENGTH) -> str:
    """A text as one harmless line."""
    if len(text) <= length and text.isprintable() and "  " not in text:
        return text.strip()
    return cut(" ".join(_harmless(text.lstrip()[: 4 * length]).split()), length)


def joined_lines(text: str, length: int = LABEL_LENGTH) -> str:
    """A text as one harmless line, with a stroke between what were several."""
    if text.isprintable():
        return one_line(text, length)
    lines = _harmless_lines(text.lstrip()[: 4 * length])
    return one_line(LINE_BREAK.join(line.strip() for line in lines if line.strip()), length)


def paragraphs(text: str, length: int = BODY_LENGTH) -> str:
    """A text of several harmless lines, without two empty lines in a row."""
    lines = (line.rstrip() for line in _harmless_lines(text[: 2 * length]))
    return cut(_BLANK_LINES.sub("\n\n", "\n".join(lines)).strip(), length)


def header_line(text: str) -> str:
    """A line for a mail's header, with encoded words broken up: mail libraries would decode them."""
    return cut(one_line(text, 2 * HEADER_LENGTH).replace("=?", "= ?"), HEADER_LENGTH)


def cut(text: str, length: int) -> str:
    """A text of at most `length` characters, with a … where something is missing."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def title_of(value: Any, no_text: str = "(no text)", length: int = LABEL_LENGTH) -> str:
    """What a value says, in one line: its first field with text, or all of its fields with their names."""
    return joined_lines(text_of(value) or ", ".join(_pairs(value)), length) or no_text


def text_of(value: Any, names: tuple[str, ...] = TEXT_FIELDS) -> str:
    """The first of these fields with text, unchanged; a value that is a text itself."""
    if isinstance(value, str):
        return value
    name = _field_of(value, names)
    return value[name] if name else ""


def has_heading(value: Any) -> bool:
    """True if the first field with text is one that can stand above a text."""
    return _field_of(value, TEXT_FIELDS) in HEADING_FIELDS


def _field_of(value: Any, names: tuple[str, ...]) -> str:
    fields = value if isinstance(value, dict) else {}
    return next((name for name in names if _has_text(fields.get(name))), "")


def _has_text(text: object) -> bool:
    return isinstance(text, str) and text != "" and not text[:LABEL_LENGTH].isspace()


def body_of(value: Any, above: str) -> str:
    """The text of a value that the line above it does not say, or nothing."""
    texts = [value] if isinstance(value, str) else [text_of(value, (name,)) for name in BODY_FIELDS]
    if not text_of(value) and title_of(value) != above:
        texts = ["\n".join(_pairs(value))]
    bodies = map(paragraphs, texts)
    return next((body for body in bodies if body and not _repeats(body, above)), "")


def _repeats(body: str, title: str) -> bool:
    """True if a body of one line only repeats the title."""
    return "\n" not in body and one_line(body, BODY_LENGTH) == title


def differing_texts(values: Sequence[Any], no_text: str) -> list[str]:
    """Return the texts that tell values apart; empty ones if none does.

    They are the first text field that differs. If two values have the same text there, as with titles such as
    `FIRING: disk full`, the next field that tells more of them apart follows. Values without text show all fields.
    """
    chosen: list[list[str]] = []
    for name in TEXT_FIELDS:
        column = [joined_lines(text_of(value, (name,)), ITEM_LENGTH) for value in values]
        if _kinds(*chosen, column) > max(1, _kinds(*chosen)):
            chosen.append(column)
        if len(chosen) == MOST_TEXTS or (chosen and _kinds(*chosen) == len(values)):
            break
    if chosen:
        texts = [one_line(": ".join(filter(None, parts)), ITEM_LENGTH) for parts in zip(*chosen, strict=True)]
        return [text or title_of(value, no_text, ITEM_LENGTH) for text, value in zip(texts, values, strict=True)]
    titles = [] if any(map(text_of, values)) else [title_of(value, no_text, ITEM_LENGTH) for value in values]
    return titles if len(set(titles)) > 1 else [""] * len(values)


def _kinds(*columns: list[str]) -> int:
    """Return the number of different rows."""
    return len(set(zip(*columns, strict=True)))


def author_of(value: Any) -> str:
    """The name of the person that a value comes from, or nothing."""
    name = _author_field(value)
    return _person(value[name]) if name else ""


def _author_field(value: Any) -> str:
    fields = value if isinstance(value, dict) else {}
    return next((name for name in AUTHOR_FIELDS if name in fields and _person(fields[name])), "")


def _person(value: Any) -> str:
    return one_line(text_of(value, ("name",)), AUTHOR_LENGTH)


def link_of(value: Any) -> str:
    """The `url` of a value if it is a safe link, else nothing."""
    return safe_link(value.get("url")) if isinstance(value, dict) else ""


def safe_link(link: object) -> str:
    """The link if it leads to the web or to a mailbox, else nothing."""
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


def is_unsafe_link(name: str, text: str) -> bool:
    """Return True for a script in the form of a link, and for a field with a link that must not be followed."""
    text = text.lstrip()  # faster than the expressions, which try each blank
    scheme = _SCHEME.match(text)
    is_refused = name.lower().endswith(LINK_NAMES) and scheme and scheme[1].lower() not in LINK_SCHEMES
    return bool(is_refused or _SCRIPT.match(text))


def encodable(text: str) -> str:
    """A text without lone surrogates, which UTF-8 can't encode."""
    return _SURROGATE.sub("\ufffd", text)


def trimmed(value: Any, *, size: int = VALUE_SIZE) -> Any:
    """A value as plain data, cut to about `size` characters."""
    return _Trimmer(size).trim(value, depth=6)


class _Trimmer:
    def __init__(self, size: int) -> None:
        self._left = size

    def trim(self, value: Any, *, depth: int) -> Any:
        self._left -= 8  # each value costs something besides its text
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


def _pairs(value: Any) -> list[str]:
    """The fields of a value as "name: value", but for the author and the link, which are shown elsewhere."""
    if isinstance(value, dict):
        elsewhere = {_author_field(value), "url" if link_of(value) else ""}
        value = {name: each for name, each in islice(value.items(), MOST_PAIRS) if name not in elsewhere}
    return list(_leaves(trimmed(value, size=BODY_LENGTH), ""))


def _leaves(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if not is_private_name(name):
                yield from _leaves(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        text = ", ".join(leaf for each in value for leaf in _leaves(each, ""))
        yield from _leaves(text, path)
    elif value is not None and value != "" and not (isinstance(value, str) and holds_credentials(value)):
        text = value if isinstance(value, str) else json.dumps(value)
        yield f"{path}: {text}" if path else text


def _harmless_lines(text: str) -> list[str]:
    return _ODD_BLANKS.sub(" ", _harmless(text)).splitlines()


def _harmless(text: str) -> str:
    return encodable(_HARMFUL.sub("", text))
