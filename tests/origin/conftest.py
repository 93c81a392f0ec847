"""A database that the tests of a module share, each in a namespace of its own."""

from collections.abc import Iterator

import pytest

from tests.stores.postgres.warm import warm_database


@pytest.fixture(scope="module")
def warm_dsn() -> Iterator[str]:
    with warm_database() as url:
        yield url
