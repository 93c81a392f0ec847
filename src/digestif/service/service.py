"""`Service`: what requests need, the engine and the settings of the moment."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from digestif.aio import AsyncDigests
from digestif.digests import Digests
from digestif.events.base import Listener
from digestif.service.security.hosts import Hosts
from digestif.service.security.rates import Rates
from digestif.service.security.tokens import Tokens
from digestif.service.settings import Settings
from digestif.threads import DaemonThreads

T = TypeVar("T")


class Service:
    """The engine and the settings that requests are answered with. A reload replaces them between two requests."""

    def __init__(self, settings: Settings, digests: AsyncDigests) -> None:
        self._computing = DaemonThreads(2, "digestif-computing")
        self._parts: dict[object, Any] = {}
        self._listeners: list[Listener] = []
        self.stopping = asyncio.Event()  # set when the service ends: what lasts, such as a stream, ends too
        self.replace(settings, digests)

    def replace(self, settings: Settings, digests: AsyncDigests) -> None:
        """Answer with these from now on. If it raises, nothing has changed."""
        tokens, hosts, rates = Tokens(settings.tokens), Hosts(settings), Rates(settings.limits.rate)
        for listener in self._listeners:
            digests.subscribe(listener)
        self.settings, self.digests = settings, digests
        self.tokens, self.hosts, self.rates = tokens, hosts, rates

    def subscribe(self, listener: Listener) -> None:
        """Call the listener with the events of this engine and of those that replace it."""
        self._listeners.append(listener)
        self.digests.subscribe(listener)

    def part(self, kind: "Callable[[Service], T]") -> T:
        """The one object of a class that belongs to this service, made at first use."""
        if kind not in self._parts:
            self._parts[kind] = kind(self)
        found: T = self._parts[kind]
        return found

    async def ask(self, call: Callable[[Digests], T]) -> T:
        """Ask the engine something and use its answer, in one of the engine's threads."""
        return await self.digests.in_thread(partial(call, self.digests.sync))

    async def beside(self, call: Callable[[], T]) -> T:
        """Make a call that may compute for long, without waiting for the store.

        There are only two threads for that: each thread that computes delays the event loop by up to 5 ms.
        """
        return await self._computing.run(call)

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Make a call that waits for the store, in one of the engine's threads."""
        return await self.digests.in_thread(call)
