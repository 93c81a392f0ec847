"""What became of a transaction whose commit got no answer.

The server knows: each transaction that writes has an id, which is noted before the commit, and `pg_xact_status` tells
its fate on any other connection. Except after a crash or a failover. Ids that were never written to the log are then
given to others, and the fate may be theirs; so an id counts only together with the server's `life`.
"""

from collections.abc import Callable
from threading import Event
from typing import Any, NamedTuple

import psycopg
from psycopg import errors

from digestif.clock import monotonic
from digestif.stores.postgres.transaction import SQL

LOOK_AGAIN_SECONDS = 0.02
COMMITTED, ABORTED, IN_PROGRESS, UNKNOWN = "committed", "aborted", "in progress", ""  # as pg_xact_status says


class TransactionId(NamedTuple):
    """Which transaction of which server."""

    number: str
    life: str | None  # that the server led when the connection was made


class Unanswered(Exception):
    """A commit got no answer. It was that of `transaction`; None if nothing was written."""

    def __init__(self, transaction: TransactionId | None, result: Any) -> None:
        self.transaction = transaction
        self.result = result  # what the caller is answered if it took place


def life_of(connection: "psycopg.Connection[Any]") -> str | None:
    """A mark that another server has otherwise, and the same server after a crash. None: we may not see it."""
    try:
        row = connection.execute(SQL.life).fetchone()
    except errors.InsufficientPrivilege:
        return None
    return row[0] if row else None


def has_committed(
    transaction: TransactionId, connect: Callable[[], "psycopg.Connection[Any]"], *, until: float, closed: Event
) -> bool | None:
    """Ask the server, until it answers or the time is over; None if it can't be known."""
    while True:
        try:
            with connect() as connection:
                if transaction.life is not None and transaction.life == life_of(connection):
                    return _settled_fate(connection, transaction.number, until=until, closed=closed)
                # It may be another's. But had ours been committed, nobody else would have its id.
                return False if _fate(connection, transaction.number) == ABORTED else None
        except psycopg.OperationalError:
            if monotonic() >= until or closed.wait(LOOK_AGAIN_SECONDS):
                return None


def _settled_fate(connection: "psycopg.Connection[Any]", number: str, *, until: float, closed: Event) -> bool | None:
    while (fate := _fate(connection, number)) == IN_PROGRESS and monotonic() < until:
        # The server may not have noticed that its client is gone, and keep its locks.
        connection.execute(SQL.end_abandoned, (number,))
        closed.wait(LOOK_AGAIN_SECONDS)
    return {COMMITTED: True, ABORTED: False}.get(fate)


def _fate(connection: "psycopg.Connection[Any]", number: str) -> str:
    try:
        row = connection.execute(SQL.fate, (number,)).fetchone()
    except errors.InvalidParameterValue:  # an id that this server has not given to anybody
        return ABORTED
    return row[0] if row and row[0] else UNKNOWN
