"""An engine in memory, and a channel that records what it is given."""

from collections.abc import Iterator

import pytest

from digestif import Digests
from tests.routes.recorder import POLICY, Recording


@pytest.fixture
def channel() -> Recording:
    return Recording()


@pytest.fixture
def digests() -> Iterator[Digests]:
    with Digests("memory://", policy=POLICY) as digests:
        yield digests
