"""What every test here is given: the store in memory, in both modes, and Redis and PostgreSQL as a server has them."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from digestif import Store
from digestif.stores.memory import MemoryStore
from digestif.testing.conformance.base import Suite
from digestif.testing.modes import Mode
from tests.conformance.makers import made_warm, made_without_ttl
from tests.servers import empty_server


class Place(NamedTuple):
    """A store and the face through which it is used."""

    store: str
    mode: Mode


PLACES = (Place("memory", "sync"), Place("memory", "async"), Place("redis", "sync"), Place("postgres", "async"))


class OnEveryStore(Suite):
    """The fixtures of the conformance suite."""

    @pytest.fixture(params=PLACES, ids="-".join)
    def place(self, request: pytest.FixtureRequest) -> Place:
        found: Place = request.param
        return found

    @pytest.fixture
    def mode(self, place: Place) -> Mode:
        return place.mode

    @pytest.fixture
    def make_store(self, place: Place, request: pytest.FixtureRequest) -> Iterator[Callable[[], Store]]:
        if place.store == "redis":
            yield from made_without_ttl(empty_server())
        elif place.store == "postgres":
            yield from made_warm(request.getfixturevalue("warm_dsn"))
        else:
            yield MemoryStore

    @pytest.fixture
    def store(self, make_store: Callable[[], Store]) -> Store:
        return make_store()
