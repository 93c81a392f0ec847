"""A browser, a service with a believable day in its store, and one of its own for each test that changes something."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from digestif.service.service import Service
from tests.browser import scene
from tests.browser.chromium import Desk, browser
from tests.service.harness import Client, serving


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="session")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service after a day of work, with hostile names. No test changes it."""
    folder = tmp_path_factory.mktemp("day")
    scene.fill(folder, now=time.time(), hostile=True)
    with scene.shown(folder) as address:
        yield address


@pytest.fixture
def desk(chromium: Browser) -> Iterator[Desk]:
    """A window. Nothing may be forbidden or fail in it that the test does not forgive."""
    found = Desk(chromium)
    yield found
    found.close()
    assert found.complaints == []


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'digestif.db'}"


@pytest.fixture
def running(store: str) -> Iterator[tuple[Client, Service]]:
    """A service without tokens, whose store other processes can open."""
    with serving(store) as found:
        yield found


@pytest.fixture
def client(running: tuple[Client, Service]) -> Client:
    return running[0]


@pytest.fixture
def service(running: tuple[Client, Service]) -> Service:
    return running[1]
