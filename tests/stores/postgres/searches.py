"""An engine whose searches all count as slow, so that each leaves a floor for the next."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from digestif import Digests, Policy
from digestif.stores.postgres import PostgresStore
from digestif.stores.postgres.search import SearchFloors


@contextmanager
def slow_searches(
    url: str, policy: Policy | None = None, *, share: float = 0.002, longest_seconds: float = 30.0
) -> Iterator[Digests]:
    floors = SearchFloors(slow_seconds=0.0, share=share, longest_seconds=longest_seconds)
    with closing(PostgresStore(url, search_floors=floors)) as store:
        yield Digests(store, policy=policy or Policy())
