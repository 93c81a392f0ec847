"""Every store compared with the model in many more random runs than the tests have time for."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from digestif.stores.base import Store
from digestif.stores.memory import MemoryStore
from digestif.stores.registry import open_store
from digestif.testing.stateful import store_machine
from tests.servers import empty_lone_cluster, empty_server
from tests.stores.redis.large_lives import live_large

LIVES = 400
LONG = settings(
    max_examples=LIVES,
    stateful_step_count=200,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.reuse, Phase.generate],  # shrinking a run of 200 steps takes hours: find the cause by hand
)


@pytest.fixture
def one_at_a_time() -> Iterator[Callable[[str], Callable[[], Store]]]:
    """Make new stores, each closed when the next one is made."""
    opened: list[Store] = []
    numbers = count()

    def close() -> None:
        while opened:
            opened.pop().close()

    def maker(dsn: str) -> Callable[[], Store]:
        def make() -> Store:
            close()
            number = next(numbers)
            opened.append(open_store(dsn.format(number), namespace=f"d{number}"))
            return opened[-1]

        return make

    yield maker
    close()


Makers = Callable[[str], Callable[[], Store]]


def test_the_memory_store_lives_as_the_model_says() -> None:
    run_state_machine_as_test(store_machine(MemoryStore), settings=LONG)


def test_sqlite_lives_as_the_model_says(one_at_a_time: Makers, tmp_path: Path) -> None:
    maker = one_at_a_time(f"sqlite:///{tmp_path}/{{}}.db?synchronous=normal")
    run_state_machine_as_test(store_machine(maker), settings=LONG)


def test_redis_lives_as_the_model_says(one_at_a_time: Makers) -> None:
    run_state_machine_as_test(store_machine(one_at_a_time(empty_server().url)), settings=LONG)


def test_a_redis_cluster_lives_as_the_model_says(one_at_a_time: Makers) -> None:
    maker = one_at_a_time(f"{empty_lone_cluster().url}?partitions=3")
    run_state_machine_as_test(store_machine(maker), settings=LONG)


@pytest.mark.parametrize("seed", range(1, 40))
def test_large_timelines_live_the_same_life_on_a_server_as_in_memory(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_large(seed, monkeypatch)
