"""Bounded work: a call costs the same however much is stored, by SQLite's own steps and by its plans."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from digestif import Digests, Policy, Record
from digestif.stores.base import PAGE_RECORDS, PAGE_TIMELINES, Burial, Completion, Lease, Release, SuspectGroup, Take
from digestif.stores.sqlite import SQLiteStore
from digestif.stores.sqlite.connections import SQL
from tests.stores.sqlite.populations import HOUR, NOW, store_with_due

pytestmark = pytest.mark.long

# By steps of SQLite's machine, which no other program disturbs

SMALL, LARGE = 2_000, 20_000


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[SQLiteStore, SQLiteStore]]:
    with closing(store_with_due(SMALL)) as small, closing(store_with_due(LARGE)) as large:
        yield small, large


CALLS: dict[str, Callable[[SQLiteStore], object]] = {
    "add": lambda store: Digests(store).add("one more", 0, now=NOW / 1000),
    "schedule": lambda store: store.schedule(0, NOW + HOUR, after=None, limit=PAGE_TIMELINES, now=NOW + HOUR),
    "claim": lambda store: store.claim(0, PAGE_TIMELINES, token="x", lease=30_000, now=NOW + HOUR),
    "open": lambda store: store.open("t1990", token="x", lease=30_000, now=NOW + HOUR),
    "maintain": lambda store: store.maintain(0, NOW + HOUR, limit=PAGE_TIMELINES, now=NOW + HOUR),
    "delete": lambda store: store.delete("t1", now=NOW + HOUR),
    "sweep": lambda store: store.sweep(),
    "scan": lambda store: store.scan(prefix="t1", after=None, limit=PAGE_TIMELINES),
    "inspect": lambda store: store.inspect("t5"),
    "ledger": lambda store: store.ledger(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_takes_as_many_steps_among_many_timelines_as_among_few(
    stores: tuple[SQLiteStore, SQLiteStore], name: str
) -> None:
    few, many = (steps(store, CALLS[name]) for store in stores)

    assert many <= 1.2 * few + 100


@pytest.mark.parametrize("name", ["claim", "claim suspects"])
def test_many_suspects_cost_a_claim_no_more_than_few(name: str) -> None:
    later = NOW + 2 * HOUR
    calls: dict[str, Callable[[SQLiteStore], object]] = {
        "claim": lambda store: store.claim(0, PAGE_TIMELINES, token="x", lease=HOUR, now=later),
        "claim suspects": lambda store: store.claim_suspects(0, SuspectGroup(1, 1), token="x", lease=HOUR, now=later),
    }

    few, many = (steps_with_suspects(count, calls[name]) for count in (300, 3_000))

    assert many <= 1.2 * few + 100


def steps_with_suspects(count: int, call: Callable[[SQLiteStore], object]) -> int:
    with closing(store_with_due(count)) as store:
        tokens = (f"worker{n}" for n in range(count))
        while store.claim(0, PAGE_TIMELINES, token=next(tokens), lease=1, now=NOW + HOUR).leases:
            pass
        return steps(store, call)


def test_a_page_of_dead_letters_takes_as_many_steps_among_many_as_among_few() -> None:
    few, many = steps_of_a_page_of_letters(300), steps_of_a_page_of_letters(3_000)

    assert many <= 1.2 * few + 100


def steps_of_a_page_of_letters(count: int) -> int:
    with closing(store_with_letters(count)) as store:
        return steps(store, lambda store: store.letters(None, after=None, limit=100))


def store_with_letters(count: int) -> SQLiteStore:
    store = store_with_due(count)
    tokens = (f"worker{n}" for n in range(count))
    while leases := store.claim(0, PAGE_TIMELINES, token=next(tokens), lease=HOUR, now=NOW + HOUR).leases:
        store.bury([Burial(lease, "no use", 100 * HOUR) for lease in leases], now=NOW + HOUR)
    return store


@pytest.mark.parametrize("call", ["add", "first page", "next page", "close"])
def test_a_call_takes_as_many_steps_with_many_records_in_the_timeline_as_with_few(
    with_records: tuple[dict[str, int], dict[str, int]], call: str
) -> None:
    few, many = with_records

    assert many[call] <= 1.2 * few[call] + 100


@pytest.fixture(scope="module")
def with_records() -> tuple[dict[str, int], dict[str, int]]:
    return steps_with_records(2 * PAGE_RECORDS), steps_with_records(10 * PAGE_RECORDS)


def steps_with_records(count: int) -> dict[str, int]:
    with closing(store_with_records(count)) as store:
        digests = Digests(store, policy=ALL)
        found = {"add": steps(store, lambda store: digests.add("t", 0, key="one more", now=NOW / 1000))}
        lease = store.open("t", token="x", lease=HOUR, now=NOW)
        found["first page"] = steps(store, lambda store: take(store, lease))
        found["next page"] = steps(store, lambda store: take(store, lease))
        found["close"] = steps(store, lambda store: store.complete([Completion(lease, HOUR)], now=NOW))
    return found


ALL = Policy(capacity=None)


def store_with_records(count: int) -> SQLiteStore:
    store = SQLiteStore(None)
    add_records(store, "b", count)
    return store


def add_records(store: SQLiteStore, name: str, count: int) -> None:
    records = [("t", Record(f"{name}{n:06}", 0, float(n))) for n in range(count)]
    Digests(store, policy=ALL).add_many(records, now=NOW / 1000)


def take(store: SQLiteStore, lease: Lease) -> None:
    (taken,) = store.take([Take(lease, capacity=None, merge=True)], now=NOW)
    assert taken is not None


@pytest.mark.parametrize("newer", ["a", "c"])  # before or after the older ones, by key
def test_merging_a_page_takes_as_many_steps_into_a_large_digest_as_into_a_small_one(newer: str) -> None:
    few, many = (steps_of_a_merge(count, newer) for count in (2 * PAGE_RECORDS, 10 * PAGE_RECORDS))

    assert many <= 1.2 * few + 100


def steps_of_a_merge(older: int, newer: str) -> int:
    """An attempt failed, records came, and the next attempt merges the first page of them."""
    with closing(store_with_records(older)) as store:
        store.release([Release(whole(store), None)], now=NOW)
        add_records(store, newer, 2 * PAGE_RECORDS)
        lease = store.open("t", token="y", lease=HOUR, now=NOW)
        return steps(store, lambda store: take(store, lease))


def whole(store: SQLiteStore) -> Lease:
    lease = store.open("t", token="x", lease=HOUR, now=NOW)
    take(store, lease)
    return lease


def steps(store: SQLiteStore, call: Callable[[SQLiteStore], object]) -> int:
    """How many instructions SQLite's virtual machine needs, in hundreds rounded down."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 100
        return 0

    connection = store._writer.connect()
    connection.set_progress_handler(count, 100)
    try:
        call(store)
    finally:
        connection.set_progress_handler(None, 0)
    return counted


