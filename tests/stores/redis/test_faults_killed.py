"""Servers that are killed, and forget their scripts, while processes add and deliver."""

from pathlib import Path

import pytest

from digestif.clock import monotonic
from digestif.testing.servers import RedisServer
from tests.stores.redis.load import Load

pytestmark = pytest.mark.long

POSTPONED = 2.5  # seconds that a server with everysec may keep what it acknowledged to itself while its disk is slow


def test_a_server_that_is_killed_again_and_again_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with RedisServer(appendonly=True, appendfsync="always") as server:
        with Load(server.url, directory=tmp_path) as load:
            load.go_on()
            for _ in range(2):
                server.kill()
                server.start()
                load.go_on()
        account = load.account()

    account.check()
    assert not account.failures


def test_a_server_that_writes_every_second_keeps_its_books_and_loses_the_last_moments_at_most(tmp_path: Path) -> None:
    """A kill loses nothing that the server has written; but it writes nothing while it waits for the disk."""
    periods = []
    with RedisServer(appendonly=True, appendfsync="everysec") as server:
        with Load(server.url, directory=tmp_path) as load:
            load.go_on()
            for _ in range(2):
                server.kill()
                periods.append((monotonic() - POSTPONED, monotonic()))
                server.start()
                load.go_on()
        account = load.account()

    account.check_with_losses(*periods)
    assert not account.failures


def test_a_server_that_forgets_its_scripts_all_the_time_is_not_noticed(tmp_path: Path) -> None:
    with RedisServer() as server:
        with Load(server.url, directory=tmp_path, processes=1) as load:
            load.go_on()
            for _ in range(8):
                server.cli("SCRIPT", "FLUSH")
                load.go_on(1)
        account = load.account()

    account.check()
    assert not account.failures
    assert not account.unknown
