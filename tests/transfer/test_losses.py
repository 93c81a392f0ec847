"""A move carries what was lost, and does not wait for records that are gone."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from digestif import Digests, Move, Policy
from digestif.stores.transfer import TransferStore
from digestif.testing.conformance.actions import T, add_all, deliver, fail, numbered
from digestif.testing.conformance.losses import fates
from tests.servers import empty_server, shared_connection

POLICY = Policy(attempts=1, minimum_delay=0)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Digests]:
    with Digests(f"sqlite:///{tmp_path}/d.db", policy=POLICY) as digests:
        yield digests


@pytest.fixture
def server() -> Iterator[Digests]:
    with Digests(empty_server().url, policy=POLICY) as digests:
        yield digests


def populate(digests: Digests) -> None:
    for name in ("delivered", "dead", "pending"):
        add_all(digests, name, numbered(range(3)))
    deliver(digests, "delivered")
    fail(digests, "dead")


def move(source: Digests, target: Digests) -> None:
    assert isinstance(source.store, TransferStore)
    assert isinstance(target.store, TransferStore)
    Move(source.store, target.store).run()


def test_a_file_with_damage_is_moved_with_what_is_left(file: Digests, server: Digests, tmp_path: Path) -> None:
    """Fact 77. A row of a dead letter and a pending one are gone, a pending value is: the target has the rest."""
    populate(file)
    with closing(sqlite3.connect(tmp_path / "d.db", isolation_level=None)) as rows:
        rows.execute("DELETE FROM record WHERE key = 'r0'")
        rows.execute("UPDATE record SET payload = NULL WHERE key = 'r1' AND batch NOT IN (SELECT batch FROM letter)")

    move(file, server)

    assert (server.ledger().accepted, server.ledger().lost, file.ledger().accepted) == (9, 2, 0)
    server.repair(now=T)
    assert fates(server) == {"accepted": 9, "pending": 1, "delivered": 3, "dead": 3, "lost": 2}


def test_a_server_with_damage_is_moved_with_what_is_left(file: Digests, server: Digests) -> None:
    """Fact 77. A field of a dead letter is gone: the target has the rest."""
    populate(server)
    [letter] = server.dead_letters()
    shared_connection().hdel(f"{{d:0}}:l:{letter.id}", "r0")

    move(server, file)

    assert (file.ledger().accepted, server.ledger().accepted) == (9, 0)
    assert fates(file) == {"accepted": 9, "pending": 3, "delivered": 3, "dead": 2, "lost": 1}
