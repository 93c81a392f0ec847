"""Pages and the API on a million timelines and 10,000 dead letters: what they read does not grow with the store."""

import statistics
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.service.harness import Client, serving
from torture._scale import POLICY, STORES, fill, seconds

TIMELINES, LETTERS = 1_000_000, 10_000
FEW = 1_000  # of the store whose times are compared
MOST = 500  # rows or keys for one page
ROUNDS = 7
VISITS = 4
SLOWER = 3.0
ROW_STEPS = 4  # of SQLite's virtual machine, in the shortest loop over an index; the rest is what an empty store takes
PAGES = [
    "/",
    "/timelines",
    "/timelines?state=waiting",
    "/timelines?prefix=mail%3A00001",
    "/timeline?key=mail%3A0000007",
    "/digests",
    "/dead-letters",
    "/channels",
    "/workers",
    "/status",
    "/v1/timelines?limit=100",
    "/v1/timelines?limit=100&state=waiting",
    "/v1/timelines?limit=100&prefix=dead",
    "/v1/timelines/mail%3A0000007/explain",
    "/v1/digests",
    "/v1/dead-letters",
    "/v1/ledger",
    "/v1/status",
]


def get(client: Client, path: str) -> None:
    reply = client.get(path)
    assert reply.status == 200, (path, reply.body[:200])


@pytest.fixture(params=STORES)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """A large store, one with a thousand timelines, and an empty one."""
    kind = STORES[request.param](tmp_path)
    sizes = {"large": (TIMELINES, LETTERS), "small": (FEW, FEW), "empty": (0, 0)}
    dsns = {name: kind.dsn(name) for name in sizes}
    for name, (timelines, letters) in sizes.items():
        fill(dsns[name], timelines=timelines, letters=letters)
    yield kind, dsns
    kind.close()


def test_no_page_reads_more_or_takes_longer_on_a_large_store(stores: tuple[Any, dict[str, str]]) -> None:
    kind, dsns = stores

    large, times = reads_of(kind, "large", dsns), times_of(dsns)

    if not kind.counts_rows:
        empty = reads_of(kind, "empty", dsns)
        large = {path: (steps - empty[path]) // ROW_STEPS for path, steps in large.items()}
    assert {path: count for path, count in large.items() if count > MOST} == {}
    assert {path: pair for path, pair in times.items() if pair[0] > SLOWER * pair[1]} == {}


def reads_of(kind: Any, name: str, dsns: dict[str, str]) -> dict[str, int]:
    """What each page reads, the least of some visits: others may open a connection, and look at the schema."""
    found: dict[str, int] = {}
    with kind.counting(name) as reads, serving(dsns[name], policy=POLICY) as (client, _):
        for path in PAGES:
            counts = [reads()]
            for _ in range(VISITS):
                get(client, path)
                counts.append(reads())
            found[path] = min(after - before for before, after in pairwise(counts))
    return found


def times_of(dsns: dict[str, str]) -> dict[str, tuple[float, float]]:
    """The median times of each page on the large and the small store, taken in turn."""
    found: dict[str, tuple[float, float]] = {}
    with serving(dsns["large"], policy=POLICY) as (large, _), serving(dsns["small"], policy=POLICY) as (small, _):
        for path in PAGES:
            get(large, path)
            get(small, path)
            pairs = [[seconds(partial(get, client, path)) for client in (large, small)] for _ in range(ROUNDS)]
            found[path] = (statistics.median(one for one, _ in pairs), statistics.median(two for _, two in pairs))
    return found
