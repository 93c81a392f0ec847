"""What every test here is given: a store in memory, in both modes. The same facts on every store: tests/conformance."""

from collections.abc import Callable

import pytest

from digestif import Store
from digestif.stores.memory import MemoryStore
from digestif.testing.conformance.base import Suite


class InMemory(Suite):
    """The fixtures of the conformance suite."""

    @pytest.fixture
    def make_store(self) -> Callable[[], Store]:
        return MemoryStore

    @pytest.fixture
    def store(self, make_store: Callable[[], Store]) -> Store:
        return make_store()
