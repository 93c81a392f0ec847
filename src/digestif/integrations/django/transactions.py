"""Records that belong to a transaction of Django's: accepted if it commits, and only then."""

from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from digestif.integrations.django.engine import project


def add(
    timeline: str,
    value: Any,
    *,
    key: str | None = None,
    timestamp: float | None = None,
    within: float | None = None,
    first_delay: float | None = None,
    increment_delay: float | None = None,
    maximum_delay: float | None = None,
    using: str | None = None,
) -> None:
    """Accept a record when the current transaction commits; without a transaction, at once.

    A wrong record is refused here. If the store is in the database `using` (`DIGESTIF["DATABASE"]`), the record is part
    of the transaction. Otherwise it is added right after the commit, and an error of the store is raised there.
    """
    engine, database = project().engine, project().options.database
    alias = using or database or DEFAULT_DB_ALIAS
    intake = engine._intake
    terms = intake.terms(first_delay, increment_delay, maximum_delay, now=None)
    arrival = intake.arrival(timeline, value, key, timestamp, within=within, terms=terms, now=None)
    if alias == database and connections[alias].in_atomic_block:
        engine.store.add_inside(connections[alias], [arrival])
    else:
        transaction.on_commit(lambda: engine._accept([arrival], now=intake.millis(None)), using=alias)
