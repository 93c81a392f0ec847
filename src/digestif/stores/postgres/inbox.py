"""The inbox: records added inside the caller's own transaction, without locks that other transactions wait for."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, LiteralString, NamedTuple

import msgspec
import psycopg
from msgspec.structs import replace

from digestif.core.capacity import Stored
from digestif.core.damage import LOST_AND_FOUND, Damage
from digestif.core.machine import Unfinished
from digestif.core.records import check_record_key, check_stored_timestamp, check_timeline, check_within
from digestif.core.terms import Terms
from digestif.core.texts import LONGEST_TEXT, shortened
from digestif.core.times import LONGEST, Millis, to_millis, to_seconds
from digestif.errors import InvalidRecord
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_BYTES, Arrival
from digestif.stores.damage import UNDECODABLE, Unreadable
from digestif.stores.postgres.arrays import Bigints, Byteas, Doubles, in_columns, register_columns
from digestif.stores.postgres.callers import async_driver_connection, driver_connection
from digestif.stores.postgres.rows import PostgresRows
from digestif.stores.postgres.transaction import SQL, Namespace, in_schema
from digestif.stores.rows import NEVER
from digestif.stores.rows.arrivals import add
from digestif.stores.rows.endings import letter_of

COLUMNS = (Byteas, Byteas, Doubles, Byteas, Bigints, Byteas)

_encode = msgspec.json.Encoder().encode
_terms = msgspec.json.Decoder(Terms).decode

UNREADABLE = (InvalidRecord, *UNDECODABLE)
LONGEST_WAIT = to_millis(LONGEST)


Statement = tuple[LiteralString, Sequence[Any]]


def put(connection: Any, schema: str, namespace: Namespace, channel: str | None, batch: Sequence[Arrival]) -> None:
    """Append records on the caller's connection. When the caller commits, they exist and the channel is notified."""
    # The connection's own cursors may use other placeholders.
    with psycopg.Cursor(driver_connection(connection)) as cursor:
        register_columns(cursor.adapters)  # as text, the server would read values by the settings of the connection
        for statement, values in _statements(schema, namespace, channel, batch):
            cursor.execute(statement, values)


async def put_async(
    connection: Any, schema: str, namespace: Namespace, channel: str | None, batch: Sequence[Arrival]
) -> None:
    """The same on a connection that awaits."""
    async with psycopg.AsyncCursor(await async_driver_connection(connection)) as cursor:
        register_columns(cursor.adapters)
        for statement, values in _statements(schema, namespace, channel, batch):
            await cursor.execute(statement, values)


def _statements(
    schema: str, namespace: Namespace, channel: str | None, batch: Sequence[Arrival]
) -> Iterator[Statement]:
    rows = [(a.timeline.encode(), a.key.encode(), a.timestamp, a.payload, a.within, _encode(a.terms)) for a in batch]
    into_inbox = in_schema(SQL.put_into_inbox, schema, namespace.writers)
    yield into_inbox, (namespace.number, *in_columns(rows, COLUMNS))
    if channel is not None:
        yield SQL.wake, (channel,)


class Folded(NamedTuple):
    """What became of a page of the inbox."""

    more: bool = False  # the page was full
    drops: Mapping[str, int] = {}  # by timeline, how many records were dropped


def fold(rows: PostgresRows, *, end: int, limit: int, now: Millis, given: bool = False) -> Folded:
    """Add a page of the committed rows up to `end`, in the order of their ids.

    A record's deadline and expiry count from its append, unless `now` was `given`, by another clock. A row that can't
    be read, or belongs to a damaged timeline, becomes a dead letter, so that it does not stop the others.
    """
    found = [InboxRow(*row) for row in sorted(rows.empty_inbox(end, limit))]
    arrivals: list[tuple[InboxRow, Arrival]] = []
    for row in found:
        try:
            arrivals.append((row, row.arrival(now=None if given else now)))
        except UNREADABLE as error:
            _quarantine(rows, row, f"the row can't be read: {error}", now=now)
    if arrivals:
        rows.expect([arrival for _, arrival in arrivals])
    drops: Counter[str] = Counter()
    for row, arrival in arrivals:
        try:
            if dropped := add(rows, arrival, now=now).dropped:
                drops[arrival.timeline] += dropped
        except Unreadable as error:
            _quarantine(rows, row, f"its timeline is damaged: {error.damage.problem}", now=now)
    return Folded(len(found) == limit or sum(len(row.payload) for row in found) >= PAGE_BYTES, drops)


class InboxRow(NamedTuple):
    """A record as the caller's transaction appended it."""

    id: int
    timeline: bytes
    key: bytes
    timestamp: float
    payload: bytes
    within: Millis | None
    terms: bytes
    added: Millis

    def arrival(self, *, now: Millis | None) -> Arrival:
        """Return the record to add. Raises one of UNREADABLE if another program wrote the row, or it is damaged."""
        timeline = check_timeline(bytes(self.timeline).decode())
        key = check_record_key(bytes(self.key).decode())
        timestamp = check_stored_timestamp(self.timestamp)
        within = None if self.within is None else to_millis(check_within(to_seconds(self.within)))
        terms = _terms(bytes(self.terms))
        waited = 0 if now is None else min(max(0, now - self.added), LONGEST_WAIT)
        if waited and terms.ttl is not None:
            terms = replace(terms, ttl=terms.ttl - waited)
        urgent = None if within is None else max(0, within - waited)
        return Arrival(timeline, key, bytes(self.payload), timestamp, urgent, terms)


def _quarantine(rows: PostgresRows, row: InboxRow, problem: str, *, now: Millis) -> None:
    """Accept a row as a dead letter of its own, with its value as it is, and its other columns in the reason."""
    timeline = _checked(check_timeline, row.timeline) or LOST_AND_FOUND
    key = _checked(check_record_key, row.key) or f"inbox-{row.id}"
    timestamp = row.timestamp if isfinite(row.timestamp) else 0.0
    batch = rows.next_number()
    rows.put_record(batch, Stored(key, bytes(row.payload), timestamp, rows.next_number()), deadline=None, expires=NEVER)
    raw = {name: bytes(getattr(row, name)) for name in ("timeline", "key", "terms")}
    reason = f"inbox row {row.id}: {problem}; it was {shortened(raw, LONGEST_TEXT // 2)}"
    alone = Unfinished(id=fresh_id(), batch=batch, records=1, opened=now, attempt=0)
    rows.put_letter(letter_of(timeline, alone, reason[:LONGEST_TEXT], now=now), batch)
    rows.tally["accepted"] += 1
    rows.tally["dead"] += 1
    rows.note_damage(Damage(timeline=timeline, part="inbox", problem=reason, records=1))


def _checked(check: Callable[[object], str], name: bytes) -> str | None:
    try:
        return check(bytes(name).decode())
    except UNREADABLE:
        return None
