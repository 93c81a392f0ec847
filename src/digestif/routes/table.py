"""The routes of an engine. Each becomes a handler and a policy for the timelines of its pattern."""

from digestif.attempts.handlers import Handler, Handlers, Kind
from digestif.intake.patterns import Patterns
from digestif.intake.policies import Policies
from digestif.routes.archive import MessageArchive
from digestif.routes.background import BackgroundLoop
from digestif.routes.handler import RouteHandler
from digestif.routes.route import Route


class Routes:
    """The routes that were given to an engine."""

    def __init__(
        self, handlers: Handlers, policies: Policies, background: BackgroundLoop, archive: MessageArchive | None = None
    ) -> None:
        self._archive = archive
        self._handlers = handlers
        self._policies = policies
        self._by_pattern: Patterns[RouteHandler] = Patterns()
        self._background = background

    def add(self, route: Route) -> None:
        """Raises ConfigError if the pattern has a handler already, or channel, recipient or template are wrong."""
        route.check_recipient()
        added = RouteHandler(route, self._archive)
        redelivery = route.redelivery_over_policy()
        self._handlers.add(
            Handler(
                pattern=route.pattern,
                call=lambda deliveries: added(deliveries[0]),
                call_blocking=lambda deliveries: self._background.run(lambda: added(deliveries[0])),
                kind=Kind.COROUTINE,
                channel=route.channel_name(),
                close=added.close,
            )
        )
        self._by_pattern.add(route.pattern, added)
        self._policies.add(route.pattern, route.policy, kind="route", redelivery=redelivery)

    def gathers(self, timeline: str) -> bool:
        """False for a timeline whose route sends each record at once."""
        route = self.find(timeline)
        return route is None or route.digest

    def find(self, timeline: str) -> Route | None:
        """The route of a timeline; None if a handler of the user's own delivers it."""
        handler = self._handlers.find(timeline)
        found = self._by_pattern.find(timeline)
        if handler is None or found is None or found.route.pattern != handler.pattern:
            return None
        return found.route
