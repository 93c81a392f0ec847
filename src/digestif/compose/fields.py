"""Fields of records: reading a value, comparing it with others, writing it as one line, and cutting it.

Values may come from attackers. The work is bounded by a value's size, and results are short.
"""

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec

from digestif.core.hooks import check_hook
from digestif.core.records import Record
from digestif.core.texts import did_you_mean, shortened
from digestif.errors import ConfigError

Field = str | Callable[[Record], Any]
Reader = Callable[[Sequence[Record]], list[Any]]
Identity = str | tuple[str, str | int] | None

LABEL_LENGTH = 100
VALUE_LENGTH = 2_000  # characters of a bounded value, roughly
VALUE_DEPTH = 8
RANK_OPTIONS = ("by", "order")

UNREADABLE: Any = object()  # the value of a field whose callable raised
OTHER = "other"  # the label of None
EMPTY = "(empty)"

_LONGEST_INDEX = 9  # digits
_LARGEST_INTEGER = 128  # bits; Python refuses to write very large ones
_EACH = 8  # characters that each value costs besides its text
_JOINERS = "\u200c\u200d"  # emoji and several scripts need them, and they reorder nothing

_canonical = msgspec.json.Encoder(order="deterministic").encode


# Reading


def reader(field: Field, option: str) -> Reader:
    """A function that reads a field of records: None if a path leads nowhere, UNREADABLE if a callable raises.

    Raises ConfigError, with the option's name, for a field that is neither a path nor a callable that takes a record.
    """
    if callable(field):
        check_hook(option, field, "record")
        return partial(_call, field)
    if not isinstance(field, str):
        raise ConfigError(f"{option}: {shortened(field)} is neither a path such as 'user.id' nor a callable")
    steps = tuple(field.split("."))
    if not all(steps):
        raise ConfigError(f"{option}: the path {shortened(field)} has an empty step; write it like 'user.id'")
    return partial(_follow, steps)


def _call(field: Callable[[Record], Any], records: Sequence[Record]) -> list[Any]:
    values: list[Any] = []
    for record in records:
        try:
            values.append(field(record))
        except Exception:  # noqa: BLE001  # users' code may raise anything; one record must not stop a digest
            values.append(UNREADABLE)
    return values


def _follow(steps: tuple[str, ...], records: Sequence[Record]) -> list[Any]:
    """Take each step for all records, in half the time of taking all steps for each record."""
    values = [record.value for record in records]
    for step in steps:
        values = [value.get(step) if type(value) is dict else _inside(value, step) for value in values]
    return values


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if not isinstance(value, (list, tuple)) or not (step.isascii() and step.isdigit() and len(step) <= _LONGEST_INDEX):
        return None
    index = int(step)
    return value[index] if index < len(value) else None


def rank_reader(weight: Mapping[str, Any]) -> Reader:
    """Return a function that weighs records by a field, such as `{"by": "severity", "order": ["critical", "info"]}`.

    The first value of the order weighs most, values that are not in it weigh 0. Case makes no difference.
    """
    for name in weight:
        if name not in RANK_OPTIONS:
            raise ConfigError(f"weight: {shortened(name)}: unknown{did_you_mean(str(name), list(RANK_OPTIONS))}")
    field, order = weight.get("by"), weight.get("order")
    if not isinstance(field, str) or not isinstance(order, list | tuple) or not order:
        raise ConfigError(
            f'weight: {shortened(dict(weight))} is not like {{"by": "severity", "order": ["critical", "warning"]}}'
        )
    ranks = {_comparable(value): place for place, value in enumerate(reversed(order), 1)}
    return partial(_rank, reader(field, "weight: by"), ranks)


def _rank(read: Reader, ranks: Mapping[str, int], records: Sequence[Record]) -> list[int]:
    return [ranks.get(_comparable(value), 0) for value in read(records)]


def _comparable(value: Any) -> str:
    return label_of(value).casefold()


# Comparing


def identity(value: Any) -> Identity:
    """A hashable key, equal for values with the same JSON in any order of keys; 1, 1.0, true and "1" all differ.

    Raises an exception for a value that JSON can't express.
    """
    if value is None or type(value) is str:
        return value  # texts of any length: Python caches their hashes
    if type(value) is int:
        return "int", value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, int):
        return "int", int(value)
    if isinstance(value, float):
        return "float", float.__repr__(value)
    body = _canonical(value)
    if len(body) <= LABEL_LENGTH:
        return "json", body.decode()
    return "hash", blake2b(body, digest_size=20).hexdigest()


# Labels


def label_of(value: Any) -> str:
    """A value as a short line, without characters that break the line or reorder the text around it."""
    if value is None:
        return OTHER
    text = value if isinstance(value, str) else _text_of(value)
    if len(text) <= LABEL_LENGTH and text.isascii() and text.isprintable():
        return text.strip() or EMPTY
    start = text[: 4 * LABEL_LENGTH]  # enough, unless the text begins with many blanks
    line = " ".join("".join(map(_harmless, start)).split())
    if len(line) > LABEL_LENGTH or len(text) > len(start):
        return line[: LABEL_LENGTH - 1].rstrip(" " + _JOINERS) + "…"
    return line if line.strip(_JOINERS) else EMPTY


def _harmless(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cf":  # marks of direction, invisible characters
        return character if character in _JOINERS else ""
    if category == "Cs" or (category == "Cc" and not character.isspace()):
        return "\ufffd"
    return character


def _text_of(value: Any) -> str:
    if type(value) is int and value.bit_length() <= _LARGEST_INTEGER:
        return str(value)
    if isinstance(value, float):
        return float.__repr__(value)
    try:
        body = _canonical(value)
    except Exception:  # noqa: BLE001  # a label must not make a digest fail
        return shortened(value, LABEL_LENGTH)
    text = body[: 16 * LABEL_LENGTH].decode("utf-8", "ignore")
    return text.strip('"') if text.startswith('"') else text  # a date, say


# Cutting


def bounded(value: Any) -> Any:
    """A value that JSON can express: unchanged if small, else its beginning, with a … where something is missing."""
    return _Cutter(VALUE_LENGTH).cut(value, VALUE_DEPTH)


class _Cutter:
    """Cuts values to a number of characters in all."""

    def __init__(self, left: int) -> None:
        self._left = left

    def cut(self, value: Any, depth: int) -> Any:
        self._left -= _EACH
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return _number(value)
        if not isinstance(value, dict | list | tuple):
            return self._text(label_of(value))
        if depth == 0:
            return "…"
        return self._dict(value, depth - 1) if isinstance(value, dict) else self._list(value, depth - 1)

    def _text(self, text: str) -> str:
        start = text[: max(self._left, 0)]
        self._left -= len(start)
        return start.encode("utf-8", "replace").decode() + ("…" if len(text) > len(start) else "")

    def _dict(self, values: dict[Any, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, value in values.items():
            if self._left <= 0:
                kept["…"] = len(values) - len(kept)
                break
            name = self._text(key if isinstance(key, str) else label_of(key))
            kept[name] = self.cut(value, depth)
        return kept

    def _list(self, values: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        kept: list[Any] = []
        for value in values:
            if self._left <= 0:
                kept.append("…")
                break
            kept.append(self.cut(value, depth))
        return kept


def _number(value: float) -> Any:
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _LARGEST_INTEGER else label_of(value)
    return float(value) if math.isfinite(value) else None
