"""The store in memory obeys."""

from collections.abc import Callable

import pytest

from digestif import Store
from digestif.stores.memory import MemoryStore
from digestif.testing import StoreConformance


class TestMemory(StoreConformance):
    @pytest.fixture
    def make_store(self) -> Callable[[], Store]:
        return lambda: MemoryStore(namespace="d")

    @pytest.fixture
    def store(self, make_store: Callable[[], Store]) -> Store:
        return make_store()
