"""The execution of handlers: coroutines on the event loop, functions in threads; each attempt is judged."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from digestif.attempts.delivery import Delivery
from digestif.attempts.handlers import Handler, Kind
from digestif.attempts.judgement import judge
from digestif.attempts.stages import Judged, Loaded
from digestif.attempts.steps import NotBegun
from digestif.core.verdicts import give_back
from digestif.threads import DaemonThreads, outcome
from digestif.worker.limits import Limits


class Execution:
    """The handlers that are running. `on_judged` is called with attempts whose outcome is known, soon after it is."""

    def __init__(
        self,
        limits: Limits,
        *,
        on_judged: Callable[[list[Judged]], None],
        cancel_seconds: float,
    ) -> None:
        self._on_judged = on_judged
        self._cancel_seconds = cancel_seconds
        self._coroutines = asyncio.Semaphore(limits.concurrency)
        self._threads = DaemonThreads(limits.threads, "digestif-handler")
        self._running: dict[asyncio.Task[None], Sequence[Delivery]] = {}
        self._counts = dict.fromkeys(Kind, 0)
        self.weight = 0  # bytes of the records that handlers hold
        self._is_giving_up = False

    @property
    def attempts(self) -> int:
        """The number of attempts whose handlers are running."""
        return sum(self._counts.values())

    @property
    def timelines(self) -> list[str]:
        """The timelines whose handlers are running."""
        return [each.timeline for deliveries in self._running.values() for each in deliveries]

    def count(self, kind: Kind) -> int:
        """Return how many digests handlers of this kind are called with."""
        return self._counts[kind]

    def start(self, loaded: Sequence[Loaded]) -> None:
        """Call the handlers of these digests."""
        for handler, group in _calls(loaded):
            weight = 0
            for each in group:
                weight += each.weight
            deliveries = list(map(Delivery, group))
            task = asyncio.get_running_loop().create_task(self._run(handler, deliveries, weight))
            self._running[task] = deliveries
            self._counts[handler.kind] += len(group)
            self.weight += weight

    async def finished(self, seconds: float | None = None) -> None:
        """Wait until no handler is running, or for at most these seconds."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def give_up(self) -> None:
        """Cancel coroutines, and give back all digests whose handlers have not ended."""
        self._is_giving_up = True
        left = dict(self._running)
        for task in left:
            task.cancel()
        await self.finished(self._cancel_seconds)
        unfinished = {task: deliveries for task, deliveries in left.items() if task in self._running}
        for task, deliveries in unfinished.items():
            verdict = give_back(begun=not task.done())  # one that was cancelled before its first step is done
            self._on_judged([each.judged(verdict) for each in deliveries])
        self._threads.shutdown()

    async def _run(self, handler: Handler, deliveries: Sequence[Delivery], weight: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        judged: list[Judged] = []
        try:
            errors = await self._errors(handler, deliveries)
            judged = [judge(each, error) for each, error in zip(deliveries, errors, strict=True)]
        except NotBegun:
            judged = [each.judged(give_back(begun=False)) for each in deliveries]
        except asyncio.CancelledError as error:
            if not self._is_giving_up and not task.cancelling():  # raised by the handler itself
                judged = [judge(each, error) for each in deliveries]
        finally:
            judged = judged or [each.judged(give_back(begun=True)) for each in deliveries]  # it did not get to the end
            del self._running[task]  # before `on_judged`, which counts the free places
            self._counts[handler.kind] -= len(deliveries)
            self.weight -= weight
            self._on_judged(judged)

    async def _errors(self, handler: Handler, deliveries: Sequence[Delivery]) -> Sequence[BaseException | None]:
        """Return the error of each digest, or None."""
        try:
            if handler.kind is Kind.COROUTINE:
                answer = await self._on_loop(handler, deliveries)
            else:
                answer = await self._in_thread(handler, deliveries)
        except (asyncio.CancelledError, NotBegun):
            raise
        except BaseException as error:  # noqa: BLE001  # also SystemExit: a handler does not end its worker
            return [error] * len(deliveries)
        return handler.errors_in(answer, len(deliveries))

    async def _on_loop(self, handler: Handler, deliveries: Sequence[Delivery]) -> Any:
        try:
            await self._coroutines.acquire()
        except asyncio.CancelledError:
            raise NotBegun from None
        try:
            return await handler.call(deliveries)
        finally:
            self._coroutines.release()

    async def _in_thread(self, handler: Handler, deliveries: Sequence[Delivery]) -> Any:
        future = self._threads.submit(outcome, partial(handler.call, deliveries))
        try:
            answer, error = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if future.cancelled():
                raise NotBegun from None
            raise
        if error is not None:
            raise error
        return await answer if inspect.isawaitable(answer) else answer


def _calls(loaded: Sequence[Loaded]) -> Iterator[tuple[Handler, Sequence[Loaded]]]:
    """Yield each handler with the digests of one call: a single one, or those of a batch."""
    batches: dict[str, tuple[Handler, list[Loaded]]] = {}
    for each in loaded:
        handler = each.claimed.handler
        assert handler is not None  # or it would not have been loaded
        if handler.batch is None:
            yield handler, [each]
        else:
            batches.setdefault(handler.pattern, (handler, []))[1].append(each)
    for handler, rest in batches.values():
        size = handler.batch or 1
        for first in range(0, len(rest), size):
            yield handler, rest[first : first + size]
