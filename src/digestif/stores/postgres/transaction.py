"""One transaction: its cursor, whose rows it is about, and the numbers that it draws."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from psycopg import Cursor as PgCursor

from digestif.core.damage import Damage
from digestif.errors import StoreError
from digestif.stores.postgres.arrays import Column
from digestif.stores.sqlfile import load_statements

SQL = load_statements("digestif.stores.postgres", "statements.sql")
ENOUGH = 8  # numbers that are fetched with the first
READING = ("SELECT", "(SELECT")  # how statements begin that write nothing

encoded = msgspec.json.Encoder().encode


class Namespace(NamedTuple):
    """Whose rows they are."""

    number: int
    table: int  # in which it has that number, by the number of the table


class OtherTables(StoreError):
    """The schema was made anew: numbers of namespaces are others there. Nothing was changed."""


class Transaction:
    """What all parts of the view share."""

    def __init__(
        self, cursor: "PgCursor[Any]", namespace: Namespace, note_damage: Callable[[Damage], None], *, writes: bool
    ) -> None:
        self.note_damage = note_damage
        self._cursor = cursor
        self._namespace, self._table = namespace
        self._writes = writes
        self._numbers: list[int] = []
        self._fresh: set[int] = set()  # numbers of this transaction: batches in which nobody has looked for anything
        self._has_written = False
        self._id: str | None = None  # by which the server knows it, once a statement has told

    def _execute(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> "PgCursor[Any]":
        self._has_written = self._has_written or not statement.startswith(READING)
        return self._cursor.execute(statement, arguments)

    def _save(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> None:
        """Run a statement that returns the id of the transaction, if it finds what it is to change."""
        row = self._execute(statement, arguments).fetchone()
        if row is not None:
            self._id = row[0]

    def id(self) -> str | None:
        """What the server can be asked about, should the commit get no answer; None if nothing was written."""
        if self._id is None and self._has_written:
            self._id = self._value(SQL.transaction_id)
        return self._id

    def _value(self, statement: str, *arguments: Any) -> Any:
        row = self._execute(statement, arguments).fetchone()
        return None if row is None else row[0]

    def refuse_other_tables(self, table: int) -> None:
        if table != self._table:
            raise OtherTables("the tables were made anew, again and again")

    def next_number(self) -> int:
        if not self._numbers:
            self._fetch_numbers(ENOUGH)
        number = self._numbers.pop()
        self._fresh.add(number)
        return number

    def _fetch_numbers(self, count: int) -> None:
        self._numbers = sorted(self._value(SQL.numbers, count), reverse=True)

    def sequence(self) -> int:
        number: int = self._value(SQL.sequence)
        return number

    def _own(self, statement: str) -> str:
        """What is about to be replayed, discarded, deleted or noted anew is nobody else's."""
        return f"{statement} FOR UPDATE" if self._writes else statement


def as_text(name: bytes) -> str:
    """A name; bytes that are not UTF-8 become lone surrogates."""
    return bytes(name).decode("utf-8", "surrogateescape")


def as_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def in_columns(rows: Sequence[tuple[Any, ...]], kinds: Sequence[type[Column]]) -> list[Column]:
    return [kind(items) for kind, items in zip(kinds, zip(*rows, strict=True), strict=True)]
