"""The stream that tells open pages to look again. It carries no facts, so that every reader may listen."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from digestif.service.api.events import Hub
from digestif.service.api.requests import STREAMING
from digestif.service.dashboard.visits import Visit

KIND = "text/event-stream"
CHANGED = b"event: changed\ndata: \n\n"
RETRY = b"retry: 3000\n\n"  # milliseconds after which a browser connects again


async def live(visit: Visit) -> Response:
    hub = visit.service.part(Hub)
    if len(hub) >= visit.service.settings.limits.streams:
        return PlainTextResponse("as many pages listen as may\n", status_code=429, headers={"Retry-After": "10"})
    if visit.request.method == "HEAD":
        return Response(media_type=KIND)
    visit.request.scope.setdefault("state", {})[STREAMING] = True
    return StreamingResponse(_changes(visit, hub), media_type=KIND)


async def _changes(visit: Visit, hub: Hub) -> AsyncGenerator[bytes, None]:
    """One message for each change, until the service or the session ends."""
    yield RETRY
    async with aclosing(hub.listen(None, None)) as events:
        while (part := await _next(visit, events)) is not None and visit.is_current:
            yield CHANGED if part.startswith((b"event:", b"id:")) else part


async def _next(visit: Visit, events: AsyncIterator[bytes]) -> bytes | None:
    """The next event; None if there is none, or the service ends."""
    coming = asyncio.ensure_future(anext(events, None))
    stopping = asyncio.ensure_future(visit.service.stopping.wait())
    try:
        await asyncio.wait((coming, stopping), return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        for task in (coming, stopping):
            task.cancel()
        await asyncio.gather(coming, stopping, return_exceptions=True)
