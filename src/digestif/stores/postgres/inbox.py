"""The inbox: records added inside a transaction of the caller's own, which locks nothing that others need."""

from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg
from msgspec.structs import replace

from digestif.core.policy import Terms
from digestif.core.times import Millis
from digestif.errors import ConfigError
from digestif.stores.base import Arrival
from digestif.stores.postgres.arrays import Bigints, Byteas, Doubles, register_columns
from digestif.stores.postgres.rows import PostgresRows
from digestif.stores.postgres.transaction import SQL, in_columns
from digestif.stores.rows.adding import add_all

COLUMNS = (Byteas, Byteas, Doubles, Byteas, Bigints, Byteas)

_encode = msgspec.json.Encoder().encode
_terms = msgspec.json.Decoder(Terms).decode


def put(connection: Any, schema: str, namespace: int, channel: str | None, batch: Sequence[Arrival]) -> None:
    """Append records on the caller's connection; they exist once the caller commits, and the channel is told."""
    rows = [(a.timeline.encode(), a.key.encode(), a.timestamp, a.payload, a.within, _encode(a.terms)) for a in batch]
    statement = SQL.put_into_inbox.replace("INTO inbox", f'INTO "{schema}".inbox')
    with psycopg.Cursor(driver_connection(connection)) as cursor:  # its own kind may take other placeholders
        register_columns(cursor.adapters)  # in text, settings of the connection decide what the server reads
        cursor.execute(statement, (namespace, *in_columns(rows, COLUMNS)))
        if channel is not None:
            cursor.execute(SQL.wake, (channel,))


def fold(rows: PostgresRows, *, end: int, limit: int, now: Millis, given: bool = False) -> bool:
    """Add a page of what was committed, in the order in which it was appended, up to `end`; True if it was full.

    A record's deadline and expiry count from when it was appended, unless `now` is of another clock.
    """
    found = sorted(rows.empty_inbox(end, limit))
    if found:
        add_all(rows, [_arrival(*row[1:], now=None if given else now) for row in found], now=now)
    return len(found) == limit


def _arrival(
    timeline: bytes,
    key: bytes,
    timestamp: float,
    payload: bytes,
    within: Millis | None,
    terms: bytes,
    added: Millis,
    *,
    now: Millis | None,
) -> Arrival:
    names = bytes(timeline).decode(), bytes(key).decode()
    waited = 0 if now is None else max(0, now - added)
    known = _terms(bytes(terms))
    if waited and known.ttl is not None:
        known = replace(known, ttl=known.ttl - waited)
    urgent = None if within is None else max(0, within - waited)
    return Arrival(*names, bytes(payload), timestamp, urgent, known)


def driver_connection(connection: Any) -> "psycopg.Connection[Any]":
    """The psycopg connection behind one of psycopg, Django or SQLAlchemy (a Connection or a Session)."""
    if isinstance(connection, psycopg.Connection):
        return connection
    if hasattr(connection, "ensure_connection"):  # Django
        connection.ensure_connection()
        found = connection.connection
    else:
        inner = connection.connection() if callable(getattr(connection, "connection", None)) else connection
        if hasattr(inner, "in_transaction") and not inner.in_transaction():
            inner.begin()  # as its own statements do; otherwise its commit would do nothing
        found = getattr(getattr(inner, "connection", None), "driver_connection", None)  # SQLAlchemy
    if isinstance(found, psycopg.Connection):
        return found
    raise ConfigError(
        f"connection: {type(connection).__name__} is no psycopg 3 connection, nor one of Django or SQLAlchemy over it"
    )
