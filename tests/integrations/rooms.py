"""The mailroom that tests share: two workers and a beat of Celery."""

from collections.abc import Iterator

import pytest

from digestif.testing.servers import RedisServer
from tests.integrations.mailroom import Mailroom, Setup


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mailroom]:
    """Two workers and a beat."""
    directory = tmp_path_factory.mktemp("mailroom")
    with RedisServer() as server, Mailroom(Setup.on(server, directory, minimum_delay=2.0), directory) as room:
        for process in [room.start_worker(), room.start_worker(), room.start_beat()]:
            process.wait_until_ready()
        yield room


STORES = ("sqlite", "redis")
