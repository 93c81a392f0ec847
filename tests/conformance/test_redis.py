"""Redis and Valkey obey, as a single server and as a cluster-enabled one, which refuses keys of other slots in a call.

The awaited face: torture/test_conformance.py. Another product: DIGESTIF_REDIS_SERVER=/path/to/the/server.
"""

from collections.abc import Iterator
from functools import partial

import pytest

from digestif import Store
from digestif.testing import StoreConformance
from digestif.testing.conformance.base import Damager
from tests.conformance.makers import Maker, made_without_ttl
from tests.conformance.modes import OneMode, SharedRules
from tests.servers import empty_lone_cluster, empty_server
from tests.stores.redis.harm import harm_in


class TestRedisServer(OneMode, StoreConformance):
    @pytest.fixture
    def make_store(self) -> Iterator[Maker]:
        yield from made_without_ttl(empty_server())

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()

    @pytest.fixture
    def damage(self, store: Store) -> Damager:
        return partial(harm_in, store)


class TestRedisCluster(SharedRules, StoreConformance):
    @pytest.fixture
    def make_store(self) -> Iterator[Maker]:
        yield from made_without_ttl(empty_lone_cluster(), "?partitions=3")

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()

    @pytest.fixture
    def damage(self, store: Store) -> Damager:
        return partial(harm_in, store)
