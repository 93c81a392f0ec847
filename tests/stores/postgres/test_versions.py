"""The rows of timelines: locked under their names, and found by their newest version."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from digestif import Digests, Policy
from digestif.stores.base import Completion
from digestif.testing.servers import becomes_true
from tests.stores.postgres.callers import number_of, waiting_for_locks


def claimed(digests: Digests, limit: int) -> list[str]:
    return [lease.timeline for lease in digests.store.claim(0, limit, token="w", lease=30_000, now=None).leases]


@pytest.mark.parametrize("table", ["timeline", "timeline_name"])
def test_a_claim_goes_past_what_others_are_about_to_change(digests: Digests, url: str, table: str) -> None:
    for name in "abcd":
        digests.add(name, 1)
    with psycopg.connect(url) as holder:
        holder.execute(f"SELECT FROM digestif.{table} WHERE key IN ('a', 'c') FOR UPDATE".encode())

        assert claimed(digests, 2) == ["b", "d"]

    assert claimed(digests, 2) == ["a", "c"]
    assert digests.verify()


def test_who_waited_for_a_timeline_changes_the_version_that_is_there_then(digests: Digests, url: str) -> None:
    digests.add("t", 1)
    lease = digests.store.open("t", token="w", lease=30_000, now=None)
    with psycopg.connect(url) as holder, ThreadPoolExecutor(1) as threads:
        holder.execute("UPDATE digestif.timeline SET version = version + 1")
        closing = threads.submit(digests.store.complete, [Completion(lease, 0)], now=None)
        assert becomes_true(lambda: waiting_for_locks(url) == 1)
        holder.commit()

        assert closing.result() == [True]

    assert digests.timeline("t").state == "waiting"
    assert digests.verify()


def test_a_name_is_gone_with_its_timeline(digests: Digests, url: str) -> None:
    digests.add_many([("one", 1), ("other", 1)])

    digests.delete("one")

    assert [view.key for view in digests.timelines()] == ["other"]
    assert number_of(url, "SELECT count(*) FROM digestif.timeline_name") == 1
    assert number_of(url, "SELECT count(*) FROM digestif.timeline") == 1


def test_a_timeline_keeps_its_version_while_it_stays_where_it_is(digests: Digests, url: str) -> None:
    """Its row may then be replaced in place, without new entries in the indexes."""
    version = "SELECT max(version) FROM digestif.timeline"
    digests.add("t", 1)
    first = number_of(url, version)

    digests.add("t", 2)
    digests.add_many([("t", 3), ("t", 4)])
    assert number_of(url, version) == first

    claimed(digests, 1)
    assert number_of(url, version) > first


def test_a_publication_of_all_tables_forbids_nothing(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection, Digests(url, policy=Policy(minimum_delay=0)) as digests:
        digests.add("t", 1)
        connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")

        digests.add("t", 2)
        with digests.digest("t", 0) as digest:
            assert len(digest) == 2
        assert digests.delete("t")


def test_who_pauses_what_comes_and_goes_is_told_of_no_quarrel(url: str) -> None:
    """A timeline that is idle at one moment and there at the next, again and again."""
    with Digests(url, policy=Policy(minimum_delay=0)) as digests, ThreadPoolExecutor(3) as threads:
        over = threading.Event()

        def come_and_go() -> None:
            while not over.is_set():
                digests.add_many([("t", 1), ("u", 1)])
                digests.delete("t")

        going = [threads.submit(come_and_go) for _ in range(2)]
        for number in range(150):
            digests.pause("t") if number % 2 else digests.resume("t")
        over.set()
        for each in going:
            each.result()
        assert digests.verify()
