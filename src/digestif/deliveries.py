"""Deliveries for which a caller waits: the steps of `deliver`, `digest` and `notify`, and their driver that blocks.

`AsyncDigests` drives the same steps on the event loop.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, TypeVar

from digestif.attempts.delivery import Delivery
from digestif.attempts.heartbeat import Heartbeat
from digestif.attempts.stages import Completed
from digestif.attempts.steps import Accept, Call, Deliver, Finished, GoOn, Request, Steps, advance, run
from digestif.core.policy import check_delay
from digestif.core.records import Digest, check_timeline
from digestif.core.times import Duration
from digestif.engine import Engine
from digestif.errors import ConfigError, InvalidState, StaleLease
from digestif.schedule import make_ready

T = TypeVar("T")


class Deliveries:
    """The steps of one call, and the driver that blocks.

    With `blocking`, handlers that need an event loop are refused.
    """

    def __init__(self, engine: Engine, now: float | None, *, blocking: bool) -> None:
        self._engine = engine
        self._now = now
        self._blocking = blocking
        self.pipeline = engine.pipeline(now)

    # Steps

    def deliver(self, timeline: str, minimum_delay: Duration | None) -> Steps[bool]:
        """Check the arguments, and let the handler of a ready timeline deliver it. True if the digest was delivered."""
        self._engine.handlers.required(check_timeline(timeline))
        yield from self._check_cool_down(timeline, minimum_delay)
        return (yield from self.deliver_checked(timeline, minimum_delay))

    def deliver_checked(self, timeline: str, minimum_delay: Duration | None) -> Steps[bool]:
        """Let the handler of a ready timeline deliver it, with checked arguments. True if the digest was delivered."""
        handler = self._engine.handlers.required(timeline)
        if self._blocking:
            handler.refuse_unless_blocking()
        return (yield from self.pipeline.deliver(timeline, handler, minimum_delay=minimum_delay))

    def digest(self, timeline: str, minimum_delay: Duration | None) -> Steps[None]:
        """Open a ready timeline for a block."""
        yield from self._check_cool_down(timeline, minimum_delay)
        yield from self.pipeline.block(check_timeline(timeline), minimum_delay=minimum_delay)

    def notify(
        self,
        timeline: str,
        value: Any,
        *,
        minimum_delay: Duration | None,
        dispatch: Callable[[str], object] | None,
        record: dict[str, Any],
    ) -> Steps[bool]:
        """Add a record, and deliver its timeline if it is due then; `record` has the other arguments of `accept`."""
        _check_notify_delays(minimum_delay, dispatch)
        yield from self._check_cool_down(timeline, minimum_delay)
        if not self._engine.gathers(check_timeline(timeline)):
            override = yield Call("read override", partial(self._engine.override, timeline))
            if override is None or not override.off:  # else the store counts the record as declined
                unstored = self._engine.unstored(timeline, value, override=override, now=self._now, **record)
                return (yield from self.pipeline.deliver_unstored(unstored))
        if dispatch is None:
            self._engine.handlers.required(timeline)
        accepted = yield Accept(timeline, value, {**record, "now": self._now})
        is_ready: bool = accepted.ready or (yield self._make_ready(timeline, accepted.due))
        if is_ready and dispatch:
            yield Call("dispatch", partial(dispatch, timeline))
        elif is_ready:
            yield from self._deliver_while_ready(timeline, minimum_delay)
        return is_ready

    def _deliver_while_ready(self, timeline: str, minimum_delay: Duration | None) -> Steps[None]:
        """Deliver a ready timeline, and again while records that came during the delivery make it due."""
        with suppress(InvalidState, StaleLease):  # a worker took it first, or the handler deleted it
            while (yield from self.deliver_checked(timeline, minimum_delay)):
                yield GoOn()
                if not (yield self._make_ready(timeline, 0)):  # their producers have left
                    return

    def _make_ready(self, timeline: str, due: float | None) -> Call:
        return Call("make ready", partial(make_ready, self._engine, timeline, due, now=self._now))

    def _check_cool_down(self, timeline: str, minimum_delay: Duration | None) -> Steps[None]:
        if minimum_delay is not None:
            yield Call("check cool-down", partial(self._engine.check_cool_down, timeline, minimum_delay))

    # Drivers

    def renewed(self, delivery: Delivery) -> AbstractContextManager[object]:
        """Renew the lease in the background while the block runs: not if the time is given, nor without a lease."""
        if self._engine.renews(self._now) and not isinstance(delivery.loaded, Completed):
            return Heartbeat(self.pipeline.renew, lease=self.pipeline.leases.duration)
        return nullcontext()

    def run(self, steps: Steps[T], *, accept: Callable[..., Any] | None = None) -> T:
        """Drive steps to their end, and call handlers here."""

        def perform(request: Request) -> Any:
            if isinstance(request, Accept):
                assert accept is not None
                return accept(request.timeline, request.value, **request.options)
            if isinstance(request, GoOn):
                return None
            with self.renewed(request.delivery):
                return deliver_blocking(request)

        return run(steps, perform)

    def run_block(self, steps: Steps[None]) -> Iterator[Digest]:
        """Drive the steps of a block, which is a `with` block around the digest that this yields."""
        delivery = delivery_of(advance(steps))
        try:
            with self.renewed(delivery):
                yield delivery.digest
        except BaseException as error:
            throw(steps, error)
            raise
        advance(steps)


def deliver_blocking(request: Deliver) -> BaseException | None:
    """Call a handler without an event loop, and return the error that the handler returned."""
    assert request.handler is not None
    return request.handler.deliver_blocking(request.delivery)


def delivery_of(request: object) -> Delivery:
    assert isinstance(request, Deliver)
    return request.delivery


def throw(steps: Steps[Any], error: BaseException) -> Finished:
    """Throw what a block raised into its steps, and make the calls that follow. Its caller raises the error again."""
    try:
        advance(steps, error=error)
    except BaseException as raised:
        if raised is not error:
            raise
    return Finished(None)


def _check_notify_delays(minimum_delay: Duration | None, dispatch: object) -> None:
    """Raise ConfigError for a cool-down that is wrong, or that a task would have to be given."""
    if minimum_delay is None:
        return
    check_delay("minimum_delay", minimum_delay)
    if dispatch is not None:
        raise ConfigError("minimum_delay: with dispatch, let the task give it to deliver(timeline, minimum_delay)")
