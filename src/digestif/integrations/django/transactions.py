"""Records that belong to a transaction of Django's: accepted if it commits, and only then."""

from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from digestif.core.texts import reason_of, shortened
from digestif.engine import Engine
from digestif.events.base import logger
from digestif.integrations.django.engine import project
from digestif.stores.base import Arrival


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
    of the transaction. Otherwise it is added right after the commit; if the store fails then, that is logged.
    """
    current = project()
    engine, database = current.engine.engine, current.options.database
    alias = using or database or DEFAULT_DB_ALIAS
    is_inside = connections[alias].in_atomic_block
    intake = engine.intake
    terms = intake.terms(first_delay, increment_delay, maximum_delay, now=None)
    arrival = intake.arrival(timeline, value, key, timestamp, within=within, terms=terms, now=None)
    if arrival.terms.given:
        engine.refuse_long_delays([arrival])
    if is_inside and alias == database:
        engine.store.add_inside(connections[alias], [arrival])
    elif is_inside:
        transaction.on_commit(lambda: _accept_after_commit(engine, arrival), using=alias)
    else:
        transaction.on_commit(lambda: _accept(engine, arrival), using=alias)  # which calls it at once


def _accept(engine: Engine, arrival: Arrival) -> None:
    engine.add_page([arrival], now=engine.intake.millis(None))


def _accept_after_commit(engine: Engine, arrival: Arrival) -> None:
    """Log what the store raises: the transaction has succeeded, and hooks of other apps may follow."""
    try:
        _accept(engine, arrival)
    except Exception as error:  # noqa: BLE001  # whatever a store raises
        logger.error(
            "the record %s of %s was not added after the commit: %s",
            shortened(arrival.key),
            shortened(arrival.timeline),
            reason_of(error),
        )
