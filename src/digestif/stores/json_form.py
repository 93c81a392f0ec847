"""The JSON form of values: what standard types and models are stored as, by the table in docs/reference/values.md."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from digestif.core.records import VALUE_DEPTH, Record
from digestif.core.texts import reason_of, shortened, shortened_text
from digestif.errors import InvalidRecord

PATH_LENGTH = 200  # characters in a message

_Known = dict[int, tuple[object, Any]]  # by identity: a part, and its JSON form

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def json_form(value: object) -> Any:
    """A value as text, numbers, booleans, None, lists and dicts. InvalidRecord, with the path, for what has none."""
    try:
        return _form(value, _Place(None, "value", 0, {}))
    except RecursionError as error:  # a model whose dump is a model, and so on
        raise InvalidRecord(f"value: {shortened(value)} is nested too deep to be turned into JSON") from error


class _Place:
    """Where a part of a value is. Its text is made only for a message."""

    __slots__ = ("depth", "known", "outer", "step")

    def __init__(self, outer: "_Place | None", step: str | int, depth: int, known: "_Known") -> None:
        self.outer = outer
        self.step = step
        self.depth = depth
        self.known = known

    def inside(self, step: str | int) -> "_Place":
        return _Place(self, step, self.depth + 1, self.known)

    def __str__(self) -> str:
        steps: list[str] = []
        place: _Place | None = self
        while place is not None:
            steps.append(_written(place.step) if place.outer else str(place.step))
            place = place.outer
        return shortened_text("".join(reversed(steps)), PATH_LENGTH)


def _written(step: str | int) -> str:
    return f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{shortened(step)}]"


def _form(value: Any, place: _Place) -> Any:
    if place.depth > VALUE_DEPTH:
        raise InvalidRecord(f"{place}: nested deeper than {VALUE_DEPTH} levels, which are allowed")
    real = type(value)  # not `__class__`, which proxies have from what they stand for
    if issubclass(real, Enum):
        return _form(value.value, place)
    if value is None or issubclass(real, bool | int | float | str):
        return _scalar(value, place)
    known = place.known.get(id(value))  # parts that a value shares would otherwise be turned into JSON again and again
    if known is None:
        place.known[id(value)] = known = (value, _form_of_object(value, place))
    return known[1]


def _form_of_object(value: Any, place: _Place) -> Any:
    real = type(value)
    for kind, convert in _CONVERSIONS:
        if issubclass(real, kind):
            return convert(value, place)
    parts = _parts(value, place)
    if parts is None:
        raise InvalidRecord(
            f"{place}: {shortened(value)}, of the class {_name_of(real)}, has no JSON form; give text (str(…) of a "
            "lazy one), a number, a list, a dict or a dataclass, or an engine with a codec of your own"
        )
    return _form(parts, place)


def _name_of(kind: type) -> str:
    return shortened_text(f"{kind.__module__}.{kind.__qualname__}", PATH_LENGTH)


def _scalar(value: Any, place: _Place) -> Any:
    """A plain value of the exact type, if it reads back equal."""
    if value is None or isinstance(value, bool):
        return value
    kind = next(kind for kind in _EXACT if isinstance(value, kind))
    plain = _EXACT[kind](value)  # not by its own methods, if it is of a subclass
    try:
        same = _decode(_encode(plain)) == plain
    except Exception as error:
        raise InvalidRecord(
            f"{place}: {shortened(value)} can't be encoded: {reason_of(error)}; {_ADVICE[kind]}"
        ) from error
    if not same:
        raise InvalidRecord(f"{place}: {shortened(value)} would not read back equal; {_ADVICE[kind]}")
    return plain


_EXACT: dict[type, Callable[[Any], Any]] = {int: int.__int__, float: float.__float__, str: str.__str__}
_ADVICE: dict[type, str] = {
    float: "JSON has neither NaN nor infinities: give None or text",
    int: "give text",
    str: "give valid text",
}


# Times and numbers


def _instant(value: datetime, place: _Place) -> str:
    if value.utcoffset() is None:
        raise InvalidRecord(
            f"{place}: {shortened(value)} has no time zone, so it is no certain time; "
            "give one: value.replace(tzinfo=UTC), or value.astimezone() for the zone of this machine"
        )
    text = value.isoformat()
    return text.removesuffix("+00:00") + "Z" if value.tzinfo is UTC or text.endswith("+00:00") else text


def _iso(value: date | time, _: _Place) -> str:
    return value.isoformat()


def _seconds(value: timedelta, _: _Place) -> float:
    return value.total_seconds()


def _decimal(value: Decimal, place: _Place) -> str:
    if not value.is_finite():
        raise InvalidRecord(f"{place}: {shortened(value)} is not a finite number; give None or text")
    return str(value)


def _text(value: UUID, _: _Place) -> str:
    return str(value)


def _refuse_bytes(value: bytes, place: _Place) -> Any:
    raise InvalidRecord(f"{place}: {shortened(value)} is bytes, which JSON has not; decode them, or give base64 text")


def _refuse_record(value: Record, place: _Place) -> Any:
    raise InvalidRecord(f"{place}: {shortened(value)} is a Record inside of a value; give its value")


# Containers: what they hold, whatever the methods of a subclass say


def _dict(value: dict[Any, Any], place: _Place) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, part in dict.items(value):
        if not isinstance(key, str):
            raise InvalidRecord(f"{place}: its key {shortened(key)} is not text; make it text, str(key)")
        name = _scalar(key.value if isinstance(key, Enum) else key, place)
        if name in found:
            raise InvalidRecord(f"{place}: two of its keys are {shortened(name)}; give each its own text")
        found[name] = _form(part, place.inside(name))
    return found


def _list(value: Any, place: _Place) -> list[Any]:
    kind = next(kind for kind in _ITERATORS if isinstance(value, kind))
    return [_form(part, place.inside(number)) for number, part in enumerate(_ITERATORS[kind](value))]


_ITERATORS: dict[type, Callable[[Any], Iterator[Any]]] = {kind: kind.__iter__ for kind in (list, tuple, set, frozenset)}


def _set(value: Any, place: _Place) -> list[Any]:
    """Sorted, so that equal sets are stored alike."""
    items = _list(value, place)
    try:
        return sorted(items)
    except TypeError:  # of several types
        return sorted(items, key=_encode)


_CONVERSIONS: tuple[tuple[Any, Callable[[Any, _Place], Any]], ...] = (
    (Record, _refuse_record),
    (dict, _dict),
    ((list, tuple), _list),
    ((set, frozenset), _set),
    (datetime, _instant),  # before date, of which it is a kind
    ((date, time), _iso),
    (timedelta, _seconds),
    (Decimal, _decimal),
    (UUID, _text),
    ((bytes, bytearray, memoryview), _refuse_bytes),
)


# Models: recognised by their protocols, so that none of their packages is needed


def _parts(value: Any, place: _Place) -> dict[str, Any] | list[Any] | None:
    """The fields of a model; None for any other object."""
    kind = type(value)
    if isinstance(value, type):
        return None
    try:
        if callable(getattr(kind, "model_dump", None)):
            return value.model_dump()  # type: ignore[no-any-return]  # of pydantic
        if isinstance(value, msgspec.Struct):
            return _struct(value)
        if is_dataclass(kind):
            return {field.name: getattr(value, field.name) for field in fields(kind)}
        if hasattr(kind, "__attrs_attrs__"):
            return {field.name: getattr(value, field.name) for field in kind.__attrs_attrs__}
    except Exception as error:
        raise InvalidRecord(f"{place}: {kind.__name__} can't be turned into JSON: {reason_of(error)}") from error
    return None


def _struct(value: msgspec.Struct) -> dict[str, Any] | list[Any]:
    """Fields under the names that the struct is encoded with, its tag first."""
    config = value.__struct_config__
    names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    found = {encoded: getattr(value, name) for encoded, name in names}
    given = {name: part for name, part in found.items() if part is not msgspec.UNSET}
    tag = {} if config.tag is None else {config.tag_field or "type": config.tag}
    return [*tag.values(), *found.values()] if config.array_like else {**tag, **given}
