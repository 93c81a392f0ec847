"""The execution of handlers: coroutines on the event loop, functions in threads; each attempt gets its verdict."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from digestif.attempts import Attempt, Attempts, Handler, Kind
from digestif.core.verdicts import Verdict, give_back
from digestif.threads import DaemonThreads
from digestif.worker.limits import Limits

UNFINISHED = give_back(begun=True)


class Execution:
    """The handlers that are running. `judged` is called with the verdicts as soon as there are some."""

    def __init__(
        self,
        attempts: Attempts,
        limits: Limits,
        *,
        judged: Callable[[list[tuple[Attempt, Verdict]]], None],
        cancel_seconds: float,
    ) -> None:
        self._attempts = attempts
        self._judged = judged
        self._cancel_seconds = cancel_seconds
        self._coroutines = asyncio.Semaphore(limits.concurrency)
        self._threads = DaemonThreads(limits.threads, "digestif-handler")
        self._running: dict[asyncio.Task[None], Sequence[Attempt]] = {}
        self._counts = dict.fromkeys(Kind, 0)
        self.weight = 0  # bytes of the records that handlers hold
        self._is_giving_up = False

    @property
    def attempts(self) -> int:
        """The number of attempts whose handlers are running."""
        return sum(self._counts.values())

    @property
    def timelines(self) -> list[str]:
        """Those whose handlers are running."""
        return [attempt.timeline for group in self._running.values() for attempt in group]

    def count(self, kind: Kind) -> int:
        """How many attempts handlers of this kind are called with."""
        return self._counts[kind]

    def start(self, attempts: Sequence[Attempt]) -> None:
        """Run the handlers of these attempts."""
        loop = asyncio.get_running_loop()
        for group in _groups(attempts):
            weight = sum(attempt.weight for attempt in group)
            task = loop.create_task(self._run(group, weight))
            self._running[task] = group
            self._counts[_handler(group).kind] += len(group)
            self.weight += weight

    async def finished(self, seconds: float | None = None) -> None:
        """Wait until no handler is running, or so many seconds."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def give_up(self) -> None:
        """Cancel coroutines, and give back all attempts whose handlers have not ended."""
        self._is_giving_up = True
        left = dict(self._running)
        for task in left:
            task.cancel()
        await self.finished(self._cancel_seconds)
        unfinished = {task: attempts for task, attempts in left.items() if task in self._running}
        for task, attempts in unfinished.items():
            verdict = give_back(begun=not task.done())  # one that was cancelled before its first step is done
            self._judged([(attempt, verdict) for attempt in attempts])
        self._threads.shutdown()

    async def _run(self, attempts: Sequence[Attempt], weight: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        verdicts: Sequence[Verdict] = [UNFINISHED] * len(attempts)  # unless it gets to the end
        try:
            verdicts = await self._verdicts(attempts)
        finally:
            for attempt in attempts:
                attempt.forget_records()
            del self._running[task]  # before `judged`, which counts the free places
            self._counts[_handler(attempts).kind] -= len(attempts)
            self.weight -= weight
            self._judged(list(zip(attempts, verdicts, strict=True)))

    async def _verdicts(self, attempts: Sequence[Attempt]) -> Sequence[Verdict]:
        try:
            errors = await self._errors(_handler(attempts), attempts)
        except _NotBegun:
            return [give_back(begun=False)] * len(attempts)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if self._is_giving_up or (task is not None and task.cancelling()):  # not raised by the handler itself
                return [UNFINISHED] * len(attempts)
            errors = [error] * len(attempts)
        return [self._attempts.judge(attempt, error) for attempt, error in zip(attempts, errors, strict=True)]

    async def _errors(self, handler: Handler, attempts: Sequence[Attempt]) -> Sequence[BaseException | None]:
        """The error of each attempt, or None."""
        try:
            if handler.kind is Kind.COROUTINE:
                answer = await self._on_loop(handler, attempts)
            else:
                answer = await self._in_thread(handler, attempts)
        except (asyncio.CancelledError, _NotBegun):
            raise
        except BaseException as error:  # noqa: BLE001  # also SystemExit: a handler does not end its worker
            return [error] * len(attempts)
        return handler.errors_in(answer, len(attempts))

    async def _on_loop(self, handler: Handler, attempts: Sequence[Attempt]) -> Any:
        try:
            await self._coroutines.acquire()
        except asyncio.CancelledError:
            raise _NotBegun from None
        try:
            return await handler.call(attempts)
        finally:
            self._coroutines.release()

    async def _in_thread(self, handler: Handler, attempts: Sequence[Attempt]) -> Any:
        future = self._threads.submit(_outcome, handler, attempts)
        try:
            answer, error = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if future.cancelled():
                raise _NotBegun from None
            raise
        if error is not None:
            raise error
        return await answer if inspect.isawaitable(answer) else answer


class _NotBegun(BaseException):
    """The handler was cancelled before it was called."""


def _outcome(handler: Handler, attempts: Sequence[Attempt]) -> tuple[Any, BaseException | None]:
    try:
        return handler.call(attempts), None
    except BaseException as error:  # noqa: BLE001  # a future would pass some of them on to the loop
        return None, error


def _handler(attempts: Sequence[Attempt]) -> Handler:
    handler = attempts[0].handler
    assert handler is not None  # or it would not have been claimed
    return handler


def _groups(attempts: Sequence[Attempt]) -> Iterator[Sequence[Attempt]]:
    """The attempts of each call of a handler: one, or those of a batch."""
    batches: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        handler = _handler([attempt])
        if handler.batch is None:
            yield [attempt]
        else:
            batches.setdefault(handler.pattern, []).append(attempt)
    for group in batches.values():
        size = _handler(group).batch or 1
        for start in range(0, len(group), size):
            yield group[start : start + size]
