"""One timeline, delivered by its handler now: for `deliver` and `notify`, and for task queues."""

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from digestif.core.records import Digest
from digestif.core.texts import reason_of
from digestif.core.verdicts import Deliver, PutOff, Verdict, judge
from digestif.desk import Desk
from digestif.endings import Ending
from digestif.errors import ConfigError, StaleLease
from digestif.events import Event
from digestif.handlers import Handler, Handlers
from digestif.ids import chance
from digestif.leases import Delivery
from digestif.reading import Errand
from digestif.runtime import reports
from digestif.runtime.execution import told


def handler_for(handlers: Handlers, timeline: str) -> Handler:
    """The handler of a timeline; ConfigError if there is none."""
    handler = handlers.find(timeline)
    if handler is None:
        raise ConfigError(f"{timeline!r} has no handler; register one with @digests.handler({timeline!r})")
    return handler


def argument(handler: Handler, digest: Digest, single: "Single | None" = None) -> Digest | list[Digest] | Errand:
    """What the handler is called with."""
    if handler.is_route:
        return Errand(digest) if single is None else single.errand(digest)
    return digest if handler.batch is None else [digest]


def error_in(handler: Handler, answer: Any) -> BaseException | None:
    """What the answer of a handler says about its digest."""
    if inspect.iscoroutine(answer):
        answer.close()
        return ConfigError(f"the handler of {handler.pattern!r} gives a coroutine: use AsyncDigests, or run a worker")
    return told(answer, 1, batch=handler.batch is not None)[0]


def called(handler: Handler, argument: Any) -> Any:
    """What a handler answers to somebody who has no event loop."""
    if not handler.is_route:
        return handler.call(argument)
    pipeline: Any = handler.call
    return pipeline.wait(argument)


class Single:
    """One attempt to deliver one timeline. Raises InvalidState or Busy if it can't be opened."""

    def __init__(self, desk: Desk, handler: Handler, timeline: str, *, renews: bool) -> None:
        self._desk = desk
        self._handler = handler
        self._renews = renews
        self._delivery = Delivery(desk, timeline)
        self._is_closed = False
        desk.events.emit(reports.claimed(self._delivery.lease, desk.lease))
        self.digest = self._begin()  # None if there is nothing to send, and then it has ended

    def errand(self, digest: Digest) -> Errand:
        """What a route is called with."""
        return Errand(digest, self._delivery.attempt, self._desk)

    def give_back(self) -> None:
        """Make the timeline ready again, without a word if the lease is lost."""
        self._delivery.give_back()

    def _begin(self) -> Digest | None:
        digest = self._delivery.digest
        if self._handler.at_most_once or not digest:
            self._delivery.close()
            self._is_closed = True
        return digest or None

    def renewed(self) -> AbstractContextManager[None]:
        """Hold the lease while the handler runs."""
        return self._delivery.renewed() if self._renews and not self._is_closed else nullcontext()

    def end(self, error: BaseException | None) -> bool:
        """End it by the policy's rules. True if it was delivered; StaleLease if the lease was lost."""
        attempt = self._delivery.attempt
        if error is not None and not isinstance(error, Exception):
            verdict: Verdict = PutOff(None, unknown=True)  # interrupted: nobody knows whether it went out
        else:
            verdict = judge(error, attempt=attempt.lease.attempt, policy=attempt.policy, chance=chance())
        ending = Ending.of(attempt, verdict)
        if self._is_closed and error is not None:
            event: Event | None = reports.failed_for_good(ending, reason_of(error))
        else:
            event = reports.ended(ending, self._desk.lease)
        if not self._is_closed:
            self._end(verdict)
        if event is not None:
            self._desk.events.emit(event)
        return isinstance(verdict, Deliver)

    def _end(self, verdict: Verdict) -> None:
        try:
            self._delivery.end(verdict)
        except StaleLease:
            self._desk.events.emit(reports.lost(self._delivery.lease))
            raise
