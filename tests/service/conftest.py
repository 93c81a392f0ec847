"""A service for each test."""

from collections.abc import Iterator

import pytest

from digestif.service.service import Service
from tests.service.harness import Client, serving


@pytest.fixture
def running() -> Iterator[tuple[Client, Service]]:
    """A service without tokens, on a store in memory."""
    with serving() as (client, service):
        yield client, service


@pytest.fixture
def client(running: tuple[Client, Service]) -> Client:
    return running[0]


@pytest.fixture
def service(running: tuple[Client, Service]) -> Service:
    return running[1]
