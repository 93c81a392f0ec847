"""Pages for people read a bounded part of a store, however many timelines and dead letters it holds: counted."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from digestif import Digests, Policy
from digestif.notes import samples
from digestif.notes.samples import Sampler
from digestif.stores.base import Burial, Completion, Store, Take
from digestif.stores.documents import Bounds, Document
from digestif.testing.conformance.port import claim_all
from tests.servers import empty_server

pytestmark = pytest.mark.long

T = 1_700_000_000.0
BEFORE = round((T - 9) * 1000)
POLICY = Policy.immediate()
MANY = 3000
MOST = 500  # rows or keys

PAGES: dict[str, Callable[[Digests], Any]] = {
    "overview": lambda digests: digests.overview(now=T + 5),
    "ledger": lambda digests: digests.ledger(),
    "waiting": lambda digests: digests.timelines_page(state="waiting", limit=100),
    "ready": lambda digests: digests.timelines_page(state="ready", limit=100),
    "due": lambda digests: digests.timelines_page(due=True, limit=100),
    "open": lambda digests: digests.timelines_page(state="open", limit=100),
    "by key": lambda digests: digests.timelines_page(prefix="w", limit=100),
    "paused": lambda digests: digests.timelines_page(paused=True, limit=100),
    "a rare prefix": lambda digests: digests.timelines_page(state="waiting", prefix="w29", limit=100),
    "dead letters": lambda digests: digests.dead_letters(limit=100),
    "history": lambda digests: digests.history(limit=100),
    "messages": lambda digests: digests.messages(limit=100),
    "samples": lambda digests: digests.samples(now=T + 5),
    "workers": lambda digests: digests.workers(now=T + 5),
    "outages": lambda digests: digests.outages(now=T + 5),
    "one timeline": lambda digests: (digests.timeline("w1"), digests.peek("w1", now=T), digests.explain("w1", now=T)),
}


def fill(digests: Digests) -> None:
    """Thousands of timelines that wait or are ready, dead letters, messages and a sample."""
    digests.add_many([(f"d{n}", n) for n in range(510)] + [(f"e{n}", n) for n in range(1010)], now=T - 9)
    end_all(digests.store)
    digests.add_many([(f"w{n}", n) for n in range(MANY)], first_delay=60, now=T)
    digests.add_many([(f"r{n}", n) for n in range(MANY)], now=T)
    bounds = Bounds(entries=1000)
    for number in range(510):
        digests.store.keep("messages", Document(f"m{number}", b"{}", f"w{number}"), bounds=bounds, now=round(T * 1000))
    Sampler(digests.store).tick(round(T * 1000))


def end_all(store: Store) -> None:
    """Deliver all digests that are ready, those of d in vain."""
    leases = claim_all(store, now=BEFORE)
    for page in range(0, len(leases), 100):
        some = leases[page : page + 100]
        taken = store.take([Take(lease, None, True) for lease in some], now=BEFORE)
        assert all(each and each.complete for each in taken)
        store.bury([Burial(lease, "refused", 0) for lease in some if lease.timeline.startswith("d")], now=BEFORE)
        store.complete([Completion(lease, 0) for lease in some if lease.timeline.startswith("e")], now=BEFORE)


class TestSqlite:
    @pytest.fixture(scope="class")
    @classmethod
    def path(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        path = tmp_path_factory.mktemp("large") / "d.db"
        with Digests(f"sqlite:///{path}?synchronous=normal", policy=POLICY) as digests:
            fill(digests)
        return path

    @pytest.mark.parametrize("page", PAGES)
    def test_no_page_walks_over_more_rows_than_it_may(self, path: Path, page: str) -> None:
        """SQLite counts the steps of its machine; a row costs at most 40 of them, whether it is shown or not."""
        with Digests(f"sqlite:///{path}", policy=POLICY) as digests:
            PAGES[page](digests)  # opens the connection that reads
            assert _steps(digests.store, lambda: PAGES[page](digests)) <= MOST * STEPS_OF_A_ROW

    def test_a_count_of_all_timelines_would_be_found(self, path: Path) -> None:
        """The measure can fail: the exact backlog counts every timeline."""
        with Digests(f"sqlite:///{path}", policy=POLICY) as digests:
            digests.backlog(now=T)
            assert _steps(digests.store, lambda: digests.backlog(now=T)) > MOST * STEPS_OF_A_ROW

    def test_many_timelines_are_counted_once_a_minute_for_samples(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(samples, "COUNTED", 100)
        later = round(T * 1000) // 60_000 * 60_000 + 120_000  # a minute without samples begins
        with Digests(f"sqlite:///{path}", policy=POLICY) as digests:
            tick, exact = Sampler(digests.store).tick, digests.backlog(now=later / 1000)  # which opens a connection
            steps = [_steps(digests.store, partial(tick, later + at * 1000)) for at in (0, 10, 50, 60)]
            noted = digests.samples(since=later / 1000, now=later / 1000 + 60)

        assert [count > MOST * STEPS_OF_A_ROW for count in steps] == [True, False, False, True]
        counts = [(each.timelines, each.waiting, each.ready, each.due) for each in noted]
        assert counts == [(exact.timelines, exact.waiting, exact.ready, exact.due)] * 4


class TestRedis:
    @pytest.fixture(scope="class", params=[1, 64])
    @classmethod
    def url(cls, request: pytest.FixtureRequest) -> str:
        url = f"{empty_server().url}?partitions={request.param}"
        with Digests(url, policy=POLICY) as digests:
            fill(digests)
        return url

    def test_no_page_reads_more_keys_than_it_may(self, url: str) -> None:
        """Values in the replies are counted: a name comes with its time, a timeline with the number of its records."""
        with Digests(url, policy=POLICY) as digests:
            counts = {name: _values(digests.store, partial(page, digests)) for name, page in PAGES.items()}

        assert {name: values for name, values in counts.items() if values > 2 * MOST} == {}


STEPS_OF_A_ROW = 40


def _steps(store: Any, act: Callable[[], object]) -> int:
    """Steps of SQLite's machine on the connections that read, while something is done."""
    every, steps = 10, 0

    def count() -> int:
        nonlocal steps
        steps += every
        return 0

    connections = [reader.connection for reader in store._readers._readers]
    for connection in connections:
        connection.set_progress_handler(count, every)
    act()
    for connection in connections:
        connection.set_progress_handler(None, 0)
    return steps


def _values(store: Any, act: Callable[[], object]) -> int:
    """How many values a server replied with, while something was done."""
    values, run = 0, store._link.run

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal values
        answers = run(*args, **options)
        values += sum(map(_size, answers))
        return answers

    with patch.object(store._link, "run", counted):
        act()
    return values


def _size(answer: object) -> int:
    return sum(map(_size, answer)) if isinstance(answer, list) else answer is not None
