"""A link through TLS: the server has to prove who it is."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import pytest
import trustme

from digestif.clock import monotonic
from digestif.errors import ConfigError
from digestif.testing.servers import HOST, RedisServer
from tests.stores.redis.links import echo, linked


class Encrypted(NamedTuple):
    url: str
    ca: Path  # who vouches for it


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    authority, ca = trustme.CA(), tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    with RedisServer() as server, terminated(context, server.port) as port:
        yield Encrypted(f"rediss://{HOST}:{port}", ca)


@contextmanager
def terminated(context: ssl.SSLContext, server: int) -> Iterator[int]:
    """A port that speaks TLS, in front of a server that does not: not every build does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, questions = await asyncio.open_connection(HOST, server)
        await asyncio.gather(pass_on(reader, questions), pass_on(answers, writer))

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # either side may leave first
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def run() -> None:
        # Of clients who trust nobody, which is what they are here for.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        over = asyncio.Event()
        async with await asyncio.start_server(serve, HOST, ssl=context) as listening:
            end = partial(asyncio.get_running_loop().call_soon_threadsafe, over.set)
            started.put((listening.sockets[0].getsockname()[1], end))
            await over.wait()

    started: SimpleQueue[tuple[int, Callable[[], object]]] = SimpleQueue()
    thread = threading.Thread(target=asyncio.run, args=[run()])
    thread.start()
    port, end = started.get()
    yield port
    end()
    thread.join()


def test_a_server_with_a_certificate_of_a_known_authority_is_trusted(encrypted: Encrypted) -> None:
    with linked(encrypted.url, ca=encrypted.ca) as link:
        assert link.run([echo("a"), echo("b")]) == [b"a", b"b"]


def test_a_server_of_an_unknown_authority_is_refused_at_once(encrypted: Encrypted) -> None:
    began = monotonic()
    with linked(encrypted.url, patience=60) as link:
        [answer] = link.run([echo("a")])

    assert isinstance(answer, ConfigError)
    assert "ca=/path" in str(answer)
    assert monotonic() - began < 30  # it is not tried again


def test_a_server_by_another_name_is_refused(encrypted: Encrypted) -> None:
    with linked(encrypted.url.replace("127.0.0.1", "localhost"), ca=encrypted.ca) as link:
        [answer] = link.run([echo("a")])

    assert isinstance(answer, ConfigError)


def test_trust_may_be_given_blindly(encrypted: Encrypted) -> None:
    with linked(encrypted.url.replace("127.0.0.1", "localhost"), verify="no") as link:
        assert link.run([echo("a")]) == [b"a"]
