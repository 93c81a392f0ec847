"""Handlers are run here: coroutines on the event loop, functions in threads, and each digest hears how it went."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from digestif.core.texts import shortened
from digestif.handlers import Handler
from digestif.reading import Errand
from digestif.runtime.shift import Job, Shift
from digestif.threads import DaemonThreads

CANCEL_SECONDS = 2.0  # that a coroutine may take to be cancelled


class Execution:
    """The handlers that are running. `ended` is called whenever the shift has heard of a digest."""

    def __init__(self, shift: Shift, *, concurrency: int, threads: int, ended: Callable[[], None]) -> None:
        self._shift = shift
        self._ended = ended
        self._room = asyncio.Semaphore(concurrency)  # for coroutines
        self._threads = DaemonThreads(threads, "digestif-handler")
        self._running: dict[asyncio.Task[None], Sequence[Job]] = {}
        self._is_giving_up = False

    @property
    def jobs(self) -> int:
        """How many digests are in the hands of handlers."""
        return self.jobs_of(is_async=True) + self.jobs_of(is_async=False)

    def jobs_of(self, *, is_async: bool) -> int:
        """The same, of coroutines or of functions."""
        return sum(len(jobs) for jobs in self._running.values() if jobs[0].handler.is_async is is_async)

    def start(self, jobs: Sequence[Job]) -> None:
        """Run the handlers of these digests."""
        loop = asyncio.get_running_loop()
        for group in _groups(jobs):
            task = loop.create_task(self._perform(group))
            self._running[task] = group

    async def finished(self, seconds: float | None = None) -> None:
        """Wait until no handler is running, or so many seconds."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def give_up(self) -> None:
        """Cancel what can be cancelled, and give back all digests whose handlers have not ended."""
        self._is_giving_up = True
        left = dict(self._running)
        for task in left:
            task.cancel()
        await self.finished(CANCEL_SECONDS)
        for task, jobs in left.items():
            if not task.done():
                self._give_back(jobs, begun=True)
        self._ended()
        self._threads.shutdown()

    async def _perform(self, jobs: Sequence[Job]) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._deliver(jobs)
        finally:
            del self._running[task]  # first: whoever hears that it ended counts the hands that are free
            self._ended()

    async def _deliver(self, jobs: Sequence[Job]) -> None:
        try:
            errors = await self._errors(jobs[0].handler, jobs)
        except _NotBegun:
            return self._give_back(jobs, begun=False)
        except asyncio.CancelledError as error:
            if self._is_giving_up:
                return self._give_back(jobs, begun=True)
            errors = [error] * len(jobs)
        for job, each in zip(jobs, errors, strict=True):
            self._shift.finish(job, each)
        return None

    def _give_back(self, jobs: Sequence[Job], *, begun: bool) -> None:
        for job in jobs:
            self._shift.give_back(job, begun=begun)

    async def _errors(self, handler: Handler, jobs: Sequence[Job]) -> Sequence[BaseException | None]:
        """The error of each digest, or None."""
        digests = [job.attempt.digest for job in jobs]
        if handler.is_route:
            argument: object = Errand(digests[0], jobs[0].attempt, self._shift.desk)
        else:
            argument = digests[0] if handler.batch is None else digests
        try:
            if handler.is_async:
                answer = await self._in_loop(handler.call, argument)
            else:
                answer = await self._in_thread(handler.call, argument)
        except (asyncio.CancelledError, _NotBegun):
            raise
        except BaseException as error:  # noqa: BLE001  # also SystemExit: a handler does not end its worker
            return [error] * len(jobs)
        return told(answer, len(jobs), batch=handler.batch is not None)

    async def _in_loop(self, call: Callable[[Any], Any], argument: object) -> Any:
        try:
            await self._room.acquire()
        except asyncio.CancelledError:
            raise _NotBegun from None
        try:
            return await call(argument)
        finally:
            self._room.release()

    async def _in_thread(self, call: Callable[[Any], Any], argument: object) -> Any:
        future = self._threads.submit(_outcome, call, argument)
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
    """It was cancelled while it waited for a thread."""


def _outcome(call: Callable[[Any], Any], argument: object) -> tuple[Any, BaseException | None]:
    try:
        return call(argument), None
    except BaseException as error:  # noqa: BLE001  # not every error may pass through a future
        return None, error


def _groups(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Each digest alone, or together with others for handlers that take a batch."""
    together: dict[Handler, list[Job]] = {}
    for job in jobs:
        if job.handler.batch is None:
            yield (job,)
        else:
            together.setdefault(job.handler, []).append(job)
    for handler, group in together.items():
        assert handler.batch is not None
        for start in range(0, len(group), handler.batch):
            yield group[start : start + handler.batch]


def _is_told(each: object) -> bool:
    return each is None or isinstance(each, BaseException)


def told(answer: object, count: int, *, batch: bool) -> Sequence[BaseException | None]:
    """What the answer of a handler says about each digest.

    One of batches gives nothing, or a list of errors and None. Of the others only what can't be meant counts.
    """
    if inspect.isgenerator(answer) or inspect.isasyncgen(answer):
        return [TypeError("the handler gave a generator, which nobody runs: it has done nothing")] * count
    if isinstance(answer, BaseException):
        return [answer] * count
    if answer is None or not batch:
        return [None] * count
    if isinstance(answer, list | tuple) and len(answer) == count and all(map(_is_told, answer)):
        return answer
    wrong = TypeError(
        f"a handler of {count} digests gives None or a list of {count} (None or an error), not {shortened(answer)}"
    )
    return [wrong] * count
