"""A folder of its own for every test, the command line in it, and an engine on the same file."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from digestif import Digests
from tests.cli.runner import DEFAULT_FILE, Run, run_in_process


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("DIGESTIF_STORE", "DIGESTIF_NAMESPACE", "DIGESTIF_CONFIG", "DIGESTIF_LISTEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def set_zone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", name)
    time.tzset()


@pytest.fixture
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A computer whose clock shows UTC."""
    with monkeypatch.context() as patch:
        set_zone("UTC", patch)
        yield
    time.tzset()


@pytest.fixture
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A computer in Berlin."""
    with monkeypatch.context() as patch:
        set_zone("Europe/Berlin", patch)
        yield
    time.tzset()


@pytest.fixture
def run() -> Run:
    return run_in_process


@pytest.fixture
def digests(folder: Path) -> Iterator[Digests]:
    """What the command line uses by default in this folder."""
    with Digests(f"sqlite:///{folder / DEFAULT_FILE}") as digests:
        yield digests
