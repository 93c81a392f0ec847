"""Details: the scalar fields of a record's value besides its title, as names with short texts."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import Any

from digestif.compose.fields import Reader, reader
from digestif.compose.levels import KEY_FIELDS
from digestif.compose.phrases import enumerated
from digestif.compose.texts import (
    BODY_FIELDS,
    ITEM_LENGTH,
    author_of,
    body_of,
    is_unsafe_link,
    link_of,
    one_line,
    safe_link,
    text_of,
    title_of,
)
from digestif.core.records import Record
from digestif.core.secret import holds_credentials, is_internal_name, is_secret_name
from digestif.core.texts import shortened
from digestif.errors import ConfigError

MOST_DETAILS = 8
MOST_COLUMNS = 4  # of a table: more do not fit on a phone
MOST_FIELDS = 100  # that are looked at in one value
NAME_LENGTH = 40
LONGEST_NAME = 1000
TEXT_LENGTH = 80
LINK_LENGTH = 200  # a link that is cut leads nowhere in plain text
LONG = 20  # characters of a text that is not repeated if it is a part of a line beside it
LARGEST_INTEGER = 64  # bits
LONGER_TEXT = "a longer text, shown if its record stands alone"


@dataclass(frozen=True, slots=True)
class Detail:
    """A field as readers see it."""

    name: str
    text: str
    url: str = ""  # the text as a link, if it is a safe one

    @property
    def line(self) -> str:
        return f"{self.name}: {self.text}"


@dataclass(frozen=True, slots=True)
class Beside:
    """What a digest of several records shows of one of them."""

    texts: frozenset[str]
    names: frozenset[str]  # of details


class Details:
    """Which fields are shown: the chosen paths, in their order; by default every scalar field that may be shown.

    Raises ConfigError for paths that can't be read.
    """

    def __init__(self, chosen: Sequence[str] | None = None) -> None:
        self._chosen = None if chosen is None else _readers(chosen)
        self._named = frozenset(path.partition(".")[0] for path in chosen or ())

    def of(self, record: Record, *said: str) -> list[Detail]:
        """Return the details of a record. Texts that are `said` beside them are not repeated, unless chosen."""
        if not text_of(record.value):  # then its title names all fields
            return []
        if self._chosen is not None:
            return list(self._choice(record))
        known = {one_line(text, ITEM_LENGTH) for text in said}
        return list(islice(_automatic(record.value, known), MOST_DETAILS))

    def repeat(self, record: Record, text: str) -> bool:
        """Return True if a text is among the details that are chosen."""
        return any(detail.text == _text(text, TEXT_LENGTH) for detail in self._choice(record))

    def _choice(self, record: Record) -> Iterator[Detail]:
        for name, read in (self._chosen or {}).items():
            value = _joined(read([record])[0])
            if is_shown(value) and not (isinstance(value, str) and is_unsafe_link(name, value)):
                yield _detail(name, value)

    def hidden(self, record: Record, beside: Beside | None = None) -> dict[str, str]:
        """Return the fields that readers of a record do not see, each with the reason; by default it stands alone."""
        fields = {name: value for name, value in _fields(record.value) if value is not None}
        if not text_of(record.value):  # only what the title leaves out
            return {name: why for name, value in fields.items() if (why := _private_reason(name, value))}
        said = beside.texts if beside else _said(record)
        shown = self._named | (beside.names if beside else {detail.name for detail in self.of(record, *said)})
        return {
            name: self._why_hidden(name, value, beside)
            for name, value in fields.items()
            if not {name, one_line(name, NAME_LENGTH)} & shown and not _is_said(name, value, record.value, said)
        }

    def _why_hidden(self, name: str, value: Any, beside: Beside | None) -> str:
        if self._chosen is not None:
            return "details does not name it"
        reason = _reason(name, value)
        if reason == LONGER_TEXT and not beside:
            return "another longer text is shown"
        if not reason and beside and len(beside.names) < MOST_DETAILS:
            return "shown where its record is listed by itself and there is room"
        return reason or f"more than {MOST_DETAILS} fields"


def is_shown(value: Any) -> bool:
    """Return True for a text, number or truth value that fits on a line."""
    if isinstance(value, str):
        return value[: 4 * TEXT_LENGTH].strip() != ""
    if isinstance(value, int):
        return value.bit_length() <= LARGEST_INTEGER
    return isinstance(value, float) and math.isfinite(value)


def details_line(details: Sequence[Detail]) -> str:
    return enumerated(*(detail.line for detail in details))


def columns_of(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the names that all rows share, if these make a small table; else nothing."""
    names = set(map(tuple, rows))
    shared = list(names.pop()) if len(names) == 1 and len(rows) > 1 else []
    return shared if len(shared) <= MOST_COLUMNS else []


