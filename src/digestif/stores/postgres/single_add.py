"""The short way of a single add: look, decide, and save in one statement, provided that nobody came in between.

Three messages to the server instead of seven. The row's `xmin` tells whether the timeline was changed after the look:
whatever changes its records writes its row. What takes more, or comes too late, goes the long way, under a lock.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from psycopg import Cursor as PgCursor

from digestif.core.damage import Damage
from digestif.core.times import Millis
from digestif.stores.base import Accepted, Arrival
from digestif.stores.postgres.rows import SHARES, PostgresRows
from digestif.stores.postgres.slots import Loaded, read_slot
from digestif.stores.postgres.transaction import SQL, Namespace, encoded
from digestif.stores.rows.arrivals import add


class LongWay(Exception):
    """This add needs a transaction of several statements."""


class SingleAdd(PostgresRows):
    """A view of one timeline as a look showed it, without a lock."""

    def __init__(
        self, cursor: "PgCursor[Any]", namespace: Namespace, schema: str, note_damage: Callable[[Damage], None]
    ) -> None:
        super().__init__(cursor, namespace, note_damage, writes=True)
        self._statements = _statements(schema)
        self._written_by: str | None = None  # the transaction

    def _execute(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> "PgCursor[Any]":
        raise LongWay

    def look(self, arrival: Arrival, *, patience: float) -> None:
        """Ask how the timeline is; a transaction that stays idle for so many seconds is ended."""
        names = {"key": arrival.timeline.encode(), "record": arrival.key.encode()}
        milliseconds = str(round(patience * 1000))
        self._cursor.execute(self._statements.look, {"namespace": self._namespace, "patience": milliseconds, **names})

    def decide(self, arrival: Arrival, *, now: Millis) -> Accepted:
        """Make up one's mind after the look; the answer is that of `add`."""
        row = self._cursor.fetchone()
        assert row is not None
        _, version, self._written_by, body, batch, is_known, has_inbox, table, *numbers = row
        self.refuse_other_tables(table)
        slot = read_slot(arrival.timeline, body or b"")
        if slot.batch != batch or has_inbox:
            raise LongWay  # written in another way than ours; or others were before us
        self._loaded[arrival.timeline] = Loaded(version, slot)
        self._numbers = sorted((number for number in numbers if number is not None), reverse=True)
        if batch is not None:
            self._known[batch, arrival.key] = is_known
        return add(self, arrival, now=now)

    def save(self, channel: str | None) -> bool:
        """Write it all if the timeline is still what it was."""
        ((timeline, loaded),) = self._loaded.items()
        ((batch, key, arrival, timestamp, deadline, expires, payload),) = self._new.values()
        version, after = loaded.version, self.settle(loaded)
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
        statement = self._statements.begin
        if version is not None:
            statement = self._statements.go_on
            arguments |= {"version": version, "next": loaded.version, "written_by": self._written_by}
        row = self._cursor.execute(statement, arguments).fetchone()
        if row is not None:
            self._id = row[0]
        return row is not None


@cache
def _statements(schema: str) -> SimpleNamespace:
    """The statements, with the name of the schema: it takes a message to set a search path."""
    texts = {
        "look": SQL.look,
        "begin": f"WITH {SQL.single_insert}{SQL.single_rest}",
        "go_on": f"WITH {SQL.single_update}{SQL.single_rest}",
    }
    return SimpleNamespace(**{name: text.replace("{schema}", f'"{schema}"') for name, text in texts.items()})
