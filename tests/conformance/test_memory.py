"""The store in memory obeys."""

from collections.abc import Callable
from functools import partial

import pytest

from digestif import Digests, Store
from digestif.stores.memory import MemoryStore
from digestif.testing.conformance.actions import add_all, numbered
from digestif.testing.conformance.base import Damager
from digestif.testing.conformance.losses import Losses
from tests.conformance.modes import NothingLarge, Undamaged
from tests.stores.memory_harm import harm_in_memory


class TestMemory(NothingLarge, Undamaged):  # type: ignore[misc]  # a class that mypy does not see
    @pytest.fixture
    def make_store(self) -> Callable[[], Store]:
        return lambda: MemoryStore(namespace="d")

    @pytest.fixture
    def store(self, make_store: Callable[[], Store]) -> Store:
        return make_store()

    def test_verify_notices_a_record_that_is_missing(self, digests: Digests, store: MemoryStore) -> None:
        """Fact 48. verify compares with a recount from the data: a record that is gone is noticed."""
        add_all(digests, "t", numbered(range(3)))
        [batch] = store._tables._batches.values()
        del batch.entries["r1"]

        report = digests.verify()

        assert bool(report) is False
        assert (report.ledger.pending, report.recounted["pending"]) == (3, 2)
        assert report.problems


class TestMemoryLosses(Losses):
    """Nothing takes records out of memory but a mistake; repairs and counts hold there, too."""

    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore(namespace="d")

    @pytest.fixture
    def damage(self, store: Store) -> Damager:
        return partial(harm_in_memory, store)
