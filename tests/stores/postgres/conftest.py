"""An empty database, and digests in it."""

from collections.abc import Iterator

import pytest

from digestif import Digests, Policy
from tests.stores.postgres.servers import empty_database


@pytest.fixture
def url() -> Iterator[str]:
    with empty_database() as url:
        yield url


@pytest.fixture
def digests(url: str) -> Iterator[Digests]:
    with Digests(url, policy=Policy(minimum_delay=0)) as digests:
        yield digests
