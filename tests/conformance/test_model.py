"""Every store lives the same lives as the model, through both faces. Other lives, and more: torture/test_models.py."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from digestif import Digests, Policy
from digestif.stores.base import Store
from digestif.stores.memory import MemoryStore
from digestif.stores.registry import open_store
from digestif.stores.sqlite import SQLiteStore
from digestif.testing.modes import digests_in
from digestif.testing.stateful import LEASE, StoreMachine, store_machine
from tests.conformance.makers import made
from tests.servers import empty_lone_cluster, empty_server, no_key_expires
from tests.stores.postgres.servers import empty_database

pytestmark = pytest.mark.long

QUICKLY = partial(settings, stateful_step_count=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Stores in files of their own, all closed in the end."""
    yield from made(lambda number: SQLiteStore(tmp_path / f"{number}.db", synchronous="normal"))


def test_the_memory_store_lives_as_the_model_says() -> None:
    run_state_machine_as_test(store_machine(MemoryStore), settings=QUICKLY(max_examples=20))


def test_sqlite_in_a_file_lives_as_the_model_says(files: Callable[[], Store]) -> None:
    run_state_machine_as_test(store_machine(files), settings=QUICKLY(max_examples=8))


@pytest.fixture
def namespaces() -> Iterator[Callable[[str], Callable[[], Store]]]:
    """Stores in namespaces of their own on one server, all closed in the end."""
    opened: list[Store] = []
    numbers = count()

    def maker(dsn: str) -> Callable[[], Store]:
        def make() -> Store:
            opened.append(open_store(dsn, namespace=f"d{next(numbers)}"))
            return opened[-1]

        return make

    yield maker
    for store in opened:
        store.close()


Makers = Callable[[str], Callable[[], Store]]


def test_redis_lives_as_the_model_says(namespaces: Makers) -> None:
    server = empty_server()
    with no_key_expires(server):
        run_state_machine_as_test(store_machine(namespaces(server.url)), settings=QUICKLY(max_examples=5))


def test_a_redis_cluster_lives_as_the_model_says(namespaces: Makers) -> None:
    cluster = empty_lone_cluster()
    maker = namespaces(f"{cluster.url}?partitions=3")
    with no_key_expires(cluster):
        run_state_machine_as_test(store_machine(maker), settings=QUICKLY(max_examples=2))


def test_postgresql_lives_as_the_model_says(namespaces: Makers) -> None:
    with empty_database() as url:
        maker = namespaces(url)
        run_state_machine_as_test(store_machine(maker), settings=QUICKLY(max_examples=2))


def awaited(maker: Callable[[], Store]) -> type[StoreMachine]:
    """The same lives, awaited."""

    class AwaitedMachine(StoreMachine):
        def make_store(self) -> Store:
            return maker()

        def make_engine(self, policy: Policy) -> Digests:
            return digests_in("async", self.store, policy=policy, lease=LEASE, clock=lambda: self.now / 1000)

        def teardown(self) -> None:
            super().teardown()
            for engine in self.engines.values():
                engine.close()

    return AwaitedMachine


def test_the_awaited_face_lives_as_the_model_says(files: Callable[[], Store]) -> None:
    run_state_machine_as_test(awaited(files), settings=QUICKLY(max_examples=2))
