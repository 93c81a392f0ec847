"""The limit on the number of timelines: records for new ones are refused beyond it."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial

from digestif.clock import monotonic
from digestif.core.records import State
from digestif.service.api.problems import Problem
from digestif.service.service import Service

COUNT_LASTS = 1.0  # seconds, at least
COUNTING = 1 / 20  # share of the time that counting takes at most


class Rooms:
    """A room for each prefix of tokens: a token has as many timelines as are allowed, whatever others have."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._rooms: dict[str, Room] = {}

    def of(self, prefix: str) -> "Room":
        if prefix not in self._rooms:
            self._rooms[prefix] = Room(self._service, prefix)
        return self._rooms[prefix]

    def reserved(self, prefix: str, timelines: Collection[str]) -> AbstractAsyncContextManager[None]:
        """Keep room for these timelines while records are added, if their number is limited."""
        if not self._service.settings.limits.timelines:
            return nullcontext()
        return self.of(prefix).reserved(timelines)


class Room:
    """How many timelines with a prefix there are, may come with requests under way, and have come since the count."""

    def __init__(self, service: Service, prefix: str) -> None:
        self._service, self._prefix = service, prefix
        self._outdated_at = 0.0
        self._counted = 0
        self._added = 0  # by requests that have ended since the count began
        self._reserved = 0  # by requests under way: the store may have their timelines, or not
        self._none_reserved = asyncio.Event()
        self._none_reserved.set()
        self._counting = asyncio.Lock()

    @asynccontextmanager
    async def reserved(self, timelines: Collection[str]) -> AsyncIterator[None]:
        """Keep room for these until they are added in the block. 507 if one is new and there are as many as allowed."""
        number = await self._reserve(timelines)
        try:
            yield
        finally:
            self._reserved -= number
            self._added += number
            if not self._reserved:
                self._none_reserved.set()

    async def _reserve(self, timelines: Collection[str]) -> int:
        """Reserve what these need, as if all were new as long as there is room for all."""
        if self._is_outdated:
            async with self._counting:
                if self._is_outdated:
                    await self._count()
        if not self._counting.locked() and self._has_room(len(timelines)):
            return self._take(len(timelines))
        if not await self._new(timelines):
            return 0
        async with self._counting:
            return await self._reserve_exactly(timelines)

    async def _reserve_exactly(self, timelines: Collection[str]) -> int:
        """Reserve room for the new ones, or refuse them. Requests under way end first, and no other gets room."""
        await self._none_reserved.wait()
        new = await self._new(timelines)  # they may have come with those requests
        if new:
            await self._count()
        if new and not self._has_room(new):
            raise Problem(507, "this token has as many timelines as are allowed: no new ones")
        return self._take(new)

    def _take(self, number: int) -> int:
        self._reserved += number
        if number:
            self._none_reserved.clear()
        return number

    @property
    def _is_outdated(self) -> bool:
        return monotonic() >= self._outdated_at

    def _has_room(self, number: int) -> bool:
        return self._counted + self._added + self._reserved + number <= self._most

    @property
    def _most(self) -> int:
        return self._service.settings.limits.timelines

    async def _count(self) -> None:
        before, began = self._added, monotonic()
        count = partial(self._service.digests.store.count_timelines, self._prefix, most=self._most)
        self._counted = await self._service.in_thread(count)
        ended = monotonic()
        self._outdated_at = ended + max(COUNT_LASTS, (ended - began) / COUNTING)
        self._added -= before  # what was added during the count may count twice, until the next one

    async def _new(self, timelines: Collection[str]) -> int:
        known = [await self._service.digests.timeline(timeline) for timeline in timelines]
        return sum(timeline.state is State.IDLE for timeline in known)
