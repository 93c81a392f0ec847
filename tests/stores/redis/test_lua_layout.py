"""The keys on a server agree with each other after every step, and none is left over."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from digestif.core.terms import Terms
from digestif.stores.base import Arrival, Store
from digestif.stores.registry import open_store
from digestif.testing.conformance.port import NOW, arrive
from digestif.testing.servers import RedisServer
from digestif.testing.stateful import StoreMachine
from tests.servers import empty_server
from tests.stores.redis.hints import opened
from tests.stores.redis.layout import flaws

pytestmark = pytest.mark.long

QUICKLY = settings(max_examples=2, stateful_step_count=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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


def test_the_empty_key_is_no_record() -> None:
    """The slot of a timeline has that name among its records."""
    with opened(empty_server().url) as store:
        arrive(store, "t", ["a"])
        before = store.inspect("t")

        assert store.retract("t", "", now=NOW) is False
        assert store.inspect("t") == before


def test_schedule_misses_nothing_whatever_the_language_of_the_server(tmp_path: Path) -> None:
    """Names with equal due times stand in the order of their bytes, though the server compares strings otherwise."""
    names = [*"abcdefghij", "-b", "_a", "é", "É"]
    with backward_server(tmp_path) as server, opened(server.url) as store:
        store.add([Arrival(name, "a", b"1", 0.0, None, Terms(first_delay=1_000)) for name in names], now=NOW)

        given: list[str] = []
        after = None
        while after is not None or not given:
            page = store.schedule(0, NOW + 1_000, after=after, limit=3, now=NOW + 1_000)
            given += [due.timeline for due in page.entries]
            after = page.after

    assert given == sorted(names)


BACKWARD = "LC_COLLATE\norder_start forward\n" + "\n".join(f"<U{ord(c):04X}>" for c in "jihgfedcba")


@contextmanager
def backward_server(folder: Path) -> Iterator[RedisServer]:
    """A server in whose language b comes before a."""
    if shutil.which("localedef") is None:
        pytest.skip("this system can't make a locale")
    source = folder / "backward"
    source.write_text(f"{BACKWARD}\nUNDEFINED\norder_end\nEND LC_COLLATE\n")
    making = ["localedef", "-c", "-i", str(source), "-f", "UTF-8", str(folder / "xx_XX.UTF-8")]
    subprocess.run(making, check=False, capture_output=True)  # it warns of all that the source leaves out
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("LC_ALL", raising=False)
        environment.setenv("LOCPATH", str(folder))
        environment.setenv("LC_COLLATE", "xx_XX.UTF-8")
        server = RedisServer().start()
    with server:
        if server.cli("EVAL", "return tostring('b' < 'a')", 0) != "true":
            pytest.skip("this server does not know the locale that was made")
        yield server
