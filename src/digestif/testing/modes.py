"""Two modes for one test: `Digests`, or `AsyncDigests` behind the same blocking methods."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from threading import Thread
from typing import Any, Literal, Self, TypeVar, cast

from digestif import AsyncDigests, Digest, Digests, ScheduleEntry
from digestif.stores.base import Store

Mode = Literal["sync", "async"]
MODES: tuple[Mode, ...] = ("sync", "async")
T = TypeVar("T")


def digests_in(mode: Mode, store: str | Store, **options: Any) -> Digests:
    """An engine whose methods block, whatever the mode. It has to be closed."""
    if mode == "sync":
        return Digests(store, **options)
    return cast(Digests, Blocking(lambda: AsyncDigests(store, **options)))


class Blocking:
    """`AsyncDigests` in an event loop of its own, which runs in a thread: each call waits for its answer."""

    def __init__(self, make: Callable[[], AsyncDigests]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="digestif-async-mode", daemon=True)
        self._thread.start()
        try:
            self._digests: AsyncDigests = self._wait(_awaited(make))
        except BaseException:
            self._stop()
            raise

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._digests, name)
        if not callable(found) or name.startswith("_"):  # a worker calls these, on its own loop
            return found
        return lambda *args, **kwargs: self._wait(_awaited(lambda: found(*args, **kwargs)))

    def schedule(self, *args: Any, **kwargs: Any) -> Iterator[ScheduleEntry]:
        async def begin() -> AsyncIterator[ScheduleEntry]:
            return aiter(self._digests.schedule(*args, **kwargs))

        return self._steps(self._wait(begin()))

    def _steps(self, entries: AsyncIterator[ScheduleEntry]) -> Iterator[ScheduleEntry]:
        async def step() -> ScheduleEntry | None:
            return await anext(entries, None)

        try:
            while (entry := self._wait(step())) is not None:
                yield entry
        finally:
            if isinstance(entries, AsyncGenerator) and self._thread.is_alive():
                self._wait(_awaited(entries.aclose))

    @contextmanager
    def digest(self, *args: Any, **kwargs: Any) -> Iterator[Digest]:
        """Enter and leave in one task, as `async with` does; the block's exception is raised inside it."""
        block = _Block()
        held = asyncio.run_coroutine_threadsafe(block.hold(lambda: self._digests.digest(*args, **kwargs)), self._loop)
        digest = block.entered.result()
        try:
            yield digest
        except BaseException as error:  # noqa: BLE001 - it is raised again inside the task
            block.error = error
        self._loop.call_soon_threadsafe(block.left.set)
        held.result()

    def close(self) -> None:
        if self._thread.is_alive():
            try:
                self._wait(_awaited(self._digests.close))
            finally:
                self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _stop(self) -> None:
        self._wait(self._loop.shutdown_asyncgens())
        self._wait(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Block:
    """The body of an `async with`, run by another thread."""

    def __init__(self) -> None:
        self.entered: Future[Digest] = Future()
        self.left = asyncio.Event()
        self.error: BaseException | None = None  # what the body raised

    async def hold(self, open_digest: Callable[[], AbstractAsyncContextManager[Digest]]) -> None:
        try:
            async with open_digest() as digest:
                self.entered.set_result(digest)
                await self.left.wait()
                if self.error is not None:
                    raise self.error
        except BaseException as error:
            if not self.entered.done():
                self.entered.set_exception(error)
            raise


async def _awaited(call: Callable[[], Any]) -> Any:
    """Call it inside the loop, and await its answer if that is awaitable."""
    answer = call()
    return await answer if inspect.isawaitable(answer) else answer
