"""Columns of a batch as PostgreSQL's own binary arrays.

The driver writes arrays as text, item by item, which is several times the work for both sides. It also chooses their
type by the numbers in them, so that the same statement is prepared over and over.
"""

import struct
from collections.abc import Sequence
from typing import Any, ClassVar

from psycopg.adapt import AdaptersMap, Dumper
from psycopg.postgres import adapters
from psycopg.pq import Format

_HEAD = struct.Struct(">iiIii")  # dimensions, has nulls, type of an item, number of items, first index
_NULL = b"\xff\xff\xff\xff"


class Column:
    """Items of one type; each may be None."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items


class Bigints(Column):
    __slots__ = ()


class Doubles(Column):
    __slots__ = ()


class Byteas(Column):
    __slots__ = ()


class _BigintsDumper(Dumper):
    format = Format.BINARY
    oid = 1016
    item: ClassVar[int] = 20
    code: ClassVar[str] = "q"

    def dump(self, obj: Column) -> bytes:
        return _head(self.item, obj.items) + _eight_bytes_each(self.code, obj.items)


class _DoublesDumper(_BigintsDumper):
    oid = 1022
    item = 701
    code = "d"


class _ByteasDumper(Dumper):
    format = Format.BINARY
    oid = 1001

    def dump(self, obj: Byteas) -> bytes:
        items = [_NULL if item is None else len(item).to_bytes(4, "big") + item for item in obj.items]
        return _head(17, obj.items) + b"".join(items)


def _head(item: int, items: Sequence[Any]) -> bytes:
    return _HEAD.pack(1, None in items, item, len(items), 1)


def _eight_bytes_each(code: str, items: Sequence[float | None]) -> bytes:
    if None in items:
        one = struct.Struct(f">i{code}")
        return b"".join([_NULL if item is None else one.pack(8, item) for item in items])
    sized: list[Any] = [8] * (2 * len(items))
    sized[1::2] = items
    return struct.pack(">" + f"i{code}" * len(items), *sized)


def register_columns(adapters: AdaptersMap) -> None:
    """Let psycopg send these types."""
    adapters.register_dumper(Bigints, _BigintsDumper)
    adapters.register_dumper(Doubles, _DoublesDumper)
    adapters.register_dumper(Byteas, _ByteasDumper)


COLUMNS = AdaptersMap(adapters)  # the driver's own types, and these
register_columns(COLUMNS)


def in_columns(rows: Sequence[tuple[Any, ...]], kinds: Sequence[type[Column]]) -> list[Column]:
    """Turn rows into columns of these kinds."""
    return [kind(items) for kind, items in zip(kinds, zip(*rows, strict=True), strict=True)]
