"""Subjects: adds to PostgreSQL, one by one and in batches, beside two bare upserts with the driver."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypeVar

import psycopg

from bench._blocks import Block
from bench._workload import PAYLOAD, VALUE, Source, timeline_key
from digestif import Digests, Record
from digestif.clock import wall_clock
from digestif.stores.postgres.arrays import COLUMNS, Bigints, Byteas, Doubles

Share = TypeVar("Share")
Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"

TIMELINES = 50
BYTES = b"x" * PAYLOAD

TABLES = """
    CREATE TABLE bare_record (
        timeline bytea, key bytea, timestamp double precision, payload bytea, PRIMARY KEY (timeline, key));
    CREATE TABLE bare_timeline (timeline bytea PRIMARY KEY, due double precision, records bigint);
    CREATE TABLE text_record (
        timeline text, key text, timestamp double precision, payload bytea, PRIMARY KEY (timeline, key));
    CREATE TABLE text_timeline (timeline text PRIMARY KEY, due double precision, records bigint)
"""
ONTO_RECORD = "ON CONFLICT (timeline, key) DO UPDATE SET timestamp = EXCLUDED.timestamp, payload = EXCLUDED.payload"
ONTO_TIMELINE = "ON CONFLICT (timeline) DO UPDATE SET due = EXCLUDED.due, records = old.records + EXCLUDED.records"
RECORD = f"INSERT INTO text_record VALUES (%s, %s, %s, %s) {ONTO_RECORD}"
TIMELINE = f"INSERT INTO text_timeline AS old VALUES (%s, %s, 1) {ONTO_TIMELINE}"
RECORDS = f"""INSERT INTO text_record
    SELECT * FROM unnest(%s::text[], %s::text[], %s::double precision[], %s::bytea[]) {ONTO_RECORD}"""
COUNTS = f"""INSERT INTO text_timeline AS old
    SELECT * FROM unnest(%s::text[], %s::double precision[], %s::bigint[]) {ONTO_TIMELINE}"""
RECORDS_OF_BYTES = f"""INSERT INTO bare_record
    SELECT * FROM unnest(%s::bytea[], %s::bytea[], %s::double precision[], %s::bytea[]) {ONTO_RECORD}"""
COUNTS_OF_BYTES = f"""INSERT INTO bare_timeline AS old
    SELECT * FROM unnest(%s::bytea[], %s::double precision[], %s::bigint[]) {ONTO_TIMELINE}"""


class Ours:
    """Adds through Digestif; every timeline has a record already."""

    def __init__(self, url: str) -> None:
        self._events = Source(TIMELINES)
        self._digests = Digests(url)
        self._digests.add_many([(timeline_key(number), Record("first", VALUE, 0.0)) for number in range(TIMELINES)])
        self.close = self._digests.close

    def singles(self, count: int, *, threads: int = 1) -> Block:
        """A block in which each thread adds so many records."""

        def add(names: Sequence[tuple[str, str]]) -> None:
            for timeline, key in names:
                self._digests.add(timeline, VALUE, key=key)

        def block() -> Callable[[], None]:
            shares = [self._events.names(count) for _ in range(threads)]
            return lambda: _at_once(add, shares)

        return block

    def batches(self, count: int, size: int) -> Block:
        def block() -> Callable[[], None]:
            batches = [self._events.records(size) for _ in range(count)]

            def run() -> None:
                for batch in batches:
                    self._digests.add_many(batch)

            return run

        return block


class Bare:
    """The yardstick: an upsert of a record and one of its timeline with a counter, in one transaction."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._events = Source(TIMELINES)
        self._connections = [self._connect()]
        self._connections[0].execute(TABLES)
        self._connections[0].commit()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _connect(self) -> Connection:
        return psycopg.connect(self._url, context=COLUMNS)

    def singles(self, count: int, *, threads: int = 1) -> Block:
        self._connections += [self._connect() for _ in range(threads - len(self._connections))]

        def upsert(share: tuple[Connection, Sequence[tuple[str, str]]]) -> None:
            connection, names = share
            for timeline, key in names:
                now = wall_clock()
                connection.execute(RECORD, (timeline, key, now, BYTES))
                connection.execute(TIMELINE, (timeline, now))
                connection.commit()

        def block() -> Callable[[], None]:
            shares = [(connection, self._events.names(count)) for connection in self._connections[:threads]]
            return lambda: _at_once(upsert, shares)

        return block

    def batches(self, count: int, size: int, *, binary: bool = False) -> Block:
        upsert = self._upsert_binary if binary else self._upsert

        def block() -> Callable[[], None]:
            batches = [self._events.names(size) for _ in range(count)]

            def run() -> None:
                for batch in batches:
                    upsert(batch)

            return run

        return block

    def _upsert(self, batch: Sequence[tuple[str, str]]) -> None:
        """With arrays as the driver writes them."""
        connection, now = self._connections[0], wall_clock()
        timelines, keys = [timeline for timeline, _ in batch], [key for _, key in batch]
        counts = Counter(timelines)
        connection.execute(RECORDS, (timelines, keys, [now] * len(batch), [BYTES] * len(batch)))
        connection.execute(COUNTS, (list(counts), [now] * len(counts), list(counts.values())))
        connection.commit()

    def _upsert_binary(self, batch: Sequence[tuple[str, str]]) -> None:
        """With arrays as the store writes them."""
        connection, now = self._connections[0], wall_clock()
        timelines, keys = [timeline.encode() for timeline, _ in batch], [key.encode() for _, key in batch]
        counts = Counter(timelines)
        columns = Byteas(timelines), Byteas(keys), Doubles([now] * len(batch)), Byteas([BYTES] * len(batch))
        connection.execute(RECORDS_OF_BYTES, columns)
        totals = Byteas(list(counts)), Doubles([now] * len(counts)), Bigints(list(counts.values()))
        connection.execute(COUNTS_OF_BYTES, totals)
        connection.commit()


def _at_once(work: Callable[[Share], None], shares: Sequence[Share]) -> None:
    """Work on each share in a thread of its own; on a single one in the caller's."""
    if len(shares) == 1:
        work(shares[0])
        return
    with ThreadPoolExecutor(len(shares)) as threads:
        list(threads.map(work, shares))
