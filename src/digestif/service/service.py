"""`Service`: what requests need, the engine and the settings of the moment."""

from collections.abc import Callable
from typing import Any, TypeVar

from digestif.aio import AsyncDigests
from digestif.service.security.hosts import Hosts
from digestif.service.security.rates import Rates
from digestif.service.security.tokens import Tokens
from digestif.service.settings import Settings

T = TypeVar("T")


class Service:
    """The engine and the settings that requests are answered with. A reload replaces them between two requests."""

    def __init__(self, settings: Settings, digests: AsyncDigests) -> None:
        self._parts: dict[object, Any] = {}
        self.replace(settings, digests)

    def replace(self, settings: Settings, digests: AsyncDigests) -> None:
        """Answer with these from now on."""
        self.settings = settings
        self.digests = digests
        self.tokens = Tokens(settings.tokens)
        self.hosts = Hosts(settings)
        self.rates = Rates(settings.limits.rate)

    def part(self, kind: "Callable[[Service], T]") -> T:
        """The one object of a class that belongs to this service, made at first use."""
        if kind not in self._parts:
            self._parts[kind] = kind(self)
        found: T = self._parts[kind]
        return found

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Make a call that waits for the store, in one of the engine's threads."""
        return await self.digests._in_thread(call)