# By plan

COUNT_EVERYTHING = {
    "batches",
    "count_letters",
    "count_records",
    "count_timelines",
    "count_trash",
    "standing",
    "trashed_records",
}
SORT_A_PAGE = {"claimable", "lapsed"}  # each of their branches reads no more than a page
SORT_THE_HISTORY = {"history", "history_of", "history_under", "oldest_entry"}  # which is bounded
ONE_ROW = {"sequence", "save_sequence"}
STATEMENTS: dict[str, str] = vars(SQL)


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - COUNT_EVERYTHING))
def test_a_statement_finds_its_rows_by_an_index(plan: Callable[[str], list[str]], name: str) -> None:
    steps = plan(STATEMENTS[name])

    scans = [step for step in steps if re.match(r"SCAN (?!\(subquery|json_each|CONSTANT ROW)", step)]
    assert not scans or name in ONE_ROW
    assert not [step for step in steps if re.match(r"SEARCH (timeline|record|letter) .*\(namespace=\?\)", step)]


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - COUNT_EVERYTHING - SORT_A_PAGE - SORT_THE_HISTORY))
def test_a_statement_sorts_nothing(plan: Callable[[str], list[str]], name: str) -> None:
    assert not [step for step in plan(STATEMENTS[name]) if "TEMP B-TREE" in step]


@pytest.mark.parametrize("name", sorted(SORT_A_PAGE))
def test_a_statement_that_sorts_a_page_limits_every_branch(name: str) -> None:
    branches = STATEMENTS[name].count("FROM timeline")

    assert STATEMENTS[name].count("LIMIT") == branches + 1


@pytest.mark.parametrize("name", ["delete_outdated", "delete_superseded", "merge_page", "requeue_page"])
def test_a_page_that_moves_is_looked_up_record_by_record(plan: Callable[[str], list[str]], name: str) -> None:
    """Otherwise every page would read a whole batch."""
    searches = [step for step in plan(STATEMENTS[name]) if " record " in step or " later " in step]

    assert searches
    assert [step for step in searches if not step.endswith(("(rowid=?)", "(batch=? AND key=?)"))] == []


@pytest.fixture
def plan() -> Iterator[Callable[[str], list[str]]]:
    with closing(SQLiteStore(None)) as store:

        def explain(statement: str) -> list[str]:
            names = re.findall(r":(\w+)", statement)
            values = dict.fromkeys(names, 0) if names else [0] * statement.count("?")
            return [row[3] for row in store._writer.connect().execute(f"EXPLAIN QUERY PLAN {statement}", values)]

        yield explain
