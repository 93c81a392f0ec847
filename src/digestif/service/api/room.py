"""The limit on the number of timelines: records for new ones are refused beyond it."""

from collections.abc import Collection
from weakref import WeakKeyDictionary

from msgspec import Struct

from digestif.aio import AsyncDigests
from digestif.clock import monotonic
from digestif.core.records import State
from digestif.service.api.problems import Problem
from digestif.service.service import Service

COUNT_LASTS = 1.0  # seconds


class _Count(Struct):
    """The timelines that were counted, and those that may have come since."""

    at: float
    timelines: int


_counts: "WeakKeyDictionary[AsyncDigests, _Count]" = WeakKeyDictionary()


async def refuse_new_timelines(service: Service, timelines: Collection[str]) -> None:
    """507 if one of them is new and there are as many as allowed. Without a limit, or far from it, nothing is read."""
    most = service.settings.limits.timelines
    if not most:
        return
    digests = service.digests
    count = _counts.get(digests)
    if count is None or monotonic() - count.at > COUNT_LASTS:
        count = _counts[digests] = _Count(monotonic(), (await digests.backlog()).timelines)
    if count.timelines + len(timelines) <= most:
        count.timelines += len(timelines)  # as if all were new, until they are counted again
        return
    known = [await digests.timeline(timeline) for timeline in timelines]
    new = sum(timeline.state is State.IDLE for timeline in known)
    if new and (await digests.backlog()).timelines + new > most:
        raise Problem(507, f"there are {most} timelines, as many as allowed; records for others are accepted")
