"""The shipped conformance suite on the store in memory. Asynchronously it would only find the same again."""

from collections.abc import Callable
from functools import partial

import pytest

from digestif import Store
from digestif.stores.memory import MemoryStore
from digestif.testing import StoreConformance
from digestif.testing.conformance.base import Damager
from digestif.testing.conformance.moves import Moves
from digestif.testing.modes import Mode
from tests.stores.memory_harm import harm_in_memory


class TestMemory(Moves, StoreConformance):
    @pytest.fixture(params=["sync"])
    def mode(self, request: pytest.FixtureRequest) -> Mode:
        return "sync"

    @pytest.fixture
    def make_store(self) -> Callable[[], Store]:
        return lambda: MemoryStore(namespace="d")

    @pytest.fixture
    def store(self, make_store: Callable[[], Store]) -> Store:
        return make_store()

    @pytest.fixture
    def damage(self, store: Store) -> Damager:
        return partial(harm_in_memory, store)
