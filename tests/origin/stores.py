"""What every test here is given: each kind of store, in both modes."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from digestif import Store
from digestif.stores.dsn import open_store
from digestif.testing.conformance.base import Suite

DSNS = {
    "memory": "memory://",
    "sqlite-file": "sqlite:///{folder}/{number}.db",
}


class OnEveryStore(Suite):
    """The fixtures of the conformance suite, with each kind of store in turn."""

    @pytest.fixture(params=DSNS.values(), ids=list(DSNS))
    def make_store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
        numbers = count()

        def make() -> Store:
            store = open_store(request.param.format(folder=tmp_path, number=next(numbers)))
            request.addfinalizer(store.disconnect)
            return store

        return make

    @pytest.fixture
    def store(self, make_store: Callable[[], Store]) -> Store:
        return make_store()