def _automatic(value: Any, known: set[str]) -> Iterator[Detail]:
    for name, each in _fields(value):
        if not _reason(name, each) and not _is_said(name, each, value, known):
            yield _detail(name, each)


def _reason(name: str, value: Any) -> str:
    """Return why a field is not shown unless it is chosen; nothing if it is."""
    if len(name) > LONGEST_NAME:  # it takes long to look for a secret in it
        return "its name is too long"
    if private := _private_reason(name, value):
        return private
    if isinstance(value, dict | list | tuple):
        return "it is not a single value; details can name a path into it"
    if name in KEY_FIELDS:
        return "an identifier"
    if name in BODY_FIELDS:
        return LONGER_TEXT
    if isinstance(value, str) and is_unsafe_link(name, value):
        return "an unsafe link"
    return "" if is_shown(value) else "it is empty or too large"


def _private_reason(name: str, value: Any) -> str:
    if is_internal_name(name):
        return "its name begins with _"
    if is_secret_name(name):
        return "its name looks like that of a secret"
    is_open = isinstance(value, str) and holds_credentials(value)
    return "an address with a password in it" if is_open else ""


def _is_said(name: str, field: Any, value: Any, known: AbstractSet[str]) -> bool:
    if name == "url" and link_of(value):
        return True
    text = author_of({"by": field}) if isinstance(field, dict) else _text(field, TEXT_LENGTH).rstrip("…")
    return text in known or (len(text) >= LONG and any(text in each for each in known))


def _said(record: Record) -> set[str]:
    """Return the texts that a message with only this record shows besides its details."""
    title = title_of(record.value)
    texts = (title, author_of(record.value), body_of(record.value, title))
    return {one_line(text, ITEM_LENGTH) for text in texts if text}


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    fields: Mapping[Any, Any] = value if isinstance(value, dict) else {}
    return ((str(name), each) for name, each in islice(fields.items(), MOST_FIELDS) if one_line(str(name)))


def _detail(name: str, value: Any) -> Detail:
    url = safe_link(value)
    return Detail(one_line(name, NAME_LENGTH), _text(value, LINK_LENGTH if url else TEXT_LENGTH), url)


def _text(value: Any, length: int) -> str:
    if isinstance(value, str):
        return one_line(value, length)
    return str(value).lower() if is_shown(value) else ""  # true and false, as JSON writes them


def _joined(value: Any) -> Any:
    """Return the short texts and numbers of a list as one text; other values as they are."""
    if not isinstance(value, list | tuple):
        return value
    return ", ".join(_text(each, TEXT_LENGTH) for each in value[:MOST_FIELDS] if is_shown(each))


def _readers(chosen: object) -> dict[str, Reader]:
    """Return a reader for each path, by the name that readers see: the last step, or the path if two end alike."""
    if not isinstance(chosen, list | tuple) or not all(isinstance(path, str) for path in chosen):
        raise ConfigError(f'details: {shortened(chosen)} is not a list of fields such as ["host", "labels.zone"]')
    if len(chosen) > MOST_DETAILS:
        raise ConfigError(f"details: {len(chosen)} fields, at most {MOST_DETAILS} are shown")
    ends = Counter(path.rpartition(".")[2] for path in chosen)
    names = {path: end if ends[end := path.rpartition(".")[2]] == 1 else path for path in chosen}
    return {names[path]: reader(path, "details") for path in chosen}
