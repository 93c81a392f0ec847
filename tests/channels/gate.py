"""A port before a server: connections go through it, or it is shut, or it keeps silent. In its own thread."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

HOST = "127.0.0.1"


class Gate:
    """Forwards connections to a port on this computer until a test says otherwise."""

    def __init__(self, target: int) -> None:
        self._held = socket.socket()  # holds the port while nothing listens there
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind((HOST, 0))
        self.port: int = self._held.getsockname()[1]
        self._target = target
        self._is_silent = False
        self._listening: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()

    @contextmanager
    def shut(self) -> Iterator[None]:
        """Inside the block nothing listens at the port."""
        self._do(self._shut)
        try:
            yield
        finally:
            self._do(self._open)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Inside the block connections are accepted, and that is all."""
        self._is_silent = True
        self.hang_up()
        try:
            yield
        finally:
            self._is_silent = False
            self.hang_up()

    def hang_up(self) -> None:
        """End all connections."""
        self._do(self._hang_up)

    async def _open(self) -> None:
        self._listening = await asyncio.start_server(self._accept, HOST, self.port)

    async def _shut(self) -> None:
        assert self._listening is not None
        self._listening.close()
        await self._hang_up()

    async def _hang_up(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        if self._is_silent:
            return
        with suppress(OSError):
            there, onwards = await asyncio.open_connection(HOST, self._target)
            self._writers.add(onwards)
            await asyncio.gather(_copy(reader, onwards), _copy(there, writer))

    def _do(self, act: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(act(), self._loop).result(10)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until either side ends, and end the other in the same way."""
    try:
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
        writer.close()
    except OSError:
        writer.transport.abort()


@contextmanager
def gate_to(target: int) -> Iterator[Gate]:
    """A gate that is open during the block."""
    gate = Gate(target)
    started = Event()

    async def serve() -> None:
        await gate._open()
        started.set()
        await over.wait()
        await gate._shut()

    over = asyncio.Event()
    thread = Thread(target=lambda: gate._loop.run_until_complete(serve()), name="gate")
    thread.start()
    assert started.wait(10)
    try:
        yield gate
    finally:
        gate._loop.call_soon_threadsafe(over.set)
        thread.join(10)
        for task in asyncio.all_tasks(gate._loop):
            task.cancel()
        gate._loop.run_until_complete(asyncio.sleep(0))
        gate._loop.close()
        gate._held.close()
