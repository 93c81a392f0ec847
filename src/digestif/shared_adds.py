"""Adds on an event loop that share store calls: those that come during one call go together into the next."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from digestif.additions import pages_of
from digestif.core.times import Millis
from digestif.engine import Engine
from digestif.stores.base import PAGE_RECORDS, Accepted, Arrival

GATHERING = 0.005  # seconds
TURNS = 2  # of the event loop, from what a socket has received to an add
LONG = 1.0  # seconds after which the adds that wait for a store call are sent beside it

_Add = tuple[Arrival, Millis | None, "asyncio.Future[Accepted]"]  # its time, and the answer
_Submit = Callable[[Callable[[], Sequence[Accepted | None]]], Future[Sequence[Accepted | None]]]


class SharedAdds:
    """Collects the adds that arrive during a store call, and makes the next call with all of them.

    A call may take long, because one of its records waits for a server that does not answer. Then the next call does
    not wait for it, unless `most_long` calls take that long. Adds whose servers were found not to answer in that time
    go to `silent`.
    """

    def __init__(
        self, engine: Engine, submit: _Submit, *, silent: "SharedAdds | None" = None, most_long: int = 0
    ) -> None:
        self._engine = engine
        self._submit = submit
        self._silent = silent
        self._most_long = most_long
        self._waiting: list[_Add] = []
        self._flushing: asyncio.Task[None] | None = None
        self._long: set[asyncio.Task[None]] = set()  # flushes whose last call takes long

    def add(self, arrival: Arrival, now: Millis | None) -> "asyncio.Future[Accepted]":
        answer: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._take([(arrival, now, answer)])
        return answer

    def _take(self, adds: list[_Add]) -> None:
        self._waiting += adds
        if self._flushing is None and adds:
            self._flushing = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        this = asyncio.current_task()
        try:
            while self._waiting and self._flushing is this:
                await self._gather()
                if page := self._next_page():
                    await self._call(page)
        finally:
            if self._flushing is this:
                self._flushing = None

    def _leave_behind(self) -> None:
        """Send the adds that wait, and those to come, beside the call that takes long: another server may answer."""
        if self._flushing is not None and len(self._long) < self._most_long and self._engine.store.is_divided:
            self._long.add(self._flushing)
            self._flushing.add_done_callback(self._long.discard)
            self._flushing = asyncio.create_task(self._flush()) if self._waiting else None

    async def _gather(self) -> None:
        """Wait while each turn of the event loop brings further adds, for a moment at most.

        A thread in the store and a busy event loop would only take the interpreter from each other.
        """
        loop = asyncio.get_running_loop()
        end, before = loop.time() + GATHERING, 0
        while before < len(self._waiting) < PAGE_RECORDS and loop.time() < end:
            before = len(self._waiting)
            for _ in range(TURNS):
                await asyncio.sleep(0)

    async def drained(self) -> None:
        """Wait until no add is under way."""
        while under_way := {*self._long, *([] if self._flushing is None else [self._flushing])}:
            await asyncio.wait(under_way)

    def _next_page(self) -> list[_Add]:
        """Return the adds of one store call: those with the same time, without those whose callers no longer wait."""
        if self._long and self._silent is not None:
            self._pass_on_to(self._silent)
        if not self._waiting:
            return []
        now = self._waiting[0][1]
        size = next((i for i, item in enumerate(self._waiting) if item[1] != now), len(self._waiting))
        size = len(next(pages_of([arrival for arrival, _, _ in self._waiting[: min(size, PAGE_RECORDS)]])))
        page = self._waiting[:size]
        del self._waiting[: len(page)]
        return [item for item in page if not item[2].done()]

    def _pass_on_to(self, other: "SharedAdds") -> None:
        """Pass the adds on whose servers were found not to answer while they waited."""
        is_silent, waiting = self._engine.store.is_silent, self._waiting
        self._waiting = [each for each in waiting if not is_silent(each[0].timeline)]
        other._take([each for each in waiting if is_silent(each[0].timeline)])

    async def _call(self, page: list[_Add]) -> None:
        arrivals = [arrival for arrival, _, _ in page]
        results: Sequence[Accepted | None]
        failure: Exception | None
        long = asyncio.get_running_loop().call_later(LONG, self._leave_behind)
        try:
            adding = self._submit(partial(self._engine.add_page, arrivals, now=page[0][1]))
            results = await asyncio.wrap_future(adding)
        except Exception as error:  # noqa: BLE001  # raised in each caller whose record may not have been accepted
            known = getattr(error, "answers", None) or [None] * len(page)
            results = [None if ready is None else Accepted(ready=ready) for ready in known]
            failure = error
        else:
            failure = None
        finally:
            long.cancel()
        for (_, _, answer), result in zip(page, results, strict=True):
            if answer.done():
                continue
            if result is not None:
                answer.set_result(result)
            elif failure is not None:
                answer.set_exception(failure)
