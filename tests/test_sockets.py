"""Connections that failed are closed with the channel or client that made them."""

import asyncio
import gc
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import trustme

from digestif import StoreUnavailable
from digestif.channels.webhook import WebhookChannel
from digestif.client import AsyncClient
from digestif.core.verdicts import DeliveryFailed
from digestif.testing.channels import a_message

SECRET = "whsec_" + "c2VjcmV0" * 4
Use = Callable[[int, str], Coroutine[Any, Any, None]]


@contextmanager
def a_server_that_falls_silent(certificate: ssl.SSLContext) -> Iterator[int]:
    """The port of a server that reads the beginning of a request, and nothing more: no goodbye either."""
    over = Event()

    def serve() -> None:
        accepted, _ = listening.accept()
        with suppress(OSError), certificate.wrap_socket(accepted, server_side=True) as connection:
            connection.recv(100)
            over.wait(20)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=serve, name="silent server")
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            over.set()
            thread.join(20)


async def post(port: int, ca: str) -> None:
    channel = WebhookChannel(f"https://127.0.0.1:{port}/", secrets=[SECRET], timeout=0.3, allow_private=True, ca=ca)
    with pytest.raises(DeliveryFailed):
        await channel.deliver(a_message())
    await channel.close()


async def ask(port: int, ca: str) -> None:
    client = AsyncClient(f"https://127.0.0.1:{port}", timeout=0.3, patience=0, ca=ca)
    with pytest.raises(StoreUnavailable):
        await client.ledger()
    await client.close()


@pytest.mark.parametrize("use", [post, ask])
def test_a_tls_connection_whose_other_side_says_no_goodbye_is_closed_all_the_same(use: Use, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(certificate)

    with a_server_that_falls_silent(certificate) as port:
        asyncio.run(use(port, str(tmp_path / "ca.pem")))

        assert sockets_to(port) == []


def sockets_to(port: int) -> list[socket.socket]:
    """Sockets of this process that are connected to a port."""
    return [thing for thing in gc.get_objects() if isinstance(thing, socket.socket) and peer_port(thing) == port]


def peer_port(connection: socket.socket) -> int | None:
    try:
        return int(connection.getpeername()[1])
    except (OSError, IndexError):
        return None
