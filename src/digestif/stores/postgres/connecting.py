"""A connection, or the reason why there is none, and whether it is of any use to try again."""

from math import ceil
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping

FULL = ("too many", "connection slots")  # in what a server says that has no more connections to give


class Refused(psycopg.OperationalError):
    """The server is up and does not let us in: a wrong password, a database that is missing. Waiting mends nothing."""


def connected(conninfo: str, *, patience: float, **options: Any) -> "psycopg.Connection[Any]":
    """A new connection; OperationalError after so many seconds, Refused if it is of no use to try again."""
    if "connect_timeout" not in conninfo_to_dict(conninfo):
        conninfo = make_conninfo(conninfo, connect_timeout=ceil(patience))
    was_up = False
    while True:
        try:
            return psycopg.connect(conninfo, **options)
        except psycopg.OperationalError as error:
            if any(words in str(error) for words in FULL) or not _is_up(conninfo):
                raise
            if was_up:
                raise Refused(str(error)) from error
        was_up = True  # it may have come up only after the error: once more


def _is_up(conninfo: str) -> bool:
    """Whether the server lets anybody in; an error of connecting has no code that would tell."""
    return PGconn.ping(conninfo.encode()) == Ping.OK
