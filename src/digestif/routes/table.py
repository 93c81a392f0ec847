"""The routes of an engine, and how they become handlers."""

from digestif.handlers import Handler, Handlers
from digestif.patterns import Patterns
from digestif.policies import Policies
from digestif.routes.background import BACKGROUND
from digestif.routes.pipeline import Pipeline
from digestif.routes.route import Route


class Routes:
    """Every route that an engine was given."""

    def __init__(self, handlers: Handlers, policies: Policies) -> None:
        self._handlers = handlers
        self._policies = policies
        self._pipelines: Patterns[Pipeline] = Patterns()

    def add(self, route: Route) -> None:
        """Take in a route; ConfigError if its pattern has a handler, or its channel or template is wrong."""
        pipeline = Pipeline(route)
        policy = route.policy_over(self._policies.default)
        self._handlers.add(Handler(pattern=route.pattern, call=pipeline, is_async=True, is_route=True))
        self._pipelines.add(route.pattern, pipeline)
        self._policies.add(route.pattern, policy)

    def gathers(self, timeline: str) -> bool:
        """False for a timeline whose route sends each record at once."""
        handler = self._handlers.find(timeline)
        return handler is None or not isinstance(handler.call, Pipeline) or handler.call.route.digest

    async def close(self) -> None:
        """Let go of the connections of this event loop."""
        for pipeline in self._pipelines:
            await pipeline.close()

    def close_background(self) -> None:
        """Let go of the connections of those who have no event loop."""
        for pipeline in self._pipelines:
            BACKGROUND.close(pipeline)
