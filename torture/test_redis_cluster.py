"""The whole suite on a real cluster: three primaries with a replica each."""

from collections.abc import Iterator

import pytest

from digestif import Store
from digestif.testing import StoreConformance
from tests.conformance.makers import Maker, made_at
from tests.servers import empty_cluster, no_key_expires


class TestRealCluster(StoreConformance):
    @pytest.fixture
    def make_store(self) -> Iterator[Maker]:
        cluster = empty_cluster()
        with no_key_expires(*cluster.primaries()):
            yield from made_at(f"{cluster.url}?partitions=5")

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()
