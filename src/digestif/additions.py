"""`Additions`: the part of `Digests` that accepts records."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from digestif.core.records import Acceptance, Addition
from digestif.core.times import Duration, Instant, to_seconds
from digestif.engine import Engine
from digestif.errors import InvalidRecord, StoreError
from digestif.stores.base import (
    PAGE_RECORDS,
    Accepted,
    Arrival,
    weight_of_adds,
)

ADDED_BYTES = 1 << 20  # of payloads in one call that adds: others who add wait for it


class Additions:
    """What producers ask of a store."""

    engine: Engine

    def add(
        self,
        timeline: str,
        value: Any,
        *,
        key: str | None = None,
        timestamp: Instant | None = None,
        within: Duration | None = None,
        first_delay: Duration | None = None,
        increment_delay: Duration | None = None,
        maximum_delay: Duration | None = None,
        connection: Any = None,
        now: float | None = None,
    ) -> bool:
        """Accept a record: a value, or a `Record` with its own key and timestamp.

        True if the timeline became ready: it should be delivered now. A pending record of the same key is replaced.
        With a PostgreSQL store, `connection` may be one of your own: the record is accepted when you commit, and a
        worker is woken then; the answer is False.
        """
        engine = self.engine
        intake = engine.intake
        terms = intake.terms(first_delay, increment_delay, maximum_delay, now=now)
        arrival = intake.arrival(timeline, value, key, timestamp, within=within, terms=terms, now=now)
        if arrival.terms.given:
            engine.refuse_long_delays([arrival])
        if connection is not None:
            engine.store.add_inside(connection, [arrival])
            return False
        return engine.add_page([arrival], now=intake.millis(now))[0].ready

    def add_many(
        self,
        records: Iterable[tuple[str, Any]],
        *,
        within: Duration | None = None,
        first_delay: Duration | None = None,
        increment_delay: Duration | None = None,
        maximum_delay: Duration | None = None,
        connection: Any = None,
        now: float | None = None,
    ) -> list[bool]:
        """Accept many records, `(timeline, record)` each; all are checked before any is written.

        One store call per page of 1,000, or of 8 MiB: if one fails, the pages before it have been accepted. With a
        `connection` of your own, as in `add`, your commit accepts all of them or none.
        """
        intake = self.engine.intake
        terms = intake.terms(first_delay, increment_delay, maximum_delay, now=now)
        arrivals = intake.arrivals(records, within=within, terms=terms, now=now)
        if arrivals and arrivals[0].terms.given:
            self.engine.refuse_long_delays(arrivals)
        if connection is not None:
            for page in pages_of(arrivals):
                self.engine.store.add_inside(connection, page)
            return [False] * len(arrivals)
        return [answer.ready for answer in self._accept_all(arrivals, now=now)]

    def accept(
        self,
        timeline: str,
        value: Any,
        *,
        key: str | None = None,
        timestamp: Instant | None = None,
        within: Duration | None = None,
        first_delay: Duration | None = None,
        increment_delay: Duration | None = None,
        maximum_delay: Duration | None = None,
        now: float | None = None,
    ) -> Acceptance:
        """Accept a record as `add` does, and say under which key, and when its timeline is delivered next."""
        engine = self.engine
        intake = engine.intake
        terms = intake.terms(first_delay, increment_delay, maximum_delay, now=now)
        arrival = intake.arrival(timeline, value, key, timestamp, within=within, terms=terms, now=now, asks=True)
        if arrival.terms.given:
            engine.refuse_long_delays([arrival])
        return acceptance(arrival, engine.add_page([arrival], now=intake.millis(now))[0])

    def accept_many(
        self,
        records: Iterable[tuple[str, Any] | Addition],
        *,
        within: Duration | None = None,
        now: float | None = None,
    ) -> list[Acceptance]:
        """Accept many records as `add_many` does, with the answers of `accept`.

        A record is `(timeline, record)`, or an `Addition` with what `add` takes.
        """
        intake = self.engine.intake
        arrivals = intake.arrivals(records, within=within, terms=intake.terms(now=now), now=now, asks=True)
        return self._acceptances(arrivals, now=now)

    def accept_valid(
        self, records: Iterable[tuple[str, Any] | Addition], *, now: float | None = None
    ) -> list[Acceptance | InvalidRecord]:
        """Accept those of many records that are valid; in the place of each other one is what is wrong with it."""
        intake = self.engine.intake
        checked = list(intake.checked(records, terms=intake.terms(now=now), now=now))
        valid = [each for each in checked if isinstance(each, Arrival)]
        try:
            found = iter(self._acceptances(valid, now=now))
        except StoreError as error:
            if error.answers is None:
                raise
            known = iter(error.answers)
            raise error.knowing([next(known) if isinstance(each, Arrival) else None for each in checked]) from error
        return [next(found) if isinstance(each, Arrival) else each for each in checked]

    def _acceptances(self, arrivals: Sequence[Arrival], *, now: float | None) -> list[Acceptance]:
        return [acceptance(*pair) for pair in zip(arrivals, self._accept_all(arrivals, now=now), strict=True)]

    def _accept_all(self, arrivals: Sequence[Arrival], *, now: float | None) -> list[Accepted]:
        """Accept any number of records, page by page. An error knows the answers of all of them."""
        at = self.engine.intake.millis(now)
        answers: list[Accepted] = []
        for page in pages_of(arrivals):
            try:
                answers += self.engine.add_page(page, now=at)
            except StoreError as error:
                if not answers and len(page) == len(arrivals):
                    raise
                known = [*(answer.ready for answer in answers), *(error.answers or ())]
                raise error.knowing([*known, *[None] * (len(arrivals) - len(known))]) from error
        return answers


def acceptance(arrival: Arrival, answer: Accepted) -> Acceptance:
    return Acceptance(arrival.key, answer.ready, None if answer.due is None else to_seconds(answer.due))


def pages_of(arrivals: Sequence[Arrival]) -> Iterator[Sequence[Arrival]]:
    """The records of many, in pages for one store call each: at most PAGE_RECORDS, and ADDED_BYTES."""
    for start in range(0, len(arrivals), PAGE_RECORDS):
        page = arrivals[start : start + PAGE_RECORDS]
        if weight_of_adds(page) <= ADDED_BYTES:
            yield page
        else:
            yield from _light_pages(page)


def _light_pages(arrivals: Sequence[Arrival]) -> Iterator[Sequence[Arrival]]:
    start, room = 0, ADDED_BYTES
    for place, arrival in enumerate(arrivals):
        if room < len(arrival.payload) and place > start:
            yield arrivals[start:place]
            start, room = place, ADDED_BYTES
        room -= len(arrival.payload)
    yield arrivals[start:]
