"""The pytest plugin: fixtures for tests of code that uses Digestif. Every pytest run loads it, so it imports little."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from digestif import Digests
    from digestif.testing.clock import FakeClock

pytest.register_assert_rewrite(
    "digestif.testing.channels",
    "digestif.testing.conformance",
    "digestif.testing.footprint",
    "digestif.testing.stateful",
    "digestif.testing.vectors",
)


@pytest.fixture
def digestif_clock() -> "FakeClock":
    """A clock that stands still until `advance` is called."""
    from digestif.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture
def digestif_digests(digestif_clock: "FakeClock") -> "Iterator[Digests]":
    """An engine in memory that reads `digestif_clock`."""
    from digestif import Digests

    with Digests("memory://", clock=digestif_clock) as digests:
        yield digests
