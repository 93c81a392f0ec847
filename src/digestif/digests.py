"""`Digests`, the public face: checks arguments, calls the store page by page, and returns plain values."""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import Signature, signature
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from digestif.additions import Additions
from digestif.attempts.maintenance import report_maintenance
from digestif.blocks import digest_block
from digestif.core.cadences import Cadences
from digestif.core.options import refuse_misspelt
from digestif.core.policy import Policy, check_options
from digestif.core.records import (
    Digest,
    ScheduleEntry,
    check_record_key,
    check_timeline,
)
from digestif.core.times import Duration, Instant, to_millis
from digestif.deliveries import Deliveries
from digestif.dsn import forgetful
from digestif.engine import Engine
from digestif.errors import ConfigError
from digestif.events.base import Listener
from digestif.intake.arrivals import check_time
from digestif.intake.policies import PolicyOf, check_policy
from digestif.messages import Messages
from digestif.preferences import Preferences
from digestif.schedule import SCHEDULE_PAGE, schedule_pages
from digestif.stores.base import PAGE_TIMELINES, Maintained, Store
from digestif.stores.codec import Codec
from digestif.stores.partitions import visit
from digestif.worker.worker import Worker

if TYPE_CHECKING:
    from digestif.channels.base import Channel
    from digestif.routes.route import RouteOptions

P = ParamSpec("P")
R = TypeVar("R")
HandlerFunction = TypeVar("HandlerFunction", bound=Callable[[Any], Any])

MAINTENANCE_DELAY = 300_000  # milliseconds after which a dispatch counts as lost


def _with_options_of(
    worker: Callable[Concatenate[Any, P], object],
) -> "Callable[[Callable[..., R]], Callable[Concatenate[Digests, P], R]]":
    """Let a method have the options of `Worker`, for people and for types."""

    def decorate(call: Callable[..., R]) -> "Callable[Concatenate[Digests, P], R]":
        own, *_ = signature(call).parameters.values()
        _, *options = signature(worker).parameters.values()
        returns = signature(call).return_annotation
        call.__signature__ = Signature([own, *options], return_annotation=returns)  # type: ignore[attr-defined]
        return call

    return decorate


def _with_options_checked(
    route: "Callable[Concatenate[Digests, P], None]",
) -> "Callable[Concatenate[Digests, P], None]":
    """Name a misspelt option of a route before Python says that `channel` is missing."""

    @wraps(route)
    def checked(self: "Digests", /, *arguments: P.args, **options: P.kwargs) -> None:
        from digestif.routes.route import Route

        check_options(Route, options)
        route(self, *arguments, **options)

    return checked


