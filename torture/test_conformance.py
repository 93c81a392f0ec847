"""Every fact once more, on the products and modes that the tests leave out for the sake of time."""

from collections.abc import Iterator

import pytest

from digestif import Store
from digestif.testing import StoreConformance
from tests.conformance.test_redis import Maker, made
from tests.servers import empty_lone_cluster, empty_server


class TestValkey(StoreConformance):
    @pytest.fixture
    def make_store(self) -> Iterator[Maker]:
        yield from made(empty_server("valkey").url.replace("redis://", "valkey://"))

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()


class TestRedisCluster(StoreConformance):
    @pytest.fixture
    def make_store(self) -> Iterator[Maker]:
        yield from made(f"{empty_lone_cluster('redis').url}?partitions=3")

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()
