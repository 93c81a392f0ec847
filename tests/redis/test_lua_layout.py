"""What lies on a server hangs together after every step, and is no more than it must be."""

import shutil
import subprocess
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from digestif.core.policy import Terms
from digestif.stores.base import Arrival, Store
from digestif.stores.dsn import open_store
from digestif.stores.redis import RedisStore
from digestif.testing.conformance.port import NOW, arrive
from digestif.testing.servers import RedisServer
from digestif.testing.stateful import StoreMachine
from tests.redis.hints import opened
from tests.redis.layout import flaws
from tests.servers import empty_server, needed_server

QUICKLY = settings(
    max_examples=5, stateful_step_count=120, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
KEPT = 600_000  # milliseconds for which answers are kept
_numbers = count()


class LayoutMachine(StoreMachine):
    """The life of timelines, after each step of which the layout is looked at."""

    def make_store(self) -> Store:
        server = empty_server()
        self.client = server.client()
        return open_store(server.url, namespace=f"layout{next(_numbers)}")

    @invariant()
    def the_keys_hang_together(self) -> None:
        assert flaws(self.client, namespace=self.store.namespace) == []

    def teardown(self) -> None:
        super().teardown()
        self.client.close()


def test_keys_hang_together_whatever_happens() -> None:
    run_state_machine_as_test(LayoutMachine, settings=QUICKLY)


@pytest.fixture
def store() -> Iterator[Store]:
    with opened(empty_server().url) as store:
        yield store


def test_the_empty_key_is_no_record(store: Store) -> None:
    """The slot of a timeline has that name among its records."""
    arrive(store, "t", ["a"])
    before = store.inspect("t")

    assert store.retract("t", "", now=NOW) is False
    assert store.inspect("t") == before


def test_answers_to_callers_that_are_gone_are_forgotten(store: RedisStore) -> None:
    """A page of them whenever a new caller comes: as many as come, and a few times the page."""
    client = empty_server().client()
    for number in range(1200):
        store._dialogue.forget_callers()
        arrive(store, "t", ["a"], now=NOW + (number // 400) * (KEPT + 1_000) + number % 400)

    with client:
        assert client.hlen("{d:0}:ledger") < 600


def test_schedule_misses_nothing_whatever_the_language_of_the_server(american: RedisServer) -> None:
    """Names of equal due times stand in the order of their bytes, though the server compares strings otherwise."""
    names = [*"aBcDeFgHAbCdEfGh", "-b", "_a", "é", "É"]
    with opened(american.url) as store:
        store.add([Arrival(name, "a", b"1", 0.0, None, Terms(first_delay=1_000)) for name in names], now=NOW)

        given, after = [], None
        while after is not None or not given:
            page = store.schedule(0, NOW + 1_000, after=after, limit=3, now=NOW + 1_000)
            given += [due.timeline for due in page.entries]
            after = page.after

    assert given == sorted(names)


@pytest.fixture(scope="module")
def american(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server for which B comes after a."""
    needed_server()
    folder = tmp_path_factory.mktemp("locales")
    if shutil.which("localedef") is None:
        pytest.skip("this system can't make a locale")
    making = ["localedef", "-i", "en_US", "-f", "UTF-8", str(folder / "en_US.UTF-8")]
    subprocess.run(making, check=False, capture_output=True)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LOCPATH", str(folder))
        environment.setenv("LC_ALL", "en_US.UTF-8")
        server = RedisServer().start()
    with server:
        if server.cli("EVAL", "return tostring('B' > 'a')", 0) != "true":
            pytest.skip("this server does not know the locale that was made")
        yield server
