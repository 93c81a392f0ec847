"""Handlers: which function delivers the digests of which timelines, and how it is called."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

from digestif.attempts.delivery import Delivery
from digestif.core.texts import shortened
from digestif.core.verdicts import is_name
from digestif.errors import ConfigError
from digestif.intake.patterns import Patterns, check_pattern

CallWith = Callable[[Sequence[Delivery]], Any]
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
Run = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]


class Kind(StrEnum):
    """Where a handler runs."""

    FUNCTION = "function"  # in a thread
    COROUTINE = "coroutine"  # on the event loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """How the digests of a pattern are delivered."""

    pattern: str
    call: CallWith  # gives what the function answers, or a coroutine of that
    call_blocking: CallWith | None  # the same for a caller without an event loop; None: that is impossible
    kind: Kind
    batch: int | None = None  # most deliveries of one call; None: a call has one, and its argument is no list
    at_most_once: bool = False  # digests are completed before it is called
    channel: str | Callable[[str], str] | None = None  # by which it delivers, or from timeline to that
    close: Callable[[], Awaitable[None]] | None = None  # closes what it has open on the running event loop

    def channel_of(self, timeline: str) -> str:
        """Return the name of the channel by which a timeline is delivered; empty if that is not known."""
        if not callable(self.channel):
            return self.channel or ""
        try:
            name = self.channel(timeline)
        except Exception:  # noqa: BLE001  # a user's function: without a name each digest waits by itself
            return ""
        return name if is_name(name) else ""

    def deliver_blocking(self, delivery: Delivery) -> BaseException | None:
        """Deliver without an event loop; return the error that the handler returned. Raises what the handler raises."""
        self.refuse_unless_blocking()
        assert self.call_blocking is not None
        answer = self.call_blocking([delivery])
        if inspect.iscoroutine(answer):
            answer.close()
            return ConfigError(f"the handler of {self.pattern!r} gives a coroutine: use AsyncDigests, or run a worker")
        return self.errors_in(answer, 1)[0]

    async def deliver(self, delivery: Delivery, *, in_thread: InThread) -> BaseException | None:
        """Deliver on the event loop; return the error that the handler returned. Raises what the handler raises."""
        call = partial(self.call, [delivery])
        answer = call() if self.kind is Kind.COROUTINE else await in_thread(call)
        return self.errors_in(await answer if inspect.isawaitable(answer) else answer, 1)[0]

    def run_by(self, run: Run) -> "Handler":
        """Return the same handler for a caller without an event loop, where `run` runs its coroutines."""
        call = self.call_blocking or self.call

        def call_blocking(deliveries: Sequence[Delivery]) -> Any:
            answer = call(deliveries)
            if not inspect.isawaitable(answer):
                return answer
            try:
                return run(partial(_awaited, answer))
            except ConfigError:
                if inspect.iscoroutine(answer):
                    answer.close()
                raise

        return replace(self, call_blocking=call_blocking)

    def refuse_unless_blocking(self) -> None:
        """Raise ConfigError if the handler can't be called without an event loop."""
        if self.call_blocking is None:
            raise ConfigError(
                f"the handler of {self.pattern!r} is a coroutine: await it with AsyncDigests, or run a worker"
            )

    def errors_in(self, answer: object, count: int) -> Sequence[BaseException | None]:
        """Return the error, or None, that the answer means for each of `count` digests.

        A handler of batches gives None, or a list of None or an error for each digest. Return values of other handlers
        are ignored, except an exception or a generator, which count as failures.
        """
        if inspect.isgenerator(answer) or inspect.isasyncgen(answer):
            return [TypeError("the handler returned a generator, which was not run: it has done nothing")] * count
        if isinstance(answer, BaseException):
            return [answer] * count
        if answer is None or self.batch is None:
            return [None] * count
        if isinstance(answer, list | tuple) and len(answer) == count and all(map(_is_none_or_error, answer)):
            return answer
        wrong = TypeError(
            f"a handler of {count} digests gives None or a list of {count} (None or an error), not {shortened(answer)}"
        )
        return [wrong] * count


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def _is_none_or_error(each: object) -> bool:
    return each is None or isinstance(each, BaseException)


class Handlers:
    """The handlers of one engine, found by the names of timelines."""

    def __init__(self) -> None:
        self._handlers: Patterns[Handler] = Patterns()
        self.find = self._handlers.find
        self.run: Run | None = None  # runs coroutines for callers without an event loop; None: they are refused

    def __bool__(self) -> bool:
        return bool(self._handlers)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers)

    def required(self, timeline: str) -> Handler:
        """Return the handler of a timeline. Raises ConfigError if there is none."""
        handler = self.find(timeline)
        if handler is None:
            raise ConfigError(f"{timeline!r} has no handler; register one with @digests.handler({timeline!r})")
        return handler if self.run is None else handler.run_by(self.run)

    def register(
        self,
        pattern: object,
        call: object,
        *,
        batch: object = None,
        at_most_once: bool = False,
        channel: str | Callable[[str], str] | None = None,
    ) -> Handler:
        """Let a function deliver the timelines of a pattern."""
        name = check_pattern(pattern)
        if not callable(call):
            raise ConfigError(f"handler: {shortened(call)} is not a function; use @digests.handler({pattern!r})")
        if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
            raise ConfigError(f"handler: {shortened(call)} has a yield in it: called, it would do nothing")
        if batch is not None and (type(batch) is not int or batch < 1):
            raise ConfigError(f"batch: {shortened(batch)} is not a whole number ≥ 1")
        if channel is not None and not callable(channel) and not is_name(channel):
            raise ConfigError(f"channel: {shortened(channel)} is neither a name nor a function from timeline to one")
        kind = Kind.COROUTINE if _is_async(call) else Kind.FUNCTION
        deliver = _with_digest(call) if batch is None else _with_digests(call)
        return self.add(
            Handler(
                pattern=name,
                call=deliver,
                call_blocking=deliver if kind is Kind.FUNCTION else None,
                kind=kind,
                batch=batch,
                at_most_once=at_most_once,
                channel=channel,
            )
        )

    async def close(self) -> None:
        """Close what handlers have open on the running event loop."""
        for handler in self:
            if handler.close is not None:
                await handler.close()

    def add(self, handler: Handler) -> Handler:
        """Register a handler; ConfigError if its pattern has one."""
        if handler.pattern in self._handlers:
            raise ConfigError(f"handler: {handler.pattern!r} has a handler already")
        self._handlers.add(handler.pattern, handler)
        return handler


def _with_digest(call: Callable[[Any], Any]) -> CallWith:
    return lambda deliveries: call(deliveries[0].digest)


def _with_digests(call: Callable[[Any], Any]) -> CallWith:
    return lambda deliveries: call([delivery.digest for delivery in deliveries])


def _is_async(call: Any) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004  # its kind, not whether it is there
