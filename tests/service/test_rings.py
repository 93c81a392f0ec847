"""The prefixes of tokens, as the service names them to the store: what a tenant does pushes out nothing of others."""

import asyncio
import signal
from pathlib import Path

import pytest

from digestif import Digests
from digestif.service.engine import open_engine
from digestif.service.settings import Token
from digestif.stores.memory import MemoryStore
from digestif.testing.processes import becomes_true
from tests.service.harness import settings_with, token_of
from tests.service.programs import Program, started

FILE = """
store = "sqlite:///digestif.db"
[[routes]]
pattern = "*"
channel = "file://./outbox"
policy = "immediate"
"""


def write(folder: Path, *tokens: Token) -> None:
    tables = "".join(
        f'[[tokens]]\nname = "{each.name}"\nhash = "{each.hash}"\nscopes = ["admin"]\nprefix = "{each.prefix}"\n'
        for each in tokens
    )
    (folder / "digestif.toml").write_text(FILE + tables)


def rings(folder: Path) -> tuple[str, ...]:
    """The rings that a process knows which opens the store now."""
    with Digests(f"sqlite:///{folder}/digestif.db") as digests:
        return digests.store.tenants().rings


def test_an_engine_of_settings_names_the_prefixes_of_tokens() -> None:
    store = MemoryStore()
    tokens = [token_of(name, prefix=prefix)[1] for name, prefix in (("all", ""), ("a", "a:"), ("also a", "a:"))]

    asyncio.run(open_engine(settings_with(*tokens), store).close())

    assert store.tenants().rings == ("", "a:")


@pytest.mark.long
def test_a_service_names_prefixes_when_it_starts_and_when_it_reloads(tmp_path: Path) -> None:
    a, b = (token_of(name, prefix=f"{name}:")[1] for name in "ab")
    write(tmp_path, a)
    with started(tmp_path) as (program, _):
        assert becomes_true(lambda: rings(tmp_path) == ("", "a:"))

        write(tmp_path, a, b)
        program.signal(signal.SIGHUP)
        program.said("reloaded digestif.toml")

        assert becomes_true(lambda: rings(tmp_path) == ("", "a:", "b:"))


@pytest.mark.long
def test_a_service_without_a_worker_names_prefixes(tmp_path: Path) -> None:
    write(tmp_path, token_of("a", prefix="a:")[1])

    with started(tmp_path, "--no-worker"):
        assert becomes_true(lambda: rings(tmp_path) == ("", "a:"))


@pytest.mark.long
def test_a_worker_of_a_file_names_the_prefixes_of_its_tokens(tmp_path: Path) -> None:
    write(tmp_path, token_of("a", prefix="a:")[1])

    with Program("worker", "--config", "digestif.toml", folder=tmp_path):
        assert becomes_true(lambda: (tmp_path / "digestif.db").exists() and rings(tmp_path) == ("", "a:"))
