"""Endpoints for probes and metrics."""

import asyncio

from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from digestif.aio import AsyncDigests
from digestif.errors import DigestifError
from digestif.integrations.prometheus import Remove, instrument
from digestif.service.api.problems import Problem
from digestif.service.api.requests import Answer, Request
from digestif.service.service import Service
from digestif.service.waits import Probe


class Health(Struct, frozen=True):
    """The process answers."""

    healthy: bool = True


class Readiness(Struct, frozen=True):
    """The store takes writes, too."""

    ready: bool = True


async def healthy(_: Request) -> Health:
    return Health()


async def ready(request: Request) -> Readiness:
    """Whether the store takes a write within a second."""
    try:
        await request.service.part(Probe).ask()
    except DigestifError:
        raise Problem(503, "the store does not answer, or takes no writes", retry_after=2) from None
    return Readiness()


class Metrics:
    """The metrics of a service: a registry of its own, which follows the engine when it is replaced."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        self._watched: AsyncDigests | None = None
        self._end: Remove | None = None
        self.follow()

    def follow(self) -> None:
        """Watch the engine of the moment."""
        if self._watched is self._service.digests:
            return
        if self._end is not None:
            self._end()
        self._watched = self._service.digests
        self._end = instrument(self._watched, registry=self._registry)

    def text(self) -> bytes:
        self.follow()
        return generate_latest(self._registry)


async def metrics(request: Request) -> Answer:
    text = await asyncio.to_thread(request.service.part(Metrics).text)
    return Answer(200, text, CONTENT_TYPE_LATEST.encode())
