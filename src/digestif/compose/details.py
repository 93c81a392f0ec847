"""Details: the scalar fields of a record's value besides its title, as names with short texts."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from digestif.compose.fields import Reader, reader
from digestif.compose.levels import KEY_FIELDS
from digestif.compose.phrases import enumerated
from digestif.compose.texts import BODY_FIELDS, ITEM_LENGTH, author_of, body_of, link_of, one_line, text_of, title_of
from digestif.core.records import Record
from digestif.core.secret import is_private_name
from digestif.core.texts import shortened
from digestif.errors import ConfigError

MOST_DETAILS = 8
MOST_COLUMNS = 4  # of a table: more do not fit on a phone
MOST_FIELDS = 100  # that are looked at in one value
MOST_RECORDS = 100  # that are looked at for hidden fields
NAME_LENGTH = 40
TEXT_LENGTH = 80
NO_DETAILS = frozenset((*BODY_FIELDS, *KEY_FIELDS))  # longer texts stand below titles, identifiers say nothing
LONG = 20  # characters of a text that is not repeated if it is a part of a line beside it
LARGEST_INTEGER = 64  # bits


@dataclass(frozen=True, slots=True)
class Detail:
    """A field as readers see it."""

    name: str
    text: str

    @property
    def line(self) -> str:
        return f"{self.name}: {self.text}"


class Details:
    """Which fields are shown: the chosen paths, in their order; by default every scalar field that may be shown.

    Raises ConfigError for paths that can't be read.
    """

    def __init__(self, chosen: Sequence[str] | None = None) -> None:
        self._chosen = None if chosen is None else _readers(chosen)

    def of(self, record: Record, *said: str) -> list[Detail]:
        """Return the details of a record. Texts that are `said` beside them are not repeated, unless chosen."""
        if self._chosen is not None:
            found = ((name, read([record])[0]) for name, read in self._chosen.items())
            return [_detail(name, value) for name, value in found if is_shown(value)][:MOST_DETAILS]
        if not text_of(record.value):  # then its title names all fields
            return []
        known = {one_line(text, ITEM_LENGTH) for text in said}
        return list(islice(_automatic(record.value, known), MOST_DETAILS))

    def hidden(self, records: Sequence[Record]) -> dict[str, str]:
        """Return the fields of records that readers do not see, each with the reason."""
        found: dict[str, str] = {}
        for record in records[:MOST_RECORDS]:
            found |= {name: why for name, why in self._hidden_of(record).items() if name not in found}
        return found

    def _hidden_of(self, record: Record) -> dict[str, str]:
        value, title = record.value, title_of(record.value)
        elsewhere = {title, author_of(value), body_of(value, title)}
        shown = {detail.name for detail in self.of(record, *elsewhere)}
        texts = {one_line(text, ITEM_LENGTH) for text in elsewhere}
        return {
            name: self._reason(name, each)
            for name, each in _fields(value)
            if one_line(name, NAME_LENGTH) not in shown and not _is_said(name, each, value, texts) and each is not None
        }

    def _reason(self, name: str, value: Any) -> str:
        if self._chosen is not None:
            return "details does not name it"
        if name.startswith("_"):
            return "its name begins with _"
        if is_private_name(name):
            return "its name looks like that of a secret"
        if isinstance(value, dict | list | tuple):
            return "it is not a single value; details can name a path into it"
        if name in NO_DETAILS:
            return "an identifier" if name in KEY_FIELDS else "a longer text, shown if its record stands alone"
        return f"more than {MOST_DETAILS} fields" if is_shown(value) else "it is empty or too large"


def is_shown(value: Any) -> bool:
    """Return True for a text, number or truth value that fits on a line."""
    if isinstance(value, str):
        return value[: 4 * TEXT_LENGTH].strip() != ""
    if isinstance(value, int):
        return value.bit_length() <= LARGEST_INTEGER
    return isinstance(value, float) and math.isfinite(value)


def details_line(details: Sequence[Detail]) -> str:
    return enumerated(*(detail.line for detail in details))


def columns_of(rows: Sequence[Sequence[Detail]]) -> list[str]:
    """Return the names that all rows share, if these make a small table; else nothing."""
    names = {tuple(detail.name for detail in row) for row in rows}
    shared = list(names.pop()) if len(names) == 1 and len(rows) > 1 else []
    return shared if len(shared) <= MOST_COLUMNS else []


def _automatic(value: Any, known: set[str]) -> Iterator[Detail]:
    for name, each in _fields(value):
        is_detail = name not in NO_DETAILS and not is_private_name(name) and is_shown(each)
        if is_detail and not _is_said(name, each, value, known):
            yield _detail(name, each)


def _is_said(name: str, field: Any, value: Any, known: set[str]) -> bool:
    if name == "url" and link_of(value):
        return True
    if not isinstance(field, str):
        return False
    text = one_line(field, TEXT_LENGTH).rstrip("…")
    return text in known or (len(text) >= LONG and any(text in each for each in known))


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    fields: Mapping[Any, Any] = value if isinstance(value, dict) else {}
    return ((str(name), each) for name, each in islice(fields.items(), MOST_FIELDS))


def _detail(name: str, value: Any) -> Detail:
    text = one_line(value, TEXT_LENGTH) if isinstance(value, str) else str(value).lower()
    return Detail(one_line(name, NAME_LENGTH), text)


def _readers(chosen: object) -> dict[str, Reader]:
    """Return a reader for each path, by the name that readers see: the last step, or the path if two end alike."""
    if not isinstance(chosen, list | tuple) or not all(isinstance(path, str) for path in chosen):
        raise ConfigError(f'details: {shortened(chosen)} is not a list of fields such as ["host", "labels.zone"]')
    if len(chosen) > MOST_DETAILS:
        raise ConfigError(f"details: {len(chosen)} fields, at most {MOST_DETAILS} are shown")
    ends = Counter(path.rpartition(".")[2] for path in chosen)
    names = {path: end if ends[end := path.rpartition(".")[2]] == 1 else path for path in chosen}
    return {names[path]: reader(path, "details") for path in chosen}
