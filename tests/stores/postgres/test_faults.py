"""Backends and servers that are killed while processes add and deliver: nothing that was acknowledged is lost."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from digestif import Digests
from digestif.stores.rows import Rows
from digestif.testing.postgres import PostgresServer
from tests.stores.postgres.faults import crash, tormented
from tests.stores.postgres.servers import empty_database
from tests.stores.redis.load import PATIENCE

pytestmark = pytest.mark.long


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:  # with fsync
        yield server


QUICK = [crash]  # all of them in turn: torture/test_postgres.py


@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: fault.__name__)
def test_nothing_acknowledged_is_lost_and_everybody_goes_on(
    server: PostgresServer, fault: Callable[[PostgresServer], None], tmp_path: Path
) -> None:
    account = tormented(server, [fault], directory=tmp_path, processes=1)

    account.check()
    assert account.acknowledged


def test_who_is_frozen_in_a_transaction_does_not_keep_others_waiting_for_ever() -> None:
    begun, thawed = threading.Event(), threading.Event()

    def freeze(rows: Rows) -> None:
        rows.concern(["t"])
        begun.set()
        thawed.wait(PATIENCE)

    with empty_database() as url, Digests(f"{url}?timeout=1") as frozen, Digests(url) as others:
        others.add("t", 1)
        with ThreadPoolExecutor(1) as threads:
            done = threads.submit(frozen.store._write, freeze)  # type: ignore[attr-defined]
            assert begun.wait(PATIENCE)
            others.add("t", 2)
            assert not done.done()
            thawed.set()
            done.result()  # it is done again

        assert others.timeline("t").pending == 2
