"""The limit on the number of timelines: records for new ones are refused beyond it."""

from collections.abc import Collection

from digestif.clock import monotonic
from digestif.core.records import State
from digestif.service.api.problems import Problem
from digestif.service.service import Service

COUNT_LASTS = 1.0  # seconds


class Room:
    """How many timelines there are, and how many may have come since they were counted."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._counted = -COUNT_LASTS
        self._timelines = 0

    async def refuse_new(self, timelines: Collection[str]) -> None:
        """507 if one of them is new and there are as many as allowed."""
        most = self._service.settings.limits.timelines
        if monotonic() - self._counted >= COUNT_LASTS:
            await self._count()
        if self._timelines + len(timelines) <= most:
            self._timelines += len(timelines)  # as if all were new, until they are counted again
        elif new := await self._new(timelines):
            await self._count()
            if self._timelines + new > most:
                raise Problem(507, f"there are {self._timelines} timelines, and {most} are allowed: no new ones")
            self._timelines += new

    async def _count(self) -> None:
        self._timelines = (await self._service.digests.backlog()).timelines
        self._counted = monotonic()

    async def _new(self, timelines: Collection[str]) -> int:
        known = [await self._service.digests.timeline(timeline) for timeline in timelines]
        return sum(timeline.state is State.IDLE for timeline in known)
