"""Visitors of a service."""

import pytest

from tests.service.dashboard.visitor import Visitor
from tests.service.harness import Client


@pytest.fixture
def visitor(client: Client) -> Visitor:
    """The one user of a service without tokens."""
    return Visitor(client)
