"""The short way of a single add: read the timeline, decide, and save in one statement, provided it has not changed.

It takes three messages to the server instead of seven. The row's `xmin` tells whether the timeline changed since it was
read: whatever changes its records writes its row. An add that needs more, or comes too late, goes the long way, under a
lock.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any

import psycopg
from psycopg import Cursor as PgCursor

from digestif.core.damage import Damage
from digestif.core.times import Millis
from digestif.stores.base import Accepted, Arrival
from digestif.stores.postgres.database import PostgresDatabase, commit
from digestif.stores.postgres.rows import SHARES, PostgresRows
from digestif.stores.postgres.slots import Loaded, read_slot
from digestif.stores.postgres.transaction import SQL, Namespace, encoded, in_schema
from digestif.stores.rows.arrivals import add

TRIES = 2  # other transactions may have been quicker


class LongWay(Exception):
    """This add needs a transaction of several statements."""


def add_single(
    database: PostgresDatabase, arrival: Arrival, note_damage: Callable[[Damage], None], *, now: Millis
) -> Accepted | None:
    """Add a record the short way; None if it has to go the long way."""

    def attempt(namespace: Namespace) -> Accepted | None:
        with database.open_pool().connection() as connection, connection.cursor(binary=True) as cursor:
            try:
                saved = save(cursor, namespace)
            except BaseException:
                connection.rollback()
                raise
            if saved is None:
                connection.rollback()
                return None
            transaction, answer = saved
            commit(connection, transaction, answer)
        return answer

    def save(cursor: "PgCursor[Any]", namespace: Namespace) -> tuple[str | None, Accepted] | None:
        """Return the id of the transaction, which is not committed yet, and the answer of the add."""
        for number in range(TRIES):
            view = SingleAdd(cursor, namespace, database.schema, note_damage)
            try:
                with _in_one_message(cursor.connection):
                    if number == 0:
                        cursor.execute("BEGIN")
                    view.look(arrival, patience=database.timeout)
                answer = view.decide(arrival, now=now)
            except (LongWay, psycopg.DataError):  # DataError: the batch of a damaged slot is not a number
                return None
            if view.save(database.notify_channel(namespace)):
                return view.id(), answer
        return None

    return database.retrying(attempt)


def _in_one_message(connection: "psycopg.Connection[Any]") -> AbstractContextManager[object]:
    """Send statements to the server together, if libpq can; their results are read afterwards."""
    return connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()


class SingleAdd(PostgresRows):
    """A view of one timeline as `look` read it, without a lock."""

    def __init__(
        self, cursor: "PgCursor[Any]", namespace: Namespace, schema: str, note_damage: Callable[[Damage], None]
    ) -> None:
        super().__init__(cursor, namespace, note_damage, writes=True)
        self._statements = _statements(schema, namespace.writers)
        self._written_by: str | None = None  # the transaction that wrote the row

    def _execute(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> "PgCursor[Any]":
        raise LongWay

    def look(self, arrival: Arrival, *, patience: float) -> None:
        """Read the timeline; the server ends the transaction if it stays idle for so many seconds."""
        names = {"key": arrival.timeline.encode(), "record": arrival.key.encode()}
        milliseconds = str(round(patience * 1000))
        self._cursor.execute(self._statements.look, {"namespace": self._namespace, "patience": milliseconds, **names})

    def decide(self, arrival: Arrival, *, now: Millis) -> Accepted:
        """Add the record in memory, after `look`; the answer is that of `add`."""
        row = self._cursor.fetchone()
        assert row is not None
        _, version, self._written_by, body, batch, _, is_known, has_inbox, table, self._is_moving, *numbers = row
        self.refuse_other_tables(table)
        slot = read_slot(arrival.timeline, body or b"")
        if slot.batch != batch or has_inbox or (slot.override is not None and slot.override.off):
            raise LongWay  # another program wrote the slot; records in the inbox come first; or nothing is accepted
        self._loaded[arrival.timeline] = Loaded(version, slot)
        self._numbers = sorted((number for number in numbers if number is not None), reverse=True)
        if batch is not None:
            self._known[batch, arrival.key] = is_known
        return add(self, arrival, now=now)

    def save(self, channel: str | None) -> bool:
        """Write record, slot and counters, unless the timeline has changed since `look`: then return False."""
        ((timeline, loaded),) = self._loaded.items()
        ((batch, key, arrival, timestamp, deadline, expires, payload),) = self._new.values()
        version, after = loaded.version, self.index_times(loaded)
        slot = {**after._asdict(), "slot": encoded(loaded.slot)}
        record = {"batch": batch, "record": key, "arrival": arrival, "timestamp": timestamp, "payload": payload}
        fate = {"pending_more": self.tally["pending"], "superseded": self.tally["superseded"]}
        arguments = {
            **slot,
            **record,
            **fate,
            "deadline": deadline,
            "record_expires": expires,
            "namespace": self._namespace,
            "key": timeline.encode(),
            "shares": SHARES,
            "channel": channel if self.woken else None,
        }
        statement = self._statements.insert
        if version is not None:
            statement = self._statements.update
            arguments |= {"version": version, "next": loaded.version, "written_by": self._written_by}
        row = self._cursor.execute(statement, arguments).fetchone()
        if row is not None:
            self._id = row[0]
        return row is not None


@cache
def _statements(schema: str, writers: str) -> SimpleNamespace:
    """Return the statements with the names of the schema and of the table that every transaction locks.

    To set a search path would take a message, and so would a statement that locks.
    """
    texts = {
        "look": SQL.look,
        "insert": f"WITH {SQL.single_insert}{SQL.single_rest}",
        "update": f"WITH {SQL.single_update}{SQL.single_rest}",
    }
    return SimpleNamespace(**{name: in_schema(text, schema, writers) for name, text in texts.items()})
