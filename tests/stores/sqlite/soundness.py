"""Checks of a file after any test: it is not damaged, and every record is accounted for."""

import sqlite3
from contextlib import closing

from digestif import Digests, Ledger


def check_sound(path: str, *, namespace: str = "d") -> Ledger:
    """Fail unless SQLite finds the file sound, the ledger balances and a recount agrees; return the ledger."""
    with closing(sqlite3.connect(path)) as bare:
        found = [line for (line,) in bare.execute("PRAGMA integrity_check")]
    assert found == ["ok"], f"{path} is damaged: {found}"
    with Digests(f"sqlite:///{path}", namespace=namespace) as digests:
        verification = digests.verify()
    assert verification, verification.problems
    assert verification.ledger.balanced, verification.ledger
    return verification.ledger


def pending_keys(path: str, *, namespace: str = "d") -> list[str]:
    """Return the keys of all records that would be in the next digests."""
    with Digests(f"sqlite:///{path}", namespace=namespace) as digests:
        timelines = digests.timelines(limit=10_000)
        return [record.key for timeline in timelines for record in digests.peek(timeline.key)]
