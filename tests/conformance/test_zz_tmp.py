import pytest
from digestif.stores.memory import MemoryStore
from digestif.testing import Partitioned, StoreConformance
class TestAll(StoreConformance):
    @pytest.fixture
    def make_store(self):
        return lambda: Partitioned([MemoryStore(namespace="d") for _ in range(2)])
    @pytest.fixture
    def store(self):
        return Partitioned([MemoryStore(namespace="d") for _ in range(3)])
