"""`Service`: what requests need, the engine and the settings of the moment."""

import asyncio

from digestif.aio import AsyncDigests
from digestif.events.base import Listener
from digestif.service.security.hosts import Hosts
from digestif.service.security.rates import Rates
from digestif.service.security.tokens import Tokens
from digestif.service.settings import Settings


class Service:
    """The engine and the settings that requests are answered with. A reload replaces them between two requests."""

    def __init__(self, settings: Settings, digests: AsyncDigests) -> None:
        self._listeners: list[Listener] = []
        self.stopping = asyncio.Event()  # set when the service ends: what lasts, such as a stream, ends too
        self.replace(settings, digests)

    def replace(self, settings: Settings, digests: AsyncDigests) -> None:
        """Answer with these from now on."""
        self.settings = settings
        self.digests = digests
        self.tokens = Tokens(settings.tokens)
        self.hosts = Hosts(settings)
        self.rates = Rates(settings.limits.rate)
        for listener in self._listeners:
            digests.subscribe(listener)

    def subscribe(self, listener: Listener) -> None:
        """Call the listener with the events of this engine and of those that replace it."""
        self._listeners.append(listener)
        self.digests.subscribe(listener)