class Digests(Additions, Preferences, Messages):
    """Gathers records in timelines and returns them as digests.

    `store` is a DSN or a `Store`; `close` also closes a store that was made from a DSN. `clock` is a callable that
    returns seconds, for tests and simulations; without it the store's own clock counts. `policy` is a Policy, or a
    function from timeline to Policy.

    `engine` has the parts that workers, integrations and the service share; it may change in any release.
    """

    @forgetful
    @refuse_misspelt
    def __init__(
        self,
        store: str | Store,
        *,
        policy: Policy | PolicyOf | None = None,
        namespace: str = "d",
        lease: Duration = 30,
        codec: str | Codec = "json",
        clock: Callable[[], float] | None = None,
        cadences: Cadences | Mapping[str, Any] | None = None,
    ) -> None:
        self.engine = Engine(
            store, policy=policy, namespace=namespace, lease=lease, codec=codec, clock=clock, cadences=cadences
        )
        self.store = self.engine.store
        self.events = self.engine.events
        self.policy = self.engine.policies.default

    @property
    def enabled(self) -> bool:
        """False if the store accepts nothing (`off://`)."""
        return self.store.enabled

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener with every event from now on; call the returned function to stop."""
        return self.events.subscribe(listener)

    def close(self) -> None:
        """Close the connections of routes, and the store if it was made from a DSN."""
        self.engine.close()

    def __reduce__(self) -> str:
        raise TypeError("a Digests can't be pickled; open one with the same DSN in the other process")

    def __enter__(self) -> "Digests":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Producing

    def notify(
        self,
        timeline: str,
        value: Any,
        *,
        key: str | None = None,
        timestamp: Instant | None = None,
        within: Duration | None = None,
        first_delay: Duration | None = None,
        increment_delay: Duration | None = None,
        maximum_delay: Duration | None = None,
        minimum_delay: Duration | None = None,
        dispatch: Callable[[str], object] | None = None,
        now: float | None = None,
    ) -> bool:
        """Add a record, and deliver its timeline now if it is due then: the answer is True.

        A timeline that is ready before is left alone: it was dispatched already. `dispatch` is called with the
        timeline, for example a task's `delay`. Without it the handler is called here; if it fails, the digest comes
        again by the policy's rules. Where digesting is switched off, each record is delivered at once, on its own. The
        delays are those of `add` and `deliver`.
        """
        record = {
            "key": key,
            "timestamp": timestamp,
            "within": within,
            "first_delay": first_delay,
            "increment_delay": increment_delay,
            "maximum_delay": maximum_delay,
        }
        deliveries = Deliveries(self.engine, now, blocking=True)
        steps = deliveries.notify(timeline, value, minimum_delay=minimum_delay, dispatch=dispatch, record=record)
        return deliveries.run(steps, accept=self.accept)

    def retract(self, timeline: str, record_key: str, *, now: float | None = None) -> bool:
        """Take back a pending record. False if there is none: it is in a digest already, or unknown."""
        at = self.engine.intake.millis(now)
        return self.store.retract(check_timeline(timeline), check_record_key(record_key), now=at)

    # Dispatching through a task queue of the caller's own

    def schedule(
        self, deadline: float | None = None, page: int = SCHEDULE_PAGE, *, now: float | None = None
    ) -> Iterator[ScheduleEntry]:
        """Make due timelines ready and yield them, page by page.

        A page is committed before its entries are yielded; maintenance finds those again that are not delivered. Each
        timeline comes once per call.
        """
        return chain.from_iterable(schedule_pages(self.engine, deadline, page, now=now))

    def maintenance(self, deadline: float | None = None, *, now: float | None = None) -> int:
        """Make timelines wait again whose dispatch got lost or whose lease lapsed, and return how many.

        A dispatch counts as lost if its timeline became ready at or before `deadline`, by default five minutes ago.
        Also expires old records.
        """
        given = None if deadline is None else to_millis(check_time("deadline", deadline))
        at = self.engine.intake.millis(now)

        def pages(partition: int) -> Iterator[Maintained]:
            time = self.engine.time(partition, at)
            more = True
            while more:
                since = time - MAINTENANCE_DELAY if given is None else given
                page = self.store.maintain(partition, since, limit=PAGE_TIMELINES, now=at)
                report_maintenance(page, self.store, self.events, now=time)
                yield page
                more = page.more

        self.engine.lease_watch.look(at)
        done = visit(self.store, "maintenance", pages, self.events)
        return sum(len(page.moved) + len(page.lapsed) for page in done)

    # Delivering

    @digest_block
    def digest(
        self, timeline: str, minimum_delay: Duration | None = None, *, now: float | None = None
    ) -> Iterator[Digest]:
        """Open a ready timeline and deliver its digest in the block; leaving the block completes it.

        If the block raises, nothing is removed and the timeline is ready again; after the last attempt of the policy
        the digest becomes a dead letter. Raises InvalidState or Busy if it can't be opened, StaleLease if
        the lease was lost.
        """
        deliveries = Deliveries(self.engine, now, blocking=True)
        yield from deliveries.run_block(deliveries.digest(timeline, minimum_delay))

    def deliver(self, timeline: str, minimum_delay: Duration | None = None, *, now: float | None = None) -> bool:
        """Open a ready timeline and call its handler here and now. True if it was delivered.

        If the handler raises, an event carries the error, and the digest comes again by the policy's rules. False also
        if there is nothing to send. Raises InvalidState or Busy if it can't be opened.
        """
        deliveries = Deliveries(self.engine, now, blocking=True)
        return deliveries.run(deliveries.deliver(timeline, minimum_delay))

    # Handlers and workers

    def handler(
        self,
        pattern: str,
        *,
        policy: Policy | PolicyOf | None = None,
        batch: int | None = None,
        at_most_once: bool = False,
        channel: str | Callable[[str], str] | None = None,
    ) -> Callable[[HandlerFunction], HandlerFunction]:
        """Register the decorated function, or coroutine, for the digests of timelines that match the pattern.

        `*` stands for any characters; the pattern with the longest literal part wins. The function takes a `Digest`.
        If it raises, the digest comes again by the policy's rules. Options, with their defaults:

        - policy=None: for these timelines instead of the engine's, a Policy or a function from timeline to Policy
        - batch=None: call the function with a list of at most so many digests; it may return a list of None or errors
        - at_most_once=False: True: complete the digest before the function is called
        - channel=None: what the function delivers by, a name or a function from timeline to name: digests of one
          channel wait together while the function raises Unavailable
        """
        if callable(pattern):  # @digests.handler, without the parentheses
            name = getattr(pattern, "__name__", "send")
            raise ConfigError(f'handler: say which timelines {name} delivers: @digests.handler("mail:*")')
        check_policy(policy)

        def register(call: HandlerFunction) -> HandlerFunction:
            self.engine.handlers.register(pattern, call, batch=batch, at_most_once=at_most_once, channel=channel)
            self.engine.policies.add(pattern, policy)  # None: the engine's, not that of a route for more timelines
            return call

        return register

    @forgetful
    @_with_options_checked
    def route(self, pattern: str, *, channel: "str | Channel", **options: "Unpack[RouteOptions]") -> None:
        """Let a channel deliver the digests of timelines that match the pattern, grouped and rendered.

        Needs no handler. `pattern` is as for `handler`; `channel` is a DSN or a Channel. Options, with their defaults:

        - policy=None: for these timelines instead of the engine's, a Policy or a function from timeline to Policy
        - redelivery=None: "merge" or "same" instead of the policy's; None: "same" for webhooks and with split
        - group_by=(): one or two fields by which records are grouped, such as "user.id"
        - distinct={}: names, and the fields whose different values are counted
        - top=10: subjects that are shown of each group
        - items=5: newest records that are listed of each subject
        - details=None: fields that are shown beside the text, in this order; None: all that may be shown; []: none
        - weight=None: which subjects come first: a function, or {"by": a field, "order": its values}
        - order="newest": which of the listed records of a subject comes first; "oldest" for conversations
        - template=None: the name of a template of your own
        - templates=None: the folder of your templates
        - to=None: the recipient, a text with {timeline} or a function from timeline; None: what `*` stands for
        - keep=None: a function from records to those that are still wanted
        - prepare=None: a function from records to the records as this message shows them
        - split=None: a function from a digest to the records of each recipient
        - budget=None: a Budget: how many messages each recipient gets
        - zone=None: the time zone that a reader sees, or a function from recipient; None: the chosen or the window's
        - hours=24: a clock of 12 or 24 hours
        - wording={}: a Wording, a mapping of its fields, or a function from recipient to them
        - links={}: addresses of the buttons open, settings and unsubscribe, or a function that gives them
        - title=None: the headline, with {timeline} and {recipient}; None: made from the records
        - brand={}: the sender's name, logo and color, such as {"name": "Web shop", "color": "#0a7d55"}
        - reason=None: why a reader gets the message, at its foot; None: the address that it was sent to; "": nothing
        - digest=True: gather records; False: `notify` sends each one at once
        """
        from digestif.routes.route import Route

        self.engine.add_route(Route(pattern=pattern, channel=channel, **options))

    @_with_options_of(Worker)
    def run(self, **options: Any) -> None:
        """Run a worker until SIGTERM or SIGINT; the options are those of `Worker`."""
        Worker(self, **options).run()

    @_with_options_of(Worker)
    async def serve(self, **options: Any) -> None:
        """Run a worker on the running event loop until cancelled; the options are those of `Worker`."""
        await Worker(self, **options).serve()
