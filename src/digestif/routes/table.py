"""The routes of an engine, and how they become handlers."""

from digestif.attempts import Handler, Handlers, Kind
from digestif.intake.patterns import Patterns
from digestif.intake.policies import Policies
from digestif.routes.background import Background
from digestif.routes.pipeline import Pipeline
from digestif.routes.route import Route


class Routes:
    """Every route that an engine was given."""

    def __init__(self, handlers: Handlers, policies: Policies) -> None:
        self._handlers = handlers
        self._policies = policies
        self._pipelines: Patterns[Pipeline] = Patterns()
        self._background = Background(self._close_all)

    def add(self, route: Route) -> None:
        """Take in a route; ConfigError if its pattern has a handler, or its channel or template is wrong."""
        pipeline = Pipeline(route)
        policy = route.policy_over(self._policies.default)
        self._handlers.add(
            Handler(
                pattern=route.pattern,
                call=lambda attempts: pipeline(attempts[0]),
                call_here=lambda attempts: self._background.run(lambda: pipeline(attempts[0])),
                kind=Kind.COROUTINE,
                close=pipeline.close,
            )
        )
        self._pipelines.add(route.pattern, pipeline)
        self._policies.add(route.pattern, policy)

    def gathers(self, timeline: str) -> bool:
        """False for a timeline whose route sends each record at once."""
        route = self.find(timeline)
        return route is None or route.digest

    def find(self, timeline: str) -> Route | None:
        """The route of a timeline, unless a handler delivers it."""
        handler = self._handlers.find(timeline)
        pipeline = self._pipelines.find(timeline)
        if handler is None or pipeline is None or pipeline.route.pattern != handler.pattern:
            return None
        return pipeline.route

    def close_background(self) -> None:
        """Let go of the connections of callers who have no event loop."""
        self._background.close()

    async def _close_all(self) -> None:
        for pipeline in self._pipelines:
            await pipeline.close()
