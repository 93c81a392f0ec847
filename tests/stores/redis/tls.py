"""A port that speaks TLS in front of a server, for the tests."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from digestif.testing.servers import HOST


class Encrypted(NamedTuple):
    url: str
    ca: Path  # the certificate of its authority


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
        # Clients that refuse the certificate are part of the tests.
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
