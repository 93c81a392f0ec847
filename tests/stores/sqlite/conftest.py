"""A store in a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from digestif.stores.sqlite import SQLiteStore


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "d.db")


@pytest.fixture
def store(path: str) -> Iterator[SQLiteStore]:
    store = SQLiteStore(path)
    yield store
    store.close()
