"""One transaction: its cursor, its namespace, and the numbers that it draws."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from psycopg import Cursor as PgCursor

from digestif.core.damage import Damage
from digestif.core.tenants import Tenants
from digestif.errors import StoreError
from digestif.stores.damage import Unreadable
from digestif.stores.sqlfile import load_statements

T = TypeVar("T")

SQL = load_statements("digestif.stores.postgres", "statements.sql")
NUMBERS = 8  # fetched at once
READING = ("SELECT", "(SELECT")  # a statement that begins so writes nothing

encoded = msgspec.json.Encoder().encode


class Namespace(NamedTuple):
    """A namespace as the tables number it."""

    number: int
    table: int  # the oid of the table that gave the number
    writers: str  # the table that this transaction locks: its name says who may write


class OtherTables(StoreError):
    """The tables were dropped and created anew, with other numbers for namespaces. Nothing was changed."""


class Transaction:
    """The base of the view: it runs statements and draws numbers."""

    tenants = Tenants()

    def __init__(
        self, cursor: "PgCursor[Any]", namespace: Namespace, note_damage: Callable[[Damage], None], *, writes: bool
    ) -> None:
        self.note_damage = note_damage
        self._cursor = cursor
        self._namespace, self._table, _ = namespace
        self._writes = writes
        self._numbers: list[int] = []
        self._fresh: set[int] = set()  # numbers of this transaction: batches that were empty when it drew them
        self._has_written = False
        self._is_moving: bool | None = None  # not known yet
        self._id: str | None = None  # which the server gave it, once a statement has returned it

    def _execute(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> "PgCursor[Any]":
        self._has_written = self._has_written or not statement.startswith(READING)
        return self._cursor.execute(statement, arguments)

    def _save(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> None:
        """Run a statement that returns the id of the transaction if it changes a row."""
        row = self._execute(statement, arguments).fetchone()
        if row is not None:
            self._id = row[0]

    def id(self) -> str | None:
        """Return the id to ask the server about if the commit gets no answer; None if nothing was written."""
        if self._id is None and self._has_written:
            self._id = self._value(SQL.transaction_id)
        return self._id

    def _value(self, statement: str, *arguments: Any) -> Any:
        row = self._execute(statement, arguments).fetchone()
        return None if row is None else row[0]

    def is_moving(self) -> bool:
        if self._is_moving is None:
            self._is_moving = self.moving() is not None
        return self._is_moving

    def moving(self) -> str | None:
        moving = self._value(SQL.moving, self._namespace)
        return None if moving is None else bytes(moving).decode()

    def put_moving(self, moving: str | None) -> None:
        self._save(SQL.put_moving, (None if moving is None else moving.encode(), self._namespace))
        self._is_moving = moving is not None

    def refuse_other_tables(self, table: int) -> None:
        if table != self._table:
            raise OtherTables("the tables were made anew, again and again")

    def next_number(self) -> int:
        if not self._numbers:
            self._fetch_numbers(NUMBERS)
        number = self._numbers.pop()
        self._fresh.add(number)
        return number

    def _fetch_numbers(self, count: int) -> None:
        self._numbers = sorted(self._value(SQL.numbers, count), reverse=True)

    def sequence(self) -> int:
        number: int = self._value(SQL.sequence)
        return number

    def _unless_damaged(self, read: Callable[..., T], *arguments: Any) -> T | None:
        """Return what `read` makes of the arguments; if they are damaged, note that and return None."""
        try:
            return read(*arguments)
        except Unreadable as error:
            self.note_damage(error.damage)
            return None

    def _locking(self, statement: str) -> str:
        """Lock the rows if this transaction writes: it is about to replay, discard, delete or replace them."""
        return f"{statement} FOR UPDATE" if self._writes else statement


def in_schema(statement: str, schema: str, writers: str) -> str:
    """Return the statement with the name of the schema, and of the table that every transaction locks."""
    return statement.replace("{schema}", f'"{schema}"').replace("{writers}", writers)


def as_text(name: bytes) -> str:
    """Return a name; bytes that are not UTF-8 become lone surrogates."""
    return bytes(name).decode("utf-8", "surrogateescape")


def as_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
