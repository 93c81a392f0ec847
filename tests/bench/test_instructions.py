"""The bytes whose cost is counted do the same work when they are sent again."""

import socket

import pytest

from bench.instructions import WAYS, _replay, sent_by
from digestif.testing.servers import RedisServer


@pytest.mark.parametrize("name", ["add", "add_many of 500"])
def test_what_was_sent_adds_the_same_records_to_another_server(name: str) -> None:
    sent = sent_by(WAYS[name], blocks=1)
    accepted = []
    for data in (sent.data[: sent.mark], sent.data):
        with RedisServer() as server:
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                _replay(connection, data)
            namespace = "one" if name == "add" else "many"
            accepted.append(int(server.cli("HGET", f"{{{namespace}:0}}:ledger", "accepted")))

    assert accepted[1] - accepted[0] == sent.records == WAYS[name].records
